"""GPU-hours and money of each workload, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
    WARNING,
    Table,
    at_least_zero,
    finite,
    has_columns,
    key,
    no_rows,
    no_rows_where,
    not_null,
    ratios,
    references,
    sums_to,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    lost_hours = """
        select usage_date, cluster
        from (
            select ledger.usage_date, ledger.cluster, sum(ledger.gpu_hours) as ledger_hours, 0 as mart_hours
            from main.fct_gpu_ledger_hourly as ledger where ledger.workload_id <> 'unallocated' group by all
            union all
            select usage_date, cluster, 0, sum(held_gpu_hours) from {batch} group by all)
        where usage_date >= (select min(usage_date) from main.fct_gpu_ledger_hourly)
        group by usage_date, cluster having abs(sum(ledger_hours) - sum(mart_hours)) > 1e-6 * greatest(1, sum(ledger_hours))"""
    unpriced = """
        select sum(held_gpu_hours) from {batch}
        having sum(priced_gpu_hours) < 0.95 * sum(held_gpu_hours)"""
    return [
        has_columns(
            *("usage_date", "workload_id", "currency", "cluster", "workload", "application", "team", "model", "kind"),
            *("held_gpu_hours", "priced_gpu_hours", "productive_gpu_hours", "idle_gpu_hours", "ghost_gpu_hours"),
            *("unobserved_gpu_hours", "failed_gpu_hours", "timed_out_gpu_hours", "cancelled_gpu_hours", "coverage_ratio"),
            *("allocation_cost", "usage_cost", "fully_loaded_cost", "goodput_gpu_hours", "goodput_ratio"),
        ),
        *key("usage_date", "workload_id", "currency"),
        not_null("cluster", "held_gpu_hours"),
        *finite(table),
        at_least_zero(
            "held_gpu_hours",
            "priced_gpu_hours",
            "productive_gpu_hours",
            "idle_gpu_hours",
            "ghost_gpu_hours",
            "unobserved_gpu_hours",
            "failed_gpu_hours",
            "timed_out_gpu_hours",
            "cancelled_gpu_hours",
        ),
        ratios("coverage_ratio"),
        references("workload_id", "dim_workloads"),
        sums_to("held_gpu_hours", "productive_gpu_hours", "ghost_gpu_hours", "unobserved_gpu_hours"),
        no_rows_where(
            "goodput_is_part_of_held_time",
            "goodput_gpu_hours > held_gpu_hours + 1e-6 or goodput_gpu_hours < 0",
            "More held time was worth it than was held: runs are joined to their hours more than once.",
        ),
        no_rows_where(
            "priced_hours_are_held_hours",
            "priced_gpu_hours > held_gpu_hours + 1e-6",
            "More hours are priced than held, so that unit costs come out too low.",
        ),
        no_rows(
            "held_hours_are_those_of_the_ledger",
            lost_hours,
            "A day's held hours are not those of the ledger: workloads of that day were lost or counted twice; build it again.",
        ),
        no_rows(
            "held_hours_are_priced",
            unpriced,
            "Less than 95 % of held hours have a price, so that unit costs are null: land a bill, or rate_cards.",
            WARNING,
        ),
    ]
