"""`mart_workload_gpu_hours_daily`: what workloads held, what came of it, what it cost."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.marts.inputs import MIDNIGHT, day, give, ledger_row


def cost_row(workload_id: str, allocation: str | None, usage: str | None, fully_loaded: str | None) -> Row:
    return {
        "hour_start_at": MIDNIGHT,
        "usage_date": day(0),
        "cluster": "c",
        "gpu_model": "H100",
        "workload_id": workload_id,
        "currency": "USD",
        "allocation_cost": allocation and Decimal(allocation),
        "usage_cost": usage and Decimal(usage),
        "fully_loaded_cost": fully_loaded and Decimal(fully_loaded),
    }


def test_a_job_over_midnight_belongs_to_both_days(harness: Harness) -> None:
    """Case B06: 22:00 to 02:00 on 4 GPUs."""
    rows = [
        ledger_row("productive", 60, hour=hour, slot_id=f"gpu-{gpu}", gpu_id=f"gpu-{gpu}")
        for hour in (22, 23, 24, 25)
        for gpu in range(4)
    ]
    give(harness, fct_gpu_ledger_hourly=rows)
    held = {row["usage_date"]: row["held_gpu_hours"] for row in harness.run("mart_workload_gpu_hours_daily")}
    assert held == {day(0): 8.0, day(1): 8.0}


def test_time_nobody_holds_is_no_workload(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("unallocated", 20), ledger_row("out_of_service", 20), ledger_row("productive", 20)],
    )
    (row,) = harness.run("mart_workload_gpu_hours_daily")
    assert (row["workload_id"], row["held_gpu_hours"]) == ("w", pytest.approx(1 / 3))


def test_idle_is_rules_8_to_10(harness: Harness) -> None:
    """Semantics 5: a training job that never touches its GPU is idle for as long, startup included."""
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("pipeline_waiting", 30, state_reason="startup"),
            ledger_row("idle_compute", 20),
            ledger_row("reserved_memory", 4),
            ledger_row("throttled", 3),
            ledger_row("suspended", 2),
            ledger_row("unobserved", 1),
        ],
    )
    (row,) = harness.run("mart_workload_gpu_hours_daily")
    assert row["idle_gpu_hours"] == pytest.approx(54 / 60)
    assert row["ghost_gpu_hours"] == pytest.approx(59 / 60)
    assert row["coverage_ratio"] == pytest.approx(59 / 60)


def test_ends_of_runs_have_their_own_columns(harness: Harness) -> None:
    kinds = ["completed", "failed", "timed_out", "cancelled", "preempted", "running"]
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("productive", 10 + number, run_id=kind) for number, kind in enumerate(kinds)],
        int_run_ends_daily=[{"usage_date": day(0), "run_id": kind, "end_kind": kind} for kind in kinds],
    )
    (row,) = harness.run("mart_workload_gpu_hours_daily")
    ends = {name: row[f"{name}_gpu_hours"] for name in ("failed", "timed_out", "cancelled", "preempted")}
    assert ends == {
        "failed": pytest.approx(11 / 60),
        "timed_out": pytest.approx(12 / 60),
        "cancelled": pytest.approx(13 / 60),
        "preempted": pytest.approx(14 / 60),
    }
    assert row["held_gpu_hours"] == pytest.approx(75 / 60)


def test_three_bases_stand_side_by_side(harness: Harness) -> None:
    """Semantics 7, "Worked": 10 h at 2 $/h, busy for 30 % of the time."""
    hours = [ledger_row("productive", 60, hour=hour, cost="2") for hour in range(3)]
    hours += [ledger_row("reserved_memory", 60, hour=hour, cost="2") for hour in range(3, 10)]
    give(harness, fct_gpu_ledger_hourly=hours, int_ledger_cost_bases_hourly=[cost_row("w", "20", "6", "23.5")])
    (row,) = harness.run("mart_workload_gpu_hours_daily")
    assert (row["allocation_cost"], row["usage_cost"], row["fully_loaded_cost"]) == (20, 6, Decimal("23.5"))
    assert row["priced_gpu_hours"] == 10.0


def test_hours_without_a_price_stand_apart(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("productive", 60, cost="2"), ledger_row("productive", 60, hour=1)],
        int_ledger_cost_bases_hourly=[cost_row("w", "2", "2", "2")],
    )
    rows = {row["currency"]: row for row in harness.run("mart_workload_gpu_hours_daily")}
    assert {name: row["priced_gpu_hours"] for name, row in rows.items()} == {"USD": 1.0, "unknown": 0.0}
    assert rows["unknown"]["allocation_cost"] is None
    assert sum(row["held_gpu_hours"] for row in rows.values()) == 2.0


def test_money_nobody_could_carry_is_shown_and_not_lost(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("unallocated", 60, cost="2"), ledger_row("productive", 60, hour=1, cost="2")],
        int_ledger_cost_bases_hourly=[cost_row("unallocated", "0", "0", "2"), cost_row("w", "2", "2", "2")],
    )
    rows = {row["workload_id"]: row for row in harness.run("mart_workload_gpu_hours_daily")}
    assert sum(row["fully_loaded_cost"] for row in rows.values()) == 4
    assert (rows["unallocated"]["held_gpu_hours"], rows["unallocated"]["coverage_ratio"]) == (0.0, None)


def test_unallocated_money_that_was_carried_leaves_no_row(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("productive", 60, cost="2")],
        int_ledger_cost_bases_hourly=[cost_row("unallocated", "0", "0", "0"), cost_row("w", "2", "2", "4")],
    )
    assert [row["workload_id"] for row in harness.run("mart_workload_gpu_hours_daily")] == ["w"]
