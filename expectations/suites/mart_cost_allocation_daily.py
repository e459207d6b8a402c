"""What every team, application and model is charged, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
    WARNING,
    Table,
    at_least_zero,
    finite,
    has_columns,
    key,
    no_rows,
    no_rows_where,
    not_null,
    one_of,
    references,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

LINES = ("held", "unallocated", "borrowed", "out_of_service", "commitment_unused", "non_time", "billed_without_telemetry")


def expectations(table: Table) -> list[Expectation]:
    ledger = """
        select coalesce(own.usage_date, ledger.usage_date) as usage_date, coalesce(own.currency, ledger.currency) as currency
        from (
            select usage_date, currency, sum(cost) as cost, sum(gpu_hours) as gpu_hours from {batch} as lines
            where cost_line not in ('commitment_unused', 'non_time', 'billed_without_telemetry') group by all
        ) as own
        full outer join (
            select usage_date, currency, sum(cost) as cost, sum(gpu_hours) as gpu_hours
            from main.fct_gpu_ledger_hourly group by all
        ) as ledger
        on own.usage_date = ledger.usage_date and own.currency = ledger.currency
        where coalesce(own.cost, 0) <> coalesce(ledger.cost, 0)
            or abs(coalesce(own.gpu_hours, 0) - coalesce(ledger.gpu_hours, 0)) > 1e-6"""
    workloads = """
        select coalesce(own.usage_date, mart.usage_date) as usage_date, coalesce(own.workload_id, mart.workload_id) as workload_id
        from (
            select usage_date, workload_id, currency, sum(allocation_cost) as allocation_cost, sum(usage_cost) as usage_cost,
                sum(fully_loaded_cost) as fully_loaded_cost
            from {batch} as lines group by all
        ) as own
        full outer join main.mart_workload_gpu_hours_daily as mart
        on own.usage_date = mart.usage_date and own.workload_id = mart.workload_id and own.currency = mart.currency
        where coalesce(own.allocation_cost, 0) <> coalesce(mart.allocation_cost, 0)
            or coalesce(own.usage_cost, 0) <> coalesce(mart.usage_cost, 0)
            or coalesce(own.fully_loaded_cost, 0) <> coalesce(mart.fully_loaded_cost, 0)"""
    bill = """
        select coalesce(own.usage_date, bill.usage_date) as usage_date, coalesce(own.currency, bill.currency) as currency
        from (
            select usage_date, currency, sum(cost) as cost from {batch} as lines
            where cost_line in ('commitment_unused', 'non_time', 'billed_without_telemetry') group by all
        ) as own
        full outer join (
            select usage_date, currency, sum(non_time_cost + billed_without_telemetry_cost) as cost
            from main.mart_cost_reconciliation_daily group by all
        ) as bill
        on own.usage_date = bill.usage_date and own.currency = bill.currency
        where abs(coalesce(own.cost, 0) - coalesce(bill.cost, 0)) > 0.01"""
    without_rate = """
        select currency, min(usage_date) as first_day, max(usage_date) as last_day
        from {batch}
        where currency <> 'unknown' and cost <> 0 and cost_reporting is null
            and exists (select 1 from main.int_exchange_rates)
        group by currency order by currency nulls last"""
    return [
        has_columns(
            *("usage_date", "cost_line", "cluster", "team", "application", "model", "workload_id", "currency", "gpu_hours"),
            *("held_gpu_hours", "priced_gpu_hours", "cost", "allocation_cost", "usage_cost", "fully_loaded_cost"),
            *("billing_cost_ratio", "rate_card_cost_ratio", "estimate_cost_ratio", "estimate_cost"),
        ),
        *key("usage_date", "cost_line", "cluster", "team", "application", "model", "workload_id", "currency"),
        *finite(table),
        one_of("cost_line", LINES),
        at_least_zero("gpu_hours", "held_gpu_hours", "priced_gpu_hours"),
        not_null("gpu_hours", "held_gpu_hours", "priced_gpu_hours"),
        references("workload_id", "dim_workloads"),
        no_rows_where(
            "unpriced_lines_have_no_cost",
            "(currency = 'unknown') <> (cost is null)",
            "A line without a price has a cost, or one with a price has none: no rate is ever invented.",
        ),
        no_rows(
            "lines_add_up_to_the_ledger",
            ledger,
            "The lines of a day do not add up to the ledger's money and hours: somebody is charged too much or too little.",
        ),
        no_rows(
            "bases_are_those_of_the_workloads",
            workloads,
            "A workload's lines do not add up to its cost on one of the three bases: the split by model or consumer loses money.",
        ),
        no_rows(
            "lines_add_up_to_the_bill",
            bill,
            "Lines without time differ from the bill by more than 0.01: money of the bill is in no line, or in two.",
        ),
        no_rows(
            "currencies_have_rates",
            without_rate,
            "Money in that currency has no exchange rate for its day and is missing from every column named `…_reporting`: add a "
            "line to config/exchange_rates.csv that is valid from that day or before, and build again.",
            WARNING,
        ),
    ]
