"""The rules divide a held minute: whatever they take, the parts add up to what was held."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.dbt.harness import Harness
from tests.unit.dbt.ledger.inputs import DAY, MIDNIGHT, MINUTE_US, give, hold, minutes

PARTS = ("overprovisioned", "unbalanced", "idle", "throttled", "oversized", "underfilled", "productive")
TAKEN = [{"slot_run_number": 1, "minute_start_at": MIDNIGHT}]
SURPLUS = [{"run_number": 1, "minute_start_at": MIDNIGHT}]


def parts(harness: Harness, observed: dict[str, Any], *, fit: float | None = None, **rules: Any) -> dict[str, float]:
    """The parts of one minute, in minutes."""
    oversized = [] if fit is None else [{"slot_run_number": 1, "usage_date": DAY, "fit_ratio": fit}]
    give(harness, int_held_spans=[hold(1)], int_held_minutes_observed=[observed], int_oversized_slots=oversized, **rules)
    (row,) = harness.run("int_held_minutes")
    total = row["suspended_us"] + (row["held_us"] - row["suspended_us"] - row["covered_us"])
    total += sum(row[f"{part}_us"] for part in PARTS)
    assert total == pytest.approx(row["held_us"], abs=1e-6)
    assert all(row[f"{part}_us"] >= -1e-6 for part in PARTS)
    return {part: round(row[f"{part}_us"] / MINUTE_US, 9) for part in PARTS if abs(row[f"{part}_us"]) > 1e-6}


def minute(activity: float, **changes: Any) -> dict[str, Any]:
    return minutes(1, [activity], **changes)[0]


def test_rule_6_takes_all_covered_time_whatever_else_holds(harness: Harness) -> None:
    rules: dict[str, Any] = {"int_surplus_minutes": SURPLUS, "int_unbalanced_minutes": TAKEN}
    assert parts(harness, minute(0.1, throttled_ratio=0.2), fit=0.25, **rules) == {"overprovisioned": 1.0}


def test_rule_7_leaves_the_activity_and_scales_what_was_throttled(harness: Harness) -> None:
    half_idle = minute(0.2, idle_ratio=0.5, active_activity_ratio=0.4, throttled_ratio=0.1)
    taken: dict[str, Any] = {"int_unbalanced_minutes": TAKEN}
    assert parts(harness, half_idle, **taken) == {"unbalanced": 0.8, "throttled": 0.04, "productive": 0.16}
    assert parts(harness, half_idle, fit=0.25, **taken) == {
        "unbalanced": 0.8, "throttled": 0.04, "oversized": 0.12, "productive": 0.04,
    }  # fmt: skip
    assert parts(harness, minute(0.02), **taken) == {"unbalanced": 0.98, "productive": 0.02}
    assert parts(harness, minute(0.0), **taken) == {"unbalanced": 1.0}


def test_rule_12_takes_the_active_rest_and_rule_13_what_the_slice_would_leave_empty(harness: Harness) -> None:
    assert parts(harness, minute(0.05), fit=0.25) == {"oversized": 0.75, "underfilled": 0.125, "productive": 0.125}
    # as busy as the slice could be
    assert parts(harness, minute(0.9), fit=0.25) == {"oversized": 0.75, "productive": 0.25}
    assert parts(harness, minute(0.1, throttled_ratio=0.2), fit=0.25) == {
        "throttled": 0.2, "oversized": 0.6, "productive": 0.2,
    }  # fmt: skip
    # utilisation cannot say how full the card is, and can say that it was idle
    assert parts(harness, minute(0.05, signal=3), fit=0.25) == {"oversized": 0.75, "productive": 0.25}
    assert parts(harness, minute(0.0), fit=0.25) == {"idle": 1.0}


def test_the_parts_add_up_whatever_was_observed(harness: Harness) -> None:
    dice = random.Random(7)
    count = 400
    observed = []
    for number in range(count):
        idle = dice.choice([0.0, dice.random(), 1.0])
        active = None if idle == 1.0 else dice.uniform(0.05, 1.0)
        weight = dice.choice([1.0, 0.25, 3 / 7])
        (row,) = minutes(
            number,
            [0.0],
            weight=weight,
            run_number=number,
            suspended_us=MINUTE_US * weight * dice.choice([0.0, 0.3]),
            idle_ratio=idle,
            active_activity_ratio=active,
            activity_ratio=(1.0 - idle) * (active or 0.0) + idle * dice.uniform(0.0, 0.049),
            throttled_ratio=(1.0 - idle) * dice.choice([0.0, 1.0, dice.random()]),
            signal=dice.choice([1, 2, 3]),
        )
        observed.append(row | {"covered_us": (row["held_us"] - row["suspended_us"]) * dice.choice([1.0, 0.5, 0.0])})
    chosen = [[number for number in range(count) if dice.random() < 0.4] for _ in range(3)]
    give(
        harness,
        int_held_spans=[hold(number, run_number=number) for number in range(count)],
        int_held_minutes_observed=observed,
        int_surplus_minutes=[{"run_number": number, "minute_start_at": MIDNIGHT} for number in chosen[0]],
        int_unbalanced_minutes=[{"slot_run_number": number, "minute_start_at": MIDNIGHT} for number in chosen[1]],
        int_oversized_slots=[
            {"slot_run_number": number, "usage_date": DAY, "fit_ratio": dice.choice([1 / 7, 0.5])} for number in chosen[2]
        ],
    )
    rows = harness.run("int_held_minutes")
    assert len(rows) == count
    for row in rows:
        assert sum(row[f"{part}_us"] for part in PARTS) == pytest.approx(row["covered_us"], abs=1e-6), row
        assert all(row[f"{part}_us"] >= -1e-6 for part in PARTS), row
