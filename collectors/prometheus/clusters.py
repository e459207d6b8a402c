"""One cluster of a Prometheus-compatible API: what is read of it, chunk after chunk, and landed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors import command
from collectors.command import SourceFailedError
from collectors.dcgm.labels import is_no_node
from collectors.dcgm.parse import Scrapes
from collectors.parsed import Parsed, Row
from collectors.prometheus.client import Prometheus
from collectors.prometheus.device_rows import DeviceRows, by_name_only
from collectors.prometheus.devices import Devices
from collectors.prometheus.discover import Found, chunk_length, density, discover, listing_first
from collectors.prometheus.pods import FindPod, find_none, finder
from collectors.prometheus.reading import Reader, escaped
from collectors.prometheus.schema import GPU_RESOURCE_METRICS
from collectors.prometheus.servers import Servers
from collectors.prometheus.state_rows import StateRows
from collectors.prometheus.states import States
from collectors.prometheus.window import Span, cut
from warehouse.landing.landings import CollectionOutcome, Landing, Window
from warehouse.landing.outcomes import landed_tables
from warehouse.landing.shape import TABLES

SOURCE = "prometheus"
DEFAULT_INTERVAL_MS = 60_000
#: a pod is named in a series this much before kube-state-metrics lists it, or after
NAME_SLACK_INTERVALS = 3
TIME = "%Y-%m-%dT%H:%M:%SZ"
REPLICA_LABELS = ("prometheus_replica", "__replica__", "replica")


class NothingThereError(SourceFailedError):
    """The server answers, and has nothing that can be read here."""


@dataclass(frozen=True)
class Request:
    """What a call asks for, besides the time and the cluster."""

    replica_labels: tuple[str, ...] = REPLICA_LABELS
    chunk: timedelta | None = None
    dcgm_interval: timedelta | None = None


@dataclass(frozen=True)
class Cluster:
    """A cluster by its name, and the matchers (`cluster="a"`) that tell its series from those of others; empty for all."""

    name: str
    more: str


def collect(client: Prometheus, request: Request, cluster: Cluster, span: Span, landing: Landing) -> Iterator[CollectionOutcome]:
    """Land the series of one cluster: an outcome per chunk, so that what was read stays read.

    Raises SourceFailedError where a chunk cannot be read; the chunks before it have landed.
    """
    found = discover(client, cluster.more, span)
    if found.is_empty:
        raise NothingThereError(
            f"{client.shown}: no metric of dcgm-exporter, kube-state-metrics or an inference server "
            f"from {span.start_at:{TIME}} to {span.end_at:{TIME}}; are they scraped, is the time still kept, is the tenant right?"
        )
    reading = _Reading(client, request, cluster, found, span)
    for chunk in cut(span, reading.chunk):
        parsed = reading.read(chunk)
        yield landing.land(
            SOURCE,
            parsed.frames(),
            cluster=cluster.name,
            inputs=[client.shown],
            rejects=parsed.rejects,
            window=Window(chunk.start_at, chunk.end_at),
            notes=[*parsed.notes, *found.notes(), *(f"the server warned: {text}" for text in client.warnings)],
        )


class _Reading:
    """Reads one cluster, chunk after chunk."""

    def __init__(self, client: Prometheus, request: Request, cluster: Cluster, found: Found, span: Span) -> None:
        reader = Reader(client, request.replica_labels)
        seen = [
            density(client, names, cluster.more, span) if names else None
            for names in (found.devices, listing_first(found.states), found.servers)
        ]
        self.chunk = request.chunk or chunk_length([seen[0], seen[2]])
        devices_ms, states_ms, servers_ms = (one.interval_ms if one else DEFAULT_INTERVAL_MS for one in seen)
        told = request.dcgm_interval
        if told:
            devices_ms = told // timedelta(milliseconds=1)
        self.devices = Devices(reader, found.devices, cluster.more, devices_ms)
        self.device_rows = DeviceRows(cluster.name, devices_ms, is_fixed=told is not None)
        self.states = States(reader, frozenset(found.states), cluster.more, states_ms)
        tells_requests = bool(self.states.names & GPU_RESOURCE_METRICS)
        self.state_rows = StateRows(cluster.name, span.start_at, states_ms, tells_requests)
        self.servers = Servers(reader, found.servers, cluster.more, cluster.name, servers_ms)

    def read(self, chunk: Span) -> Parsed:
        """The rows of a chunk. Devices and servers first: whose names they carry is asked of kube-state-metrics."""
        parsed = Parsed()
        scrapes = self.devices.read(chunk) if self.devices.names else Scrapes()
        servers = self.servers.read(chunk) if self.servers.names else {}
        find: FindPod = find_none
        if self.states.names:
            pods = {holder.pod for reading in scrapes.readings for holder in reading.holders if holder.pod}
            pods |= {server.pod for server in servers if server.pod}
            hosts = {reading.node for reading in scrapes.readings}
            exporters = {host for host in hosts if is_no_node(host)} - pods
            told = self.states.read(chunk, pods | exporters, hosts - exporters)
            parsed.extend(self.state_rows.rows(told, chunk, exporters))
            find = finder(told.pods, NAME_SLACK_INTERVALS * self.states.usual_ms)
        readings = scrapes.readings
        if self.device_rows.history is None and any(by_name_only(reading, find) for reading in readings):
            readings = [*self.devices.held(chunk), *readings]
        parsed.extend(self.device_rows.rows(readings, chunk, find))
        parsed.rejects += scrapes.rejects
        parsed.extend(self.servers.rows(servers, chunk, find))
        parsed.tables["run_gpus"] = newest(parsed.tables.get("run_gpus", []))
        return parsed


def newest(rows: Sequence[Row]) -> list[Row]:
    """The last of the rows of `run_gpus` with one key, so that a landing never holds a row that it replaces itself."""
    return list({tuple(row.get(name) for name in TABLES["run_gpus"].key): row for row in rows}.values())


def clusters(client: Prometheus, label: str | None, name: str | None, more: str, span: Span) -> list[Cluster]:
    """The clusters that the server's series are of: the values of `label`, or one by the given name."""
    if label is None:
        return [Cluster(command.require_cluster(name), more)]
    values = client.label_values(label, [f"{{{more}}}"] if more else [], span.start_at, span.end_at)
    if not values:
        raise SourceFailedError(f"{client.shown}: no series has the label {label!r} in this time; see --cluster-label")
    known = [Cluster(value, ",".join([f'{label}="{escaped(value)}"', *([more] if more else [])])) for value in values]
    # series without the label are of the cluster that the call names, if it names one
    rest = [Cluster(name, ",".join([f'{label}=""', *([more] if more else [])]))] if name else []
    return [*known, *rest]


def read_since(landing: Landing, cluster: str) -> datetime | None:
    """Through when the cluster has been read: the end of the last window that landed."""
    ends = [
        record.window_end_at
        for record in landed_tables(landing.home.raw, SOURCE)
        if record.cluster == cluster and record.status == "landed" and record.window_end_at
    ]
    return max(ends, default=None)
