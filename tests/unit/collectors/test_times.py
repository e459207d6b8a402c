"""Local times become instants, or say why they cannot."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import click
import pytest

from collectors.times import TIME_ZONE, AmbiguousTimeError, to_utc

NEW_YORK = ZoneInfo("America/New_York")


def test_a_local_time_is_read_in_the_zone_and_one_with_offset_by_its_offset() -> None:
    assert to_utc(datetime(2026, 7, 1, 12), NEW_YORK) == datetime(2026, 7, 1, 16)
    assert to_utc(datetime(2026, 7, 1, 12), None) == datetime(2026, 7, 1, 12)
    assert to_utc(datetime.fromisoformat("2026-07-01T12:00+02:00"), NEW_YORK) == datetime(2026, 7, 1, 10)


def test_a_repeated_hour_is_two_instants_and_a_skipped_one_is_none() -> None:
    with pytest.raises(AmbiguousTimeError, match=r"two instants in America/New_York.*; log in UTC"):
        to_utc(datetime(2026, 11, 1, 1, 30), NEW_YORK, "log in UTC")
    with pytest.raises(ValueError, match="never was in America/New_York"):
        to_utc(datetime(2026, 3, 8, 2, 30), NEW_YORK)


def test_a_zone_that_is_none_is_wrong_usage() -> None:
    assert TIME_ZONE.convert("Europe/Oslo", None, None) == ZoneInfo("Europe/Oslo")
    for name in ("Oslo", "../etc/passwd", ""):
        with pytest.raises(click.BadParameter, match="no zone"):
            TIME_ZONE.convert(name, None, None)
