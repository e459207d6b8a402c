"""Unbroken stretches in which a held slot did nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("slot_id", "run_id", "started_at", "gpu_id", "cluster", "workload_id", "ended_at", "idle_minutes"),
            *("memory_held_bytes", "cost", "currency"),
        ),
        *key("slot_id", "run_id", "started_at"),
        not_null("gpu_id", "cluster", "workload_id", "ended_at", "idle_minutes", "currency"),
        *finite(table),
        at_least_zero("idle_minutes", "memory_held_bytes"),
        no_rows_where("ends_after_its_start", "ended_at <= started_at", "A span ends before it starts: stitching is wrong."),
        no_rows_where(
            "minutes_fit_into_the_span",
            "idle_minutes > datediff('minute', date_trunc('minute', started_at), ended_at) + 1",
            "A span has more idle minutes than minutes: hours were stitched twice.",
        ),
        references("gpu_id", "dim_gpus"),
        references("run_id", "dim_runs"),
        references("workload_id", "dim_workloads"),
    ]
