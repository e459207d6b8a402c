"""Readings of a server as `collectors.memory` keeps them between calls: flat, with text for keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from collectors.inference.parse import Reading, Series
from collectors.memory import Memory, Remembered
from collectors.metrics.text import EPOCH

_STARTED, _LAST = "started_at", "last_metric:"


@dataclass(frozen=True)
class Before:
    """The kept readings of a server, and the last of them whose rows have landed."""

    readings: tuple[Reading, ...]
    landed_at: datetime | None


def before(memory: Memory, server: str, at: datetime) -> Before:
    """What is kept of the server from before `at`."""
    found = memory.before(server, at)
    landed = [reading.at for reading in found if reading.run_id is not None]
    return Before(tuple(_reading(server, reading) for reading in found), max(landed, default=None))


def keep(memory: Memory, readings: Sequence[Reading], run_id: str | None, undecided_at: datetime | None) -> None:
    """Note the readings of one server as landed by `run_id`, but for the one whose rows must wait."""
    if readings:
        told = [Remembered(reading.at, _values(reading), None if reading.at == undecided_at else run_id) for reading in readings]
        memory.note(readings[0].server, told)


def _values(reading: Reading) -> dict[str, float]:
    values = {json.dumps(astuple(series)): value for series, value in reading.values.items()}
    if reading.started_at:
        values[_STARTED] = (reading.started_at - EPOCH).total_seconds()
    return values | {f"{_LAST}{reading.last_metric}": 1.0}


def _reading(server: str, kept: Remembered) -> Reading:
    values: dict[Series, float] = {}
    started: datetime | None = None
    last = ""
    for key, value in kept.values.items():
        if key == _STARTED:
            started = EPOCH + timedelta(seconds=value)
        elif key.startswith(_LAST):
            last = key.removeprefix(_LAST)
        else:
            metric, part, model, adapter, labels = json.loads(key)
            values[Series(metric, part, model, adapter, tuple((name, text) for name, text in labels))] = value
    return Reading(server, kept.at, values, started, None, last)
