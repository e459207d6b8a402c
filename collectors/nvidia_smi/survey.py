"""The first pass over a file: when its readings are from, how far apart, and what it says of the GPUs' identities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from collectors.nvidia_smi.fleet import Fleet
from collectors.nvidia_smi.parse import Input, read_records
from collectors.nvidia_smi.records import Found, GpuReading, Identity, Note, OptionMissingError, ProcessSighting
from collectors.nvidia_smi.schema import READINGS
from collectors.nvidia_smi.times import on_day
from warehouse.landing.conform import Reject

#: of a file with a single reading, and so without a distance between two
DEFAULT_INTERVAL = timedelta(seconds=60)
#: a median needs no more different distances than these
_DISTANCES = 50_000
#: the instant that goes with a reject, which needs none
NO_INSTANT = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Context:
    """What the options say of all files: the node where no text names it; the GPUs where no row names one, in the order in
    which their rows follow each other."""

    node: str | None = None
    gpus: tuple[Identity, ...] = ()
    interval: timedelta | None = None


@dataclass
class Survey:
    """What the first pass found in a file. `at` is when it was saved, as far as an option or its name says it."""

    given: Input
    at: datetime | None
    first_at: datetime | None = None
    nominal: timedelta = DEFAULT_INTERVAL
    has_processes: bool = False
    has_local_times: bool = False
    notes: list[str] = field(default_factory=list)


def survey(given: Input, at: datetime | None, context: Context, fleet: Fleet) -> Survey:
    """Read the file once, and teach `fleet` what it says. Raises as `read_records`, and where an option is missing."""
    found = Survey(given, at)
    distances: Counter[int] = Counter()
    last: dict[tuple[str, Identity], datetime] = {}
    timeless: GpuReading | ProcessSighting | None = None
    for item in _records(replace(given, reading=replace(given.reading, is_survey=True)), context):
        if isinstance(item, Note) and item.text not in found.notes:
            found.notes.append(item.text)
        if isinstance(item, Reject | Note):
            continue
        node, identity = item.node or context.node, item.identity
        _require(given, item, node)
        if isinstance(item, ProcessSighting):
            found.has_processes = True
        else:
            fleet.learn(node or "", item)
        if item.at is None:
            timeless = timeless or (None if _is_listing(item) else item)
            continue
        instant = datetime.combine(date(2000, 1, 1), item.at) if isinstance(item.at, time) else item.at
        if isinstance(item.at, datetime):
            found.has_local_times = True
            found.first_at = min(found.first_at or item.at, item.at)
        if isinstance(item, GpuReading) and not _is_listing(item):
            key = (item.tool, identity)
            distance = (instant - last[key]) // timedelta(milliseconds=1) if key in last else 0
            last[key] = instant
            if isinstance(item.at, time):
                distance %= 86_400_000  # over midnight
            if distance > 0 and (len(distances) < _DISTANCES or distance in distances):
                distances[distance] += 1
    _check_times(found, timeless)
    found.nominal = context.interval or _median(distances) or DEFAULT_INTERVAL
    return found


def placed(found: Survey, context: Context) -> Iterator[tuple[Found, datetime]]:
    """The file's readings and sightings, each with its instant; rejects and notes with any."""
    ticks = _Ticks(found, context)
    for item in _records(found.given, context):
        if isinstance(item, Reject | Note):
            yield item, NO_INSTANT
            continue
        try:
            at = ticks.instant(item)
        except ValueError as error:
            yield found.given.reading.reject(item.line, error), NO_INSTANT
            continue
        if at is not None:
            yield item, at


def _records(given: Input, context: Context) -> Iterator[Found]:
    """The records of a file, those that name no GPU with the one whose turn it is."""
    turn = 0
    for item in read_records(given):
        if context.gpus and isinstance(item, GpuReading | ProcessSighting) and not item.is_named:
            yield replace(item, identity=context.gpus[turn % len(context.gpus)])
            turn += 1
        else:
            yield item


class _Ticks:
    """Gives an instant to what was printed without one: the first tick is from when the file's readings began (`at`), a
    new one begins when a GPU or process comes again, an interval later."""

    def __init__(self, found: Survey, context: Context) -> None:
        self._found, self._interval = found, context.interval
        self._zone = found.given.reading.zone
        self._seen: set[tuple[object, ...]] = set()
        self._count = 0
        self._of_day: time | None = None
        self._day: date | None = None

    def instant(self, item: GpuReading | ProcessSighting) -> datetime | None:
        if isinstance(item.at, datetime):
            return item.at
        start = self._found.at
        if isinstance(item.at, time):
            return None if start is None else self._on_its_day(item.at, start)
        if _is_listing(item):
            return start or self._found.first_at
        if start is None:
            return None
        key = (item.tool, item.identity, item.pid if isinstance(item, ProcessSighting) else None)
        if key in self._seen:
            self._seen.clear()
            self._count += 1
            if self._interval is None:
                raise OptionMissingError(
                    f"{self._found.given.reading.file}:{item.line}: several readings without a time; say how far apart they are: "
                    "--interval SECONDS"
                )
        self._seen.add(key)
        return start + self._count * (self._interval or timedelta(0))

    def _on_its_day(self, of_day: time, start: datetime) -> datetime:
        """The instant of a local time of day: on the day on which the file began, a day later after each midnight."""
        zone = self._zone or ZoneInfo("UTC")
        self._day = self._day or start.replace(tzinfo=UTC).astimezone(zone).date()
        if self._of_day is not None and of_day < self._of_day and (self._of_day.hour - of_day.hour) > 12:
            self._day += timedelta(days=1)
        self._of_day = of_day
        return on_day(of_day, self._day, self._zone)


def _is_listing(item: GpuReading | ProcessSighting) -> bool:
    return isinstance(item, GpuReading) and not READINGS & item.texts.keys()


def _require(given: Input, item: GpuReading | ProcessSighting, node: str | None) -> None:
    where = f"{given.reading.file}:{item.line}"
    if node is None:
        raise OptionMissingError(f"{where}: nothing in the text names the node; give it with --node NAME")
    if not item.is_named and not item.identity:
        raise OptionMissingError(
            f"{where}: no column names the GPU (uuid, pci.bus_id, index); say which the rows are of, in their order: --gpu UUID,…"
        )


def _check_times(found: Survey, timeless: GpuReading | ProcessSighting | None) -> None:
    """What was printed without a time can be placed by --at alone; beside output with times it is left out."""
    if timeless is None or found.at is not None:
        return
    where = f"{found.given.reading.file}:{timeless.line}"
    if found.first_at is None:
        raise OptionMissingError(
            f"{where}: no time is printed here; say when its first reading was taken with --at 2026-11-01T00:00:00Z (once per "
            "file, in their order), or name the file by it: 2026-11-01T00-00-00Z.txt"
        )
    found.notes.append(
        f"line {timeless.line}: readings without a time beside others with one are left out; dmon and pmon print it with -o DT"
    )


def _median(distances: Counter[int]) -> timedelta | None:
    half, passed = sum(distances.values()) / 2, 0
    for distance in sorted(distances):
        passed += distances[distance]
        if passed >= half:
            return timedelta(milliseconds=distance)
    return None
