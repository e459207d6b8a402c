"""Stretches in which a card waited for a busier one of its run or service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, ratios, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("slot_id", "run_id", "started_at", "gpu_id", "cluster", "workload_id", "ended_at", "unbalanced_minutes"),
            *("activity_ratio", "sibling_activity_ratio", "sibling_peak_activity_ratio", "unbalanced_gpu_hours"),
        ),
        *key("slot_id", "run_id", "started_at"),
        not_null("gpu_id", "cluster", "workload_id", "ended_at", "activity_ratio", "sibling_activity_ratio"),
        *finite(table),
        ratios("activity_ratio", "sibling_activity_ratio", "sibling_peak_activity_ratio"),
        at_least_zero("unbalanced_gpu_hours"),
        no_rows_where(
            "as_many_minutes_as_the_span",
            "unbalanced_minutes <> datediff('minute', started_at, ended_at)",
            "A span has more or fewer minutes than there are from its start to its end: stitching is wrong.",
        ),
        no_rows_where(
            "a_sibling_was_busier",
            "sibling_activity_ratio <= activity_ratio",
            "A card waited for one that did no more than itself: rule 7 compared the wrong cards.",
        ),
        no_rows_where(
            "no_more_than_the_span",
            "unbalanced_gpu_hours > unbalanced_minutes / 60.0 + 1e-6",
            "More time was lost than the span is long: a hold was counted twice.",
        ),
        references("gpu_id", "dim_gpus"),
        references("run_id", "dim_runs"),
        references("workload_id", "dim_workloads"),
    ]
