"""The times these tools print: `2026/07/14 09:00:44.579`, `Mon Apr 24 16:11:51 2023`, `20260714` beside `09:00:44`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from collectors.times import to_utc

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# day of the week, month, day, time, year: what C's ctime writes, in every locale alike
_CTIME = re.compile(r"[A-Za-z]{3}\s+([A-Za-z]{3})\s+(\d{1,2})\s+(\d\d):(\d\d):(\d\d)\s+(\d{4})")
_SLASHED = re.compile(r"(\d{4})/(\d\d?)/(\d\d?)[ T](\d\d?:\d\d:\d\d)(\.\d{1,6})?\d*")
_EPOCH = re.compile(r"\d{9,11}(\.\d{1,6})?")
_REMEDY = "run nvidia-smi with TZ=UTC and name no zone"
_FIRST_YEAR, _LAST_YEAR = 1990, 2200


@lru_cache(maxsize=4096)  # all GPUs of a tick carry the same text
def read_instant(text: str, zone: ZoneInfo | None) -> datetime:
    """An instant as naive UTC; one without offset is a time in `zone` (None: UTC).

    Raises AmbiguousTimeError in an hour that the zone's clock repeats, ValueError for anything else that is no instant.
    """
    text = text.strip().strip('"')
    try:
        if len(text) == 23 and text[4] == text[7] == "/":  # what most lines hold
            instant = datetime.fromisoformat(text.replace("/", "-"))
        elif match := _CTIME.fullmatch(text):
            month, day, hour, minute, second, year = match.groups()
            instant = datetime(int(year), _MONTHS.index(month.lower()) + 1, int(day), int(hour), int(minute), int(second))
        elif slashed := _SLASHED.fullmatch(text):
            year, month, day, clock, fraction = slashed.groups()
            instant = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{clock:0>8}{fraction or ''}")
        elif _EPOCH.fullmatch(text):
            instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(text))
        else:
            instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is no time; nvidia-smi prints 2026/07/14 09:00:44.579") from None
    if not _FIRST_YEAR <= instant.year <= _LAST_YEAR:
        raise ValueError(f"{text[:60]!r} is no time of a reading: it lies outside {_FIRST_YEAR} to {_LAST_YEAR}")
    return instant if zone is None and instant.tzinfo is None else to_utc(instant, zone, _REMEDY)


def read_clock(day: str | None, clock: str | None, zone: ZoneInfo | None) -> datetime | time | None:
    """The time of a dmon line from its columns Date and Time: an instant, a time of day where the date is left out."""
    if clock is None:
        return None
    try:
        of_day = time.fromisoformat(f"{clock:0>8}")
        if day is None:
            return of_day
        on = date.fromisoformat(day.replace("/", "-"))
    except ValueError:
        raise ValueError(f"{day or ''} {clock} is no time; dmon prints 20260714 09:00:44 with -o DT") from None
    return to_utc(datetime.combine(on, of_day), zone, _REMEDY)


def on_day(of_day: time, day: date, zone: ZoneInfo | None) -> datetime:
    """A local time of day on a local day as naive UTC; raises as `read_instant` does."""
    return to_utc(datetime.combine(day, of_day), zone, _REMEDY)
