"""Series of inference servers → the rows that the `inference` collector gives for the same scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from collectors.inference.growth import grow
from collectors.inference.names import is_nim, read_name
from collectors.inference.parse import Reading, Scrape, to_readings
from collectors.inference.rows import Given, to_rows
from collectors.inference.schema import GROWING, KNOWN, STANDING
from collectors.metrics.text import Sample
from collectors.parsed import Parsed
from collectors.prometheus.answers import Series, to_instant, to_milliseconds
from collectors.prometheus.intervals import intervals_ms, look_ahead_ms, look_back_ms
from collectors.prometheus.pods import FindPod, Place
from collectors.prometheus.reading import Reader, any_of, selector
from collectors.prometheus.window import Span

TABLE = "inference_usage"
SOURCE_FILE = "prometheus"
#: two readings further apart than so many intervals have a gap between them
LONGEST_INTERVALS = 2.5
#: a gap longer than this says nothing of any hour in it; no reading further back is looked for
LONGEST_GAP = timedelta(hours=24)
SEARCH = (timedelta(minutes=30), timedelta(hours=2), timedelta(hours=8), LONGEST_GAP)
#: when a server's process began: its counters then stood at 0
PROCESS_START = "process_start_time_seconds"
#: labels of the target, which say where the server is and not which of its counters it is
TARGET_LABELS = frozenset(
    {"job", "instance", "namespace", "pod", "container", "endpoint", "service", "node", "kubernetes_node"}
    | {"pod_name", "kubernetes_namespace", "kubernetes_pod_name", "prometheus", "prometheus_replica"}
)


@dataclass(frozen=True)
class Server:
    """One scraped address. `name` is what its rows call it: its pod, else host and port."""

    instance: str
    namespace: str | None
    pod: str | None
    node: str | None

    @property
    def name(self) -> str:
        return self.pod or self.instance


@dataclass
class Servers:
    """Reads the inference servers of one cluster, window after window; `last` holds the last reading of each so far."""

    reader: Reader
    names: Sequence[str]
    more: str
    cluster: str
    usual_ms: int
    last: dict[tuple[str, str | None], Reading] = field(default_factory=dict)

    def read(self, span: Span) -> dict[Server, Scrape]:
        """The readings in the span, in the look-back before and shortly after it; the last one of a server without such."""
        start_ms = span.start_ms - look_back_ms(self.usual_ms)
        series = self._series({}, start_ms, span.end_ms + look_ahead_ms(self.usual_ms))
        found = read_servers(series)
        for server, scrape in found.items():
            if scrape.readings and scrape.readings[0].at >= span.start_at:
                scrape.readings[:0] = self._before(server, start_ms)
        return found

    def rows(self, found: Mapping[Server, Scrape], span: Span, find: FindPod) -> Parsed:
        """What the servers did in the intervals that end in the span."""
        parsed = Parsed()
        for server, scrape in found.items():
            parsed.rejects += scrape.rejects
            parsed.notes += [note for note in scrape.notes if note not in parsed.notes]
            longest = self._longest(scrape.readings)
            usual = timedelta(milliseconds=self.usual_ms) * LONGEST_INTERVALS
            for growth in grow(scrape.readings, is_closed=True, first_within=usual).growth:
                at = growth.reading.at
                if span.holds(at) and at - growth.start_at <= LONGEST_GAP:
                    place = find(server.namespace, server.pod, at) if server.pod else None
                    given = self._given(server, place)
                    parsed.tables.setdefault(TABLE, []).extend(to_rows(growth, given, longest[at]))
            for reading in scrape.readings:
                if reading.at < span.end_at:
                    self.last[server.instance, server.pod] = reading
        return parsed

    def _given(self, server: Server, place: Place | None) -> Given:
        return Given(
            cluster=self.cluster,
            node=server.node or (place.node if place else None),
            namespace=server.namespace,
            job_id=place.uid if place else None,
        )

    def _longest(self, readings: Sequence[Reading]) -> dict[object, timedelta]:
        times = [to_milliseconds(reading.at) for reading in readings]
        return {
            reading.at: timedelta(milliseconds=interval) * LONGEST_INTERVALS
            for reading, interval in zip(readings, intervals_ms(times, self.usual_ms), strict=True)
        }

    def _series(self, matchers: Mapping[str, str], start_ms: int, end_ms: int) -> list[Series]:
        found = self.reader.read(selector(self.names, matchers, self.more), start_ms, end_ms, self.usual_ms)
        for pattern in any_of({one.labels["instance"] for one in found if one.labels.get("instance")}):
            question = selector([PROCESS_START], {"instance": pattern}, self.more)
            found += self.reader.read(question, start_ms, end_ms, self.usual_ms)
        return found

    def _before(self, server: Server, start_ms: int) -> list[Reading]:
        """The last reading before an instant: of this call, or looked for further and further back."""
        known = self.last.get((server.instance, server.pod))
        if known:
            return [known]
        if not server.instance:
            return []
        matchers = {"instance": next(any_of([server.instance]))}
        until = start_ms
        for reach in SEARCH:
            begin = start_ms - reach // timedelta(milliseconds=1)
            one_metric = self.reader.read(selector(self.names[:1], matchers, self.more), begin, until, self.usual_ms)
            last = max((one.points[-1][0] for one in one_metric if one.points), default=None)
            if last is not None:
                earlier = read_servers(self._series(matchers, last, last + 1)).get(server)
                return earlier.readings[-1:] if earlier else []
            until = begin
        return []


def is_read(name: str) -> bool:
    """Whether the metric says something that a row holds; NIM's names, which have no prefix, are not among them."""
    found = read_name(name)
    return found is not None and found.metric in GROWING | STANDING and found.part != "created"


def is_of_known_program(name: str) -> bool:
    """Whether the name is one of dcgm-exporter's or an inference server's that no table here has."""
    found = read_name(name)
    return name.startswith("DCGM_") or (found is not None and not found.is_known)


def nim_names(names: Iterable[str]) -> list[str]:
    """The metrics of NIM, where there is one: names that say so little are asked for only if several of them are there."""
    listed = [name for name in names if f"nim:{name.removesuffix('_total')}" in KNOWN]
    return listed if is_nim(listed) else []


def read_servers(series: Sequence[Series]) -> dict[Server, Scrape]:
    """The readings of each server, in time order."""
    grouped: dict[Server, list[Series]] = {}
    for one in series:
        if one.points:
            grouped.setdefault(_server_of(one.labels), []).append(one)
    found: dict[Server, Scrape] = {}
    for server, members in grouped.items():
        if all(one.name == PROCESS_START for one in members):
            continue
        samples = [sample for one in members for sample in _samples(one, server)]
        scrape = to_readings(samples, SOURCE_FILE, server.name, None)
        if scrape.readings:
            scrape.readings.sort(key=lambda reading: reading.at)
            found[server] = scrape
    return found


def _server_of(labels: Mapping[str, str]) -> Server:
    def first(*names: str) -> str | None:
        return next((labels[name] for name in names if labels.get(name)), None)

    return Server(
        instance=first("exported_instance", "instance") or "",
        namespace=first("namespace", "kubernetes_namespace"),
        pod=first("pod", "pod_name", "kubernetes_pod_name"),
        node=first("node", "kubernetes_node"),
    )


def _samples(series: Series, server: Server) -> Iterable[Sample]:
    labels = {name.removeprefix("exported_"): value for name, value in series.labels.items() if name not in TARGET_LABELS}
    labels["instance"] = server.name
    if server.namespace:
        labels["namespace"] = server.namespace
    for at, value in series.points:
        yield Sample(0, series.name, labels, value, to_instant(at))
