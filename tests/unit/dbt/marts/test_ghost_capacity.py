"""`mart_ghost_capacity_daily`: the waterfall, long."""

from __future__ import annotations

from decimal import Decimal

from tests.unit.dbt.harness import Harness
from tests.unit.dbt.marts.inputs import MIDNIGHT, day, give, ledger_row


def test_steps_add_up_to_capacity_in_hours_and_money(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("out_of_service", 6, cost="0.20"),
            ledger_row("unallocated", 10, cost="0.333333"),
            ledger_row("unobserved", 4, cost="0.133333"),
            ledger_row("reserved_memory", 20, cost="0.666667"),
            ledger_row("productive", 20, cost="0.666667"),
        ],
        int_commitment_unused_hours=[
            {"hour_start_at": MIDNIGHT, "usage_date": day(0), "provider_name": p, "currency": "USD", "cost": Decimal("0.25")}
            for p in ("p", "q")
        ],
    )
    rows = sorted(harness.run("mart_ghost_capacity_daily"), key=lambda row: row["state_order"])
    assert [row["state"] for row in rows] == [
        "out_of_service",
        "unallocated",
        "unobserved",
        "reserved_memory",
        "productive",
        "commitment_unused",
    ]
    assert sum(row["gpu_hours"] for row in rows) == 1.0
    assert sum(row["cost"] for row in rows) == Decimal("2.50")
    assert (rows[-1]["cost"], rows[-1]["gpu_hours"], rows[-1]["is_ghost"]) == (Decimal("0.50"), 0.0, True)
    assert (rows[-1]["cluster"], rows[-1]["workload_id"], rows[-1]["team"]) == ("unallocated",) * 3


def test_both_marts_agree_on_ghost_money(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("unallocated", 30, cost="1"), ledger_row("idle_compute", 30, cost="1.5")],
        int_commitment_unused_hours=[
            {"hour_start_at": MIDNIGHT, "usage_date": day(0), "provider_name": "p", "currency": "USD", "cost": Decimal("0.25")}
        ],
    )
    steps = harness.run("mart_ghost_capacity_daily")
    net = harness.run("mart_gpu_net_daily")
    assert sum(row["cost"] for row in steps if row["is_ghost"]) == sum(row["ghost_cost"] for row in net) == Decimal("2.75")


def test_a_team_comes_from_the_workload_and_is_unknown_without_one(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 30),
            ledger_row("productive", 30, run_id="run-2", workload_id="nobody"),
        ],
        int_workloads_named_daily=[{"usage_date": day(0), "workload_id": "w", "cluster": "c", "team": "vision"}],
    )
    assert {row["workload_id"]: row["team"] for row in harness.run("mart_ghost_capacity_daily")} == {
        "w": "vision",
        "nobody": "unknown",
    }


def test_reasons_and_signals_of_a_state_are_one_step(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("pipeline_waiting", 20, state_reason="startup"),
            ledger_row("pipeline_waiting", 40, state_reason="stall", signal_source="gpu_utilization"),
        ],
    )
    (row,) = harness.run("mart_ghost_capacity_daily")
    assert row["gpu_hours"] == 1.0
