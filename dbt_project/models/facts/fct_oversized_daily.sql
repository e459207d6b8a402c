{{ config(materialized='incremental', incremental_strategy='replace_days') }}

with

slots as (

    select * from {{ ref('int_slots_fitted') }}
    where {{ in_touched_days('usage_date') }}

),

final as (

    select
        usage_date,
        slot_id,
        run_id,
        cluster,
        gpu_id,
        gpu_model,
        workload_id,
        kind,
        covered_us / 3.6e9 as covered_hours,
        activity_ratio,
        activity_p95_ratio,
        cast(round(needed_memory_bytes) as bigint) as peak_needed_memory_bytes,
        card_memory_bytes,
        mig_profile,
        fit_ratio,
        null_reason

    from slots

)

select * from final
