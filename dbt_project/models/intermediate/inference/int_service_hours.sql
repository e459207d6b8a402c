{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- How much each service had running, waiting and cached in each hour, per server: a server's models are added, its
-- readings weighted by the time they speak for. The first and the last quarter of an hour say whether its queue grew.

with

-- a server reports each of its models over the same interval
intervals as (

    select
        usage_date,
        workload_id,
        server,
        interval_start_at,
        interval_end_at,
        date_trunc('hour', interval_start_at) as hour_start_at,
        sum(running_requests) as running_requests,
        sum(waiting_requests) as waiting_requests,
        max(kv_cache_usage_ratio) as kv_cache_usage_ratio

    from {{ ref('int_inference_usage_owned') }}
    where {{ in_touched_days('usage_date') }}
    group by usage_date, workload_id, server, interval_start_at, interval_end_at

),

quarters as (

    select
        intervals.*,
        hour_start_at + interval {{ var('queue_growth_minutes') }} minute as first_until_at,
        hour_start_at + interval 1 hour - interval {{ var('queue_growth_minutes') }} minute as last_from_at

    from intervals

),

measured as (

    select
        quarters.*,
        {{ microseconds_between('interval_start_at', 'interval_end_at') }} as us,
        greatest(0, {{ microseconds_between('interval_start_at', 'least(interval_end_at, first_until_at)') }}) as first_us,
        greatest(
            0,
            {{ microseconds_between(
                'greatest(interval_start_at, last_from_at)', 'least(interval_end_at, hour_start_at + interval 1 hour)'
            ) }}
        ) as last_us

    from quarters

),

summed as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        sum(running_requests * us)
        / nullif(sum(case when running_requests is not null then us end), 0) as running_requests_mean,
        sum(waiting_requests * us)
        / nullif(sum(case when waiting_requests is not null then us end), 0) as waiting_requests_mean,
        sum(waiting_requests * first_us)
        / nullif(sum(case when waiting_requests is not null then first_us end), 0) as waiting_requests_first_mean,
        sum(waiting_requests * last_us)
        / nullif(sum(case when waiting_requests is not null then last_us end), 0) as waiting_requests_last_mean,
        sum(kv_cache_usage_ratio * us)
        / nullif(sum(case when kv_cache_usage_ratio is not null then us end), 0) as kv_cache_usage_mean,
        max(kv_cache_usage_ratio) as kv_cache_usage_max,
        count(distinct server) as replica_count

    from measured
    group by hour_start_at, usage_date, workload_id

)

select * from summed
