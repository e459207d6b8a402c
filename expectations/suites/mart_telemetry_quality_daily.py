"""What the samples of each device are worth, day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
    WARNING,
    Table,
    at_least_zero,
    finite,
    has_columns,
    key,
    no_rows_where,
    not_null,
    references,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("usage_date", "cluster", "node", "gpu_id", "reading_count", "repeat_count", "covered_hours"),
            *("energy_kwh", "energy_difference_ratio", "clock_offset_seconds", "flags"),
        ),
        *key("usage_date", "cluster", "node", "gpu_id"),
        not_null("reading_count", "covered_hours", "flags"),
        *finite(table),
        at_least_zero("reading_count", "repeat_count", "covered_hours", "energy_kwh"),
        references("cluster", "dim_clusters"),
        no_rows_where(
            "energy_and_power_agree",
            "flags like '%energy_disagrees%'",
            "A card's energy counter and its power readings are more than a fifth apart over a day. The counter is used; power"
            " that is a trailing average, or a counter that is another card's, may be why.",
            WARNING,
        ),
    ]
