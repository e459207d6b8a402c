"""The inputs of the marts as their upstream models give them: columns and types, and rows with the usual values."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.unit.dbt.harness import Harness, Row

HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000
MIDNIGHT = datetime(2026, 11, 2)

SHAPES: dict[str, dict[str, str]] = {
    "fct_gpu_ledger_hourly": {
        "hour_start_at": "timestamp",
        "slot_id": "varchar",
        "run_id": "varchar",
        "state": "varchar",
        "state_reason": "varchar",
        "signal_source": "varchar",
        "cost_source": "varchar",
        "currency": "varchar",
        "usage_date": "date",
        "cluster": "varchar",
        "node": "varchar",
        "gpu_id": "varchar",
        "gpu_model": "varchar",
        "workload_id": "varchar",
        "is_ghost": "boolean",
        "gpu_microseconds": "bigint",
        "gpu_hours": "double",
        "energy_kwh": "double",
        "cost": "decimal(18,6)",
    },
    "int_gpu_ledger_hours": {"usage_date": "date", "cluster": "varchar", "state": "varchar", "gpu_microseconds": "bigint"},
    "int_commitment_unused_hours": {
        "hour_start_at": "timestamp",
        "usage_date": "date",
        "provider_name": "varchar",
        "currency": "varchar",
        "cost": "decimal(18,6)",
    },
    "int_goodput_hours": {
        "usage_date": "date",
        "cluster": "varchar",
        "gpu_model": "varchar",
        "workload_id": "varchar",
        "currency": "varchar",
        "held_us": "bigint",
        "goodput_us": "bigint",
    },
    "int_model_work_hourly": {
        "usage_date": "date",
        "cluster": "varchar",
        "gpu_model": "varchar",
        "currency": "varchar",
        "tokens_useful": "double",
        "successful_request_count": "double",
    },
    "int_exchange_rates": {
        "currency": "varchar",
        "reporting_currency": "varchar",
        "rate": "double",
        "valid_from_at": "timestamp",
        "valid_to_at": "timestamp",
    },
    "int_ledger_cost_bases_hourly": {
        "hour_start_at": "timestamp",
        "usage_date": "date",
        "cluster": "varchar",
        "gpu_model": "varchar",
        "workload_id": "varchar",
        "currency": "varchar",
        "allocation_cost": "decimal(18,6)",
        "usage_cost": "decimal(18,6)",
        "fully_loaded_cost": "decimal(18,6)",
    },
    "int_runs": {"run_id": "varchar", "end_kind": "varchar"},
    "int_run_ends_daily": {"usage_date": "date", "run_id": "varchar", "end_kind": "varchar"},
    "int_workloads_named_daily": {
        "usage_date": "date",
        "workload_id": "varchar",
        "cluster": "varchar",
        "workload": "varchar",
        "application": "varchar",
        "team": "varchar",
        "model": "varchar",
        "kind": "varchar",
    },
    "int_device_hours": {
        "hour_start_at": "timestamp",
        "usage_date": "date",
        "cluster": "varchar",
        "gpu_id": "varchar",
        "inventory_us": "bigint",
    },
    "int_device_hours_rated": {
        "hour_start_at": "timestamp",
        "usage_date": "date",
        "cluster": "varchar",
        "gpu_id": "varchar",
        "currency": "varchar",
        "cost_per_gpu_us": "double",
    },
    "int_held_hours": {
        "hour_start_at": "timestamp",
        "usage_date": "date",
        "slot_id": "varchar",
        "gpu_id": "varchar",
        "cluster": "varchar",
        "node": "varchar",
        "run_id": "varchar",
        "workload_id": "varchar",
        "held_us": "double",
        "covered_us": "double",
        "idle_us": "double",
        "idle_0_us": "double",
        "idle_10_us": "double",
        "idle_25_us": "double",
    },
    "int_idle_minutes": {
        "usage_date": "date",
        "minute_start_at": "timestamp",
        "slot_run_number": "integer",
        "held_us": "double",
        "idle_us": "double",
        "active_us": "double",
        "memory_bytes": "double",
    },
    "int_held_spans": {
        "slot_run_number": "integer",
        "slot_id": "varchar",
        "gpu_id": "varchar",
        "cluster": "varchar",
        "run_id": "varchar",
        "workload_id": "varchar",
    },
    "dim_workloads": {
        "workload_id": "varchar",
        "cluster": "varchar",
        "namespace": "varchar",
        "workload": "varchar",
        "application": "varchar",
        "team": "varchar",
        "model": "varchar",
        "kind": "varchar",
        "latency_target_p95_seconds": "double",
    },
    "dim_gpus": {
        "gpu_id": "varchar",
        "cluster": "varchar",
        "gpu_model": "varchar",
        "memory_bytes": "bigint",
        "first_seen_at": "timestamp",
        "last_seen_at": "timestamp",
    },
    "dim_gpu_history": {"gpu_id": "varchar", "gpu_model": "varchar"},
    "int_slot_spans": {"gpu_id": "varchar", "gpu_model": "varchar"},
    "dim_nodes": {"node_id": "varchar", "cluster": "varchar"},
    "dim_runs": {"run_id": "varchar", "cluster": "varchar"},
    "fct_collection_runs": {"collection_run_id": "varchar", "cluster": "varchar"},
    "fct_inference_hourly": {"hour_start_at": "timestamp", "cluster": "varchar", "model": "varchar"},
    "control__late_rows": {
        "collection_run_id": "varchar",
        "table_name": "varchar",
        "usage_date": "date",
        "cluster": "varchar",
        "rows_late": "bigint",
        "landed_at": "timestamp",
    },
    "control__collection_runs": {
        "collection_run_id": "varchar",
        "source": "varchar",
        "cluster": "varchar",
        "table_name": "varchar",
        "status": "varchar",
        "error": "varchar",
        "source_version": "varchar",
        "window_start_at": "timestamp",
        "window_end_at": "timestamp",
        "data_through_at": "timestamp",
        "started_at": "timestamp",
        "landed_at": "timestamp",
        "rows_landed": "bigint",
        "rows_quarantined": "bigint",
        "rejects": "varchar",
        "gaps": "varchar",
    },
}

LANDED = {"dt": "date", "cluster": "varchar", "collection_run_id": "varchar", "landed_at": "timestamp", "interval_ms": "bigint"}
LANDING_TABLES = (
    "gpu_samples",
    "gpu_inventory",
    "gpu_processes",
    "node_samples",
    "inference_usage",
    "inference_requests",
    "runs",
    "run_gpus",
    "nodes",
    "node_states",
    "training_events",
    "billing_lines",
)
SHAPES |= {f"stg_landing__{name}": LANDED for name in LANDING_TABLES}

GHOSTS = {
    "unallocated",
    "suspended",
    "overprovisioned",
    "unbalanced",
    "pipeline_waiting",
    "reserved_memory",
    "idle_compute",
    "throttled",
    "oversized",
    "underfilled",
}
NOT_HELD = {"out_of_service", "unallocated", "borrowed"}


def give(harness: Harness, **inputs: list[Row]) -> None:
    """Every input of the marts, empty unless named, and the state seed as its dimension."""
    unknown = set(inputs) - set(SHAPES)
    assert not unknown, f"no input of that name: {unknown}"
    inputs |= by_slot_run(inputs.get("int_idle_minutes", []))
    for name, shape in SHAPES.items():
        harness.give(name, shape, inputs.get(name, []))
    harness.give_seed("states")
    harness.run("dim_states")


def by_slot_run(named_minutes: list[Row]) -> dict[str, list[Row]]:
    """Idle minutes with the names of who held what: the names once for each, the minutes with their numbers."""
    names = [{name: minute[name] for name in SHAPES["int_held_spans"] if name in minute} for minute in named_minutes]
    numbers = {tuple(held.values()): number for number, held in enumerate(names)}
    minutes = [
        {name: value for name, value in minute.items() if name not in held} | {"slot_run_number": numbers[tuple(held.values())]}
        for minute, held in zip(named_minutes, names, strict=True)
    ]
    spans = [dict(zip(names[number], held, strict=True), slot_run_number=number) for held, number in numbers.items()]
    return {"int_idle_minutes": minutes, "int_held_spans": spans}


def ledger_row(state: str, minutes: float, *, hour: int = 0, cost: str | None = None, **values: Any) -> Row:
    """`minutes` of one GPU in `state`, in the hour that starts `hour` hours after midnight of 2026-11-02."""
    start = MIDNIGHT + timedelta(hours=hour)
    microseconds = round(minutes * MINUTE_US)
    nobody = state in NOT_HELD
    return {
        "hour_start_at": start,
        "slot_id": "gpu-1",
        "run_id": "unallocated" if nobody else "run-1",
        "state": state,
        "state_reason": "",
        "signal_source": "sm_active",
        "cost_source": "unpriced" if cost is None else "billing",
        "currency": "unknown" if cost is None else "USD",
        "usage_date": start.date(),
        "cluster": "c",
        "node": "n1",
        "gpu_id": "gpu-1",
        "gpu_model": "H100",
        "workload_id": "unallocated" if nobody else "w",
        "is_ghost": state in GHOSTS,
        "gpu_microseconds": microseconds,
        "gpu_hours": microseconds / HOUR_US,
        "cost": None if cost is None else Decimal(cost),
    } | values


def held_hour(held_minutes: float, *, hour: int = 0, idle_minutes: float = 0, **values: Any) -> Row:
    """A held hour of run-1 on gpu-1, covered in full, `idle_minutes` of it below 5 %."""
    start = MIDNIGHT + timedelta(hours=hour)
    idle_us = idle_minutes * MINUTE_US
    return {
        "hour_start_at": start,
        "usage_date": start.date(),
        "slot_id": "gpu-1",
        "gpu_id": "gpu-1",
        "cluster": "c",
        "node": "n1",
        "run_id": "run-1",
        "workload_id": "w",
        "held_us": held_minutes * MINUTE_US,
        "covered_us": held_minutes * MINUTE_US,
        "idle_us": idle_us,
        "idle_0_us": idle_us,
        "idle_10_us": idle_us,
        "idle_25_us": idle_us,
    } | values


def rated_hour(cost_per_gpu_hour: float | None, *, hour: int = 0, currency: str = "USD", gpu_id: str = "gpu-1") -> Row:
    """The price of gpu-1 in an hour; None: not known."""
    start = MIDNIGHT + timedelta(hours=hour)
    return {
        "hour_start_at": start,
        "usage_date": start.date(),
        "cluster": "c",
        "gpu_id": gpu_id,
        "currency": "unknown" if cost_per_gpu_hour is None else currency,
        "cost_per_gpu_us": None if cost_per_gpu_hour is None else cost_per_gpu_hour / HOUR_US,
    }


def idle_minutes(first: datetime, count: int, **values: Any) -> list[Row]:
    """`count` idle minutes in a row of run-1 on gpu-1, from `first`, 20 GB held."""
    rows: list[Row] = []
    for number in range(count):
        start = first + timedelta(minutes=number)
        rows.append(
            {
                "usage_date": start.date(),
                "minute_start_at": start,
                "slot_id": "gpu-1",
                "gpu_id": "gpu-1",
                "cluster": "c",
                "run_id": "run-1",
                "workload_id": "w",
                "held_us": MINUTE_US,
                "idle_us": MINUTE_US,
                "active_us": 0,
                "memory_bytes": 20e9,
            }
            | values
        )
    return rows


def day(number: int) -> date:
    """The UTC day `number` days after 2026-11-02."""
    return (MIDNIGHT + timedelta(days=number)).date()
