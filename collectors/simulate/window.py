"""The time that a plan covers: whole hours, counted in minutes from its start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

MINUTE = timedelta(minutes=1)
DAY_MINUTES = 1440
WEEK_MINUTES = 7 * DAY_MINUTES


@dataclass(frozen=True)
class Window:
    """`[start_at, start_at + minutes)`; naive UTC, on a whole hour."""

    start_at: datetime
    minutes: int

    @property
    def until_at(self) -> datetime:
        return self.at(self.minutes)

    @property
    def first_minute_of_day(self) -> int:
        return self.start_at.hour * 60 + self.start_at.minute

    @property
    def first_minute_of_week(self) -> int:
        return self.start_at.weekday() * DAY_MINUTES + self.first_minute_of_day

    @property
    def day_length(self) -> int:
        """Minutes of a planning day; a plan shorter than a day is one of them."""
        return min(DAY_MINUTES, self.minutes)

    @property
    def planning_days(self) -> int:
        return max(1, self.minutes // DAY_MINUTES)

    def at(self, minute: int) -> datetime:
        return self.start_at + minute * MINUTE

    def minute_of(self, instant: datetime) -> int:
        return (instant - self.start_at) // MINUTE

    def minute_of_date(self, day: date) -> int:
        """The minute of its midnight; below 0 on the first date."""
        return self.minute_of(datetime.combine(day, datetime.min.time()))

    def dates(self) -> list[date]:
        count = (self.first_minute_of_day + self.minutes - 1) // DAY_MINUTES + 1
        return [self.start_at.date() + timedelta(days=number) for number in range(count)]

    def date_numbers(self, first: int, last: int) -> Integers:
        """For each minute of `[first, last)` which of `dates()` it lies in."""
        return (np.arange(first, last) + self.first_minute_of_day) // DAY_MINUTES

    def is_office(self, minutes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """08:00 to 19:00 UTC, Monday to Friday."""
        of_week = (minutes + self.first_minute_of_week) % WEEK_MINUTES
        hour = of_week % DAY_MINUTES // 60
        result: npt.NDArray[np.bool_] = (of_week < 5 * DAY_MINUTES) & (hour >= 8) & (hour < 19)
        return result
