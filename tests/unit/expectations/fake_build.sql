-- A build as the gate and the publication see it: two GPUs of one node for three days, one training run on the first of them,
-- with every published table in the shape of interfaces.md. Figures are made from the ledger, so that they agree with it.

create schema if not exists control;
create table control.builds (
    build_id varchar, started_at timestamp, finished_at timestamp, status varchar, version varchar,
    window_start_at timestamp, window_end_at timestamp, data_through_at timestamp, is_full_refresh boolean);
create table control.build_days (build_id varchar, usage_date date);
create table control.build_window (build_id varchar, start_at timestamp, end_at timestamp);

create table dim_date as
select
    cast(day as date) as usage_date,
    strftime(day, '%G-W%V') as week
from range(timestamp '2025-01-01', timestamp '2026-01-01', interval 1 day) as days (day);

create table dim_states as
select * from (values
    ('out_of_service', 1, false, 'Out of service', 'The node is down.', 'down|maintenance|drained|lost'),
    ('unallocated', 2, true, 'Unallocated', 'Nobody holds it.', 'free|unrequested_share|stranded|reserved_empty|draining'),
    ('borrowed', 3, false, 'Borrowed', 'Used beyond the request.', ''),
    ('suspended', 4, true, 'Suspended', 'Held by a suspended run.', 'position_unknown'),
    ('unobserved', 5, false, 'Unobserved', 'Not covered by a sample.', 'gap|stale'),
    ('overprovisioned', 6, true, 'Overprovisioned', 'Replicas beyond need.', ''),
    ('unbalanced', 7, true, 'Unbalanced', 'A sibling is busy.', ''),
    ('pipeline_waiting', 8, true, 'Pipeline waiting', 'Work is pending.', 'startup|stall'),
    ('reserved_memory', 9, true, 'Reserved memory', 'Memory is held.', ''),
    ('idle_compute', 10, true, 'Idle compute', 'Idle otherwise.', ''),
    ('throttled', 11, true, 'Throttled', 'Clocks are held down.', ''),
    ('oversized', 12, true, 'Oversized', 'A smaller slice would do.', ''),
    ('underfilled', 13, true, 'Underfilled', 'Work is too small.', ''),
    ('productive', 14, false, 'Productive', 'The rest.', ''),
    ('commitment_unused', 15, true, 'Unused commitment', 'Money without hours.', '')
) as states (state, state_order, is_ghost, label, definition, state_reasons);

create table dim_clusters as select * from (values ('c1'), ('unallocated'), ('unknown')) as clusters (cluster);

create table dim_nodes as
select
    'c1/n1' as node_id, 'c1' as cluster, 'n1' as node, 'aws' as provider, 'i-1' as provider_resource_id, 'eu' as region,
    cast(null as varchar) as zone, cast(null as varchar) as rack, 'p5' as instance_type, false as is_spot;

create table dim_gpus as
select
    gpu_id, 'c1' as cluster, 'n1' as node, 'c1/n1' as node_id, 'H100' as gpu_model, cast(85899345920 as bigint) as memory_bytes,
    '0000:01:00.0' as pci_bus_id, timestamp '2025-03-01' as first_seen_at, timestamp '2025-03-04' as last_seen_at,
    cast(1 as bigint) as slot_count
from (values ('GPU-1'), ('GPU-2')) as gpus (gpu_id);

create table dim_gpu_history as
select gpu_id, first_seen_at as valid_from_at, cast(null as timestamp) as valid_to_at, node from dim_gpus;

create table dim_slots as
select gpu_id as slot_id, gpu_id, cast(null as varchar) as mig_profile, cast(1 as double) as slot_fraction from dim_gpus;

create table dim_models as select * from (values ('llama'), ('unknown')) as models (model);
create table dim_gpu_models as select 'H100' as gpu_model, cast(85899345920 as bigint) as memory_bytes;

