"""Idle hours of each GPU, by day, at several thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, between, finite, has_columns, key, no_rows_where, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("usage_date", "gpu_id", "currency", "cluster", "node", "held_hours", "idle_hours", "idle_hours_at_0pct"),
            *("idle_hours_at_10pct", "idle_hours_at_25pct", "longest_idle_minutes", "idle_cost"),
        ),
        *key("usage_date", "gpu_id", "currency"),
        not_null("cluster", "node"),
        *finite(table),
        between(("held_hours", "idle_hours", "idle_hours_at_0pct", "idle_hours_at_10pct", "idle_hours_at_25pct"), 0, 24),
        between("longest_idle_minutes", 0),
        references("gpu_id", "dim_gpus"),
        no_rows_where(
            "higher_thresholds_find_more",
            "idle_hours_at_0pct > idle_hours_at_10pct + 1e-6 or idle_hours_at_10pct > idle_hours_at_25pct + 1e-6",
            "A higher threshold finds less idle time than a lower one: the thresholds do not look at the same samples.",
        ),
        no_rows_where(
            "idle_hours_are_held_hours",
            "greatest(idle_hours, idle_hours_at_25pct) > held_hours + 1e-6",
            "A GPU was idle for longer than it was held: idle time of free hours got in.",
        ),
    ]
