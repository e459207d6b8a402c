"""Every mart tells of the hours of the ledger, to the microsecond."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key, no_rows
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "A mart tells other hours than the ledger: table_name and measure say which; build that day again, and if "
        "it stays, look at the sums of that mart."
    )
    not_audited = """
        select distinct ledger.usage_date, ledger.cluster from main.fct_gpu_ledger_hourly as ledger
        anti join {batch} as audits on ledger.usage_date = audits.usage_date and ledger.cluster = audits.cluster"""
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "cluster", "table_name", "measure"),
        no_rows("every_ledger_day_audited", not_audited, audits.NOT_AUDITED),
    ]
