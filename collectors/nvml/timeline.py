"""The time of one slot: each stretch of it is told once, covered by a reading or as a gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collectors.nvml.grid import reach_ms

MINUTE_MS = 60_000
#: a longer hole (a clock that was wrong by years) is not filled
LONGEST_GAP_MS = 24 * 3600 * 1000

Stretch = tuple[int, int]


@dataclass
class Timeline:
    """Milliseconds since 1970. `told_until` is the end of the last row, `good_at` the last good reading of this series."""

    interval_ms: int
    told_until: int | None = None
    good_at: int | None = None
    _clock_forward_ms: int = 0

    def step_clock(self, stepped_ms: int) -> None:
        """Note that the wall clock was set: time it jumped over was lived through by nobody, so no reading covers it."""
        self._clock_forward_ms = max(0, self._clock_forward_ms + stepped_ms)

    def begin(self, at: int) -> None:
        """The slot is known of at `at`, one interval of which counts, read or not."""
        if self.told_until is None:
            self.told_until = at - self.interval_ms

    def good(self, at: int) -> tuple[list[Stretch], int] | None:
        """Take a good reading: the gaps before it and the start of what it covers; None where that time is told already.

        It stands for the time since the good reading before, at most 2.5 intervals; the first one for one interval.
        """
        reach = reach_ms(self.interval_ms)
        if self.told_until is not None and at <= self.told_until:
            if self.told_until - at <= reach:
                return None
            # the clock was wrong before: what it told stays where it is, and the right time begins anew
            self.told_until = self.good_at = None
        covered = self.interval_ms
        if self.good_at is not None:
            covered = min(max(at - self.good_at - self._clock_forward_ms, 1), reach)
        start = at - covered
        gaps: list[Stretch] = []
        if self.told_until is not None:
            start = max(start, self.told_until)
            gaps = gap(self.told_until, start)
        self.told_until = self.good_at = at
        self._clock_forward_ms = 0
        return gaps, start

    def lost(self, at: int) -> list[Stretch]:
        """The slot is known not to work at `at`: no later reading speaks of the time before, and a new series begins."""
        self.begin(at)
        found = self._tell(at)
        self.good_at = None
        return found

    def wait(self, earliest: int) -> list[Stretch]:
        """The gap that is certain by now, where no good reading can come before `earliest`."""
        if self.told_until is None:
            return []
        return self._tell(earliest - (reach_ms(self.interval_ms) if self.good_at is not None else self.interval_ms))

    def close(self, at: int) -> list[Stretch]:
        """Nothing more is read: what is not told by now is a gap."""
        return self._tell(at)

    def _tell(self, until: int) -> list[Stretch]:
        if self.told_until is None or until <= self.told_until:
            return []
        found = gap(self.told_until, until)
        self.told_until = until
        return found


def gap(start: int, end: int) -> list[Stretch]:
    """A hole as pieces that cross no minute; none where it is too long to be one."""
    return list(_pieces(start, end)) if end - start <= LONGEST_GAP_MS else []


def _pieces(start: int, end: int) -> Iterator[Stretch]:
    while start < end:
        stop = min(end, (start // MINUTE_MS + 1) * MINUTE_MS)
        yield start, stop
        start = stop
