{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- How much of the time in which a workload served its servers' counters cover: their intervals against the time its
-- runs held their GPUs; where no run is known, against the time between the first and the last sign of the workload
-- that day, per server.

with

usage as (

    select * from {{ ref('int_inference_usage_owned') }}
    where {{ in_touched_days('usage_date') }}

),

requests as (

    select * from {{ ref('int_inference_requests_assigned') }}
    where {{ in_touched_days('usage_date') }}

),

runs as (

    select * from {{ ref('int_runs') }}
    where held_from_at < held_until_at and gpu_count > 0

),

-- a server reports each of its models over the same interval
intervals as (

    select distinct
        workload_id,
        server,
        interval_start_at,
        interval_end_at

    from usage

),

interval_hours as (

    select
        intervals.*,
        {{ each_touched('hour', 'interval_start_at', 'interval_end_at') }} as hour_start_at

    from intervals

),

server_hours as (

    select
        workload_id,
        server,
        hour_start_at,
        least(
            sum(
                {{ microseconds_between(
                    'greatest(interval_start_at, hour_start_at)', 'least(interval_end_at, hour_start_at + interval 1 hour)'
                ) }}
            ),
            3600000000
        ) as covered_us

    from interval_hours
    group by workload_id, server, hour_start_at

),

covered as (

    select
        workload_id,
        hour_start_at,
        cast(sum(covered_us) as bigint) as covered_us

    from server_hours
    group by workload_id, hour_start_at

),

workloads_measured as (

    select distinct workload_id
    from intervals

),

run_hours as (

    select
        runs.workload_id,
        runs.held_from_at,
        runs.held_until_at,
        {{ each_touched('hour', 'runs.held_from_at', 'runs.held_until_at') }} as hour_start_at

    from runs
    inner join workloads_measured on runs.workload_id = workloads_measured.workload_id

),

held as (

    select
        workload_id,
        hour_start_at,
        cast(sum(
            {{ microseconds_between(
                'greatest(held_from_at, hour_start_at)', 'least(held_until_at, hour_start_at + interval 1 hour)'
            ) }}
        ) as bigint) as served_us

    from run_hours
    where {{ in_touched_days('cast(hour_start_at as date)') }}
    group by workload_id, hour_start_at

),

signs as (

    select
        workload_id,
        server,
        interval_start_at as seen_from_at,
        interval_end_at as seen_until_at

    from intervals

    union all

    select
        workload_id,
        cast(null as varchar) as server,
        started_at as seen_from_at,
        started_at as seen_until_at

    from requests

),

days as (

    select
        workload_id,
        cast(seen_from_at as date) as usage_date,
        count(distinct server) as server_count,
        min(seen_from_at) as seen_from_at,
        max(seen_until_at) as seen_until_at

    from signs
    group by workload_id, cast(seen_from_at as date)

),

day_hours as (

    select
        days.*,
        {{ each_touched('hour', 'days.seen_from_at', 'days.seen_until_at') }} as hour_start_at

    from days
    where seen_from_at < seen_until_at and server_count > 0

),

seen as (

    select
        workload_id,
        hour_start_at,
        cast(sum(
            server_count
            * {{ microseconds_between(
                'greatest(seen_from_at, hour_start_at)', 'least(seen_until_at, hour_start_at + interval 1 hour)'
            ) }}
        ) as bigint) as served_us

    from day_hours
    group by workload_id, hour_start_at

),

served as (

    select
        coalesce(held.workload_id, seen.workload_id) as workload_id,
        coalesce(held.hour_start_at, seen.hour_start_at) as hour_start_at,
        coalesce(held.served_us, seen.served_us) as served_us

    from held
    full outer join seen on held.workload_id = seen.workload_id and held.hour_start_at = seen.hour_start_at

),

final as (

    select
        served.hour_start_at,
        cast(served.hour_start_at as date) as usage_date,
        served.workload_id,
        served.served_us,
        coalesce(covered.covered_us, 0) as covered_us,
        least(coalesce(covered.covered_us, 0) / cast(nullif(served.served_us, 0) as double), 1.0) as covered_ratio

    from served
    left join covered
        on served.workload_id = covered.workload_id and served.hour_start_at = covered.hour_start_at

)

select * from final
where {{ in_touched_days('usage_date') }}