create table dim_workloads as
select
    workload_id, cluster, 'unknown' as namespace, workload_id as workload, cast(null as varchar) as application, 'vision' as team,
    cast(null as varchar) as model, kind, cast(null as double) as latency_target_p95_seconds
from (values ('c1/train', 'c1', 'training'), ('unallocated', 'unallocated', 'unknown'), ('unknown', 'unknown', 'unknown'))
    as workloads (workload_id, cluster, kind);

create table dim_runs as
select
    run_id, cluster, run_id as job_id, workload_id, run_id as name, 'COMPLETED' as state, cast(null as timestamp) as submitted_at,
    timestamp '2025-03-01' as started_at, timestamp '2025-03-04' as ended_at, cast(1 as bigint) as gpu_count,
    cast(72 as double) as held_gpu_hours, cast(0 as double) as suspended_gpu_hours, 'exact' as assignment_method,
    false as is_provisional, '' as flags
from (values ('c1/1', 'c1', 'c1/train'), ('unallocated', 'unallocated', 'unallocated')) as runs (run_id, cluster, workload_id);

-- the first GPU is held: of each hour 40 min productive, 20 min idle; the second is free
create table fct_gpu_ledger_hourly as
select
    hour_start_at, cast(hour_start_at as date) as usage_date, 'c1' as cluster, 'n1' as node, gpu_id, 'H100' as gpu_model,
    gpu_id as slot_id, run_id, workload_id, state, state_reason, signal_source, states.is_ghost,
    cast(gpu_microseconds as bigint) as gpu_microseconds, cast(gpu_microseconds as double) / 3.6e9 as gpu_hours,
    cast(0.5 as double) as energy_kwh, cast(gpu_microseconds / 3.6e9 * 2 as decimal(18, 6)) as cost, 'USD' as currency,
    'billing' as cost_source
from range(timestamp '2025-03-01', timestamp '2025-03-04', interval 1 hour) as hours (hour_start_at)
cross join (values
    ('GPU-1', 'c1/1', 'c1/train', 'productive', '', 'sm_active', 2400000000),
    ('GPU-1', 'c1/1', 'c1/train', 'idle_compute', '', 'sm_active', 1200000000),
    ('GPU-2', 'unallocated', 'unallocated', 'unallocated', 'free', 'none', 3600000000)
) as pieces (gpu_id, run_id, workload_id, state, state_reason, signal_source, gpu_microseconds)
inner join dim_states as states using (state);

create table fct_gpu_idle_spans as
select
    gpu_id as slot_id, run_id, hour_start_at as started_at, gpu_id, cluster, workload_id,
    hour_start_at + interval 20 minute as ended_at, cast(20 as bigint) as idle_minutes, cast(0 as bigint) as memory_held_bytes,
    cost, currency
from fct_gpu_ledger_hourly where state = 'idle_compute';

create table fct_node_stranded_spans (
    usage_date date, cluster varchar, node_id varchar, node varchar, started_at timestamp, ended_at timestamp, lacking varchar,
    free_cpu_count double, free_memory_bytes double, usual_cpu_count double, usual_memory_bytes double, gpu_hours double);

create table fct_unbalanced_spans as
select
    slot_id, run_id, started_at, gpu_id, cluster, workload_id, started_at + interval 20 minute as ended_at,
    cast(20 as bigint) as unbalanced_minutes, cast(0.04 as double) as activity_ratio, cast(0.9 as double) as sibling_activity_ratio,
    cast(0.95 as double) as sibling_peak_activity_ratio, cast(0.32 as double) as unbalanced_gpu_hours
from fct_gpu_idle_spans;

create table fct_oversized_daily as
select
    cast(day as date) as usage_date, slot_id, 'c1/1' as run_id, 'c1' as cluster, gpu_id, 'H100' as gpu_model,
    'c1/train' as workload_id, 'training' as kind, cast(20 as double) as covered_hours, cast(0.1 as double) as activity_ratio,
    cast(0.1 as double) as activity_p95_ratio, cast(5000000000 as bigint) as peak_needed_memory_bytes,
    cast(80000000000 as bigint) as card_memory_bytes, mig_profile, fit_ratio, null_reason
