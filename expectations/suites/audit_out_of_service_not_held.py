"""Time out of service is not held, whatever the scheduler says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key, no_rows
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Time in which a node was down or a device lost is held by a run or missing: compare node_states and "
        "int_gpu_state_spans with the ledger, and build that day again."
    )
    not_audited = """
        select distinct ledger.usage_date, ledger.cluster from main.fct_gpu_ledger_hourly as ledger
        anti join {batch} as audits on ledger.usage_date = audits.usage_date and ledger.cluster = audits.cluster"""
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster"),
        no_rows("every_ledger_day_audited", not_audited, audits.NOT_AUDITED),
    ]
