"""Energy and temperature of each node's GPUs, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
    Table,
    at_least_zero,
    between,
    finite,
    has_columns,
    key,
    no_rows,
    no_rows_where,
    not_null,
    ratios,
    references,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    not_the_ledger = """
        select usage_date, cluster, node
        from (
            select usage_date, cluster, node, sum(gpu_hours) as hours, sum(coalesce(energy_kwh, 0)) as kwh
            from main.fct_gpu_ledger_hourly group by all
            union all
            select usage_date, cluster, node, -sum(capacity_gpu_hours), -sum(coalesce(energy_kwh, 0)) from {batch} group by all)
        where usage_date >= (select min(usage_date) from main.fct_gpu_ledger_hourly)
        group by all having abs(sum(hours)) > 1e-6 or abs(sum(kwh)) > 1e-6"""
    temperatures = ("temperature_mean_celsius", "temperature_p95_celsius", "temperature_max_celsius")
    return [
        has_columns(
            *("usage_date", "node_id", "cluster", "node", "rack", "capacity_gpu_hours", "energy_kwh", "ghost_energy_kwh"),
            *("other_energy_kwh", "energy_gpu_hours", "energy_coverage_ratio", "throttled_gpu_hours", "temperature_gpu_hours"),
            *temperatures,
        ),
        *key("usage_date", "node_id"),
        not_null("cluster", "node", "capacity_gpu_hours", "throttled_gpu_hours"),
        *finite(table),
        at_least_zero(
            *("capacity_gpu_hours", "energy_kwh", "ghost_energy_kwh", "other_energy_kwh", "energy_gpu_hours"),
            *("throttled_gpu_hours", "temperature_gpu_hours"),
        ),
        ratios("energy_coverage_ratio"),
        between(temperatures, -50, 200),
        references("node_id", "dim_nodes"),
        no_rows(
            "energy_is_that_of_the_ledger",
            not_the_ledger,
            "A node's hours or energy are not those of the ledger: the mart was not built with it; build that day again.",
        ),
        no_rows_where(
            "temperatures_are_in_order",
            # the 95th percentile is kept to a tenth of a degree
            "temperature_mean_celsius > temperature_max_celsius + 1e-6"
            " or temperature_p95_celsius > temperature_max_celsius + 0.051",
            "A mean or percentile is above the highest temperature: they do not rest on the same readings.",
        ),
    ]
