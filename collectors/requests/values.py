"""Single values of a request log. What is wrong with one is told without the value: it may be somebody's prompt."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from collectors.requests.schema import LONGEST_TEXT, NOTHING
from collectors.times import to_utc

EPOCH = datetime(1970, 1, 1)
FIRST, LAST = datetime(2000, 1, 1), datetime(2200, 1, 1)
_NUMBER = re.compile(r"[+-]?\d{1,20}(\.\d{1,12})?([eE][+-]?\d{1,3})?")
_STATUS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
#: an epoch above this is in the next smaller unit: seconds, milli-, micro-, nanoseconds
_LARGEST_SECONDS = 1e11


def find(record: dict[str, Any], path: str) -> Any:
    """The value at a path; None where there is none. A text on the way is read as JSON."""
    if path in record:
        value = record[path]
    elif "." not in path:
        return None
    else:
        value = record
        for name in _names(path):
            if isinstance(value, str) and value.lstrip()[:1] == "{":
                value = _read(value)
            if not isinstance(value, dict):
                return None
            value = value.get(name)
    if isinstance(value, str):
        return None if len(value) < 12 and value.strip().lower() in NOTHING else value
    return None if value in ({}, []) else value


@lru_cache(maxsize=1024)
def _names(path: str) -> list[str]:
    return path.split(".")


@lru_cache(maxsize=8)  # a record's metadata is looked into for a dozen fields
def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def to_text(value: Any) -> str | None:
    """A short text; None for an empty one. ValueError for what is none, or longer than any name."""
    if not isinstance(value, str | int):
        raise ValueError("no text")
    text = str(value).strip()
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise ValueError(f"no name: longer than {LONGEST_TEXT} characters, or in several lines")
    return text or None


def to_status(value: Any) -> str:
    """One word or code. An error's message is none: it may quote the prompt."""
    text = str(value).strip() if isinstance(value, str | int) else ""
    if not _STATUS.fullmatch(text):
        raise ValueError("no status of one word")
    return text


def to_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("no number")
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        raise ValueError("no number")
    number = float(value)
    if not abs(number) < 1e20:
        raise ValueError("no finite number")
    return number


def to_count(value: Any) -> int:
    number = to_number(value)
    if not 0 <= number < 1e18 or number != int(number):
        raise ValueError("no whole number of at least 0")
    return int(number)


def to_instant(value: Any, zone: ZoneInfo | None) -> datetime:
    """An instant as naive UTC: ISO 8601 (without offset: in `zone`, UTC if None) or a Unix time in s, ms, µs or ns.

    Raises AmbiguousTimeError in an hour that the zone's clock repeats, ValueError for what is no instant of this century.
    """
    if isinstance(value, datetime):
        return _plausible(to_utc(value, zone))
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()):
        seconds = to_number(value)
        while abs(seconds) > _LARGEST_SECONDS:
            seconds /= 1000
        return _plausible(EPOCH + timedelta(seconds=seconds)) if abs(seconds) < 7.3e9 else _plausible(EPOCH)
    try:
        instant = datetime.fromisoformat(re.sub(r" ?UTC$", "Z", value.strip()))
    except ValueError:
        raise ValueError("no time; ISO 8601 (2026-11-01T00:00:00Z) or a Unix time is one") from None
    if instant.tzinfo is None and zone is None:
        return _plausible(instant)
    return _plausible(to_utc(instant, zone, "log with offsets or in UTC and name no zone"))


def to_relative(value: Any, start: datetime, unit_seconds: float) -> datetime:
    """An instant so many units after the start."""
    number = to_number(value)
    if not 0 <= number * unit_seconds < 3.2e9:
        raise ValueError("no time since the start")
    return _plausible(start + timedelta(seconds=number * unit_seconds))


def _plausible(instant: datetime) -> datetime:
    if not FIRST <= instant < LAST:
        raise ValueError("no time of this century; is it an offset from a start (--format mooncake, burstgpt)?")
    return instant
