{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

minutes as (

    select * from {{ ref('int_idle_minutes') }}
    where {{ in_touched_days('usage_date') }}

),

slot_runs as (

    select distinct
        slot_run_number,
        cluster,
        slot_id,
        gpu_id,
        run_id,
        workload_id

    from {{ ref('int_held_spans') }}

),

spans_numbered as (

    select
        minutes.*,
        date_trunc('hour', minute_start_at) as hour_start_at,
        {{ row_of_minutes(
            ['slot_run_number', "date_trunc('hour', minute_start_at)"], 'minute_start_at'
        ) }} as span_number

    from minutes

),

clipped as (

    select
        usage_date,
        hour_start_at,
        slot_run_number,
        min(minute_start_at) as started_at,
        max(minute_start_at) + interval 1 minute as ended_at,
        count(*) as idle_minutes,
        sum(cast(held_us as double)) as held_us,
        count(memory_bytes) as memory_minutes,
        sum(cast(memory_bytes as double)) as memory_byte_minutes

    from spans_numbered
    group by usage_date, hour_start_at, slot_run_number, span_number

),

described as (

    select
        clipped.usage_date,
        clipped.hour_start_at,
        slot_runs.cluster,
        slot_runs.slot_id,
        slot_runs.run_id,
        clipped.started_at,
        clipped.ended_at,
        slot_runs.gpu_id,
        slot_runs.workload_id,
        clipped.idle_minutes,
        clipped.held_us,
        clipped.memory_minutes,
        clipped.memory_byte_minutes

    from clipped
    inner join slot_runs on clipped.slot_run_number = slot_runs.slot_run_number

)

select * from described
