"""GPU models, with the public facts of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns("gpu_model", "memory_bytes"),
        *key("gpu_model"),
        at_least_zero("memory_bytes"),
        *finite(table),
    ]
