{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- How many requests each service answered within which time: buckets that add up over any group, as percentiles do not.
-- Servers with other boundaries are brought onto one set of boundaries first, so that a bucket means one range.

with

buckets_by_layout as (

    select * from {{ ref('int_inference_latency_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

buckets as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        model,
        above_seconds,
        le_seconds,
        sum(request_count) as request_count

    from buckets_by_layout
    group by hour_start_at, usage_date, workload_id, model, above_seconds, le_seconds

),

merged as (

    {{ merged_buckets('buckets', ['hour_start_at', 'usage_date', 'workload_id', 'model']) }}

),

final as (

    select
        -- ids
        hour_start_at,
        usage_date,
        workload_id,
        model,
        le_seconds,

        -- numerics
        above_seconds,
        -- no less than 0: the last digit of an interpolated count may be off
        greatest(reached_count - above_count, 0) as request_count

    from merged

)

select * from final