from (values
    (timestamp '2025-03-01', 'GPU-1', 'GPU-1', '1g.10gb', cast(1 as double) / 7, ''),
    (timestamp '2025-03-02', 'GPU-1', 'GPU-1', null, null, 'too_busy')
) as slots (day, slot_id, gpu_id, mig_profile, fit_ratio, null_reason);

create table fct_inference_hourly (
    hour_start_at timestamp, usage_date date, workload_id varchar, model varchar, cluster varchar, request_count bigint,
    failed_request_count bigint, prompt_tokens bigint, cached_prompt_tokens bigint, output_tokens bigint,
    running_requests_mean double, waiting_requests_mean double, waiting_requests_max double, kv_cache_usage_max double,
    replica_count bigint, token_source varchar);

create table fct_inference_latency_hourly (
    hour_start_at timestamp, usage_date date, workload_id varchar, model varchar, le_seconds double, above_seconds double,
    request_count double);
insert into fct_inference_latency_hourly values
    (timestamp '2025-03-01', date '2025-03-01', 'c1/train', 'unknown', 0.5, 0, 8),
    (timestamp '2025-03-01', date '2025-03-01', 'c1/train', 'unknown', 'inf', 0.5, 2);

create table fct_replica_demand_hourly as
select
    timestamp '2025-03-01' as hour_start_at, date '2025-03-01' as usage_date, 'c1/train' as workload_id, 'c1' as cluster,
    2.0::double as replica_count_mean, 2::bigint as replica_count_max, 2::bigint as needed_replica_count,
    null::bigint as min_replica_count, 10.0::double as demand_per_second, 60::bigint as demand_minute_count,
    'tokens' as work_unit, 100.0::double as replica_capacity_per_second, 'configured' as replica_capacity_method,
    0.8::double as target_utilization_ratio, null::double as latency_p95_seconds, null::double as latency_target_p95_seconds,
    false as is_latency_missed, '' as silent_reason, 0.0::double as overprovisioned_gpu_hours;

create table mart_workload_behavior_hourly (
    hour_start_at timestamp, usage_date date, workload_id varchar, cluster varchar, held_gpu_hours double,
    suspended_gpu_hours double, covered_gpu_hours double, unobserved_gpu_hours double, productive_gpu_hours double,
    coverage_ratio double, unobserved_reason varchar, activity_ratio double, signal_source varchar,
    tensor_active_ratio double, tensor_coverage_ratio double, dram_active_ratio double, dram_coverage_ratio double,
    sm_clock_mhz_mean double, throttled_ratio double, power_watts_mean double, power_coverage_ratio double,
    energy_kwh double, memory_mean_bytes bigint, memory_p95_bytes bigint, memory_needed_bytes bigint,
    memory_needed_ratio double, memory_needed_null_reason varchar, memory_coverage_ratio double, request_count bigint,
    failed_request_count bigint, prompt_tokens bigint, output_tokens bigint, requests_per_second double,
    tokens_per_second double, token_source varchar, server_coverage_ratio double, running_requests_mean double,
    waiting_requests_mean double, kv_cache_usage_mean double, kv_cache_usage_max double, replica_count bigint,
    latency_p50_seconds double, latency_p95_seconds double, latency_source varchar, latency_null_reason varchar,
    host_cpu_utilization_ratio double, host_io_wait_ratio double, host_network_bytes_per_second bigint,
    host_coverage_ratio double);
