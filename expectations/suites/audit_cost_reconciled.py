"""Every unit of money on a bill in scope is in exactly one line, on every day whose bill is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key, no_rows
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    not_audited = """
        select closed.usage_date, closed.provider_name from main.mart_cost_reconciliation_daily as closed
        anti join {batch} as audits
            on closed.usage_date = audits.usage_date and closed.provider_name = audits.provider_name
                and closed.billing_account_id = audits.billing_account_id and closed.currency = audits.currency
        where closed.is_closed"""
    failure = "A closed day of a bill was not audited, so that nobody knows whether its money is whole: build it again."
    return [
        *audits.expectations(table),
        *key("usage_date", "provider_name", "billing_account_id", "currency"),
        no_rows("every_closed_day_audited", not_audited, failure),
    ]
