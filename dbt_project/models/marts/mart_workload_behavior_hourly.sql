{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

with

behavior as (

    select * from {{ ref('int_workload_behavior_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

final as (

    select
        -- ids
        hour_start_at,
        usage_date,
        workload_id,
        cluster,

        -- time
        held_us / cast(3.6e9 as double) as held_gpu_hours,
        suspended_us / cast(3.6e9 as double) as suspended_gpu_hours,
        (held_us - suspended_us - unobserved_us) / cast(3.6e9 as double) as covered_gpu_hours,
        unobserved_us / cast(3.6e9 as double) as unobserved_gpu_hours,
        productive_us / cast(3.6e9 as double) as productive_gpu_hours,
        coverage_ratio,
        unobserved_reason,

        -- the GPUs
        activity_ratio,
        {{ signal_name('signal') }} as signal_source,
        tensor_active_ratio,
        tensor_coverage_ratio,
        dram_active_ratio,
        dram_coverage_ratio,
        sm_clock_mhz_mean,
        throttled_ratio,
        power_watts_mean,
        power_coverage_ratio,
        energy_kwh,
        memory_mean_bytes,
        memory_p95_bytes,
        memory_needed_bytes,
        memory_needed_ratio,
        memory_needed_null_reason,
        memory_coverage_ratio,

        -- the service
        request_count,
        failed_request_count,
        prompt_tokens,
        output_tokens,
        requests_per_second,
        tokens_per_second,
        token_source,
        server_coverage_ratio,
        running_requests_mean,
        waiting_requests_mean,
        kv_cache_usage_mean,
        kv_cache_usage_max,
        replica_count,
        latency_p50_seconds,
        latency_p95_seconds,
        latency_source,
        latency_null_reason,

        -- the hosts
        host_cpu_utilization_ratio,
        host_io_wait_ratio,
        host_network_bytes_per_second,
        host_coverage_ratio

    from behavior

)

select * from final
