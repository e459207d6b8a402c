-- Held minutes without active time, at least half of whose held part is idle by activity: what idle spans are made of.

{{ config(materialized='view') }}

with

minutes as (

    select * from {{ ref('int_held_minutes_observed') }}
    where covered_us > 0 and idle_ratio > 0 and {{ in_replaced_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}

),

slot_runs as (

    select distinct
        slot_run_number,
        slot_id,
        gpu_id,
        cluster,
        run_id,
        workload_id

    from spans

),

summed as (

    select
        spans.slot_run_number,
        minutes.usage_date,
        minutes.minute_start_at,
        sum(minutes.held_us) as held_us,
        sum(minutes.covered_us * minutes.idle_ratio) as idle_us,
        sum(minutes.covered_us * (1.0 - minutes.idle_ratio)) as active_us,
        sum(minutes.memory_bytes * minutes.held_us)
            / nullif(sum(case when minutes.memory_bytes is not null then minutes.held_us end), 0) as memory_bytes

    from minutes
    inner join spans on minutes.hold_number = spans.hold_number
    group by spans.slot_run_number, minutes.usage_date, minutes.minute_start_at

),

described as (

    select
        summed.usage_date,
        summed.minute_start_at,
        slot_runs.slot_id,
        slot_runs.gpu_id,
        slot_runs.cluster,
        slot_runs.run_id,
        slot_runs.workload_id,
        summed.held_us,
        summed.idle_us,
        summed.active_us,
        summed.memory_bytes

    from summed
    inner join slot_runs on summed.slot_run_number = slot_runs.slot_run_number
    where summed.held_us > 0 and summed.active_us <= 1e-3 and summed.idle_us >= summed.held_us / 2

)

select * from described
