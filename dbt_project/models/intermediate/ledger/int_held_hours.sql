{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

divided as (

    select * from {{ ref('int_held_hours_divided') }}
    where {{ in_touched_days('usage_date') }}

),

hours as (

    select
        usage_date,
        hour_start_at,
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
        sum(idle_activity_us) as idle_us,
        coalesce(sum(idle_0_us), 0.0) as idle_0_us,
        coalesce(sum(idle_10_us), 0.0) as idle_10_us,
        coalesce(sum(idle_25_us), 0.0) as idle_25_us,
        sum(activity_us) as activity_us

    from divided
    group by usage_date, hour_start_at, cluster, node, gpu_id, gpu_model, slot_id, run_id, workload_id

)

select * from hours
