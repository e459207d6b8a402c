"""Clusters, with the members that stand for none and for an unknown one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns("cluster"),
        *key("cluster"),
        *finite(table),
    ]
