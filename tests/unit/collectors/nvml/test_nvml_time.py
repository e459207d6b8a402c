"""The grid and the timeline: whatever the clock, the GPU and the machine do, no time is lost and none is told twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collectors.nvml.grid import Grid, Tick
from collectors.nvml.timeline import Stretch, Timeline

TEN = 10_000
#: what happens to the wall clock between two ticks, and by how much a tick comes too late, in ms
STEPS = st.sampled_from([0, 0, 0, 3_000, -3_000, 14_000, 95_000])
DELAYS = st.sampled_from([0, 0, 2, 700, 12_000, 31_000])
T0 = 1_796_000_000_000  # a multiple of ten seconds


@dataclass
class Clock:
    """A machine's two clocks; the wall clock can be set."""

    wall_ms: float = T0 + 3_000
    monotonic_ms: float = 0.0

    def grid(self, interval_ms: int = TEN) -> Grid:
        return Grid(interval_ms, lambda: self.wall_ms / 1000, lambda: self.monotonic_ms / 1000)

    def run(self, milliseconds: float, step: float = 0) -> None:
        self.monotonic_ms += milliseconds
        self.wall_ms += milliseconds + step


@dataclass
class Told:
    """What a slot's timeline was made to tell, in order."""

    line: Timeline = field(default_factory=lambda: Timeline(TEN))
    covered: list[Stretch] = field(default_factory=list)
    gaps: list[Stretch] = field(default_factory=list)

    def good(self, at: int) -> None:
        taken = self.line.good(at)
        if taken is not None:
            self.gaps += taken[0]
            self.covered.append((taken[1], at))

    def assert_tiled(self) -> None:
        for earlier, later in pairwise(sorted(self.covered + self.gaps)):
            assert earlier[1] == later[0], (earlier, later)


def next_tick(grid: Grid, clock: Clock, late_ms: float = 0, step_ms: float = 0) -> Tick | None:
    """Plan, wait, arrive; the wall clock is set by `step_ms` in the middle of the wait."""
    grid.plan()
    half = grid.remaining() * 500
    clock.run(half, step_ms)
    clock.run(grid.remaining() * 1000 + late_ms)
    return grid.arrive()


def test_ticks_come_at_multiples_of_the_interval_and_do_not_drift() -> None:
    clock = Clock()
    grid = clock.grid()
    ticks = [next_tick(grid, clock, late_ms=4) for _ in range(1000)]
    assert [tick.at for tick in ticks if tick] == [T0 + TEN * number for number in range(1, 1001)]
    assert {tick.late_ms for tick in ticks if tick} == {4}


def test_a_wake_up_a_moment_early_is_the_planned_tick() -> None:
    clock = Clock()
    grid = clock.grid()
    tick = next_tick(grid, clock, late_ms=-2)
    assert tick is not None
    assert (tick.at, tick.late_ms) == (T0 + TEN, 0)


def test_a_late_tick_is_told_with_what_it_missed() -> None:
    clock = Clock()
    grid = clock.grid()
    next_tick(grid, clock)
    late = next_tick(grid, clock, late_ms=23_500)
    assert late is not None
    assert (late.at, late.late_ms, late.missed, late.stepped_ms) == (T0 + 4 * TEN, 3_500, 2, 0)


def test_a_small_step_back_waits_for_the_clock_to_catch_up() -> None:
    clock = Clock()
    grid = clock.grid()
    next_tick(grid, clock)
    told = Told()
    told.good(T0 + TEN)
    ticks = [next_tick(grid, clock, step_ms=step) for step in (-12_000, 0, 0, 0)]
    for tick in ticks:
        if tick is not None:
            told.line.step_clock(tick.stepped_ms)
            told.good(tick.at)
    assert [tick and tick.at for tick in ticks] == [None, None, T0 + 2 * TEN, T0 + 3 * TEN]
    told.assert_tiled()
    assert told.gaps == []


