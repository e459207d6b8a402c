"""How many replicas each inference service kept, and how many it needed."""

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
    not_the_ledger = """
        select hour_start_at, workload_id
        from (
            select hour_start_at, workload_id, gpu_hours as hours
            from main.fct_gpu_ledger_hourly where state = 'overprovisioned'
            union all
            select hour_start_at, workload_id, -overprovisioned_gpu_hours from {batch})
        group by all having abs(sum(hours)) > 1e-6"""
    return [
        has_columns(
            *("hour_start_at", "usage_date", "workload_id", "cluster", "replica_count_mean", "replica_count_max"),
            *("needed_replica_count", "min_replica_count", "demand_per_second", "demand_minute_count", "work_unit"),
            *("replica_capacity_per_second", "replica_capacity_method", "target_utilization_ratio", "latency_p95_seconds"),
            *("latency_target_p95_seconds", "is_latency_missed", "silent_reason", "overprovisioned_gpu_hours"),
        ),
        *key("hour_start_at", "workload_id"),
        not_null("cluster", "replica_count_max", "replica_capacity_method", "silent_reason", "is_latency_missed"),
        *finite(table),
        at_least_zero(
            "replica_count_mean",
            "needed_replica_count",
            "demand_per_second",
            "replica_capacity_per_second",
            "overprovisioned_gpu_hours",
        ),
        ratios("target_utilization_ratio"),
        one_of("replica_capacity_method", ("configured", "saturated", "extrapolated", "none")),
        one_of("silent_reason", ("", "no_usage", "no_capacity", "latency_missed")),
        references("workload_id", "dim_workloads"),
        no_rows_where(
            "needed_at_most_kept",
            "needed_replica_count > replica_count_max or replica_count_mean > replica_count_max + 1e-6",
            "A service needs more replicas than it kept, or kept more in the mean than at most: the count of replicas is wrong.",
        ),
        no_rows_where(
            "a_silent_rule_takes_nothing",
            "silent_reason <> '' and overprovisioned_gpu_hours > 0",
            "Time is overprovisioned though demand or capacity is not known or latency is missed: do not shrink these services.",
        ),
        no_rows(
            "hours_are_those_of_the_ledger",
            not_the_ledger,
            "The ledger has overprovisioned time that this evidence does not explain: one of them was not rebuilt.",
        ),
    ]
