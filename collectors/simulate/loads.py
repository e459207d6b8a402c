"""What a card does while it is used, minute by minute, in millionths of its SM activity.

A minute is idle (0) or well above the idle threshold, so that no jitter of its readings changes its side. Shapes follow
published ones: services with a day and a week (ServeGen's clients: a peak of 2 to 2.5 times the mean, nights at a third,
weekends at two thirds), training that starts up, stalls and writes checkpoints, notebooks that are used now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from collectors.simulate import noise
from collectors.simulate.window import DAY_MINUTES, WEEK_MINUTES

MILLION = 1_000_000
#: memory in use on a card that nobody uses: the driver's
EMPTY_MIB = 460
#: the least activity of a minute that works: readings jitter by 4 % around it and stay above the idle threshold of 5 %
LEAST_ACTIVE = 0.10
#: a card of a service never reaches the 80 % from which a quiet sibling counts as unbalanced
MOST_SERVING = 0.78

Minutes = npt.NDArray[np.int64]


class Load(Protocol):
    """`memory_mib` is in use all the time."""

    @property
    def memory_mib(self) -> int: ...

    def activity(self, minutes: Minutes, started: int, key: int) -> Minutes:
        """Millionths of each of `minutes`, for a use that began at `started`; `key` tells cards apart."""
        ...


@dataclass(frozen=True)
class Nothing:
    """A holder that never touches the card."""

    memory_mib: int

    def activity(self, minutes: Minutes, started: int, key: int) -> Minutes:
        return np.zeros(len(minutes), np.int64)


@dataclass(frozen=True)
class Training:
    """Nothing for `startup` minutes, then work at `level` that pauses for the last `pause` of each `every` minutes.

    `still` is a stretch, as minutes since the start, in which it stands: a suspension, a hang.
    """

    level: float
    memory_mib: int
    startup: int = 0
    every: int = DAY_MINUTES
    pause: int = 0
    still: tuple[int, int] = (0, 0)

    def activity(self, minutes: Minutes, started: int, key: int) -> Minutes:
        since = minutes - started
        works = (since >= self.startup) & ((since - self.startup) % self.every < self.every - self.pause)
        works &= (since < self.still[0]) | (since >= self.still[1])
        level = self.level * (0.95 + 0.1 * noise.unit(key, minutes))
        return np.where(works, (level * MILLION).astype(np.int64), 0)


@dataclass(frozen=True)
class Serving:
    """A replica's part of a service's demand. `hung`: stretches of the plan in which its front end let nothing through."""

    level: float
    memory_mib: int
    first_minute_of_week: int
    night: float
    key: int
    hung: tuple[tuple[int, int], ...] = ()

    def demand(self, minutes: Minutes) -> npt.NDArray[np.float64]:
        """Demand in parts of the peak: a wave by day, two thirds of it at weekends, bursts of some minutes."""
        of_week = (minutes + self.first_minute_of_week) % WEEK_MINUTES
        hour = of_week % DAY_MINUTES / 60
        wave = np.where((hour >= 6.5) & (hour < 22.5), np.maximum(0.0, np.sin((hour - 6.5) / 16 * np.pi)) ** 0.7, 0.0)
        weekend = np.where(of_week >= 5 * DAY_MINUTES, 0.66, 1.0)
        burst = 0.8 + 0.2 * noise.unit(self.key, minutes // 7) + np.where(noise.unit(self.key + 1, minutes // 5) > 0.97, 0.25, 0)
        return np.asarray((self.night + (1 - self.night) * wave) * weekend * burst)

    def activity(self, minutes: Minutes, started: int, key: int) -> Minutes:
        level = np.minimum(self.level * self.demand(minutes) * (0.97 + 0.06 * noise.unit(key, minutes)), MOST_SERVING)
        for first, last in self.hung:
            level = np.where((minutes >= first) & (minutes < last), 0.0, level)
        return np.where(level < LEAST_ACTIVE, 0, (level * MILLION).astype(np.int64))


@dataclass(frozen=True)
class Sessions:
    """Somebody tries something now and then, in office hours: stretches of 20 minutes at changing levels."""

    level: float
    memory_mib: int
    first_minute_of_week: int
    chance: float = 0.35

    def activity(self, minutes: Minutes, started: int, key: int) -> Minutes:
        of_week = (minutes + self.first_minute_of_week) % WEEK_MINUTES
        hour = of_week % DAY_MINUTES // 60
        is_office = (of_week < 5 * DAY_MINUTES) & (hour >= 8) & (hour < 19)
        works = is_office & (noise.unit(key, minutes // 20) < self.chance)
        level = np.maximum(self.level * (0.4 + 0.6 * noise.unit(key + 1, minutes // 20)), LEAST_ACTIVE)
        return np.where(works, (level * MILLION).astype(np.int64), 0)
