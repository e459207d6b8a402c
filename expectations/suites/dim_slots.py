"""What a scheduler hands out: whole devices and MIG instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.rules import Table, between, finite, has_columns, key, not_null, references

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns("slot_id", "gpu_id", "mig_profile", "slot_fraction"),
        *key("slot_id"),
        not_null("gpu_id", "slot_fraction"),
        between("slot_fraction", 0, 1),
        references("gpu_id", "dim_gpus"),
        *finite(table),
    ]
