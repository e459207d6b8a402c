"""What the tokens of LoRA adapters cost, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows, no_rows_where, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    models = """
        select own.usage_date, own.workload_id, own.model
        from (
            select usage_date, workload_id, model, currency, sum(held_gpu_hours) as held_gpu_hours,
                sum(allocation_cost) as allocation_cost, sum(fully_loaded_cost) as fully_loaded_cost,
                sum(request_count) as request_count, sum(prompt_tokens) as prompt_tokens, sum(output_tokens) as output_tokens
            from {batch} as adapters group by all
        ) as own
        left join main.mart_unit_economics_daily as mart
        on own.usage_date = mart.usage_date and own.workload_id = mart.workload_id and own.model = mart.model
            and own.currency = mart.currency
        where abs(own.held_gpu_hours - coalesce(mart.held_gpu_hours, 0)) > 1e-6
            or coalesce(own.allocation_cost, 0) <> coalesce(mart.allocation_cost, 0)
            or coalesce(own.fully_loaded_cost, 0) <> coalesce(mart.fully_loaded_cost, 0)
            or coalesce(own.request_count, 0) <> coalesce(mart.request_count, 0)
            or coalesce(own.prompt_tokens, 0) <> coalesce(mart.prompt_tokens, 0)
            or coalesce(own.output_tokens, 0) <> coalesce(mart.output_tokens, 0)"""
    return [
        has_columns(
            *("usage_date", "workload_id", "model", "adapter", "currency", "request_count", "prompt_tokens", "output_tokens"),
            *("tokens_all", "held_gpu_hours", "allocation_cost", "usage_cost", "fully_loaded_cost", "cost_per_million_tokens"),
            *("cost_per_thousand_requests", "tokens_per_gpu_hour", "null_reason"),
        ),
        *key("usage_date", "workload_id", "model", "adapter", "currency"),
        *finite(table),
        at_least_zero("request_count", "prompt_tokens", "output_tokens", "tokens_all", "held_gpu_hours"),
        references("workload_id", "dim_workloads"),
        references("model", "dim_models"),
        no_rows(
            "adapters_add_up_to_their_model",
            models,
            "The adapters of a model do not add up to what the model held, cost or served: time, money or tokens are lost.",
        ),
        no_rows_where(
            "missing_unit_cost_has_a_reason",
            "cost_per_million_tokens is null and coalesce(null_reason, '') = ''",
            "A unit cost is missing and nothing says why: null needs its reason.",
        ),
    ]
