"""Slots that a smaller profile of their card would have carried, and quiet ones that none would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
    Table,
    at_least_zero,
    finite,
    has_columns,
    key,
    no_rows_where,
    not_null,
    one_of,
    ratios,
    references,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

REASONS = (
    *("", "low_coverage", "spans_models", "not_partitionable", "no_smaller_profile", "no_memory_reading", "preallocated"),
    *("memory_in_use", "too_busy"),
)


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("usage_date", "slot_id", "run_id", "cluster", "gpu_id", "gpu_model", "workload_id", "kind", "covered_hours"),
            *("activity_ratio", "activity_p95_ratio", "peak_needed_memory_bytes", "card_memory_bytes", "mig_profile"),
            *("fit_ratio", "null_reason"),
        ),
        *key("usage_date", "slot_id", "run_id"),
        not_null("cluster", "gpu_id", "gpu_model", "workload_id", "kind", "covered_hours", "activity_ratio", "null_reason"),
        *finite(table),
        one_of("null_reason", REASONS),
        ratios("activity_ratio", "activity_p95_ratio", "fit_ratio"),
        at_least_zero("covered_hours", "peak_needed_memory_bytes", "card_memory_bytes"),
        no_rows_where(
            "a_profile_or_a_reason",
            "(null_reason = '') <> (mig_profile is not null) or (null_reason = '') <> (fit_ratio is not null)",
            "A slot is oversized without a profile that fits, or has one and a reason against it: rule 12 contradicts itself.",
        ),
        no_rows_where(
            "the_profile_is_smaller",
            "fit_ratio >= 1 or fit_ratio <= 0 or peak_needed_memory_bytes > card_memory_bytes and null_reason = ''",
            "A profile is no smaller than the slot held, or holds more than its card: slices or memory of the card are wrong.",
        ),
        references("gpu_id", "dim_gpus"),
        references("run_id", "dim_runs"),
        references("workload_id", "dim_workloads"),
    ]
