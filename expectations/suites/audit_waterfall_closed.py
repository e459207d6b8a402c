"""The steps of the waterfall add up to capacity and to its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "A step of the waterfall was lost or counted twice: look for the day's missing state in "
        "mart_ghost_capacity_daily, and build that day again."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster", "currency"),
    ]
