-- Held minutes without active time, at least half of whose held part is idle by activity: what idle spans are made of.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

minutes as (

    select * from {{ ref('int_held_minutes') }}
    where idle_reason <> '' and {{ in_touched_days('usage_date') }}

),

spans as (

    select * from {{ ref('int_held_spans') }}

),

summed as (

    select
        minutes.usage_date,
        minutes.minute_start_at,
        spans.slot_id,
        spans.gpu_id,
        spans.cluster,
        spans.run_id,
        spans.workload_id,
        sum(minutes.held_us) as held_us,
        sum(minutes.idle_us) as idle_us,
        sum(minutes.covered_us - minutes.idle_us) as active_us,
        sum(minutes.memory_bytes * minutes.held_us)
            / nullif(sum(case when minutes.memory_bytes is not null then minutes.held_us end), 0) as memory_bytes

    from minutes
    inner join spans on minutes.hold_number = spans.hold_number
    group by
        minutes.usage_date, minutes.minute_start_at, spans.slot_id, spans.gpu_id, spans.cluster, spans.run_id,
        spans.workload_id

)

select * from summed
where held_us > 0 and active_us <= 1e-3 and idle_us >= held_us / 2
