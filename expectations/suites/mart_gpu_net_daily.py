"""How much useful work comes out of the capacity, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows, no_rows_where, not_null, ratios, sums_to

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    not_the_ledger = """
        select usage_date, cluster, gpu_model, currency
        from (
            select usage_date, cluster, gpu_model, currency, sum(gpu_hours) as hours
            from main.fct_gpu_ledger_hourly group by all
            union all
            select usage_date, cluster, gpu_model, currency, -sum(capacity_gpu_hours) from {batch} group by all)
        where usage_date >= (select min(usage_date) from main.fct_gpu_ledger_hourly)
        group by all having abs(sum(hours)) > 1e-6"""
    return [
        has_columns(
            *("usage_date", "cluster", "gpu_model", "currency", "capacity_gpu_hours", "out_of_service_gpu_hours"),
            *("unallocated_gpu_hours", "borrowed_gpu_hours", "held_gpu_hours", "unobserved_gpu_hours", "ghost_gpu_hours"),
            *("productive_gpu_hours", "coverage_ratio", "gpu_net_ratio", "gpu_net_ratio_low", "gpu_net_ratio_high"),
            *("ghost_ratio", "ghost_cost", "cost", "energy_kwh", "ghost_energy_kwh"),
            *("goodput_gpu_hours", "goodput_ratio", "tokens_useful", "successful_request_count", "useful_tokens_per_gpu_hour"),
            "successful_requests_per_gpu_hour",
        ),
        *key("usage_date", "cluster", "gpu_model", "currency"),
        not_null("capacity_gpu_hours", "held_gpu_hours", "productive_gpu_hours"),
        *finite(table),
        at_least_zero(
            "capacity_gpu_hours",
            "out_of_service_gpu_hours",
            "unallocated_gpu_hours",
            "borrowed_gpu_hours",
            "held_gpu_hours",
            "unobserved_gpu_hours",
            "ghost_gpu_hours",
            "productive_gpu_hours",
            "energy_kwh",
            "ghost_energy_kwh",
        ),
        ratios("coverage_ratio", "gpu_net_ratio", "gpu_net_ratio_low", "gpu_net_ratio_high", "ghost_ratio"),
        sums_to(
            *("capacity_gpu_hours", "out_of_service_gpu_hours", "unallocated_gpu_hours"),
            *("borrowed_gpu_hours", "held_gpu_hours"),
        ),
        sums_to(
            *("capacity_gpu_hours", "out_of_service_gpu_hours", "borrowed_gpu_hours", "unobserved_gpu_hours"),
            *("ghost_gpu_hours", "productive_gpu_hours"),
            check_id="capacity_is_sum_of_steps",
        ),
        no_rows_where(
            "goodput_is_part_of_held_time",
            "goodput_gpu_hours > held_gpu_hours + 1e-6 or goodput_gpu_hours < 0",
            "More held time was worth it than was held: runs are joined to their hours more than once.",
        ),
        no_rows_where(
            "interval_is_in_order",
            "gpu_net_ratio_low > gpu_net_ratio_high + 1e-9 or gpu_net_ratio < gpu_net_ratio_low - 1e-9"
            " or gpu_net_ratio > gpu_net_ratio_high + 1e-9",
            "GPU Net lies outside its own interval: low, value and high do not rest on the same rows.",
        ),
        no_rows(
            "capacity_is_that_of_the_ledger",
            not_the_ledger,
            "A day's capacity is not that of the ledger: the mart was not built with it; build that day again.",
        ),
    ]
