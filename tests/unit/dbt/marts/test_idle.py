"""Idle spans and idle time by device: idle by activity, whatever state took it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.marts.inputs import MIDNIGHT, MINUTE_US, day, give, held_hour, idle_minutes, rated_hour


def spans(harness: Harness, **inputs: list[Row]) -> list[dict[str, Any]]:
    give(harness, **inputs)
    harness.run("int_idle_spans_clipped")
    harness.run("int_idle_spans_priced")
    return harness.run("fct_gpu_idle_spans")


def idle_time(harness: Harness, **inputs: list[Row]) -> list[dict[str, Any]]:
    give(harness, **inputs)
    harness.run("int_idle_spans_clipped")
    return harness.run("mart_gpu_idle_time_daily")


@pytest.mark.parametrize(("minutes", "count"), [(4, 0), (5, 1)])
def test_a_span_has_at_least_five_minutes(harness: Harness, minutes: int, count: int) -> None:
    assert len(spans(harness, int_idle_minutes=idle_minutes(MIDNIGHT, minutes))) == count


def test_a_span_goes_on_over_hours_and_days(harness: Harness) -> None:
    start = MIDNIGHT + timedelta(hours=22, minutes=58)
    hours = (22, 23, 24)
    (span,) = spans(
        harness,
        int_idle_minutes=idle_minutes(start, 65),
        int_device_hours_rated=[rated_hour(3, hour=hour) for hour in hours],
    )
    assert (span["started_at"], span["ended_at"]) == (start, start + timedelta(minutes=65))
    assert span["idle_minutes"] == 65
    assert span["cost"] == Decimal("3.25"), "65 minutes at 3 an hour"
    assert span["memory_held_bytes"] == 20_000_000_000


def test_one_busy_minute_makes_two_spans(harness: Harness) -> None:
    minutes = idle_minutes(MIDNIGHT, 10) + idle_minutes(MIDNIGHT + timedelta(minutes=11), 7)
    assert [span["idle_minutes"] for span in spans(harness, int_idle_minutes=minutes)] == [10, 7]


def test_a_busy_minute_at_the_hour_is_not_stitched_over(harness: Harness) -> None:
    minutes = idle_minutes(MIDNIGHT + timedelta(minutes=50), 10) + idle_minutes(MIDNIGHT + timedelta(minutes=61), 10)
    assert [span["idle_minutes"] for span in spans(harness, int_idle_minutes=minutes)] == [10, 10]


def test_spans_of_two_runs_or_two_slots_are_not_joined(harness: Harness) -> None:
    minutes = [
        *idle_minutes(MIDNIGHT, 6),
        *idle_minutes(MIDNIGHT + timedelta(minutes=6), 6, run_id="run-2"),
        *idle_minutes(MIDNIGHT, 6, slot_id="gpu-2", gpu_id="gpu-2"),
    ]
    found = {(span["slot_id"], span["run_id"]) for span in spans(harness, int_idle_minutes=minutes)}
    assert found == {("gpu-1", "run-1"), ("gpu-1", "run-2"), ("gpu-2", "run-1")}


def test_a_share_of_a_slot_costs_its_share(harness: Harness) -> None:
    """A quarter of a card at 2 an hour costs 0.50; 30 idle minutes of it 0.25."""
    quarter_us = MINUTE_US // 4
    (span,) = spans(
        harness,
        int_idle_minutes=idle_minutes(MIDNIGHT, 30, held_us=quarter_us, idle_us=quarter_us),
        int_device_hours_rated=[rated_hour(2)],
    )
    assert span["cost"] == Decimal("0.25")


@pytest.mark.parametrize("second", [rated_hour(3, hour=1, currency="EUR"), rated_hour(None, hour=1)], ids=["EUR", "unpriced"])
def test_a_span_whose_price_is_not_one_amount_has_none(harness: Harness, second: Row) -> None:
    (span,) = spans(
        harness,
        int_idle_minutes=idle_minutes(MIDNIGHT + timedelta(minutes=50), 20),
        int_device_hours_rated=[rated_hour(3), second],
    )
    assert (span["cost"], span["currency"]) == (None, "unknown")


def test_memory_that_was_not_measured_is_left_out_of_the_mean(harness: Harness) -> None:
    minutes = idle_minutes(MIDNIGHT, 5, memory_bytes=10e9) + idle_minutes(MIDNIGHT + timedelta(minutes=5), 5, memory_bytes=None)
    (span,) = spans(harness, int_idle_minutes=minutes)
    assert span["memory_held_bytes"] == 10_000_000_000


def test_idle_time_counts_activity_and_not_states(harness: Harness) -> None:
    """20 of 60 minutes below 5 %: idle, whether rule 8, 9 or 10 took them."""
    (row,) = idle_time(
        harness,
        int_held_hours=[
            held_hour(
                60,
                covered_us=50 * MINUTE_US,
                idle_us=20 * MINUTE_US,
                idle_0_us=5 * MINUTE_US,
                idle_10_us=25 * MINUTE_US,
                idle_25_us=30 * MINUTE_US,
            )
        ],
        int_device_hours_rated=[rated_hour(2)],
    )
    hours = [row[name] for name in ("held_hours", "covered_hours", "idle_hours_at_0pct", "idle_hours", "idle_hours_at_10pct")]
    assert hours == [1.0, pytest.approx(50 / 60), pytest.approx(5 / 60), pytest.approx(20 / 60), pytest.approx(25 / 60)]
    assert row["idle_hours_at_25pct"] == 0.5
    assert row["idle_cost"] == Decimal("0.666667")
    assert row["longest_idle_minutes"] == 0


def test_the_longest_stretch_ends_with_the_day(harness: Harness) -> None:
    rows = idle_time(
        harness,
        int_idle_minutes=idle_minutes(MIDNIGHT, 7) + idle_minutes(MIDNIGHT + timedelta(hours=22, minutes=30), 120),
        int_held_hours=[held_hour(60, hour=hour) for hour in range(26)],
    )
    assert {row["usage_date"]: row["longest_idle_minutes"] for row in rows} == {day(0): 90, day(1): 30}


def test_each_currency_has_its_hours_once(harness: Harness) -> None:
    rows = idle_time(
        harness,
        int_held_hours=[held_hour(60, idle_minutes=60), held_hour(60, hour=1, idle_minutes=30)],
        int_device_hours_rated=[rated_hour(2)],
    )
    assert {row["currency"]: (row["held_hours"], row["idle_hours"], row["idle_cost"]) for row in rows} == {
        "USD": (1.0, 1.0, Decimal(2)),
        "unknown": (1.0, 0.5, None),
    }


def pieces_of(days: Sequence[tuple[int, int]]) -> list[Row]:
    """Idle pieces of one slot: of each day the first so many and the last so many minutes, the whole of it where they meet."""
    rows = []
    for number, (first, last) in enumerate(days):
        begin, end = MIDNIGHT + timedelta(days=number), MIDNIGHT + timedelta(days=number + 1)
        parts = (
            [(begin, end)]
            if first + last >= 1440
            else [(begin, begin + timedelta(minutes=first)), (end - timedelta(minutes=last), end)]
        )
        for started_at, ended_at in parts:
            minutes = int((ended_at - started_at) / timedelta(minutes=1))
            row = {"usage_date": begin.date(), "cluster": "c", "slot_id": "s", "run_id": "r", "gpu_id": "g", "workload_id": "w"}
            row |= {"started_at": started_at, "ended_at": ended_at, "idle_minutes": minutes, "cost": Decimal(minutes)}
            rows += [row | {"memory_minutes": 0, "memory_byte_minutes": 0.0, "currency": "USD"}] if minutes else []
    return rows


class SpansByDay:
    """`fct_gpu_idle_spans` built whole, and built again for some days; rendered once."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.harness.give("int_idle_spans_priced", PRICED_PIECES, [])
        self.harness.give("int_days_touched", {"usage_date": "date"}, [])
        self.whole = self.harness.render("fct_gpu_idle_spans")
        self.part = self.harness.render("fct_gpu_idle_spans", is_incremental=lambda: True, this="fct_gpu_idle_spans")
        names = [row[0] for row in self.harness.connection.execute(f"describe {self.whole}").fetchall()]
        arguments = {"target_relation": "fct_gpu_idle_spans", "temp_relation": "rebuilt"}
        arguments |= {"dest_columns": [SimpleNamespace(name=name) for name in names]}
        self.replace = self.harness.render_text("{{ get_incremental_replace_spans_sql(arguments) }}", arguments=arguments)

    def build(self, pieces: Sequence[Row], touched: set[int] | None = None) -> list[dict[str, Any]]:
        self.harness.give("int_idle_spans_priced", PRICED_PIECES, pieces)
        if touched is None:
            self.harness.connection.execute(f"create or replace table fct_gpu_idle_spans as {self.whole}")
        else:
            self.harness.give("int_days_touched", {"usage_date": "date"}, [{"usage_date": day(number)} for number in touched])
            self.harness.connection.execute(f"create or replace table rebuilt as {self.part}; {self.replace}")
        return self.harness.rows("select * from fct_gpu_idle_spans order by all nulls last")


