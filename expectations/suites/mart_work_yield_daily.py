"""Useful work per GPU-hour of each service, against the best its model sustains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, one_of, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("usage_date", "workload_id", "model", "gpu_model", "cluster", "held_gpu_hours", "tokens_useful"),
            *("successful_request_count", "useful_tokens_per_gpu_hour", "successful_requests_per_gpu_hour", "work_unit"),
            *("best_hour_count", "best_tokens_per_gpu_hour", "best_requests_per_gpu_hour", "work_yield_ratio"),
        ),
        *key("usage_date", "workload_id", "model", "gpu_model"),
        not_null("cluster", "held_gpu_hours", "work_unit", "best_hour_count"),
        *finite(table),
        at_least_zero("held_gpu_hours", "tokens_useful", "successful_request_count", "best_hour_count", "work_yield_ratio"),
        one_of("work_unit", ("tokens", "requests", "unknown")),
        references("workload_id", "dim_workloads"),
        no_rows_where(
            "a_yield_has_its_best",
            "(work_yield_ratio is null) <> (work_unit = 'unknown') or (work_unit <> 'unknown' and best_hour_count = 0)",
            "A yield is told without hours to stand for the best, or is missing where there are some.",
        ),
    ]
