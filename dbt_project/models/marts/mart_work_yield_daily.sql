-- How near each service came to the best that its model sustains on its GPUs. The best of a day rests on the 28 days that
-- end with it, and so moves when one of them is told anew: the table is small, and built whole.

with

rates as (

    select * from {{ ref('int_model_work_rates') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

sustained as (

    select
        usage_date,
        model,
        gpu_model,
        coalesce(tokens_useful, 0.0) / (held_us / 3.6e9) as tokens_per_gpu_hour,
        coalesce(successful_request_count, 0.0) / (held_us / 3.6e9) as requests_per_gpu_hour

    from rates
    where is_within_target and held_us >= {{ var('sustained_minutes') }} * 60000000.0

),

-- an hour is among the last 28 days of 28 days
in_horizons as (

    select
        sustained.*,
        {{ each_number(28) }} as day_number

    from sustained

),

best as (

    select
        usage_date + (cast(day_number as integer) - 1) as usage_date,
        model,
        gpu_model,
        count(*) as best_hour_count,
        percentile_cont(0.95) within group (order by tokens_per_gpu_hour nulls last) as tokens_per_gpu_hour,
        percentile_cont(0.95) within group (order by requests_per_gpu_hour nulls last) as requests_per_gpu_hour

    from in_horizons
    group by usage_date + (cast(day_number as integer) - 1), model, gpu_model

),

days as (

    select
        usage_date,
        cluster,
        workload_id,
        model,
        gpu_model,
        sum(held_us) / 3.6e9 as held_gpu_hours,
        sum(coalesce(tokens_useful, 0.0)) as tokens_useful,
        sum(coalesce(successful_request_count, 0.0)) as successful_request_count

    from rates
    group by usage_date, cluster, workload_id, model, gpu_model

),

compared as (

    select
        days.*,
        best.best_hour_count,
        best.tokens_per_gpu_hour as best_tokens_per_gpu_hour,
        best.requests_per_gpu_hour as best_requests_per_gpu_hour,
        days.tokens_useful / nullif(days.held_gpu_hours, 0) as useful_tokens_per_gpu_hour,
        days.successful_request_count / nullif(days.held_gpu_hours, 0) as successful_requests_per_gpu_hour,
        case
            when best.tokens_per_gpu_hour > 0 then 'tokens'
            when best.requests_per_gpu_hour > 0 then 'requests'
            else 'unknown'
        end as work_unit

    from days
    left join best
        on
            days.usage_date = best.usage_date
            and days.model = best.model
            and days.gpu_model = best.gpu_model

),

final as (

    select
        compared.usage_date,
        compared.workload_id,
        compared.model,
        compared.gpu_model,
        compared.cluster,
        workloads.team,
        workloads.application,
        cast(compared.held_gpu_hours as double) as held_gpu_hours,
        cast(compared.tokens_useful as double) as tokens_useful,
        cast(compared.successful_request_count as double) as successful_request_count,
        cast(compared.useful_tokens_per_gpu_hour as double) as useful_tokens_per_gpu_hour,
        cast(compared.successful_requests_per_gpu_hour as double) as successful_requests_per_gpu_hour,
        compared.work_unit,
        cast(coalesce(compared.best_hour_count, 0) as bigint) as best_hour_count,
        cast(compared.best_tokens_per_gpu_hour as double) as best_tokens_per_gpu_hour,
        cast(compared.best_requests_per_gpu_hour as double) as best_requests_per_gpu_hour,
        cast(case
            when compared.work_unit = 'tokens' then compared.useful_tokens_per_gpu_hour / compared.best_tokens_per_gpu_hour
            when compared.work_unit = 'requests'
                then compared.successful_requests_per_gpu_hour / compared.best_requests_per_gpu_hour
        end as double) as work_yield_ratio

    from compared
    left join workloads on compared.workload_id = workloads.workload_id

)

select * from final
