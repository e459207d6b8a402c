"""Fully loaded cost is all the money there is, and the three bases are in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Money was lost or counted twice between the bases of cost, or a basis is below a smaller one: compare "
        "mart_workload_gpu_hours_daily with the ledger of that day."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "currency"),
    ]