insert into mart_workload_behavior_hourly by name
select
    hour_start_at, usage_date, workload_id, cluster, sum(gpu_hours) as held_gpu_hours, 0 as suspended_gpu_hours,
    sum(gpu_hours) as covered_gpu_hours, 0 as unobserved_gpu_hours, sum(gpu_hours) as productive_gpu_hours, 1 as coverage_ratio,
    0.5 as activity_ratio, 'sm_active' as signal_source, 0 as request_count
from fct_gpu_ledger_hourly where workload_id <> 'unallocated' group by hour_start_at, usage_date, workload_id, cluster;

create table mart_workload_spectrum_hourly (
    hour_start_at timestamp, usage_date date, workload_id varchar, cluster varchar, spectrum varchar,
    bottleneck_reason varchar, is_latency_missed boolean, is_queue_growing boolean, held_gpu_hours double,
    coverage_ratio double, productive_ratio double, activity_ratio double, throttled_ratio double,
    dram_active_ratio double, memory_needed_ratio double, kv_cache_usage_mean double, kv_cache_usage_max double,
    waiting_requests_first_mean double, waiting_requests_last_mean double, replica_count bigint,
    latency_p95_seconds double, latency_target_p95_seconds double, host_cpu_utilization_ratio double,
    host_io_wait_ratio double, host_network_bytes_per_second bigint);
insert into mart_workload_spectrum_hourly by name
select
    hour_start_at, usage_date, workload_id, cluster, 'productive' as spectrum, held_gpu_hours, coverage_ratio, activity_ratio
from mart_workload_behavior_hourly;

create table fct_billing_lines as
select
    'line-' || cast(usage_date as varchar) as line_id, 'capacity' as line_role, 'aws' as provider_name, 'a' as billing_account_id,
    cast(sum(cost) as decimal(38, 12)) as billed_cost, cast(sum(cost) as decimal(38, 12)) as effective_cost,
    'USD' as billing_currency, 'Usage' as charge_category, cast(usage_date as timestamp) as charge_period_start,
    cast(usage_date + 1 as timestamp) as charge_period_end, 'd1' as delivery_id, 'delivered' as effective_cost_method
from fct_gpu_ledger_hourly group by usage_date;

create table fct_collection_runs as
select
    'run-1' as collection_run_id, 'import' as source, 'c1' as cluster, 'landed' as status, cast(100 as bigint) as rows_landed,
    cast(0 as bigint) as rows_quarantined, timestamp '2025-03-04' as landed_at;

create table mart_workload_gpu_hours_daily as
select
    usage_date, workload_id, currency, cluster, workload_id as workload, cast(null as varchar) as application, 'vision' as team,
    cast(null as varchar) as model, 'training' as kind, sum(gpu_hours) as held_gpu_hours, sum(gpu_hours) as priced_gpu_hours,
    sum(gpu_hours) filter (state = 'productive') as productive_gpu_hours,
    sum(gpu_hours) filter (state = 'idle_compute') as idle_gpu_hours, sum(gpu_hours) filter (is_ghost) as ghost_gpu_hours,
    cast(0 as double) as unobserved_gpu_hours, cast(0 as double) as failed_gpu_hours, cast(0 as double) as timed_out_gpu_hours,
    cast(0 as double) as cancelled_gpu_hours, sum(gpu_hours) as goodput_gpu_hours, cast(1 as double) as goodput_ratio, cast(1 as double) as coverage_ratio,
    cast(sum(cost) as decimal(18, 6)) as allocation_cost, cast(sum(cost) as decimal(18, 6)) as usage_cost,
    cast(sum(cost) as decimal(18, 6)) as fully_loaded_cost
from fct_gpu_ledger_hourly where workload_id <> 'unallocated' group by all;

create table mart_gpu_idle_time_daily as
select
    usage_date, gpu_id, currency, cluster, node, cast(24 as double) as held_hours, cast(8 as double) as idle_hours,
    cast(8 as double) as idle_hours_at_0pct, cast(8 as double) as idle_hours_at_10pct, cast(8 as double) as idle_hours_at_25pct,
    cast(20 as bigint) as longest_idle_minutes, cast(16 as decimal(18, 6)) as idle_cost
