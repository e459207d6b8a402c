-- What a service was asked for (rule 6): the 95th percentile of its 1-minute rates over the hour and the minutes before
-- it, in tokens where its servers tell them, else in requests. Minutes without usage are missing, not 0.

with

minutes as (

    select
        workload_id,
        minute_start_at,
        tokens_per_second,
        requests_per_second

    from {{ ref('int_service_minutes') }}
    where {{ in_partitions('touched', day='usage_date') }}

),

-- the last minutes of an hour count in the next one too
in_hours as (

    select
        date_trunc('hour', minute_start_at) as hour_start_at,
        workload_id,
        tokens_per_second,
        requests_per_second

    from minutes

    union all

    select
        date_trunc('hour', minute_start_at) + interval 1 hour as hour_start_at,
        workload_id,
        tokens_per_second,
        requests_per_second

    from minutes
    where
        minute_start_at
        >= date_trunc('hour', minute_start_at) + interval 1 hour - interval {{ var('demand_window_minutes') }} minute

),

demand as (

    select
        cast(hour_start_at as date) as usage_date,
        hour_start_at,
        workload_id,
        percentile_cont(0.95) within group (order by tokens_per_second) as tokens_per_second,
        percentile_cont(0.95) within group (order by requests_per_second) as requests_per_second,
        count(*) as minute_count

    from in_hours
    where {{ in_replaced_days('cast(hour_start_at as date)') }}
    group by hour_start_at, workload_id

),

final as (

    select
        usage_date,
        hour_start_at,
        workload_id,
        case when tokens_per_second is not null then 'tokens' else 'requests' end as work_unit,
        coalesce(tokens_per_second, requests_per_second) as demand_per_second,
        minute_count

    from demand

)

select * from final
