with

workloads as (

    select * from {{ ref('dim_workloads') }}

),

inference as (

    select * from {{ ref('fct_inference_hourly') }}

),

workloads_counted as (

    select
        model,
        count(*) as workload_count

    from workloads
    where model is not null
    group by model

),

served as (

    select
        model,
        min(hour_start_at) as first_served_at,
        max(hour_start_at) as last_served_at

    from inference
    group by model

),

named as (

    select model from workloads_counted
    union
    select model from served
    union
    select 'unknown' as model

),

final as (

    select
        named.model,
        coalesce(workloads_counted.workload_count, 0) as workload_count,
        served.first_served_at,
        served.last_served_at

    from named
    left join workloads_counted
        on named.model = workloads_counted.model
    left join served
        on named.model = served.model

)

select * from final
