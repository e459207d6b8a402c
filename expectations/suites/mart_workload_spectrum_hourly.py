"""Where each workload stands between too little and too much to do, hour by hour."""

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
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    unlike_behavior = """
        select spectrum.hour_start_at, spectrum.workload_id
        from {batch} as spectrum
        full outer join main.mart_workload_behavior_hourly as behavior
            on spectrum.hour_start_at = behavior.hour_start_at and spectrum.workload_id = behavior.workload_id
        where spectrum.workload_id is null or behavior.workload_id is null
            or spectrum.coverage_ratio is distinct from behavior.coverage_ratio"""
    return [
        has_columns("hour_start_at", "workload_id", "spectrum", "bottleneck_reason", "coverage_ratio", "activity_ratio"),
        *key("hour_start_at", "workload_id"),
        not_null("cluster", "spectrum", "held_gpu_hours"),
        *finite(table),
        at_least_zero("held_gpu_hours", "waiting_requests_first_mean", "waiting_requests_last_mean", "latency_p95_seconds"),
        ratios("coverage_ratio", "productive_ratio", "activity_ratio", "throttled_ratio", "dram_active_ratio"),
        one_of("spectrum", ["bottlenecked", "saturated", "productive", "underused", "unknown"]),
        one_of("bottleneck_reason", ["throttle", "kv_cache", "memory", "compute", "cpu", "storage", "network", "unknown"]),
        references("workload_id", "dim_workloads"),
        no_rows_where(
            "a_reason_where_bottlenecked_and_only_there",
            "(spectrum = 'bottlenecked') <> (bottleneck_reason is not null)",
            "A workload is bottlenecked without a reason, or has a reason without being so: the order of the tests is broken.",
        ),
        no_rows_where(
            "nothing_is_said_of_the_unseen",
            "spectrum <> 'unknown' and coalesce(coverage_ratio, 0) = 0",
            "An hour of which nothing was observed is judged: missing is not zero.",
        ),
        no_rows_where(
            "a_missed_target_is_no_fit",
            "coalesce(is_latency_missed, false) and spectrum not in ('bottlenecked', 'unknown')",
            "A service misses its latency target and is not called bottlenecked: it would be told to shrink.",
        ),
        no_rows(
            "one_row_per_hour_of_behavior",
            unlike_behavior,
            "An hour is judged that has no behaviour, or the other way round: build its day again.",
        ),
    ]
