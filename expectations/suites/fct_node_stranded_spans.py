"""Stretches in which a node's free GPUs could be given to no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import (
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


def expectations(table: Table) -> list[Expectation]:
    more_than_the_ledger = """
        select spans.usage_date, spans.cluster, spans.node, spans.gpu_hours, ledger.gpu_hours as ledger_gpu_hours
        from (select usage_date, cluster, node, sum(gpu_hours) as gpu_hours from {batch} group by all) as spans
        left join (
            select usage_date, cluster, node, sum(gpu_hours) as gpu_hours from main.fct_gpu_ledger_hourly
            where state = 'unallocated' and state_reason = 'stranded' group by all) as ledger
            using (usage_date, cluster, node)
        where spans.usage_date >= (select min(usage_date) from main.fct_gpu_ledger_hourly)
            and spans.gpu_hours > coalesce(ledger.gpu_hours, 0) + 1e-6"""
    return [
        has_columns(
            *("usage_date", "cluster", "node_id", "node", "started_at", "ended_at", "lacking", "free_cpu_count"),
            *("free_memory_bytes", "usual_cpu_count", "usual_memory_bytes", "gpu_hours"),
        ),
        *key("node_id", "started_at"),
        not_null("usage_date", "cluster", "node", "ended_at", "lacking", "gpu_hours"),
        *finite(table),
        at_least_zero("usual_cpu_count", "usual_memory_bytes", "gpu_hours"),
        one_of("lacking", ("cpu", "memory", "cpu_and_memory", "cpu_or_memory")),
        references("node_id", "dim_nodes"),
        no_rows_where("ends_after_its_start", "ended_at <= started_at", "A stretch ends before it starts."),
        no_rows(
            "is_stranded_in_the_ledger",
            more_than_the_ledger,
            "More GPU time is explained as stranded than the ledger holds: the two were not built together; build the day again.",
        ),
    ]
