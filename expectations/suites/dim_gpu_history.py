"""Where each device was, and how it was cut, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, no_rows, no_rows_where

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns("gpu_id", "valid_from_at", "valid_to_at"),
        *key("gpu_id", "valid_from_at"),
        no_rows_where("valid_for_some_time", "valid_to_at <= valid_from_at", "A stretch of a device ends before it starts."),
        no_rows(
            "one_place_at_a_time",
            """
            select gpu_id from (
                select gpu_id, valid_to_at, lead(valid_from_at) over (partition by gpu_id order by valid_from_at) as next_from_at
                from {batch})
            where valid_to_at > next_from_at or (valid_to_at is null and next_from_at is not null)""",
            "A device is in two places at once, so that a join by time doubles its hours.",
        ),
        *finite(table),
    ]
