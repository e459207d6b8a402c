{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- Replicas kept and needed, with everything the figure rests on: the evidence of the state `overprovisioned`.

with

needs as (

    select * from {{ ref('int_replica_needs_hourly') }}

),

ledger_hours as (

    select * from {{ ref('int_gpu_ledger_hours') }}
    where state = 'overprovisioned' and {{ in_touched_days('usage_date') }}

),

taken as (

    select
        hour_start_at,
        workload_id,
        sum(gpu_hours) as gpu_hours

    from ledger_hours
    group by hour_start_at, workload_id

),

final as (

    select
        -- ids
        needs.hour_start_at,
        needs.usage_date,
        needs.workload_id,
        needs.cluster,

        -- numerics
        needs.replica_count_mean,
        needs.replica_count_max,
        needs.needed_replica_count,
        needs.min_replicas as min_replica_count,
        needs.demand_per_second,
        needs.demand_minute_count,
        needs.replica_capacity_per_second,
        cast({{ var('target_utilization_ratio') }} as double) as target_utilization_ratio,
        needs.latency_p95_seconds,
        needs.latency_target_p95_seconds,
        coalesce(taken.gpu_hours, 0) as overprovisioned_gpu_hours,

        -- text
        needs.work_unit,
        needs.replica_capacity_method,
        needs.latency_source,
        needs.silent_reason,

        -- booleans
        needs.is_latency_missed

    from needs
    left join taken
        on
            needs.hour_start_at = taken.hour_start_at
            and needs.workload_id = taken.workload_id

)

select * from final
