"""Who waited for GPUs while GPUs were free, by hour and queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, between, finite, has_columns, key, no_rows_where, not_null, sums_to

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    reasons = (
        *("free_gpu_hours", "stranded_gpu_hours", "draining_gpu_hours", "reserved_empty_gpu_hours"),
        "unrequested_share_gpu_hours",
    )
    return [
        has_columns(
            *("hour_start_at", "cluster", "queue", "known_hours", "waiting_run_count", "waiting_gpu_hours"),
            *("waiting_gpu_count_mean", "waiting_gpu_count_max", "started_run_count", "wait_p50_seconds", "wait_p95_seconds"),
            *("capacity_gpu_hours", "out_of_service_gpu_hours", "unallocated_gpu_hours", "unallocated_gpu_count_mean", *reasons),
        ),
        *key("hour_start_at", "cluster", "queue"),
        not_null("usage_date", "known_hours", "waiting_run_count", "waiting_gpu_hours", "started_run_count", *reasons),
        *finite(table),
        between("known_hours", 0, 1),
        at_least_zero(
            *("waiting_run_count", "waiting_gpu_hours", "waiting_gpu_count_max", "started_run_count"),
            *("wait_p50_seconds", "wait_p95_seconds", "out_of_service_gpu_hours", *reasons),
        ),
        sums_to("unallocated_gpu_hours", *reasons),
        no_rows_where(
            "unallocated_is_part_of_capacity",
            "unallocated_gpu_hours + out_of_service_gpu_hours > capacity_gpu_hours + 1e-6",
            "More GPUs were free or out of service than a queue's nodes have: a node was counted twice.",
        ),
        no_rows_where(
            "a_mean_is_not_above_the_most",
            "waiting_gpu_count_mean > waiting_gpu_count_max + 1e-6",
            "On average more GPUs were waited for than at any time: waits reach beyond what is known of the hour.",
        ),
        no_rows_where(
            "waits_are_of_runs_that_began",
            "(wait_p50_seconds is null) <> (started_run_count = 0) or wait_p50_seconds > wait_p95_seconds + 1e-6",
            "Percentiles of waiting are not those of the runs that began in the hour.",
        ),
    ]
