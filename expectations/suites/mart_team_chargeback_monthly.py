"""What each team is charged, by month."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows, no_rows_where, not_null, one_of
from expectations.suites.mart_cost_allocation_daily import LINES

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    days = """
        select coalesce(own.month_start_date, days.month_start_date) as month_start_date
        from (select month_start_date, currency, sum(cost) as cost from {batch} as months group by all) as own
        full outer join (
            select cast(date_trunc('month', usage_date) as date) as month_start_date, currency, sum(cost) as cost
            from main.mart_cost_allocation_daily group by all
        ) as days
        on own.month_start_date = days.month_start_date and own.currency = days.currency
        where coalesce(own.cost, 0) <> coalesce(days.cost, 0)"""
    return [
        has_columns(
            *("month_start_date", "team", "cost_line", "currency", "gpu_hours", "held_gpu_hours", "priced_gpu_hours", "cost"),
            *("allocation_cost", "usage_cost", "fully_loaded_cost", "estimate_cost", "is_closed"),
        ),
        *key("month_start_date", "team", "cost_line", "currency"),
        *finite(table),
        one_of("cost_line", LINES),
        at_least_zero("gpu_hours", "held_gpu_hours", "priced_gpu_hours"),
        not_null("is_closed"),
        no_rows_where(
            "a_closed_month_has_no_estimate",
            "is_closed and (cost is null or estimate_cost <> 0)",
            "A month is called closed while part of it is an estimate or has no price.",
        ),
        no_rows(
            "months_add_up_to_days",
            days,
            "A month's charges do not add up to its days: compare with mart_cost_allocation_daily.",
        ),
    ]
