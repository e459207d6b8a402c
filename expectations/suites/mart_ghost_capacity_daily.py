"""The waterfall from capacity to productive hours, by day and in long form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows, no_rows_where, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    # money is compared in its own decimals, hours in doubles; the ledger may have expired for old days, marts never do
    not_closed = """
        select usage_date, cluster, currency
        from (
            select usage_date, cluster, currency, sum(gpu_hours) as hours, sum(coalesce(cost, 0)) as money
            from main.fct_gpu_ledger_hourly group by all
            union all
            select usage_date, cluster, currency, -sum(gpu_hours), -sum(coalesce(cost, 0))
            from {batch} where state <> 'commitment_unused' group by all)
        where usage_date >= (select min(usage_date) from main.fct_gpu_ledger_hourly)
        group by usage_date, cluster, currency having abs(sum(hours)) > 1e-6 or abs(sum(money)) > 0.000001"""
    return [
        has_columns(
            *("usage_date", "cluster", "gpu_model", "workload_id", "state", "currency", "team", "state_order", "is_ghost"),
            *("gpu_hours", "cost"),
        ),
        *key("usage_date", "cluster", "gpu_model", "workload_id", "state", "currency"),
        not_null("state_order", "is_ghost", "gpu_hours"),
        *finite(table),
        at_least_zero("gpu_hours"),
        references("state", "dim_states"),
        references("workload_id", "dim_workloads"),
        no_rows_where(
            "unused_commitments_have_no_hours",
            "state = 'commitment_unused' and gpu_hours <> 0",
            "Unused commitment is money without hours; with hours, the waterfall is higher than the fleet.",
        ),
        no_rows(
            "steps_add_up_to_the_ledger",
            not_closed,
            "A day's steps do not add up to the ledger's hours and money: build that day again.",
        ),
    ]
