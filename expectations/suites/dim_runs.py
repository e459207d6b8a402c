"""Runs: one attempt of a job, or one pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("run_id", "cluster", "job_id", "workload_id", "name", "state", "submitted_at", "started_at", "ended_at"),
            *("gpu_count", "held_gpu_hours", "suspended_gpu_hours", "assignment_method", "is_provisional", "flags"),
        ),
        *key("run_id"),
        not_null("cluster", "workload_id"),
        at_least_zero("gpu_count", "held_gpu_hours", "suspended_gpu_hours"),
        references("cluster", "dim_clusters"),
        references("workload_id", "dim_workloads"),
        no_rows_where(
            "ends_after_its_start",
            "ended_at < started_at",
            "A run ends before it starts: look at the source's time zone.",
        ),
        *finite(table),
    ]