@pytest.fixture(scope="module")
def spans_by_day() -> SpansByDay:
    return SpansByDay()


MINUTES = st.sampled_from([0, 2, 4, 5, 700, 1440])
DAYS = st.lists(st.tuples(MINUTES, MINUTES), min_size=5, max_size=5)


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(before=DAYS, after=DAYS, touched=st.sets(st.integers(0, 4), min_size=1))
def test_spans_of_many_days_are_the_same_whatever_days_are_built_again(
    spans_by_day: SpansByDay, before: list[tuple[int, int]], after: list[tuple[int, int]], touched: set[int]
) -> None:
    changed = [after[number] if number in touched else before[number] for number in range(5)]
    spans_by_day.build(pieces_of(before))
    rebuilt = spans_by_day.build(pieces_of(changed), touched)
    assert rebuilt == spans_by_day.build(pieces_of(changed))


PRICED_PIECES = {
    "usage_date": "date",
    "cluster": "varchar",
    "slot_id": "varchar",
    "run_id": "varchar",
    "started_at": "timestamp",
    "ended_at": "timestamp",
    "gpu_id": "varchar",
    "workload_id": "varchar",
    "idle_minutes": "bigint",
    "memory_minutes": "bigint",
    "memory_byte_minutes": "double",
    "currency": "varchar",
    "cost": "decimal(18,6)",
}
