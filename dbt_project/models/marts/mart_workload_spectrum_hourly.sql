{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- Where each workload stands between too little and too much to do (semantics 6). What is said of an hour rests on what
-- was observed of it: with less than half of the held time covered nothing is said.

with

behavior as (

    select * from {{ ref('int_workload_behavior_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

judged as (

    select
        behavior.*,
        case
            when latency_target_p95_seconds is not null and latency_source is not null
                then latency_null_reason is not null or latency_p95_seconds > latency_target_p95_seconds
        end as is_latency_missed,
        waiting_requests_last_mean > waiting_requests_first_mean
        and waiting_requests_last_mean > {{ var('queued_requests_per_replica') }} as is_queue_growing

    from behavior

),

placed as (

    select
        judged.*,
        case
            when coverage_ratio is null or coverage_ratio < {{ var('spectrum_coverage_ratio') }} then 'unknown'
            when coalesce(is_latency_missed, false) or coalesce(is_queue_growing, false) then 'bottlenecked'
            when
                activity_ratio >= {{ var('full_activity_ratio') }}
                or kv_cache_usage_mean >= {{ var('full_kv_cache_ratio') }}
                or memory_needed_ratio >= {{ var('full_memory_ratio') }}
                then 'saturated'
            when productive_ratio >= {{ var('productive_share_ratio') }} then 'productive'
            else 'underused'
        end as spectrum,
        -- from what explains the most to what explains the least: a clock held down and a full cache make the GPU look busy
        -- or idle whatever else is true, and memory traffic keeps the multiprocessors as occupied as arithmetic does
        case
            when throttled_ratio >= {{ var('held_down_clock_ratio') }} then 'throttle'
            when kv_cache_usage_max >= {{ var('full_kv_cache_ratio') }} then 'kv_cache'
            when
                dram_active_ratio >= {{ var('busy_dram_ratio') }} or memory_needed_ratio >= {{ var('full_memory_ratio') }}
                then 'memory'
            when activity_ratio >= {{ var('full_activity_ratio') }} then 'compute'
            when host_cpu_utilization_ratio >= {{ var('busy_host_cpu_ratio') }} then 'cpu'
            when host_io_wait_ratio >= {{ var('busy_io_wait_ratio') }} then 'storage'
            when
                host_network_bytes_per_second
                >= {{ var('busy_network_ratio') }} * nullif({{ var('network_link_bytes_per_second') }}, 0)
                then 'network'
            else 'unknown'
        end as likely_reason

    from judged

),

final as (

    select
        -- ids
        hour_start_at,
        usage_date,
        workload_id,
        cluster,

        -- text
        spectrum,
        case when spectrum = 'bottlenecked' then likely_reason end as bottleneck_reason,

        -- booleans
        is_latency_missed,
        is_queue_growing,

        -- numerics
        held_us / cast(3.6e9 as double) as held_gpu_hours,
        coverage_ratio,
        productive_ratio,
        activity_ratio,
        throttled_ratio,
        dram_active_ratio,
        memory_needed_ratio,
        kv_cache_usage_mean,
        kv_cache_usage_max,
        waiting_requests_first_mean,
        waiting_requests_last_mean,
        replica_count,
        latency_p95_seconds,
        latency_target_p95_seconds,
        host_cpu_utilization_ratio,
        host_io_wait_ratio,
        host_network_bytes_per_second

    from placed

)

select * from final
