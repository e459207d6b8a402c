"""The invoices by billing period, beside the unit costs that corrections restate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, no_rows

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    not_whole = """
        select currency from (
            select billing_currency as currency, sum(cast(billed_cost as decimal(38, 6))) as cost, count(*) as lines
            from main.fct_billing_lines group by all
            union all
            select currency, -sum(invoiced_cost), 0 from {batch} group by all)
        group by currency having abs(sum(cost)) > 0.01 + 0.000001 * sum(lines)"""
    return [
        has_columns("billing_period_start", "provider_name", "billing_account_id", "currency", "invoiced_cost", "billed_cost"),
        *key("billing_period_start", "provider_name", "billing_account_id", "currency"),
        *finite(table),
        no_rows(
            "every_line_is_on_an_invoice",
            not_whole,
            "The invoices do not add up to the lines of the bills: a billing period is lost or counted twice.",
        ),
    ]
