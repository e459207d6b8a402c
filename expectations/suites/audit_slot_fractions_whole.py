"""The fractions of a device's slots add up to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "A device has slots of more or less than itself, so that its capacity is wrong: look at its partitioning "
        "in dim_gpu_history and in gpu_inventory."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster"),
    ]
