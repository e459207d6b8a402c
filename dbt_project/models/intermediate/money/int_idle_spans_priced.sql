{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

with

spans as (

    select * from {{ ref('int_idle_spans_clipped') }}
    where {{ in_priced_days('usage_date') }}

),

rates as (

    select * from {{ ref('int_device_hours_rated') }}
    where {{ in_priced_days('usage_date') }}

),

priced as (

    select
        spans.usage_date,
        spans.hour_start_at,
        spans.cluster,
        spans.slot_id,
        spans.run_id,
        spans.started_at,
        spans.ended_at,
        spans.gpu_id,
        spans.workload_id,
        spans.idle_minutes,
        spans.memory_minutes,
        spans.memory_byte_minutes,
        coalesce(rates.currency, 'unknown') as currency,
        spans.held_us * rates.cost_per_gpu_us as cost

    from spans
    left join rates
        on
            spans.hour_start_at = rates.hour_start_at
            and spans.cluster = rates.cluster
            and spans.gpu_id = rates.gpu_id

)

select * from priced
