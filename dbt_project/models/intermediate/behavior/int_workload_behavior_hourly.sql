{{ config(materialized='incremental', incremental_strategy='replace_days', on_schema_change='append_new_columns') }}

-- What each workload really did in each hour: the ledger's hours, what its GPUs, its servers and its hosts say. Ratios are
-- sums over sums; each says of how much of the held time it speaks.

with

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}
    where workload_id <> 'unallocated' and {{ in_touched_days('usage_date') }}

),

held_hours as (

    select * from {{ ref('int_held_hours_divided') }}
    where {{ in_touched_days('usage_date') }}

),

observed as (

    select * from {{ ref('int_workload_hours_observed') }}
    where {{ in_touched_days('usage_date') }}

),

inference_hours as (

    select * from {{ ref('fct_inference_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

service_hours as (

    select * from {{ ref('int_service_hours') }}
    where {{ in_touched_days('usage_date') }}

),

latencies as (

    select * from {{ ref('int_service_latency_hourly') }}
    where {{ in_touched_days('usage_date') }}

),

node_hours as (

    select * from {{ ref('int_node_hours') }}
    where {{ in_touched_days('usage_date') }}

),

workloads as (

    select * from {{ ref('dim_workloads') }}

),

held as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        max(cluster) as cluster,
        cast(sum(gpu_microseconds) as bigint) as held_us,
        cast(sum(case when state = 'suspended' then gpu_microseconds else 0 end) as bigint) as suspended_us,
        cast(sum(case when state = 'unobserved' then gpu_microseconds else 0 end) as bigint) as unobserved_us,
        cast(sum(case when state = 'productive' then gpu_microseconds else 0 end) as bigint) as productive_us,
        sum(energy_kwh) as energy_kwh

    from ledger
    group by hour_start_at, usage_date, workload_id

),

unobserved_summed as (

    select
        hour_start_at,
        workload_id,
        state_reason,
        sum(gpu_microseconds) as unobserved_us

    from ledger
    where state = 'unobserved' and gpu_microseconds > 0
    group by hour_start_at, workload_id, state_reason

),

-- the reason of most unobserved time
unobserved_reasons as (

    select
        hour_start_at,
        workload_id,
        state_reason,
        row_number() over (
            partition by hour_start_at, workload_id
            order by unobserved_us desc nulls last, state_reason asc nulls last
        ) as reason_rank

    from unobserved_summed

),

signals_summed as (

    select
        hour_start_at,
        workload_id,
        signal,
        sum(covered_us) as covered_us,
        sum(activity_us) as activity_us

    from held_hours
    where covered_us > 0
    group by hour_start_at, workload_id, signal

),

-- the signal of most covered time, the better of two with as much
activities as (

    select
        hour_start_at,
        workload_id,
        sum(covered_us) as covered_us,
        sum(activity_us) as activity_us,
        max_by(signal, 4 * round(covered_us) - signal) as signal

    from signals_summed
    group by hour_start_at, workload_id

),

served as (

    select
        hour_start_at,
        usage_date,
        workload_id,
        max(cluster) as cluster,
        cast(sum(request_count) as bigint) as request_count,
        cast(sum(failed_request_count) as bigint) as failed_request_count,
        cast(sum(prompt_tokens) as bigint) as prompt_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        cast(sum(case when coalesce(prompt_tokens, output_tokens) is not null then tokens_all end) as bigint) as tokens_all,
        max(server_covered_ratio) as server_coverage_ratio,
        case when min(token_source) = max(token_source) then min(token_source) else 'mixed' end as token_source

    from inference_hours
    group by hour_start_at, usage_date, workload_id

),

workload_nodes as (

    select
        hour_start_at,
        workload_id,
        cluster,
        node,
        sum(gpu_microseconds) as held_us

    from ledger
    group by hour_start_at, workload_id, cluster, node

),

-- the hosts of what it held: by the time held there, as far as the host was sampled
hosts as (

    select
        workload_nodes.hour_start_at,
        workload_nodes.workload_id,
        sum(workload_nodes.held_us * node_hours.sampled_us / 3.6e9) as sampled_us,
        sum(workload_nodes.held_us * node_hours.sampled_us * node_hours.cpu_utilization_ratio)
        / nullif(
            sum(
                case when node_hours.cpu_utilization_ratio is not null then workload_nodes.held_us * node_hours.sampled_us end
            ), 0
        ) as cpu_utilization_ratio,
        sum(workload_nodes.held_us * node_hours.sampled_us * node_hours.io_wait_ratio)
        / nullif(
            sum(case when node_hours.io_wait_ratio is not null then workload_nodes.held_us * node_hours.sampled_us end), 0
        ) as io_wait_ratio,
        max(node_hours.network_bytes_per_second) as network_bytes_per_second

    from workload_nodes
    inner join node_hours
        on
            workload_nodes.cluster = node_hours.cluster
            and workload_nodes.node = node_hours.node
            and workload_nodes.hour_start_at = node_hours.hour_start_at
    group by workload_nodes.hour_start_at, workload_nodes.workload_id

),

-- a service that only its requests know has hours too
hours as (

    select
        coalesce(held.hour_start_at, served.hour_start_at) as hour_start_at,
        coalesce(held.usage_date, served.usage_date) as usage_date,
        coalesce(held.workload_id, served.workload_id) as workload_id,
        coalesce(held.cluster, served.cluster) as cluster,
        coalesce(held.held_us, 0) as held_us,
        coalesce(held.suspended_us, 0) as suspended_us,
        coalesce(held.unobserved_us, 0) as unobserved_us,
        coalesce(held.productive_us, 0) as productive_us,
        held.energy_kwh,
        served.request_count,
        served.failed_request_count,
        served.prompt_tokens,
        served.output_tokens,
        served.tokens_all,
        served.server_coverage_ratio,
        served.token_source

    from held
    full outer join served
        on held.hour_start_at = served.hour_start_at and held.workload_id = served.workload_id

),

joined as (

    select
        hours.hour_start_at,
        hours.usage_date,
        hours.workload_id,
        coalesce(workloads.cluster, hours.cluster) as cluster,
        workloads.latency_target_p95_seconds,

        -- time
        hours.held_us,
        hours.suspended_us,
        hours.unobserved_us,
        hours.productive_us,
        1 - cast(hours.unobserved_us as double) / nullif(hours.held_us, 0) as coverage_ratio,
        cast(hours.productive_us as double) / nullif(hours.held_us - hours.unobserved_us, 0) as productive_ratio,
        unobserved_reasons.state_reason as unobserved_reason,

        -- the GPUs
        -- least() passes over nulls: a ceiling is put on what there is, never on its absence
        case
            when activities.covered_us > 0 then least(activities.activity_us / activities.covered_us, 1.0)
        end as activity_ratio,
        activities.signal,
        observed.tensor_active_us / nullif(observed.tensor_us, 0) as tensor_active_ratio,
        case
            when hours.held_us > 0 then least(coalesce(observed.tensor_us, 0.0) / hours.held_us, 1.0)
        end as tensor_coverage_ratio,
        observed.dram_active_us / nullif(observed.dram_us, 0) as dram_active_ratio,
        case
            when hours.held_us > 0 then least(coalesce(observed.dram_us, 0.0) / hours.held_us, 1.0)
        end as dram_coverage_ratio,
        observed.sm_clock_mhz_us / nullif(observed.sm_clock_us, 0) as sm_clock_mhz_mean,
        observed.throttled_us / nullif(observed.covered_us, 0) as throttled_ratio,
        1e6 * observed.energy_joules / nullif(observed.energy_us, 0) as power_watts_mean,
        case
            when hours.held_us > 0 then least(coalesce(observed.energy_us, 0.0) / hours.held_us, 1.0)
        end as power_coverage_ratio,
        hours.energy_kwh,
        cast(round(observed.memory_byte_us / nullif(observed.memory_us, 0)) as bigint) as memory_mean_bytes,
        cast(round(observed.memory_p95_bytes) as bigint) as memory_p95_bytes,
        case
            when observed.memory_needed_null_reason is null then cast(round(observed.memory_needed_bytes) as bigint)
        end as memory_needed_bytes,
        case when observed.memory_needed_null_reason is null then observed.memory_needed_ratio end as memory_needed_ratio,
        observed.memory_needed_null_reason,
        case
            when hours.held_us > 0 then least(coalesce(observed.memory_us, 0.0) / hours.held_us, 1.0)
        end as memory_coverage_ratio,

        -- the service
        hours.request_count,
        hours.failed_request_count,
        hours.prompt_tokens,
        hours.output_tokens,
        hours.request_count / cast(3600 as double) as requests_per_second,
        hours.tokens_all / cast(3600 as double) as tokens_per_second,
        hours.token_source,
        hours.server_coverage_ratio,
        service_hours.running_requests_mean,
        service_hours.waiting_requests_mean,
        service_hours.waiting_requests_first_mean,
        service_hours.waiting_requests_last_mean,
        service_hours.kv_cache_usage_mean,
        service_hours.kv_cache_usage_max,
        service_hours.replica_count,
        latencies.latency_p50_seconds,
        latencies.latency_p95_seconds,
        latencies.latency_source,
        case
            when latencies.latency_source is not null and latencies.latency_p95_seconds is null then 'above_last_boundary'
        end as latency_null_reason,

        -- the hosts
        hosts.cpu_utilization_ratio as host_cpu_utilization_ratio,
        hosts.io_wait_ratio as host_io_wait_ratio,
        cast(round(hosts.network_bytes_per_second) as bigint) as host_network_bytes_per_second,
        coalesce(hosts.sampled_us, 0.0) / nullif(hours.held_us, 0) as host_coverage_ratio

    from hours
    left join workloads on hours.workload_id = workloads.workload_id
    left join unobserved_reasons
        on
            hours.hour_start_at = unobserved_reasons.hour_start_at
            and hours.workload_id = unobserved_reasons.workload_id
            and unobserved_reasons.reason_rank = 1
    left join activities
        on hours.hour_start_at = activities.hour_start_at and hours.workload_id = activities.workload_id
    left join observed
        on hours.hour_start_at = observed.hour_start_at and hours.workload_id = observed.workload_id
    left join service_hours
        on hours.hour_start_at = service_hours.hour_start_at and hours.workload_id = service_hours.workload_id
    left join latencies
        on hours.hour_start_at = latencies.hour_start_at and hours.workload_id = latencies.workload_id
    left join hosts
        on hours.hour_start_at = hosts.hour_start_at and hours.workload_id = hosts.workload_id

)

select * from joined
