"""The models of a workload add up to what it held, cost and served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "A cost per token rests on hours, money or tokens that are not there: compare mart_unit_economics_daily "
        "with mart_workload_gpu_hours_daily and fct_inference_hourly of that day."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "measure"),
    ]
