"""Times that a tool prints without offset: local ones, read in the zone that the reader was told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

#: the reject reason of `semantics.md` 11 for a local time that two instants share
AMBIGUOUS_LOCAL_TIME = "ambiguous_local_time"

IN_NAME = re.compile(r"(?<!\d)(\d{4}-?\d{2}-?\d{2})[T_](\d{2})[-:]?(\d{2})[-:]?(\d{2}(?:\.\d{1,6})?)Z")
_REMEDY = "save it with TZ=UTC and name no zone"


class AmbiguousTimeError(ValueError):
    """A local time that two instants share: the hour a clock repeats in autumn."""


class _Zone(click.ParamType[ZoneInfo]):
    name = "zone"

    def convert(self, value: str | ZoneInfo, param: click.Parameter | None, ctx: click.Context | None) -> ZoneInfo:
        try:
            return value if isinstance(value, ZoneInfo) else ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is no zone; write Europe/Oslo, America/New_York or UTC", param, ctx)


#: for `click.option("--time-zone", type=TIME_ZONE)`
TIME_ZONE = _Zone()


def to_utc(instant: datetime, zone: ZoneInfo | None, remedy: str = _REMEDY) -> datetime:
    """An instant as naive UTC; one without offset is a time in `zone` (None: UTC).

    Raises AmbiguousTimeError in an hour that the zone's clock repeats (the message ends with `remedy`), ValueError for a
    time that the clock skips.
    """
    if instant.tzinfo is None:
        instant = _localized(instant, zone or ZoneInfo("UTC"), remedy)
    return instant.astimezone(UTC).replace(tzinfo=None)


def time_in_name(name: str) -> datetime | None:
    """The instant in a file's name, such as `sinfo-2026-11-01T00-00-00Z.txt`, naive UTC; None where there is none."""
    match = IN_NAME.search(name)
    if not match:
        return None
    day, *clock = match.groups()
    try:
        return datetime.fromisoformat(f"{day[:4]}-{day.replace('-', '')[4:6]}-{day[-2:]}T{':'.join(clock)}")
    except ValueError:
        return None


def _localized(instant: datetime, zone: ZoneInfo, remedy: str) -> datetime:
    first, second = instant.replace(tzinfo=zone, fold=0), instant.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return first
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == instant:
        raise AmbiguousTimeError(f"{instant.isoformat()} is two instants in {zone.key}: the clock repeats that hour; {remedy}")
    raise ValueError(f"{instant.isoformat()} never was in {zone.key}: the clock skips that hour; is --time-zone right?")
