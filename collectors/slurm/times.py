"""Slurm's instants and durations: local, with offset or in epoch seconds; `5-23:01:30`, `32:22.545`, minutes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from collectors.times import to_utc

#: what Slurm writes where there is no instant or no limit
NOTHING = frozenset({"", "unknown", "none", "n/a", "invalid", "unlimited", "partition_limit", "not set", "infinite"})

REMEDY = "save with TZ=UTC or SLURM_TIME_FORMAT=%s and name no zone"

_EPOCH = re.compile(r"\d{1,11}")
_DURATION = re.compile(r"(?:(?:(\d+)-)?(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)")
_LONGEST = 10**9
#: instants beyond these years are no job's (naive datetimes end at 9999)
_FIRST, _LAST = datetime(1990, 1, 1), datetime(2200, 1, 1)


@lru_cache(maxsize=4096)  # a row says the same instant in several fields
def parse_time(text: str, zone: ZoneInfo | None) -> datetime | None:
    """An instant as naive UTC; None for `Unknown`, `None`, 0 and the like. A time without offset is read in `zone`.

    Raises AmbiguousTimeError in a repeated hour, ValueError for a time that never was and for anything else; both say what helps.
    """
    text = text.strip()
    if text.lower() in NOTHING or text == "0":
        return None
    if _EPOCH.fullmatch(text):
        return _plausible(datetime(1970, 1, 1) + timedelta(seconds=int(text)), text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; save with SLURM_TIME_FORMAT=%s (epoch) or in ISO 8601") from None
    _plausible(instant.replace(tzinfo=None), text)
    return to_utc(instant, zone, REMEDY)


def is_local(text: str) -> bool:
    """Whether this is a time that needs a zone to be an instant."""
    return re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?", text.strip()) is not None


def parse_duration(text: str) -> float | None:
    """Seconds of `[D-][HH:]MM:SS[.fff]` or of a bare number of seconds; None for `UNLIMITED` and the like."""
    text = text.strip()
    if text.lower() in NOTHING:
        return None
    match = _DURATION.fullmatch(text)
    if not match or len(text) > 40:
        raise ValueError(f"{text!r} is no duration; it looks like 1-02:03:04")
    days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds)
    if total > _LONGEST:
        raise ValueError(f"{text!r} is no duration: it is longer than 30 years")
    return total


def _plausible(instant: datetime, text: str) -> datetime:
    if not _FIRST <= instant <= _LAST:
        raise ValueError(f"{text!r} is no time of a job: it lies outside 1990 to 2200")
    return instant
