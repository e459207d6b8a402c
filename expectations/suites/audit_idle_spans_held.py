"""Every minute of an idle span was held by its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "An idle span lies outside what its run held, so that somebody is charged for idleness that was not "
        "theirs: compare fct_gpu_idle_spans with the ledger, and build that day again."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster"),
    ]