def test_a_large_step_back_is_followed_at_once() -> None:
    """A clock that was an hour ahead until it was set: waiting for it would lose an hour."""
    clock = Clock()
    grid = clock.grid()
    next_tick(grid, clock)
    tick = next_tick(grid, clock, step_ms=-3_600_000)
    assert tick is not None
    assert tick.at < T0 - 3_500_000
    assert tick.stepped_ms == -3_600_000
    line = Timeline(TEN)
    line.good(T0 + TEN)
    assert line.good(tick.at) == ([], tick.at - TEN)


def test_time_that_the_clock_jumped_over_is_a_gap_and_is_not_covered() -> None:
    clock = Clock()
    grid = clock.grid()
    told = Told()
    for step in (0, 0, 3_000, 0, 60_000, 0):
        tick = next_tick(grid, clock, step_ms=step)
        assert tick is not None
        told.line.step_clock(tick.stepped_ms)
        told.good(tick.at)
    told.assert_tiled()
    assert sum(end - start for start, end in told.gaps) == 63_000
    lived = clock.monotonic_ms - 7_000  # to the first tick, which stands for one interval
    assert abs(sum(end - start for start, end in told.covered) - TEN - lived) <= 2 * TEN


def test_a_good_reading_reaches_back_to_the_last_one_but_no_further_than_two_and_a_half_intervals() -> None:
    line = Timeline(TEN)
    assert line.good(T0) == ([], T0 - TEN)
    assert line.good(T0 + 2 * TEN) == ([], T0)
    gaps, start = line.good(T0 + 8 * TEN) or ([], 0)
    assert start == T0 + 8 * TEN - 25_000
    assert (gaps[0][0], gaps[-1][1]) == (T0 + 2 * TEN, start)


def test_a_gap_is_told_as_soon_as_it_is_certain_and_crosses_no_minute() -> None:
    line = Timeline(TEN)
    minute = T0 // 60_000 * 60_000
    line.good(minute + 5 * TEN)
    assert line.wait(minute + 6 * TEN) == []
    assert line.wait(minute + 7 * TEN) == []
    assert line.wait(minute + 9 * TEN) == [(minute + 50_000, minute + 60_000), (minute + 60_000, minute + 65_000)]


def test_the_time_up_to_a_loss_is_a_gap_and_the_first_reading_after_it_stands_for_one_interval() -> None:
    line = Timeline(TEN)
    line.good(T0)
    assert line.lost(T0 + TEN) == [(T0, T0 + TEN)]
    assert line.lost(T0 + 2 * TEN) == [(T0 + TEN, T0 + 2 * TEN)]
    assert line.good(T0 + 4 * TEN) == ([(T0 + 2 * TEN, T0 + 3 * TEN)], T0 + 3 * TEN)


def test_a_hole_of_more_than_a_day_is_not_filled() -> None:
    line = Timeline(TEN)
    line.good(T0)
    gaps, _ = line.good(T0 + 40 * 24 * 3600 * 1000) or ([(0, 0)], 0)
    assert gaps == []


@given(st.lists(st.sampled_from(["good", "good", "good", "silent", "lost", "late"]), min_size=1, max_size=80))
def test_every_millisecond_of_a_day_is_told_once_whatever_happens(events: list[str]) -> None:
    told, at = Told(), T0
    told.line.begin(at)
    for event in events:
        at += TEN * (3 if event == "late" else 1)
        told.gaps += told.line.wait(at)
        if event in ("good", "late"):
            told.good(at)
        elif event == "lost":
            told.gaps += told.line.lost(at)
    told.gaps += told.line.close(at)
    told.assert_tiled()
    pieces = sorted(told.covered + told.gaps)
    assert pieces[0][0] == T0 - TEN
    assert pieces[-1][1] == at
    assert all(end - start <= 25_000 for start, end in told.covered)


@given(
    st.lists(
        st.tuples(STEPS, DELAYS),
        min_size=2,
        max_size=40,
    )
)
def test_setting_the_clock_neither_loses_nor_doubles_time(happenings: list[tuple[int, int]]) -> None:
    clock = Clock()
    grid = clock.grid()
    told = Told()
    for step, late in happenings:
        tick = next_tick(grid, clock, late_ms=late, step_ms=step)
        if tick is not None:
            told.line.step_clock(tick.stepped_ms)
            told.good(tick.at)
    told.assert_tiled()
