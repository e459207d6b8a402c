"""Rule 7: a slot that is quiet for a quarter of an hour while another one of its run or service is busy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.ledger.inputs import give, hold, minutes

PAIR = [hold(1), hold(2)]


def found(harness: Harness, spans: list[dict[str, Any]], observed: Sequence[Row]) -> dict[int, list[datetime]]:
    """Slot's run → its unbalanced minutes."""
    give(harness, int_held_spans=spans, int_held_minutes_observed=observed)
    taken: dict[int, list[datetime]] = {}
    for row in harness.run("int_unbalanced_minutes"):
        taken.setdefault(row["slot_run_number"], []).append(row["minute_start_at"])
    return taken


@pytest.mark.parametrize(("length", "count"), [(14, 0), (15, 15), (40, 40)])
def test_it_takes_fifteen_minutes_in_a_row(harness: Harness, length: int, count: int) -> None:
    taken = found(harness, PAIR, [*minutes(1, [0.0] * length), *minutes(2, [0.9] * length)])
    assert {number: len(rows) for number, rows in taken.items()} == ({1: count} if count else {})


def test_a_minute_without_a_reading_breaks_the_row(harness: Harness) -> None:
    quiet = [*minutes(1, [0.0] * 10), *minutes(1, [0.0] * 10, first=11)]
    assert found(harness, PAIR, [*quiet, *minutes(2, [0.9] * 30)]) == {}


@pytest.mark.parametrize(
    ("quiet", "busy", "is_taken"), [(0.29, 0.8, True), (0.3, 0.8, False), (0.29, 0.79, False), (0.0, 1.0, True)]
)
def test_quiet_is_below_thirty_percent_and_busy_eighty_or_more(
    harness: Harness, quiet: float, busy: float, is_taken: bool
) -> None:
    assert bool(found(harness, PAIR, [*minutes(1, [quiet] * 15), *minutes(2, [busy] * 15)])) is is_taken


@pytest.mark.parametrize(("quiet", "busy", "is_taken"), [(1, 2, True), (2, 1, True), (3, 1, False), (1, 3, False)])
def test_utilisation_says_nothing_of_either(harness: Harness, quiet: int, busy: int, is_taken: bool) -> None:
    observed = [*minutes(1, [0.0] * 15, signal=quiet), *minutes(2, [0.9] * 15, signal=busy)]
    assert bool(found(harness, PAIR, observed)) is is_taken


def test_it_need_not_be_the_same_sibling_all_the_time(harness: Harness) -> None:
    turns = [0.9, 0.1] * 10
    observed = [*minutes(1, [0.0] * 20), *minutes(2, turns), *minutes(3, turns[::-1])]
    assert {number: len(rows) for number, rows in found(harness, [*PAIR, hold(3)], observed).items()} == {1: 20}


@pytest.mark.parametrize(("kind", "is_taken"), [("inference", True), ("training", False), ("unknown", False)])
def test_replicas_of_a_service_are_siblings_and_two_jobs_of_one_name_are_not(harness: Harness, kind: str, is_taken: bool) -> None:
    spans = [hold(1, kind=kind), hold(2, kind=kind, run_id="r2", run_number=2)]
    observed = [*minutes(1, [0.0] * 15), *minutes(2, [0.9] * 15, run_number=2)]
    assert bool(found(harness, spans, observed)) is is_taken


def test_a_run_of_two_pieces_of_a_minute_counts_it_once(harness: Harness) -> None:
    """A hold that is cut within a minute gave two rows of it, and sixteen rows made fifteen minutes of eight."""
    spans = [*PAIR, hold(3, slot_run_number=1, gpu_id="g1", slot_id="g1")]
    quiet = [*minutes(1, [0.0] * 8), *minutes(3, [0.0] * 8, slot_run_number=1)]
    assert found(harness, spans, [*quiet, *minutes(2, [0.9] * 30)]) == {}


def test_what_it_saw_travels_along(harness: Harness) -> None:
    give(harness, int_held_spans=PAIR, int_held_minutes_observed=[*minutes(1, [0.1] * 15, weight=0.5), *minutes(2, [0.9] * 15)])
    rows = harness.run("int_unbalanced_minutes")
    assert {(row["activity_ratio"], row["sibling_activity_ratio"], row["covered_us"]) for row in rows} == {(0.1, 0.9, 30e6)}
