"""Readings of one server in time order → what its counters grew by between them.

A counter restarts at 0 with its server (semantics 8). That the process is another one is the best evidence of it, and
counts whatever the counters read; without it a counter that fell began again, unless the next reading is back above: then
that reading was a glitch and is left out. All counters of one engine restart together, so that one that has already
overtaken its old value is not mistaken for one that went on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from collectors.inference.parse import Reading, Series
from collectors.inference.schema import CHILD_LABELS, GROWING

#: clocks of a start time and of a scrape may differ by so much
_SAME_START = timedelta(seconds=1)

Model = tuple[str | None, str | None]
#: the labels of an engine: those that a counter's own breakdown (by reason, by bucket) does not add
Engine = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Growth:
    """What the counters of one model grew by over `[start_at, reading.at)`; `reading` also holds its gauges."""

    model: str | None
    adapter: str | None
    start_at: datetime
    reading: Reading
    amounts: Mapping[Series, float]


@dataclass
class Grown:
    growth: list[Growth] = field(default_factory=list)
    #: models whose last reading fell: the next one tells whether that was a restart
    undecided: set[Model] = field(default_factory=set)
    #: models that were read for the first time: (server, model) → its counters
    first: dict[Model, Reading] = field(default_factory=dict)
    #: instants of readings that fell and came back
    glitches: list[datetime] = field(default_factory=list)
    #: instants of readings before which an engine began anew
    restarts: list[datetime] = field(default_factory=list)


def grow(readings: Sequence[Reading], *, is_closed: bool, first_within: timedelta, from_zero: bool = False) -> Grown:
    """The growth between `readings` of one server, which are in time order.

    `is_closed`: nothing follows, so that a counter that fell last restarted; else it stays undecided. The first reading
    of a server counts from 0 if it started no more than `first_within` before it, or if `from_zero`.
    """
    grown = Grown()
    models = dict.fromkeys((series.model, series.adapter) for reading in readings for series in reading.values if _grows(series))
    for model in models:
        _Walk(model, readings, grown, is_closed, first_within, from_zero).run()
    grown.growth.sort(key=lambda growth: (growth.reading.at, growth.model or "", growth.adapter or ""))
    return grown


def _grows(series: Series) -> bool:
    return series.metric in GROWING


class _Walk:
    """Goes through the readings of one model."""

    def __init__(
        self,
        model: Model,
        readings: Sequence[Reading],
        grown: Grown,
        is_closed: bool,
        first_within: timedelta,
        from_zero: bool,
    ) -> None:
        self.model, self.grown, self.is_closed = model, grown, is_closed
        self.first_within, self.from_zero = first_within, from_zero
        self.all = list(readings)
        self.own: list[tuple[Reading, dict[Engine, dict[Series, float]]]] = []
        for reading in readings:
            engines: dict[Engine, dict[Series, float]] = {}
            for series, value in reading.values.items():
                if (series.model, series.adapter) == model and _grows(series):
                    engines.setdefault(_engine(series), {})[series] = value
            if engines:
                self.own.append((reading, engines))
        #: engine → its last reading that counts
        self.last: dict[Engine, tuple[Reading, dict[Series, float]]] = {}

    def run(self) -> None:
        previous: Reading | None = None
        for position, (reading, engines) in enumerate(self.own):
            if previous is None:
                self._begin(reading, engines)
                previous = reading
                continue
            fallen = [engine for engine, values in engines.items() if self._fell(engine, reading, values)]
            if fallen and not self._follows(position):
                self.grown.undecided.add(self.model)
                return
            if fallen and self._comes_back(position, fallen):
                self.grown.glitches.append(reading.at)
                continue
            amounts: dict[Series, float] = {}
            is_new = False
            for engine, values in engines.items():
                is_new |= engine in fallen or self._is_other_process(engine, reading)
                amounts |= self._amounts(engine, reading, values, engine in fallen, previous)
                self.last[engine] = (reading, values)
            if is_new:
                self.grown.restarts.append(reading.at)
            self._add(previous.at, reading, amounts)
            previous = reading

    def _begin(self, reading: Reading, engines: Mapping[Engine, dict[Series, float]]) -> None:
        """The first reading of a model says what it did only if its server is known to have started just before."""
        self.last = {engine: (reading, values) for engine, values in engines.items()}
        before = [other for other in self.all if other.at < reading.at]
        started = reading.started_at
        is_first = not before
        counts = started is not None and (
            (is_first and (self.from_zero or reading.at - started <= self.first_within))
            or (bool(before) and started >= before[-1].at)
        )
        if counts and started is not None and started < reading.at:
            self._add(started, reading, {series: value for values in engines.values() for series, value in values.items()})
        else:
            self.grown.first[self.model] = reading

    def _add(self, start_at: datetime, reading: Reading, amounts: Mapping[Series, float]) -> None:
        if start_at < reading.at:
            self.grown.growth.append(Growth(*self.model, start_at, reading, amounts))

    def _is_other_process(self, engine: Engine, reading: Reading) -> bool:
        known = self.last.get(engine)
        before = known[0].started_at if known else None
        return before is not None and reading.started_at is not None and reading.started_at - before > _SAME_START

    def _fell(self, engine: Engine, reading: Reading, values: Mapping[Series, float]) -> bool:
        """A counter reads less than before, and the process does not explain it."""
        if engine not in self.last or self._is_other_process(engine, reading):
            return False
        before = self.last[engine][1]
        return any(values[series] < value for series, value in before.items() if series in values)

    def _follows(self, position: int) -> bool:
        """Whether it is known what came after: another reading of the model, or one of its server without it."""
        return self.is_closed or self.own[position][0] is not self.all[-1]

    def _comes_back(self, position: int, fallen: Iterable[Engine]) -> bool:
        """Whether the next reading has every counter that fell at or above where it was before."""
        if position + 1 == len(self.own):
            return False
        next_reading, following = self.own[position + 1]
        values = self.own[position][1]
        return all(
            not self._is_other_process(engine, next_reading)
            and all(
                following.get(engine, {}).get(series, -1.0) >= value
                for series, value in self.last[engine][1].items()
                if series in values[engine] and values[engine][series] < value
            )
            for engine in fallen
        )

    def _amounts(
        self, engine: Engine, reading: Reading, values: Mapping[Series, float], fell: bool, previous: Reading
    ) -> dict[Series, float]:
        started_since = reading.started_at is not None and reading.started_at >= previous.at
        if fell or self._is_other_process(engine, reading) or (engine not in self.last and started_since):
            return dict(values)
        if engine not in self.last:
            return {}
        last_reading, before = self.last[engine]
        counted = {(series.metric, series.part) for series in before}
        amounts: dict[Series, float] = {}
        for series, value in values.items():
            if series in before:
                amounts[series] = value - before[series]
            elif _is_child(series) and (series.metric, series.part) in counted and series.metric != last_reading.last_metric:
                # its siblings were read then and it was not: it began since. (At the end of a cut text that is not sure.)
                amounts[series] = value
        return amounts


def _is_child(series: Series) -> bool:
    return series.part != "bucket" and any(label in CHILD_LABELS for label, _ in series.labels)


def _engine(series: Series) -> Engine:
    return tuple((label, value) for label, value in series.labels if label not in CHILD_LABELS and label != "le")
