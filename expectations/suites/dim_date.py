"""The one calendar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, has_rows, key

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns("usage_date"),
        *key("usage_date"),
        has_rows("The calendar is empty, so that every join with it loses its rows."),
        *finite(table),
    ]
