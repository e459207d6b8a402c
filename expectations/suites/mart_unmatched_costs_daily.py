"""Lines of bills without devices, and devices without a price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, no_rows, no_rows_where

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    not_all_named = """
        select days.usage_date, days.provider_name, days.billing_account_id, days.currency
        from main.mart_cost_reconciliation_daily as days
        left join (
            select usage_date, provider_name, billing_account_id, currency, sum(cost) as cost, count(*) as lines
            from {batch} where mismatch = 'billed_without_telemetry' group by all
        ) as named using (usage_date, provider_name, billing_account_id, currency)
        where abs(days.billed_without_telemetry_cost - coalesce(named.cost, 0)) > 0.01 + 0.000001 * coalesce(named.lines, 0)"""
    return [
        has_columns("usage_date", "mismatch", "line_id", "gpu_id", "resource_id", "currency", "gpu_hours", "cost"),
        *key("usage_date", "mismatch", "line_id", "cluster", "gpu_id"),
        *finite(table),
        no_rows_where(
            "lines_have_money_and_devices_hours",
            "(mismatch = 'billed_without_telemetry' and cost is null) or (mismatch = 'unpriced' and not gpu_hours > 0)",
            "A mismatch says neither what it cost nor how long it ran: the list cannot be added up.",
        ),
        no_rows(
            "every_line_without_telemetry_named",
            not_all_named,
            "The lines listed as billed without telemetry are not what the reconciliation counts as such: a line is missing.",
        ),
    ]
