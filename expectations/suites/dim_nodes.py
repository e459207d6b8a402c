"""Nodes and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, finite, has_columns, key, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *(
                "node_id",
                "cluster",
                "node",
                "provider",
                "provider_resource_id",
                "region",
                "zone",
                "rack",
                "instance_type",
                "is_spot",
            ),
        ),
        *key("node_id"),
        not_null("cluster", "node"),
        references("cluster", "dim_clusters"),
        *finite(table),
    ]
