"""What each workload really did, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
    Table,
    at_least_zero,
    finite,
    has_columns,
    key,
    no_rows,
    no_rows_where,
    not_null,
    one_of,
    ratios,
    references,
    sums_to,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    lost_hours = """
        select hour_start_at, workload_id
        from (
            select hour_start_at, workload_id, gpu_hours as ledger_hours, 0 as mart_hours
            from main.fct_gpu_ledger_hourly where workload_id <> 'unallocated'
            union all
            select hour_start_at, workload_id, 0, held_gpu_hours from {batch})
        where hour_start_at >= (select min(hour_start_at) from main.fct_gpu_ledger_hourly)
        group by hour_start_at, workload_id having abs(sum(ledger_hours) - sum(mart_hours)) > 1e-6"""
    return [
        has_columns(
            *("hour_start_at", "workload_id", "held_gpu_hours", "covered_gpu_hours", "coverage_ratio", "activity_ratio"),
            *("tensor_active_ratio", "dram_active_ratio", "memory_mean_bytes", "memory_p95_bytes", "memory_needed_bytes"),
            *("power_watts_mean", "sm_clock_mhz_mean", "throttled_ratio", "requests_per_second", "tokens_per_second"),
            *("running_requests_mean", "waiting_requests_mean", "latency_p95_seconds", "host_cpu_utilization_ratio"),
            *("host_io_wait_ratio", "replica_count", "token_source", "signal_source"),
        ),
        *key("hour_start_at", "workload_id"),
        not_null("cluster", "held_gpu_hours", "signal_source"),
        *finite(table),
        at_least_zero(
            *("held_gpu_hours", "suspended_gpu_hours", "covered_gpu_hours", "unobserved_gpu_hours", "productive_gpu_hours"),
            *("memory_mean_bytes", "memory_p95_bytes", "memory_needed_bytes", "power_watts_mean", "sm_clock_mhz_mean"),
            *("energy_kwh", "request_count", "failed_request_count", "requests_per_second", "tokens_per_second"),
            *("running_requests_mean", "waiting_requests_mean", "replica_count", "latency_p50_seconds", "latency_p95_seconds"),
            "host_network_bytes_per_second",
        ),
        ratios(
            *("coverage_ratio", "activity_ratio", "tensor_active_ratio", "tensor_coverage_ratio", "dram_active_ratio"),
            *("dram_coverage_ratio", "throttled_ratio", "power_coverage_ratio", "memory_coverage_ratio"),
            *("server_coverage_ratio", "kv_cache_usage_mean", "kv_cache_usage_max", "host_cpu_utilization_ratio"),
            *("host_io_wait_ratio", "host_coverage_ratio"),
        ),
        one_of("signal_source", ["sm_active", "graphics_engine_active", "gpu_utilization", "none"]),
        references("workload_id", "dim_workloads"),
        sums_to("held_gpu_hours", "suspended_gpu_hours", "covered_gpu_hours", "unobserved_gpu_hours"),
        no_rows(
            "held_hours_are_those_of_the_ledger",
            lost_hours,
            "An hour's held time is not that of the ledger: a workload's hour was lost or counted twice; build its day again.",
        ),
        no_rows_where(
            "no_figure_without_coverage",
            "(activity_ratio is not null and covered_gpu_hours = 0) or (activity_ratio is null) <> (signal_source = 'none')",
            "An activity stands where nothing was covered, or without its signal: missing is not zero; look at the joins.",
        ),
        no_rows_where(
            "percentiles_in_order",
            "latency_p50_seconds > latency_p95_seconds + 1e-9",
            "Half of the requests took longer than 95 % of them: the histograms were merged wrongly.",
        ),
    ]
