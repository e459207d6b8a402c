"""The energy of the ledger is the energy of the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key, no_rows
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Energy was lost or counted twice between minutes and ledger, so that kWh and energy costs are wrong: "
        "compare int_gpu_minutes_rolled_up with int_device_hours, and build that day again."
    )
    not_audited = """
        select distinct ledger.usage_date, ledger.cluster from main.fct_gpu_ledger_hourly as ledger
        anti join {batch} as audits on ledger.usage_date = audits.usage_date and ledger.cluster = audits.cluster"""
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster"),
        no_rows("every_ledger_day_audited", not_audited, audits.NOT_AUDITED),
    ]