from fct_gpu_ledger_hourly where gpu_id = 'GPU-1' group by all;

create table mart_ghost_capacity_daily as
select
    usage_date, cluster, gpu_model, workload_id, state, currency, 'vision' as team, states.state_order, states.is_ghost,
    sum(gpu_hours) as gpu_hours, cast(sum(cost) as decimal(18, 6)) as cost
from fct_gpu_ledger_hourly inner join dim_states as states using (state) group by all;

create table mart_gpu_net_daily as
select
    usage_date, cluster, gpu_model, currency, sum(gpu_hours) as capacity_gpu_hours, cast(0 as double) as out_of_service_gpu_hours,
    sum(gpu_hours) filter (state = 'unallocated') as unallocated_gpu_hours, cast(0 as double) as borrowed_gpu_hours,
    sum(gpu_hours) filter (state <> 'unallocated') as held_gpu_hours, cast(0 as double) as unobserved_gpu_hours,
    sum(gpu_hours) filter (is_ghost) as ghost_gpu_hours, sum(gpu_hours) filter (state = 'productive') as productive_gpu_hours,
    cast(1 as double) as coverage_ratio, cast(1 as double) / 3 as gpu_net_ratio, cast(1 as double) / 3 as gpu_net_ratio_low,
    cast(1 as double) / 3 as gpu_net_ratio_high, cast(2 as double) / 3 as ghost_ratio,
    cast(sum(cost) filter (is_ghost) as decimal(18, 6)) as ghost_cost, cast(sum(cost) as decimal(18, 6)) as cost,
    sum(gpu_hours) filter (state <> 'unallocated') as goodput_gpu_hours, cast(0.5 as double) as goodput_ratio,
    cast(4800 as double) as tokens_useful, cast(48 as double) as successful_request_count,
    cast(100 as double) as useful_tokens_per_gpu_hour, cast(1 as double) as successful_requests_per_gpu_hour,
    sum(energy_kwh) as energy_kwh, sum(energy_kwh) filter (is_ghost) as ghost_energy_kwh
from fct_gpu_ledger_hourly group by all;

create table mart_unit_economics_daily (
    usage_date date, workload_id varchar, model varchar, currency varchar, cluster varchar, request_count bigint,
    failed_request_count bigint, prompt_tokens bigint, cached_prompt_tokens bigint, output_tokens bigint, tokens_all bigint,
    held_gpu_hours double, priced_gpu_hours double,
    allocation_cost decimal(18, 6), usage_cost decimal(18, 6), fully_loaded_cost decimal(18, 6), cost_per_million_tokens double,
    cost_per_million_input_tokens double, cost_per_million_output_tokens double, cost_per_request double,
    cost_per_thousand_requests double, tokens_per_gpu_hour double, requests_per_gpu_hour double, latency_p50_seconds double,
    latency_p95_seconds double, latency_p99_seconds double, list_model varchar, list_provider varchar,
    list_cost_per_million_tokens double, list_cost_per_thousand_requests double, cost_to_list_ratio double,
    token_cost_method varchar, null_reason varchar);

create table mart_cost_reconciliation_daily as
select
    cast(charge_period_start as date) as usage_date, provider_name, billing_account_id, billing_currency as currency,
    cast(billed_cost as decimal(18, 6)) as billed_cost, cast(effective_cost as decimal(18, 6)) as effective_cost,
    cast(effective_cost as decimal(18, 6)) as ledger_cost, cast(0 as decimal(18, 6)) as non_time_cost,
    cast(0 as decimal(18, 6)) as billed_without_telemetry_cost, cast(0 as decimal(18, 6)) as out_of_scope_cost,
    cast(0 as decimal(18, 6)) as difference, true as is_closed
from fct_billing_lines;

