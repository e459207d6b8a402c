"""The money of a device-hour is the money of its rows in the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Money was lost or counted twice when device-hours were shared out: compare int_device_hour_costs with the "
        "ledger, and build that day again."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster", "currency"),
    ]
