"""Every landed reading is in one minute, or repeats one that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Samples were lost or counted twice on the way to minutes, so that coverage and activity are wrong: build "
        "that day again, in full if need be."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster"),
    ]
