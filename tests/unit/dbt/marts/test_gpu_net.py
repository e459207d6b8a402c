"""`mart_gpu_net_daily`: the ratios of semantics 6, as ratios of sums."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.marts.inputs import MIDNIGHT, day, give, ledger_row

#: semantics 5, "Worked": one training hour with every common state
WORKED_HOUR: list[Row] = [
    ledger_row("out_of_service", 6),
    ledger_row("unallocated", 10, state_reason="free"),
    ledger_row("unobserved", 4),
    ledger_row("pipeline_waiting", 8, state_reason="stall"),
    ledger_row("reserved_memory", 12),
    ledger_row("throttled", 1),
    ledger_row("productive", 19),
]


def test_the_worked_hour_adds_up_and_shows_its_interval(harness: Harness) -> None:
    give(harness, fct_gpu_ledger_hourly=WORKED_HOUR)
    (row,) = harness.run("mart_gpu_net_daily")
    assert row["capacity_gpu_hours"] == 1.0
    assert row["held_gpu_hours"] == pytest.approx(44 / 60)
    assert row["coverage_ratio"] == pytest.approx(40 / 44)
    assert row["gpu_net_ratio"] is None, "coverage is below 95 %: only the interval is known"
    assert row["gpu_net_ratio_low"] == pytest.approx(19 / 54)
    assert row["gpu_net_ratio_high"] == pytest.approx(23 / 54)
    assert row["ghost_gpu_hours"] == pytest.approx(31 / 60)
    assert row["ghost_ratio"] == pytest.approx(0.62)


@pytest.mark.parametrize(
    ("unobserved_minutes", "gpu_net_ratio"),
    [(0, 1.0), (3, 57 / 60), (3.0001, None)],
    ids=["all is covered", "95 % exactly is enough", "a little less is not"],
)
def test_gpu_net_needs_coverage(harness: Harness, unobserved_minutes: float, gpu_net_ratio: float | None) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("unobserved", unobserved_minutes), ledger_row("productive", 60 - unobserved_minutes)],
    )
    (row,) = harness.run("mart_gpu_net_daily")
    assert row["gpu_net_ratio"] == (None if gpu_net_ratio is None else pytest.approx(gpu_net_ratio))


def test_a_ratio_with_nothing_below_the_line_is_null(harness: Harness) -> None:
    give(harness, fct_gpu_ledger_hourly=[ledger_row("out_of_service", 60)])
    (row,) = harness.run("mart_gpu_net_daily")
    assert [row[name] for name in ("coverage_ratio", "gpu_net_ratio", "gpu_net_ratio_low", "ghost_ratio")] == [None] * 4


def test_a_fleet_nobody_holds_is_all_ghost(harness: Harness) -> None:
    give(harness, fct_gpu_ledger_hourly=[ledger_row("unallocated", 60, hour=hour, cost="2") for hour in range(24)])
    (row,) = harness.run("mart_gpu_net_daily")
    assert (row["unallocated_gpu_hours"], row["ghost_gpu_hours"], row["held_gpu_hours"]) == (24.0, 24.0, 0.0)
    assert (row["ghost_ratio"], row["gpu_net_ratio_low"], row["gpu_net_ratio_high"]) == (1.0, 0.0, 0.0)
    assert row["coverage_ratio"] is None
    assert row["ghost_cost"] == row["cost"] == Decimal("48")


def test_ratios_are_ratios_of_sums_and_not_means(harness: Harness) -> None:
    """A full hour of one device and six idle minutes of another are 60 of 66 minutes, not the mean of 1 and 0."""
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 60),
            ledger_row("idle_compute", 6, slot_id="gpu-2", gpu_id="gpu-2", run_id="run-2"),
        ],
    )
    (row,) = harness.run("mart_gpu_net_daily")
    assert row["gpu_net_ratio"] == pytest.approx(60 / 66)


def test_borrowed_time_is_neither_held_nor_ghost(harness: Harness) -> None:
    """Semantics 3: time-sliced by 4, one pod for an hour, device at 0.9."""
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 15),
            ledger_row("unallocated", 6, state_reason="unrequested_share"),
            ledger_row("borrowed", 39),
        ],
    )
    (row,) = harness.run("mart_gpu_net_daily")
    assert (row["held_gpu_hours"], row["borrowed_gpu_hours"], row["unallocated_gpu_hours"]) == (0.25, 0.65, 0.1)
    assert row["ghost_ratio"] == pytest.approx(0.1)


def test_hours_are_not_repeated_per_currency(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 60, cost="2"),
            ledger_row("productive", 60, hour=1, cost="3", currency="EUR"),
            ledger_row("productive", 60, hour=2),
        ],
    )
    rows = {row["currency"]: row for row in harness.run("mart_gpu_net_daily")}
    assert sum(row["capacity_gpu_hours"] for row in rows.values()) == 3.0
    assert {currency: row["cost"] for currency, row in rows.items()} == {"USD": 2, "EUR": 3, "unknown": None}


def test_no_ghost_time_costs_nothing_and_an_unknown_price_is_no_zero(harness: Harness) -> None:
    give(harness, fct_gpu_ledger_hourly=[ledger_row("productive", 60, cost="2"), ledger_row("productive", 60, hour=1)])
    costs = {row["currency"]: row["ghost_cost"] for row in harness.run("mart_gpu_net_daily")}
    assert costs == {"USD": Decimal("0"), "unknown": None}


def test_an_unused_commitment_is_ghost_money_without_hours(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[ledger_row("productive", 60, cost="0.75")],
        int_commitment_unused_hours=[
            {"hour_start_at": MIDNIGHT, "usage_date": day(0), "provider_name": "p", "currency": "USD", "cost": Decimal("0.25")}
        ],
    )
    rows = {row["cluster"]: row for row in harness.run("mart_gpu_net_daily")}
    assert rows["unallocated"]["capacity_gpu_hours"] == 0.0
    assert rows["unallocated"]["ghost_ratio"] is None
    assert sum(row["ghost_cost"] for row in rows.values()) == Decimal("0.25")
    assert sum(row["cost"] for row in rows.values()) == Decimal("1.00")


def test_energy_that_was_not_measured_is_not_zero(harness: Harness) -> None:
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 30, energy_kwh=0.3),
            ledger_row("idle_compute", 30, energy_kwh=0.05),
            ledger_row("productive", 60, gpu_model="T4", slot_id="t4", gpu_id="t4"),
        ],
    )
    energies = {row["gpu_model"]: (row["energy_kwh"], row["ghost_energy_kwh"]) for row in harness.run("mart_gpu_net_daily")}
    assert energies == {"H100": (pytest.approx(0.35), pytest.approx(0.05)), "T4": (None, None)}


def test_nanoscopic_pieces_still_close_on_the_capacity(harness: Harness) -> None:
    """A third of a microsecond is nobody's: 7 slices of an hour are 514,285,714 or …715 microseconds each."""
    pieces = [514_285_715, 514_285_715, *[514_285_714] * 5]
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 0, slot_id=f"gpu-1/{number}", run_id=f"run-{number}", gpu_microseconds=piece)
            for number, piece in enumerate(pieces)
        ],
    )
    (row,) = harness.run("mart_gpu_net_daily")
    assert row["capacity_gpu_hours"] == row["held_gpu_hours"] == row["productive_gpu_hours"] == 1.0


def test_costs_in_two_currencies_are_added_in_the_reporting_one_alone(harness: Harness) -> None:
    rate = {"reporting_currency": "USD", "valid_from_at": MIDNIGHT, "valid_to_at": MIDNIGHT + timedelta(days=3)}
    give(
        harness,
        fct_gpu_ledger_hourly=[
            ledger_row("productive", 60, cost="3"),
            ledger_row("idle_compute", 60, currency="EUR", cost="5"),
            ledger_row("idle_compute", 60, currency="CHF", cost="7"),
        ],
        int_exchange_rates=[{"currency": "USD", "rate": 1.0, **rate}, {"currency": "EUR", "rate": 1.2, **rate}],
    )
    rows = {row["currency"]: row for row in harness.run("mart_gpu_net_daily")}
    assert {name: row["cost_reporting"] for name, row in rows.items()} == {"USD": 3, "EUR": 6, "CHF": None}
    assert {name: row["ghost_cost_reporting"] for name, row in rows.items()} == {"USD": 0, "EUR": 6, "CHF": None}
    assert rows["EUR"]["cost"] == 5
