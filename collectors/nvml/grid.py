"""When to read: at multiples of the interval on the wall clock, waited for on the monotonic one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

#: a reading stands for the time since the one before it, at most this many nominal intervals (semantics 4)
LONGEST_INTERVAL = 2.5
#: the two clocks may run apart by this much, or a hundredth of the interval, before it counts as a step of the wall clock
STEP_MS = 200


_EPOCH = datetime(1970, 1, 1)


def instant(at: int) -> datetime:
    """Milliseconds since 1970 as a naive UTC datetime."""
    return _EPOCH + timedelta(milliseconds=at)


def milliseconds_of(at: datetime) -> int:
    """A naive UTC datetime as milliseconds since 1970."""
    return round((at - _EPOCH) / timedelta(milliseconds=1))


def text_of(at: int) -> str:
    """ISO 8601 in UTC, with milliseconds."""
    return instant(at).isoformat(timespec="milliseconds") + "Z"


@dataclass(frozen=True)
class Tick:
    """An instant of the grid, in milliseconds since 1970, that has come.

    `late_ms` is by how much it is reached too late, `missed` how many instants before it went by unread, `stepped_ms` by
    how much the wall clock was set since the tick before (below 0: back).
    """

    at: int
    late_ms: int = 0
    missed: int = 0
    stepped_ms: int = 0


def reach_ms(interval_ms: int) -> int:
    """The longest time a reading may stand for."""
    return int(interval_ms * LONGEST_INTERVAL)


@dataclass
class Grid:
    """Plans one instant after the other. No drift: each is planned from the wall clock as it is then."""

    interval_ms: int
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    last_at: int | None = None
    _planned: int = 0
    _planned_monotonic: float = 0.0
    _stepped_ms: int = 0
    #: the two clocks as they were last seen together
    _seen: tuple[int, float] | None = None

    def plan(self) -> None:
        """Aim at the next instant of the grid."""
        now = self._look()
        self._planned = (now // self.interval_ms + 1) * self.interval_ms
        self._planned_monotonic = self.monotonic() + (self._planned - now) / 1000

    def remaining(self) -> float:
        """Seconds to wait, not below 0; setting the wall clock does not change them."""
        return max(0.0, self._planned_monotonic - self.monotonic())

    def arrive(self) -> Tick | None:
        """The tick that has come once nothing remains; None where the wall clock was set back to before the last one.

        A small step back lets the clock catch up, so that no time is told twice; after one of more than a reading may
        stand for, the right clock is followed at once.
        """
        stepped = self._stepped_ms
        now = self._look()
        if self._stepped_ms == stepped and now < self._planned:
            now = self._planned  # woken a moment early
        at, before = now // self.interval_ms * self.interval_ms, self.last_at
        if before is not None and before - reach_ms(self.interval_ms) <= at <= before:
            return None
        passed = 0 if before is None else max(0, at - before - max(0, self._stepped_ms)) // self.interval_ms - 1
        tick = Tick(at, now - at, max(0, passed), self._stepped_ms)
        self.last_at, self._stepped_ms = at, 0
        return tick

    def _look(self) -> int:
        """The wall clock in milliseconds; by how much it was set since the last look is added up."""
        now, monotonic = round(self.wall() * 1000), self.monotonic()
        if self._seen is not None:
            step = now - self._seen[0] - round((monotonic - self._seen[1]) * 1000)
            if abs(step) >= max(STEP_MS, self.interval_ms // 100):
                self._stepped_ms += step
        self._seen = (now, monotonic)
        return now
