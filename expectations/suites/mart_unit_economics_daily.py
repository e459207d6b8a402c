"""What a token and a request cost, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("usage_date", "workload_id", "model", "currency", "request_count", "failed_request_count", "prompt_tokens"),
            *("cached_prompt_tokens", "output_tokens", "held_gpu_hours", "priced_gpu_hours", "allocation_cost", "usage_cost"),
            *("fully_loaded_cost", "cost_per_million_tokens", "cost_per_million_input_tokens", "cost_per_million_output_tokens"),
            *("cost_per_request", "cost_per_thousand_requests", "tokens_per_gpu_hour", "requests_per_gpu_hour"),
            *("latency_p50_seconds", "latency_p95_seconds", "latency_p99_seconds", "token_cost_method", "null_reason"),
        ),
        *key("usage_date", "workload_id", "model", "currency"),
        *finite(table),
        at_least_zero(
            "request_count",
            "failed_request_count",
            "prompt_tokens",
            "cached_prompt_tokens",
            "output_tokens",
            "held_gpu_hours",
            "priced_gpu_hours",
            "tokens_per_gpu_hour",
            "requests_per_gpu_hour",
            "latency_p50_seconds",
            "latency_p95_seconds",
            "latency_p99_seconds",
        ),
        not_null("held_gpu_hours"),
        references("workload_id", "dim_workloads"),
        references("model", "dim_models"),
        no_rows_where(
            "percentiles_are_in_order",
            "latency_p50_seconds > latency_p95_seconds + 1e-9 or latency_p95_seconds > latency_p99_seconds + 1e-9",
            "A higher percentile of latency is below a lower one: histograms with different buckets were mixed.",
        ),
        no_rows_where(
            "priced_hours_are_held_hours",
            "priced_gpu_hours > held_gpu_hours + 1e-6",
            "More hours are priced than held, so that unit costs come out too low.",
        ),
        no_rows_where(
            "missing_unit_cost_has_a_reason",
            "cost_per_million_tokens is null and coalesce(null_reason, '') = ''",
            "A unit cost is missing and nothing says why: null needs its reason.",
        ),
        no_rows_where(
            "no_unit_cost_without_tokens",
            "cost_per_million_tokens is not null and coalesce(prompt_tokens, 0) + coalesce(output_tokens, 0) = 0",
            "A token has a price on a day without tokens: the ratio has nothing below its line.",
        ),
    ]
