"""The ledger's money against the bill, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import WARNING, Table, finite, has_columns, key, no_rows, no_rows_where, not_null

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    without_telemetry = """
        select provider_name, billing_account_id, currency from {batch} where is_closed
        group by provider_name, billing_account_id, currency
        having abs(sum(billed_without_telemetry_cost)) > 0.05 * abs(sum(effective_cost))"""
    return [
        has_columns(
            *("usage_date", "provider_name", "billing_account_id", "currency", "billed_cost", "effective_cost", "ledger_cost"),
            *("non_time_cost", "billed_without_telemetry_cost", "out_of_scope_cost", "difference", "is_closed"),
        ),
        *key("usage_date", "provider_name", "billing_account_id", "currency"),
        not_null("difference", "is_closed"),
        *finite(table),
        no_rows_where(
            "closed_days_reconcile",
            "is_closed and not (abs(difference) <= 0.01)",
            "A closed day of the bill and the ledger differ by more than 0.01: money was lost or counted twice.",
        ),
        no_rows(
            "billed_devices_are_known",
            without_telemetry,
            "More than 5 % of a bill is for devices that no collector has seen: compare its resource ids with gpu_inventory.",
            WARNING,
        ),
    ]
