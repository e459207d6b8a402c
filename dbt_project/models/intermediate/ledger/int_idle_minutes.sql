-- Held minutes without active time, at least half of whose held part is idle by activity: what idle spans are made of.

{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

minutes as (

    select * from {{ ref('int_held_minutes_reasoned') }}
    where {{ in_touched_days('usage_date') }}

),

summed as (

    select
        usage_date,
        minute_start_at,
        slot_id,
        gpu_id,
        cluster,
        run_id,
        workload_id,
        sum(held_us) as held_us,
        sum(idle_us) as idle_us,
        sum(active_us) as active_us,
        sum(memory_bytes * held_us) / nullif(sum(case when memory_bytes is not null then held_us end), 0) as memory_bytes

    from minutes
    where idle_us > 0
    group by usage_date, minute_start_at, slot_id, gpu_id, cluster, run_id, workload_id

)

select * from summed
where held_us > 0 and active_us <= 1e-3 and idle_us >= held_us / 2
