"""What recurs: services, training series, notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, not_null, one_of, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


KINDS = ("inference", "training", "batch", "interactive", "unknown")


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("workload_id", "cluster", "namespace", "workload", "application", "team", "model", "kind"),
            *("latency_target_p95_seconds",),
        ),
        *key("workload_id"),
        not_null("cluster", "workload", "kind"),
        one_of("kind", KINDS),
        references("cluster", "dim_clusters"),
        *finite(table),
    ]
