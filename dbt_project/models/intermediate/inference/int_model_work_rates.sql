{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- How much each service did per GPU-hour in each hour, and whether it kept its latency target then. A service without a
-- target keeps it; one with a target whose latency nobody measured in the hour does not count among the best.

with

work as (

    select
        usage_date,
        hour_start_at,
        cluster,
        workload_id,
        model,
        gpu_model,
        sum(held_us) as held_us,
        sum(tokens_useful) as tokens_useful,
        sum(successful_request_count) as successful_request_count

    from {{ ref('int_model_work_hourly') }}
    where {{ in_touched_days('usage_date') }}
    group by usage_date, hour_start_at, cluster, workload_id, model, gpu_model

),

latencies as (

    select * from {{ ref('fct_inference_latency_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

-- requests within the target; of the bucket in which it lies, on a straight line, the part below it
counted as (

    select
        latencies.hour_start_at,
        latencies.workload_id,
        latencies.model,
        sum(latencies.request_count) as request_count,
        sum(
            case
                when latencies.le_seconds <= workloads.latency_target_p95_seconds then latencies.request_count
                when latencies.above_seconds >= workloads.latency_target_p95_seconds then 0.0
                when not {{ is_finite('latencies.le_seconds') }} then 0.0
                else latencies.request_count
                    * (workloads.latency_target_p95_seconds - latencies.above_seconds)
                    / nullif(latencies.le_seconds - latencies.above_seconds, 0)
            end
        ) as within_target_count

    from latencies
    inner join workloads on latencies.workload_id = workloads.workload_id
    where workloads.latency_target_p95_seconds is not null
    group by latencies.hour_start_at, latencies.workload_id, latencies.model

),

rated as (

    select
        work.*,
        workloads.latency_target_p95_seconds is null
        or coalesce(counted.within_target_count >= 0.95 * counted.request_count - 1e-9, false) as is_within_target

    from work
    left join workloads on work.workload_id = workloads.workload_id
    left join counted
        on
            work.hour_start_at = counted.hour_start_at
            and work.workload_id = counted.workload_id
            and work.model = counted.model

)

select * from rated
