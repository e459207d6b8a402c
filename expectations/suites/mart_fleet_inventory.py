"""The fleet as it is now, one row per device."""

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
    ratios,
    references,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

STATES = ("in_service", "draining", "drained", "reserved", "down", "maintenance", "lost", "not_seen")


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("gpu_id", "cluster", "node", "as_of_at", "gpu_model", "memory_bytes", "pci_bus_id", "rack", "region", "zone"),
            *("slot_count", "mig_profiles", "service_state", "run_ids", "workload_ids", "teams", "last_seen_at"),
            *("driver_version", "activity_1d_ratio", "activity_7d_ratio", "coverage_1d_ratio", "coverage_7d_ratio"),
            *("ghost_7d_gpu_hours", "last_7d_cost", "cost_per_gpu_hour", "currency", "cost_source"),
        ),
        *key("gpu_id"),
        not_null("cluster", "node", "as_of_at", "service_state", "currency", "cost_source"),
        *finite(table),
        at_least_zero("memory_bytes", "slot_count", "capacity_7d_gpu_hours", "ghost_7d_gpu_hours"),
        ratios("held_ratio", "activity_1d_ratio", "coverage_1d_ratio", "activity_7d_ratio", "coverage_7d_ratio"),
        one_of("service_state", STATES),
        references("gpu_id", "dim_gpus"),
        references("node_id", "dim_nodes"),
        no_rows(
            "every_device_is_there",
            "select gpu_id from main.dim_gpus where gpu_id not in (select gpu_id from {batch})",
            "A device that is known is not in the inventory: a join lost it.",
        ),
        no_rows_where(
            "a_holder_holds_a_part",
            "(run_ids = '') <> (held_ratio = 0)",
            "A device is held by nobody, or by somebody who holds none of it.",
        ),
        no_rows_where(
            "ghost_time_is_part_of_capacity",
            "ghost_7d_gpu_hours > capacity_7d_gpu_hours + 1e-6 or capacity_7d_gpu_hours > 168 + 1e-6",
            "A device has more ghost time than time, or more time than 7 days.",
        ),
    ]
