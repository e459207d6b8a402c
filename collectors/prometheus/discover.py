"""What a server has that can be read here, how dense it is, and what is missing with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from collectors.dcgm.schema import DERIVED_FROM, FIELDS, field_name
from collectors.prometheus.client import Prometheus
from collectors.prometheus.intervals import usual_interval_ms
from collectors.prometheus.reading import selector
from collectors.prometheus.schema import GPU_RESOURCE_METRICS, NODE_INFO, POD_INFO, STATE_METRICS
from collectors.prometheus.servers import is_of_known_program, is_read, nim_names
from collectors.prometheus.window import HOUR, Span

#: where in a window its samples are looked at, as parts of it, and for how long
SPOTS, SPOT = (1.0, 0.5, 0.0, 0.75, 0.25), timedelta(minutes=10)
#: samples of devices that one landing should hold: what 1,000 GPUs say in twenty minutes
LANDING_SAMPLES = 2_000_000
CHUNKS = tuple(timedelta(minutes=minutes) for minutes in (60, 30, 20, 15, 10, 5))
#: a window's samples are looked at in these many metrics at most
LOOKED_AT = 5
#: fields in the order in which exporters have them for every GPU
COMMON_FIELDS = {name: position for position, name in enumerate(FIELDS)}


@dataclass
class Found:
    """The names of the metrics that can be read, by the program that exports them."""

    devices: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    #: names with a prefix of these programs that fill no column
    unread: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.devices or self.states or self.servers)

    def notes(self) -> list[str]:
        """What is not read, and what the server does not have, with the remedy."""
        fields = {field_name(name) for name in self.devices}
        notes = [f"metrics that fill no column, left out: {', '.join(self.unread)}"] if self.unread else []
        if not self.devices:
            notes.append("no DCGM_FI_… metric: no GPU samples; let Prometheus scrape dcgm-exporter (:9400/metrics)")
        elif not any(name and name.startswith("DCGM_FI_PROF_") for name in fields):
            notes.append(
                "no DCGM_FI_PROF_… metric: activity rests on GPU_UTIL alone, which says little; "
                "add DCGM_FI_PROF_SM_ACTIVE and DCGM_FI_PROF_GR_ENGINE_ACTIVE to dcgm-exporter's fields"
            )
        if POD_INFO not in self.states:
            notes.append("no kube_pod_info: nobody says which pod held a GPU; let Prometheus scrape kube-state-metrics")
        elif not set(self.states) & GPU_RESOURCE_METRICS:
            notes.append(
                "no kube_pod_container_resource_requests: pods that asked for GPUs are not told from others; "
                "take the metric into kube-state-metrics' --metric-allowlist"
            )
        return notes


def discover(client: Prometheus, more: str, span: Span) -> Found:
    """The names that the server has in the window."""
    matchers = [f'{{__name__!="",{more}}}'] if more else []
    names = client.metric_names(matchers, span.start_at, span.end_at)
    devices = [name for name in names if field_name(name) in FIELDS or field_name(name) in DERIVED_FROM]
    servers = [name for name in names if is_read(name)]
    return Found(
        devices=sorted(devices, key=_commonness),
        states=[name for name in names if name in STATE_METRICS],
        servers=servers or nim_names(names),
        unread=[name for name in names if name not in devices and name not in servers and is_of_known_program(name)],
    )


@dataclass(frozen=True)
class Density:
    """How often series are scraped, and how many samples an hour holds."""

    interval_ms: int
    samples_per_hour: float


def density(client: Prometheus, names: Sequence[str], more: str, span: Span) -> Density | None:
    """Look at some minutes of one metric at some spots of the window until there are samples; None without any.

    The others of `names` are taken to have as many series. What is found depends on the window alone.
    """
    length = min(SPOT, span.end_at - span.start_at)
    for name in names[:LOOKED_AT]:
        for part in SPOTS:
            start_at = span.start_at + (span.end_at - span.start_at - length) * part
            spot = Span(start_at, start_at + length)
            series = client.samples(selector([name], more=more), spot.start_ms, spot.end_ms)
            interval = usual_interval_ms([at for at, _ in one.points] for one in series)
            if interval:
                return Density(interval, len(series) * len(names) * HOUR / timedelta(milliseconds=interval))
    return None


def listing_first(states: Iterable[str]) -> list[str]:
    """kube-state-metrics' names, those first that always have a series."""
    return sorted(states, key=lambda name: (name != NODE_INFO, name != POD_INFO, name))


def chunk_length(found: Iterable[Density | None]) -> timedelta:
    """The longest chunk whose samples fit into one landing."""
    per_hour = sum(one.samples_per_hour for one in found if one)
    return next((length for length in CHUNKS if per_hour * (length / HOUR) <= LANDING_SAMPLES), CHUNKS[-1])


def _commonness(name: str) -> tuple[int, str]:
    """DCGM metrics that every GPU has come first."""
    return COMMON_FIELDS.get(field_name(name) or "", len(COMMON_FIELDS)), name
