"""What each service served, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, ratios, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("hour_start_at", "workload_id", "model", "cluster", "request_count", "failed_request_count", "prompt_tokens"),
            *("cached_prompt_tokens", "output_tokens", "running_requests_mean", "waiting_requests_mean", "waiting_requests_max"),
            *("kv_cache_usage_max", "replica_count", "token_source"),
        ),
        *key("hour_start_at", "workload_id", "model"),
        not_null("cluster"),
        *finite(table),
        at_least_zero(
            "request_count",
            "failed_request_count",
            "prompt_tokens",
            "cached_prompt_tokens",
            "output_tokens",
            "running_requests_mean",
            "waiting_requests_mean",
            "waiting_requests_max",
            "replica_count",
        ),
        ratios("kv_cache_usage_max"),
        references("workload_id", "dim_workloads"),
        references("model", "dim_models"),
        no_rows_where(
            "mean_waiting_at_most_its_maximum",
            "waiting_requests_mean > waiting_requests_max + 1e-6",
            "More requests wait in the mean than at most: the hour mixes rows of different servers.",
        ),
    ]
