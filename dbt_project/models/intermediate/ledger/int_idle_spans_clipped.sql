{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

minutes as (

    select * from {{ ref('int_idle_minutes') }}
    where {{ in_touched_days('usage_date') }}

),

spans_numbered as (

    select
        minutes.*,
        date_trunc('hour', minute_start_at) as hour_start_at,
        {{ row_of_minutes(
            ['cluster', 'slot_id', 'run_id', "date_trunc('hour', minute_start_at)"], 'minute_start_at'
        ) }} as span_number

    from minutes

),

clipped as (

    select
        usage_date,
        hour_start_at,
        cluster,
        slot_id,
        run_id,
        min(minute_start_at) as started_at,
        max(minute_start_at) + interval 1 minute as ended_at,
        max(gpu_id) as gpu_id,
        max(workload_id) as workload_id,
        count(*) as idle_minutes,
        sum(cast(held_us as double)) as held_us,
        count(memory_bytes) as memory_minutes,
        sum(cast(memory_bytes as double)) as memory_byte_minutes

    from spans_numbered
    group by usage_date, hour_start_at, cluster, slot_id, run_id, span_number

)

select * from clipped
