"""Devices, each once, by UUID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, at_least_zero, finite, has_columns, key, no_rows_where, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("gpu_id", "cluster", "node", "node_id", "gpu_model", "memory_bytes", "pci_bus_id", "first_seen_at", "last_seen_at"),
            *("slot_count",),
        ),
        *key("gpu_id"),
        not_null("cluster", "node", "node_id", "gpu_model"),
        at_least_zero("memory_bytes", "slot_count"),
        references("cluster", "dim_clusters"),
        references("node_id", "dim_nodes"),
        no_rows_where(
            "seen_first_before_last",
            "first_seen_at > last_seen_at",
            "A device was last seen before it was first seen.",
        ),
        *finite(table),
    ]
