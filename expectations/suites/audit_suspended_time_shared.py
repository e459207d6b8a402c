"""Suspended time is in the held time, spread evenly over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key, no_rows
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Suspended time was lost or taken from another run: compare suspended_seconds of the run with its rows of "
        "the ledger, and build that day again."
    )
    not_audited = """
        select distinct ledger.usage_date, ledger.cluster from main.fct_gpu_ledger_hourly as ledger
        anti join {batch} as audits on ledger.usage_date = audits.usage_date and ledger.cluster = audits.cluster
        where ledger.run_id <> 'unallocated'"""
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster"),
        no_rows("every_ledger_day_audited", not_audited, audits.NOT_AUDITED),
    ]
