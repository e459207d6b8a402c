"""Requests and tokens are those landed by the source chosen, and no landed row is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, key
from expectations.suites import audits

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    failure = (
        "Requests or tokens were lost or counted twice, so that costs per token are wrong: compare inference_usage "
        "or inference_requests of that day with fct_inference_hourly."
    )
    return [
        *audits.expectations(table, failure),
        *key("usage_date", "token_source", "measure"),
    ]
