{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

minutes as (

    select * from {{ ref('int_held_minutes_reasoned') }}
    where {{ in_touched_days('usage_date') }}

),

hours as (

    select
        usage_date,
        date_trunc('hour', minute_start_at) as hour_start_at,
        cluster,
        node,
        gpu_id,
        gpu_model,
        slot_id,
        run_id,
        workload_id,
        sum(held_us) as held_us,
        sum(suspended_us) as suspended_us,
        sum(covered_us) as covered_us,
        sum(idle_us) as idle_us,
        sum(idle_0_us) as idle_0_us,
        sum(idle_10_us) as idle_10_us,
        sum(idle_25_us) as idle_25_us,
        sum(activity_ratio * covered_us) as activity_us

    from minutes
    group by
        usage_date, date_trunc('hour', minute_start_at), cluster, node, gpu_id, gpu_model, slot_id, run_id, workload_id

)

select * from hours
