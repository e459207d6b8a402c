"""Readings of a server as `collectors.memory` keeps them between calls: flat, with text for keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from collectors.inference.parse import Reading, Series
from collectors.memory import Memory, Remembered
from collectors.metrics.text import EPOCH

#: later than any reading
_ALWAYS = datetime(9999, 1, 1)
_STARTED, _LAST = "started_at", "last_metric:"


@dataclass(frozen=True)
class Joined:
    """A server's readings in time order, kept ones and new ones; what ends after `landed_at` has not landed yet."""

    readings: tuple[Reading, ...]
    landed_at: datetime | None


def join(memory: Memory, new: Sequence[Reading]) -> Joined:
    """The new readings of one server behind those kept from before them.

    A reading that comes late, between two that landed, is joined with those after it too: what was landed across it lands
    again in its two parts.
    """
    server, first = new[0].server, new[0].at
    every = memory.before(server, _ALWAYS)
    instants = {reading.at for reading in new}
    is_late = any(kept.at > first for kept in every) and not any(kept.at in instants for kept in every)
    kept = every if is_late and every[0].at < first else [reading for reading in every if reading.at < first]
    landed = [reading.at for reading in kept if reading.run_id is not None and reading.at < first]
    joined = [*(_reading(server, reading) for reading in kept), *new]
    return Joined(tuple(sorted(joined, key=lambda reading: reading.at)), max(landed, default=None))


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