create table mart_invoices_monthly as
select
    timestamp '2025-03-01' as billing_period_start, provider_name, billing_account_id, billing_currency as currency,
    timestamp '2025-04-01' as billing_period_end, cast(sum(billed_cost) as decimal(18, 6)) as invoiced_cost,
    cast(sum(billed_cost) as decimal(18, 6)) as billed_cost, cast(0 as decimal(18, 6)) as correction_billed_cost,
    cast(0 as decimal(18, 6)) as correction_effective_cost, count(*) as line_count, count(distinct delivery_id) as delivery_count,
    timestamp '2025-03-04' as last_delivered_at
from fct_billing_lines group by all;

create table mart_unmatched_costs_daily as
select
    date '2025-03-01' as usage_date, 'unpriced' as mismatch, 'unknown' as line_id, 'GPU-2' as gpu_id, 'c1' as cluster,
    'n1' as node, 'unknown' as provider_name, 'unknown' as billing_account_id, 'unknown' as currency,
    'unknown' as resource_id, 'NVIDIA H100 80GB HBM3' as description, cast(6 as double) as gpu_hours,
    cast(null as decimal(18, 6)) as cost;

create table mart_adapter_unit_economics_daily (
    usage_date date, workload_id varchar, model varchar, adapter varchar, currency varchar, request_count bigint,
    failed_request_count bigint, prompt_tokens bigint, output_tokens bigint, tokens_all bigint, held_gpu_hours double,
    allocation_cost decimal(18, 6), usage_cost decimal(18, 6), fully_loaded_cost decimal(18, 6), cost_per_million_tokens double,
    cost_per_thousand_requests double, tokens_per_gpu_hour double, null_reason varchar);

create table int_exchange_rates (
    currency varchar, reporting_currency varchar, rate double, valid_from_at timestamp, valid_to_at timestamp);

create table mart_cost_allocation_daily as
select
    usage_date, case when workload_id = 'unallocated' then 'unallocated' else 'held' end as cost_line, cluster, 'vision' as team,
    'unknown' as application, 'unknown' as model, workload_id, currency, sum(gpu_hours) as gpu_hours,
    coalesce(sum(gpu_hours) filter (workload_id <> 'unallocated'), 0) as held_gpu_hours,
    coalesce(sum(gpu_hours) filter (workload_id <> 'unallocated'), 0) as priced_gpu_hours,
    cast(sum(cost) as decimal(18, 6)) as cost,
    cast(coalesce(sum(cost) filter (workload_id <> 'unallocated'), 0) as decimal(18, 6)) as allocation_cost,
    cast(coalesce(sum(cost) filter (workload_id <> 'unallocated'), 0) as decimal(18, 6)) as usage_cost,
    cast(coalesce(sum(cost) filter (workload_id <> 'unallocated'), 0) as decimal(18, 6)) as fully_loaded_cost,
    cast(1 as double) as billing_cost_ratio, cast(0 as double) as rate_card_cost_ratio, cast(0 as double) as estimate_cost_ratio,
    cast(0 as decimal(18, 6)) as estimate_cost, cast(0 as double) as energy_left_out_ratio,
    cast(null as decimal(18, 6)) as cost_reporting, 'unknown' as reporting_currency
from fct_gpu_ledger_hourly group by all;

create table mart_team_chargeback_monthly as
select
    cast(date_trunc('month', usage_date) as date) as month_start_date, team, cost_line, currency, sum(gpu_hours) as gpu_hours,
    sum(held_gpu_hours) as held_gpu_hours, sum(priced_gpu_hours) as priced_gpu_hours,
    cast(sum(cost) as decimal(18, 6)) as cost, cast(sum(allocation_cost) as decimal(18, 6)) as allocation_cost,
    cast(sum(usage_cost) as decimal(18, 6)) as usage_cost, cast(sum(fully_loaded_cost) as decimal(18, 6)) as fully_loaded_cost,
    cast(sum(estimate_cost) as decimal(18, 6)) as estimate_cost, true as is_closed
