"""Counters across restarts, glitches, gaps and what appears in mid-air."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from collectors.inference.growth import Grown, grow
from collectors.inference.parse import Reading, Series, parse_scrape
from collectors.inference.rows import Given, to_rows
from tests.unit.collectors.inference.servers import MINUTE, NOON, vllm

OUTPUT = Series("vllm:generation_tokens", "value", "m", None, ())


def reading(at: float, value: float, started: datetime | None = None, series: Series = OUTPUT) -> Reading:
    return Reading("a", NOON + at * MINUTE, {series: value}, started)


def amounts(grown: Grown, series: Series = OUTPUT) -> list[float | None]:
    return [growth.amounts.get(series) for growth in grown.growth]


def walk(readings: Sequence[Reading], *, is_closed: bool = True) -> Grown:
    return grow(readings, is_closed=is_closed, first_within=2.5 * MINUTE)


def test_a_counter_that_restarts_counts_from_zero() -> None:
    """Case C10: 1,000,000 → 1,200,000 → 50,000 → 150,000 tokens are 350,000."""
    grown = walk([reading(0, 1_000_000), reading(1, 1_200_000), reading(2, 50_000), reading(3, 150_000)])
    assert amounts(grown) == [200_000, 50_000, 100_000]
    assert grown.restarts == [NOON + 2 * MINUTE]


def test_a_reading_that_drops_and_comes_back_is_left_out() -> None:
    grown = walk([reading(0, 1000), reading(1, 10), reading(2, 1500), reading(3, 1600)])
    assert [(growth.start_at, growth.reading.at) for growth in grown.growth] == [
        (NOON, NOON + 2 * MINUTE),
        (NOON + 2 * MINUTE, NOON + 3 * MINUTE),
    ]
    assert amounts(grown) == [500, 100]
    assert (grown.glitches, grown.restarts) == ([NOON + MINUTE], [])


def test_a_process_that_began_since_counts_from_zero_though_its_counter_is_higher() -> None:
    old, new = NOON - timedelta(days=1), NOON + 0.5 * MINUTE
    assert amounts(walk([reading(0, 1000, old), reading(1, 1500, new), reading(2, 1600, new)])) == [1500, 100]


def test_the_same_process_does_not_restart_between_readings_that_differ_by_rounding() -> None:
    start = NOON - MINUTE * 9
    assert amounts(walk([reading(0, 1000, start), reading(1, 1500, start + timedelta(microseconds=3))])) == [500]


def test_the_last_reading_that_fell_waits_for_the_next_one_unless_nothing_follows() -> None:
    fallen = [reading(0, 1000), reading(1, 10)]
    live = walk(fallen, is_closed=False)
    assert (live.growth, live.undecided) == ([], {("m", None)})
    assert amounts(walk(fallen)) == [10]


def test_a_model_that_fell_and_was_unloaded_keeps_nobody_waiting() -> None:
    """Its last reading was held back for a next one that never came, and with it every later reading of its server."""
    other = replace(OUTPUT, model="n")
    readings = [
        Reading("a", NOON, {OUTPUT: 1000.0, other: 1.0}),
        Reading("a", NOON + MINUTE, {OUTPUT: 10.0, other: 2.0}),
        Reading("a", NOON + 2 * MINUTE, {other: 3.0}),
    ]
    grown = walk(readings, is_closed=False)
    assert (grown.undecided, [growth.amounts.get(OUTPUT) for growth in grown.growth if growth.model == "m"]) == (set(), [10.0])


def test_a_first_reading_says_nothing_unless_its_server_has_just_started() -> None:
    grown = walk([reading(0, 1000), reading(1, 1100)])
    assert amounts(grown) == [100]
    assert list(grown.first) == [("m", None)]
    just = walk([reading(0, 1000, NOON - 2 * MINUTE)])
    assert (amounts(just), just.growth[0].start_at, just.first) == ([1000], NOON - 2 * MINUTE, {})
    assert amounts(walk([reading(0, 1000, NOON - 3 * MINUTE)])) == []


def test_a_metric_that_appears_in_mid_air_is_missing_and_not_all_of_its_life() -> None:
    prompt = Series("vllm:prompt_tokens", "value", "m", None, ())
    first, second, third = (reading(at, 10 * at) for at in (0, 1, 2))
    second, third = (replace(r, values={**r.values, prompt: 1_000_000 + 5 * number}) for number, r in enumerate((second, third)))
    assert amounts(walk([first, second, third]), prompt) == [None, 5]


def test_a_reason_that_appears_began_since_its_siblings_were_counted() -> None:
    stop, length = (
        Series("vllm:request_success", "value", "m", None, (("finished_reason", reason),)) for reason in ("stop", "length")
    )
    first, second = reading(0, 100, series=stop), reading(1, 110, series=stop)
    second = replace(second, values={**second.values, length: 3.0})
    assert amounts(walk([first, second]), length) == [3.0]
    # the metric stood last in a text that may have been cut off in it
    assert amounts(walk([replace(first, last_metric="vllm:request_success"), second]), length) == [None]


def test_an_engine_that_appears_without_a_known_start_is_not_counted_from_zero() -> None:
    other = replace(OUTPUT, labels=(("engine", "1"),))
    first, second = reading(0, 100), replace(reading(1, 110), values={OUTPUT: 110.0, other: 5_000.0})
    assert amounts(walk([first, second]), other) == [None]


def test_all_counters_of_an_engine_restart_together() -> None:
    """Of 5 and 100 requests within 1 s and in all, 7 and 20 after a restart: 7 more than 5 are no 2."""
    low, high = (Series("vllm:e2e_request_latency_seconds", "bucket", "m", None, (("le", le),)) for le in ("1.0", "inf"))
    first = Reading("a", NOON, {low: 5.0, high: 100.0})
    second = Reading("a", NOON + MINUTE, {low: 7.0, high: 20.0})
    (growth,) = walk([first, second]).growth
    assert growth.amounts == {low: 7.0, high: 20.0}


def test_one_engine_restarts_and_the_other_goes_on() -> None:
    other = replace(OUTPUT, labels=(("engine", "1"),))
    readings = [
        Reading("a", NOON, {OUTPUT: 1000.0, other: 500.0}),
        Reading("a", NOON + MINUTE, {OUTPUT: 10.0, other: 600.0}),
        Reading("a", NOON + 2 * MINUTE, {OUTPUT: 20.0, other: 700.0}),
    ]
    assert [growth.amounts for growth in walk(readings).growth] == [{OUTPUT: 10.0, other: 100.0}, {OUTPUT: 10.0, other: 100.0}]


def test_buckets_of_another_version_make_no_histogram_of_two() -> None:
    before = parse_scrape(vllm(done=10).encode(), "a", "a", NOON).readings[0]
    text = vllm(done=20).replace('le="1.0"', 'le="0.8"')
    after = parse_scrape(text.encode(), "a", "a", NOON + MINUTE).readings[0]
    (growth,) = walk([before, after]).growth
    (row,) = to_rows(growth, Given("c1"), timedelta(hours=1))
    assert (row["latency_histogram"], row["request_count"]) == (None, 11)


def test_a_gap_is_spread_over_its_hours_in_parts_that_add_up() -> None:
    grown = walk([reading(0, 0), reading(150, 1001)])
    rows = to_rows(grown.growth[0], Given("c1"), 2.5 * MINUTE)
    assert [(row["interval_start_at"].hour, row["interval_ms"], row["output_tokens"]) for row in rows] == [
        (12, 3_600_000, 400),
        (13, 3_600_000, 400),
        (14, 1_800_000, 201),
    ]
    assert all(row.get("running_requests") is None for row in rows[:2])


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[Reading], float]:
    """Readings of a server that restarts now and then, some with its start known, and the tokens that it really made."""
    readings, total, value, started = [], 0.0, draw(st.integers(0, 1000)), NOON - timedelta(days=1)
    readings.append(reading(0, value, started))
    for at in range(1, draw(st.integers(2, 13))):
        grown = draw(st.integers(0, 1000))
        if draw(st.booleans()):
            value, started = 0, NOON + (at - 0.5) * MINUTE
        value += grown
        total += grown
        readings.append(reading(at, value, started))
    return readings, total


@given(lives())
def test_with_known_starts_every_token_is_counted_once(life: tuple[list[Reading], float]) -> None:
    readings, total = life
    assert sum(amount or 0 for amount in amounts(walk(readings))) == total


@given(lives(), st.data())
def test_reading_in_two_calls_counts_what_one_call_counts(life: tuple[list[Reading], float], data: st.DataObject) -> None:
    readings, _ = life
    cut = data.draw(st.integers(1, len(readings)))
    first = walk(readings[:cut])
    second = [growth for growth in walk(readings).growth if growth.reading.at > readings[cut - 1].at]
    assert amounts(first) + [growth.amounts.get(OUTPUT) for growth in second] == amounts(walk(readings))


@given(st.lists(st.integers(0, 100), min_size=2, max_size=20))
def test_growth_is_never_negative_and_intervals_never_overlap(values: list[int]) -> None:
    grown = walk([reading(at, value) for at, value in enumerate(values)])
    assert all(amount is None or amount >= 0 for amount in amounts(grown))
    ends = [growth.reading.at for growth in grown.growth]
    assert all(growth.start_at >= end for growth, end in zip(grown.growth[1:], ends, strict=False))


@given(st.integers(0, 10**9), st.integers(1, 2_000))
def test_the_parts_of_a_gap_add_up_to_what_grew(grown: int, minutes: int) -> None:
    growth = walk([reading(0.5, 0), reading(0.5 + minutes, grown)]).growth[0]
    rows = to_rows(growth, Given("c1"), MINUTE / 2)
    assert sum(row["output_tokens"] for row in rows) == grown
    assert sum(row["interval_ms"] for row in rows) == minutes * 60_000
