"""The inputs of the rules: held spans and what was observed in their minutes, with the usual values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from tests.unit.dbt.harness import Harness, Row

MIDNIGHT = datetime(2026, 11, 2)
DAY = date(2026, 11, 2)
MINUTE_US = 60_000_000
GB = 10**9

SHAPES: dict[str, dict[str, str]] = {
    "int_held_spans": {
        "hold_number": "integer",
        "slot_run_number": "integer",
        "run_number": "integer",
        "usage_date": "date",
        "cluster": "varchar",
        "gpu_id": "varchar",
        "gpu_model": "varchar",
        "slot_id": "varchar",
        "run_id": "varchar",
        "workload_id": "varchar",
        "kind": "varchar",
        "started_at": "timestamp",
        "held_from_at": "timestamp",
        "share": "double",
        "slot_fraction": "double",
    },
    "int_held_minutes_observed": {
        "hold_number": "integer",
        "slot_run_number": "integer",
        "run_number": "integer",
        "usage_date": "date",
        "minute_start_at": "timestamp",
        "piece_start_at": "timestamp",
        "held_us": "double",
        "suspended_us": "double",
        "covered_us": "double",
        "idle_ratio": "double",
        "idle_0_ratio": "double",
        "idle_10_ratio": "double",
        "idle_25_ratio": "double",
        "throttled_ratio": "double",
        "active_activity_ratio": "double",
        "activity_ratio": "double",
        "signal": "integer",
        "gap_reason": "varchar",
        "memory_bytes": "double",
        "holds_memory": "boolean",
        "joules_per_held_us": "double",
    },
    "int_server_memory_daily": {
        "usage_date": "date",
        "run_id": "varchar",
        "kv_free_bytes": "double",
        "null_reason": "varchar",
    },
    "dim_gpu_models": {"gpu_model": "varchar", "mig_family": "varchar", "memory_bytes": "bigint"},
    "dim_gpus": {"gpu_id": "varchar", "memory_bytes": "bigint"},
    "int_waiting_minutes": {"workload_id": "varchar", "minute_start_at": "timestamp"},
    "int_surplus_minutes": {"run_number": "integer", "minute_start_at": "timestamp"},
    "int_unbalanced_minutes": {"slot_run_number": "integer", "minute_start_at": "timestamp"},
    "int_oversized_slots": {"slot_run_number": "integer", "usage_date": "date", "fit_ratio": "double"},
    "int_days_touched": {"usage_date": "date"},
    "int_runs": {
        "run_id": "varchar",
        "cluster": "varchar",
        "job_id": "varchar",
        "name": "varchar",
        "kind": "varchar",
        "held_from_at": "timestamp",
        "held_until_at": "timestamp",
    },
    "int_inference_usage_owned": {
        "usage_date": "date",
        "cluster": "varchar",
        "server": "varchar",
        "job_id": "varchar",
        "interval_start_at": "timestamp",
        "interval_end_at": "timestamp",
        "kv_cache_total_bytes": "bigint",
        "kv_cache_usage_ratio": "double",
    },
}


def give(harness: Harness, **inputs: Iterable[Row]) -> None:
    """The named inputs, and every other one empty."""
    for name, shape in SHAPES.items():
        harness.give(name, shape, list(inputs.get(name, [])))


def hold(number: int, **changes: Any) -> dict[str, Any]:
    """A whole H100 held by a run of its own; `number` is that of the hold, of the slot's run and of the card."""
    row = {
        "hold_number": number,
        "slot_run_number": number,
        "run_number": 1,
        "usage_date": DAY,
        "cluster": "c",
        "gpu_id": f"g{number}",
        "gpu_model": "H100",
        "slot_id": f"g{number}",
        "run_id": "r",
        "workload_id": "c/ns/w",
        "kind": "training",
        "started_at": MIDNIGHT,
        "held_from_at": MIDNIGHT,
        "share": 1.0,
        "slot_fraction": 1.0,
    }
    return row | changes


def minutes(
    number: int, activities: Iterable[float], *, first: int = 0, weight: float = 1.0, **changes: Any
) -> list[dict[str, Any]]:
    """One covered minute after the other on a hold, at these activities."""
    rows = []
    for place, activity in enumerate(activities, start=first):
        start = MIDNIGHT + timedelta(minutes=place)
        row = {
            "hold_number": number,
            "slot_run_number": number,
            "run_number": 1,
            "usage_date": start.date(),
            "minute_start_at": start,
            "piece_start_at": start,
            "held_us": MINUTE_US * weight,
            "suspended_us": 0.0,
            "covered_us": MINUTE_US * weight,
            "idle_ratio": 1.0 if activity < 0.05 else 0.0,
            "throttled_ratio": 0.0,
            "active_activity_ratio": None if activity < 0.05 else activity,
            "activity_ratio": activity,
            "signal": 1,
            "gap_reason": "gap",
            "memory_bytes": 5.0 * GB,
            "holds_memory": False,
        }
        rows.append(row | changes)
    return rows
