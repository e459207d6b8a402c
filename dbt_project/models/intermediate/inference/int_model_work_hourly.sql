{{ config(
    materialized='incremental', incremental_strategy='replace_days', meta={'days': 'priced'},
    on_schema_change='append_new_columns'
) }}

-- What each model did for its callers on GPUs of each model: tokens and requests of successful calls, and the GPU time
-- held for them. A workload on GPUs of several models did its work on them by the time held. What was served in an hour
-- in which nothing was held is on no GPU, and not in here.

with

model_hours as (

    select * from {{ ref('int_workload_model_hours') }}
    where held_us > 0 and {{ in_priced_days('usage_date') }}

),

ledger as (

    select
        hour_start_at,
        cluster,
        workload_id,
        gpu_model,
        currency,
        cast(sum(gpu_microseconds) as double) as held_us

    from {{ ref('fct_gpu_ledger_hourly') }}
    where run_id <> 'unallocated' and {{ in_priced_days('usage_date') }}
    group by hour_start_at, cluster, workload_id, gpu_model, currency

),

gpu_shares as (

    select
        ledger.*,
        held_us / sum(held_us) over (partition by hour_start_at, workload_id, currency) as gpu_share

    from ledger

),

shared as (

    select
        model_hours.usage_date,
        model_hours.hour_start_at,
        gpu_shares.cluster,
        gpu_shares.gpu_model,
        model_hours.workload_id,
        model_hours.model,
        model_hours.currency,
        model_hours.held_us * gpu_shares.gpu_share as held_us,
        model_hours.tokens_useful * gpu_shares.gpu_share as tokens_useful,
        (model_hours.request_count - coalesce(model_hours.failed_request_count, 0))
            * gpu_shares.gpu_share as successful_request_count

    from model_hours
    inner join gpu_shares
        on
            model_hours.hour_start_at = gpu_shares.hour_start_at
            and model_hours.workload_id = gpu_shares.workload_id
            and model_hours.currency = gpu_shares.currency

)

select * from shared
