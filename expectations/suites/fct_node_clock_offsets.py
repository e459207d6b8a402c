"""How far the clocks of nodes were from the schedulers', day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import WARNING, Table, finite, has_columns, key, no_rows_where, not_null, one_of, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("usage_date", "cluster", "node", "source", "evidence", "edge_count", "agreeing_count", "offset_seconds"),
            *("is_skewed", "corrected_minutes"),
        ),
        *key("usage_date", "cluster", "node", "source", "evidence"),
        not_null("edge_count", "agreeing_count", "is_skewed", "corrected_minutes"),
        *finite(table),
        one_of("evidence", ("activity", "processes")),
        references("cluster", "dim_clusters"),
        no_rows_where(
            "only_skewed_clocks_are_corrected",
            "corrected_minutes <> 0 and not (is_skewed and abs(corrected_minutes * 60 - offset_seconds) <= 31)",
            "Samples were moved by something else than what the edges of runs say: the estimate of the clock is wrong.",
        ),
        no_rows_where(
            "clocks_agree",
            "is_skewed",
            "A node's clock was more than half a minute off the scheduler's: set up time synchronisation (chrony) there. Samples"
            " of a node that is named with corrected_minutes were moved by that much.",
            WARNING,
        ),
    ]
