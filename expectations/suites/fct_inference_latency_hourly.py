"""How many requests each service answered within which time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows, no_rows_where, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    overlapping = """
        select 1 as broken
        from (
            select
                above_seconds,
                lag(le_seconds) over (partition by hour_start_at, workload_id, model order by le_seconds) as below_seconds
            from {batch}) as buckets
        where above_seconds is distinct from coalesce(below_seconds, 0)"""
    bounded = {name: kind for name, kind in table.columns.items() if name != "le_seconds"}
    return [
        has_columns("hour_start_at", "workload_id", "model", "le_seconds", "request_count"),
        *key("hour_start_at", "workload_id", "model", "le_seconds"),
        # the last bucket's upper boundary is infinite; nothing else is
        *finite(Table(table.name, bounded)),
        at_least_zero("request_count", "above_seconds"),
        references("workload_id", "dim_workloads"),
        references("model", "dim_models"),
        no_rows_where(
            "boundary_is_a_number",
            "isnan(le_seconds) or le_seconds < above_seconds",
            "A bucket ends below its beginning, or nowhere: percentiles read from it are wrong; look at the landed histogram.",
        ),
        no_rows(
            "buckets_follow_each_other",
            overlapping,
            "Two buckets of one hour overlap or leave a hole, so that percentiles come out wrong: look at how they are merged.",
        ),
    ]