from mart_cost_allocation_daily group by all;

create table mart_data_coverage_daily as
select
    usage_date, cluster, 'import' as source, cast(24 as double) as expected_hours, cast(24 as double) as covered_hours,
    cast(1 as double) as coverage_ratio, cast(100 as bigint) as rows_landed, cast(0 as bigint) as rows_quarantined,
    cast(0 as bigint) as rows_late,
    timestamp '2025-03-04' as last_landed_at
from fct_gpu_ledger_hourly group by usage_date, cluster;

create table mart_queue_pressure_hourly as
select
    hour_start_at, usage_date, cluster, 'gpu' as queue, cast(1 as double) as known_hours, cast(1 as bigint) as waiting_run_count,
    cast(2 as double) as waiting_gpu_hours, cast(2 as double) as waiting_gpu_count_mean, cast(4 as double) as waiting_gpu_count_max,
    cast(1 as bigint) as started_run_count, cast(60 as double) as wait_p50_seconds, cast(60 as double) as wait_p95_seconds,
    sum(gpu_hours) as capacity_gpu_hours, cast(0 as double) as out_of_service_gpu_hours,
    sum(gpu_hours) filter (state = 'unallocated') as unallocated_gpu_hours, cast(1 as double) as unallocated_gpu_count_mean,
    sum(gpu_hours) filter (state = 'unallocated') as free_gpu_hours, cast(0 as double) as stranded_gpu_hours,
    cast(0 as double) as draining_gpu_hours, cast(0 as double) as reserved_empty_gpu_hours,
    cast(0 as double) as unrequested_share_gpu_hours
from fct_gpu_ledger_hourly group by all;

create table mart_power_and_thermal_daily as
select
    usage_date, cluster || '/' || node as node_id, cluster, node, cast(null as varchar) as rack,
    sum(gpu_hours) as capacity_gpu_hours, sum(energy_kwh) as energy_kwh,
    sum(energy_kwh) filter (is_ghost) as ghost_energy_kwh, sum(energy_kwh) filter (not is_ghost) as other_energy_kwh,
    sum(gpu_hours) as energy_gpu_hours, cast(1 as double) as energy_coverage_ratio, cast(0 as double) as throttled_gpu_hours,
    sum(gpu_hours) as temperature_gpu_hours, cast(60 as double) as temperature_mean_celsius,
    cast(70 as double) as temperature_p95_celsius, cast(75 as double) as temperature_max_celsius
from fct_gpu_ledger_hourly group by all;

create table mart_fleet_inventory as
select
    gpu_id, cluster, node, node_id, timestamp '2025-03-04' as as_of_at, gpu_model, memory_bytes, pci_bus_id,
    cast(null as varchar) as rack, cast(null as varchar) as region, cast(null as varchar) as zone, slot_count, '' as mig_profiles,
    'in_service' as service_state, '' as run_ids, '' as workload_ids, '' as teams, cast(0 as double) as held_ratio, last_seen_at,
    cast(null as varchar) as driver_version, cast(0.5 as double) as activity_1d_ratio, cast(0.5 as double) as activity_7d_ratio,
    cast(1 as double) as coverage_1d_ratio, cast(1 as double) as coverage_7d_ratio, cast(72 as double) as capacity_7d_gpu_hours,
    cast(24 as double) as ghost_7d_gpu_hours, cast(144 as decimal(18, 6)) as last_7d_cost,
    cast(2 as decimal(18, 6)) as cost_per_gpu_hour, 'USD' as currency, 'billing' as cost_source
from dim_gpus;

