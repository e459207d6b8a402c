-- Held minutes without active time, at least half of whose held part is idle by activity: what idle spans are made of.

{{ config(materialized='view', database='scratch') }}

with

minutes as (

    select * from {{ ref('int_held_minutes_observed') }}
    where covered_us > 0 and idle_ratio > 0 and {{ in_replaced_days('usage_date') }}

),

summed as (

    select
        slot_run_number,
        usage_date,
        minute_start_at,
        sum(held_us) as held_us,
        sum(covered_us * idle_ratio) as idle_us,
        sum(covered_us * (1.0 - idle_ratio)) as active_us,
        sum(memory_bytes * held_us)
            / nullif(sum(case when memory_bytes is not null then held_us end), 0) as memory_bytes

    from minutes
    group by slot_run_number, usage_date, minute_start_at

)

select * from summed
where held_us > 0 and active_us <= 1e-3 and idle_us >= held_us / 2
