"""Series of dcgm-exporter → readings, each scrape of each exporter read as its text would be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from collectors.dcgm.labels import Slot
from collectors.dcgm.parse import OptionMissingError, Reading, Scrapes, to_readings
from collectors.metrics.text import Sample
from collectors.prometheus.answers import Series, to_instant, to_milliseconds
from collectors.prometheus.intervals import look_ahead_ms, look_back_ms
from collectors.prometheus.reading import TARGET_LABELS, Reader, any_of, selector
from collectors.prometheus.window import Span
from warehouse.landing.conform import MALFORMED, Reject, redact

#: how far back the last reading of a device is looked for
SEARCH = (timedelta(minutes=30), timedelta(hours=2), timedelta(hours=8), timedelta(hours=24))
SOURCE_FILE = "prometheus"
UUID_LABELS = ("UUID", "uuid", "gpu_uuid")


@dataclass
class Devices:
    """Reads the devices of one cluster, window after window in the order of time."""

    reader: Reader
    names: Sequence[str]
    more: str
    usual_ms: int
    _seen: set[Slot] = field(default_factory=set)
    #: jobs whose scrape puts its target's labels before the exporter's, as far as was seen
    _renaming: set[str] = field(default_factory=set)

    def read(self, span: Span) -> Scrapes:
        """The readings in the span and shortly after it; with the first span those in the look-back before it.

        Of each slot that has not been read before, the last reading of the day before comes first: what its counters
        grew by counts from there.
        """
        start_ms = span.start_ms if self._seen else span.start_ms - look_back_ms(self.usual_ms)
        end_ms = span.end_ms + look_ahead_ms(self.usual_ms)
        series = self.reader.read(selector(self.names, more=self.more), start_ms, end_ms, self.usual_ms)
        scrapes = self._put_together(series)
        scrapes.readings += self._before(scrapes.readings, start_ms, span)
        self._seen |= {reading.slot for reading in scrapes.readings if reading.at < span.end_at}
        return scrapes

    def held(self, span: Span) -> list[Reading]:
        """Readings of one field from the beginning of the UTC hour to the look-back: who held what then."""
        begin = to_milliseconds(span.start_at.replace(minute=0, second=0, microsecond=0))
        end = span.start_ms - look_back_ms(self.usual_ms)
        if begin >= end:
            return []
        series = self.reader.read(selector(self.names[:1], more=self.more), begin, end, self.usual_ms)
        return self._put_together(series).readings

    def _put_together(self, series: Sequence[Series]) -> Scrapes:
        """The readings, without the exporter's own pod where a blank one of the workload was not stored.

        Prometheus drops empty labels: of a scrape that renames the exporter's labels, an idle device's series has no
        `exported_pod`, and the `pod` of the target looks like its holder.
        """
        self._renaming |= {one.labels.get("job", "") for one in series if "exported_pod" in one.labels}
        return put_together([_without_target(one) if self._renames(one) else one for one in series])

    def _renames(self, series: Series) -> bool:
        return series.labels.get("job", "") in self._renaming and "exported_pod" not in series.labels

    def _before(self, readings: Sequence[Reading], start_ms: int, span: Span) -> list[Reading]:
        """The last reading of each slot whose first one in this call needs one before it.

        Asked for is one field, further and further back, then all fields at the instants found.
        """
        first: dict[Slot, Reading] = {}
        for reading in sorted(readings, key=lambda reading: reading.at):
            first.setdefault(reading.slot, reading)
        wanted = {slot for slot, reading in first.items() if slot not in self._seen and reading.at >= span.start_at}
        found: list[Reading] = []
        until = start_ms
        for reach in SEARCH:
            if not wanted:
                break
            begin = start_ms - reach // timedelta(milliseconds=1)
            last: dict[Slot, int] = {}
            for label, pattern in _uuids(first[slot] for slot in wanted):
                question = selector(self.names[:1], {label: pattern}, self.more)
                series = self.reader.read(question, begin, until, self.usual_ms)
                ends = [Series(one.name, one.labels, one.points[-1:]) for one in series]
                for reading in self._put_together(ends).readings:
                    last[reading.slot] = max(last.get(reading.slot, 0), to_milliseconds(reading.at))
            last = {slot: at for slot, at in last.items() if slot in wanted}
            found += self._all_fields(last, first)
            wanted -= set(last)
            until = begin
        return found

    def _all_fields(self, last: Mapping[Slot, int], first: Mapping[Slot, Reading]) -> Iterator[Reading]:
        if not last:
            return
        begin, end = min(last.values()), max(last.values()) + 1
        for label, pattern in _uuids(first[slot] for slot in last):
            series = self.reader.read(selector(self.names, {label: pattern}, self.more), begin, end, self.usual_ms)
            for reading in self._put_together(series).readings:
                if last.get(reading.slot) == to_milliseconds(reading.at):
                    yield reading


def _without_target(series: Series) -> Series:
    labels = {label: value for label, value in series.labels.items() if label not in ("pod", "namespace", "container")}
    return Series(series.name, labels, series.points)


def _uuids(readings: Iterable[Reading]) -> Iterator[tuple[str, str]]:
    """(label, regex) pairs that match the series of these devices."""
    values: dict[str, set[str]] = {}
    for reading in readings:
        label = next((name for name in UUID_LABELS if reading.labels.get(name)), None)
        if label:
            values.setdefault(label, set()).add(reading.labels[label])
    for label, uuids in values.items():
        for pattern in any_of(uuids):
            yield label, pattern


def last_point(series: Series) -> Series:
    return Series(series.name, series.labels, series.points[-1:])


def put_together(series: Sequence[Series]) -> Scrapes:
    """The readings in the series' samples, each scrape of each target read as its text would be.

    A series that names no device, or no node, is a reject, once.
    """
    scrapes = Scrapes()
    targets: dict[tuple[str, ...], list[Series]] = {}
    for one in series:
        refused = _refused(one) if one.points else ()
        scrapes.rejects += refused
        if one.points and not refused:
            targets.setdefault(tuple(one.labels.get(label, "") for label in TARGET_LABELS), []).append(one)
    # the series of a slot carry the same labels, and `to_readings` works out what one mapping says once
    mappings: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
    for members in targets.values():
        instants: dict[int, list[Sample]] = {}
        for one in members:
            labels = mappings.setdefault(frozenset(one.labels.items()), one.labels)
            for at, value in one.points:
                instants.setdefault(at, []).append(Sample(0, one.name, labels, value, to_instant(at)))
        for at in sorted(instants):
            scrapes.extend(to_readings(instants[at], SOURCE_FILE))
    scrapes.readings = _once(scrapes.readings)
    return scrapes


def _once(readings: Sequence[Reading]) -> list[Reading]:
    """Of several readings of one slot and instant the one that says most: a federated copy has its original's time."""
    found: dict[tuple[Slot, datetime], Reading] = {}
    for reading in readings:
        known = found.setdefault((reading.slot, reading.at), reading)
        if len(reading.values) > len(known.values):
            found[reading.slot, reading.at] = reading
    return list(found.values())


def _refused(series: Series) -> Sequence[Reject]:
    at, value = series.points[0]
    try:
        return to_readings([Sample(0, series.name, series.labels, value, to_instant(at))], SOURCE_FILE).rejects
    except OptionMissingError:
        detail = "no label names the node; relabel the exporter's scrape, so that `node` or `Hostname` is the node's name"
        return [Reject(SOURCE_FILE, None, MALFORMED, detail, redact(f"{series.name}{dict(series.labels)}"))]