create table mart_work_yield_daily as
select
    usage_date, workload_id, 'llama' as model, gpu_model, cluster, sum(gpu_hours) as held_gpu_hours, cast(4800 as double) as tokens_useful,
    cast(48 as double) as successful_request_count, cast(200 as double) as useful_tokens_per_gpu_hour,
    cast(2 as double) as successful_requests_per_gpu_hour, 'tokens' as work_unit, cast(24 as bigint) as best_hour_count,
    cast(400 as double) as best_tokens_per_gpu_hour, cast(4 as double) as best_requests_per_gpu_hour,
    cast(0.5 as double) as work_yield_ratio
from fct_gpu_ledger_hourly where workload_id <> 'unallocated' group by all;

create table audit_gpu_hours_conserved as
select
    usage_date, cluster, cast(sum(gpu_microseconds) as bigint) as promised, cast(sum(gpu_microseconds) as bigint) as measured,
    cast(0 as bigint) as difference, true as holds
from fct_gpu_ledger_hourly group by usage_date, cluster;

create table audit_cost_reconciled as
select
    usage_date, provider_name, billing_account_id, currency, effective_cost as promised, ledger_cost as measured, difference,
    true as holds
from mart_cost_reconciliation_daily;

create table audit_held_time_allocated as select * from audit_gpu_hours_conserved;
create table audit_out_of_service_not_held as select * from audit_gpu_hours_conserved;
create table audit_slot_fractions_whole as select * from audit_gpu_hours_conserved;
create table audit_ledger_rows_sound as select * from audit_gpu_hours_conserved;
create table audit_suspended_time_shared as select * from audit_gpu_hours_conserved;
create table audit_idle_spans_held as select * from audit_gpu_hours_conserved;
create table audit_samples_counted as select * from audit_gpu_hours_conserved;
create table audit_energy_conserved as
select * replace (cast(promised as double) as promised, cast(measured as double) as measured, cast(difference as double) as difference)
from audit_gpu_hours_conserved;
create table audit_ledger_cost_conserved as select *, 'USD' as currency from audit_gpu_hours_conserved;
create table audit_waterfall_closed as select * from audit_ledger_cost_conserved;
create table audit_cost_bases_closed as select * exclude (cluster) from audit_ledger_cost_conserved;
create table audit_hours_agree_across_marts as
select *, 'mart_gpu_net_daily' as table_name, 'held' as measure from audit_gpu_hours_conserved;
create table audit_inference_counted as
select * exclude (cluster), 'server' as token_source, 'output_tokens' as measure from audit_gpu_hours_conserved;
create table audit_unit_economics_closed as
select * exclude (cluster), 'held_gpu_hours' as measure from audit_energy_conserved;

create table fct_node_clock_offsets as
select
    usage_date, cluster, 'n1' as node, 'import' as source, 'activity' as evidence, cast(3 as bigint) as edge_count,
    cast(3 as bigint) as agreeing_count, cast(2 as double) as offset_seconds, cast(-8 as double) as least_seconds,
    cast(12 as double) as most_seconds, false as is_skewed, cast(0 as bigint) as corrected_minutes
from audit_gpu_hours_conserved;

create table mart_telemetry_quality_daily as
select
    usage_date, cluster, 'n1' as node, 'GPU-1' as gpu_id, cast(1440 as bigint) as reading_count,
    cast(0 as bigint) as repeat_count, cast(24 as double) as covered_hours, cast(9 as double) as energy_kwh,
    cast(0.01 as double) as energy_difference_ratio, cast(2 as double) as clock_offset_seconds, '' as flags
from audit_gpu_hours_conserved;

create table int_private as select 'not published' as note;

create table data_dictionary as
select
    table_name, column_name, cast(column_index as integer) as column_position, 'What it means.' as description, data_type,
    cast(null as varchar) as unit, cast(null as boolean) as is_additive, cast(null as varchar) as formula,
    'What it holds.' as table_description
from duckdb_columns() where schema_name = 'main' and regexp_matches(table_name, '^(dim|fct|mart|audit)_')
union all
select 'data_dictionary', 'table_name', 1, 'The table.', 'VARCHAR', null, null, null, 'Every column.';
