"""Read kube-state-metrics' series of one cluster, and tell when something of a pod or a node changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from collectors.prometheus.answers import Series, merge
from collectors.prometheus.intervals import look_ahead_ms, look_back_ms
from collectors.prometheus.listings import Fact, Listings, label_of, list_nodes, list_pods
from collectors.prometheus.objects import gpu_resources
from collectors.prometheus.reading import Reader, any_of, selector
from collectors.prometheus.schema import (
    GPU_RESOURCE_METRICS,
    NODE_METRICS,
    OWNER_METRICS,
    POD_METRICS,
    RESOURCES_BY_LABEL,
)
from collectors.prometheus.window import Span

#: how far back the last listing is looked for where kube-state-metrics was not read in the look-back
SEARCH = (timedelta(minutes=30), timedelta(hours=2), timedelta(hours=8), timedelta(hours=24))
#: a pod's or node's own label may have been renamed by the scrape
PREFIXES = ("", "exported_")


@dataclass
class Told:
    """What kube-state-metrics told in a window and the time before it that is needed to see what was new."""

    pods: Listings = field(default_factory=Listings)
    nodes: Listings = field(default_factory=Listings)
    owners: list[Fact] = field(default_factory=list)


@dataclass
class States:
    """Reads one cluster's pods that asked for GPUs, those that others name, their owners and the nodes."""

    reader: Reader
    names: frozenset[str]
    more: str
    usual_ms: int

    def read(self, span: Span, pods: Iterable[str], nodes: Iterable[str]) -> Told:
        """What was told in the span, and before it in the look-back or at the last listing of all.

        And shortly after it: a pod is in an exporter's labels some scrapes before kube-state-metrics is read with it.
        """
        start_ms, end_ms = span.start_ms - look_back_ms(self.usual_ms), span.end_ms + look_ahead_ms(self.usual_ms)
        series = self._series(start_ms, end_ms, set(pods), set(nodes))
        scrapes = self._scrapes(series, start_ms, end_ms)
        first = min((times[0] for times in scrapes.values() if times), default=None)
        if first is not None and first > start_ms + 3 * self.usual_ms:
            earlier = self._last_before(start_ms, set(pods), set(nodes))
            series = merge([*earlier, *series])
        node_series = [one for one in series if one.name in NODE_METRICS]
        owner_series = [one for one in series if one.name in OWNER_METRICS]
        pod_series = [one for one in series if one.name not in NODE_METRICS | OWNER_METRICS]
        return Told(list_pods(pod_series, scrapes), list_nodes(node_series, scrapes), list(_facts(owner_series)))

    def _series(self, start_ms: int, end_ms: int, pods: set[str], nodes: set[str]) -> list[Series]:
        """All series that matter between the instants."""
        gpu = {"resource": "|".join(gpu_resources())}
        asked = self._ask(GPU_RESOURCE_METRICS & RESOURCES_BY_LABEL, gpu, start_ms, end_ms)
        asked += self._ask(GPU_RESOURCE_METRICS - RESOURCES_BY_LABEL, {}, start_ms, end_ms)
        pods |= {label_of(one.labels, "pod") for one in asked}
        found = list(asked)
        for matchers in _by_name("pod", pods):
            found += self._ask(POD_METRICS, matchers, start_ms, end_ms)
            found += self._ask(
                GPU_RESOURCE_METRICS & RESOURCES_BY_LABEL, {**matchers, "resource": "cpu|memory"}, start_ms, end_ms
            )
        found += self._owners(found, start_ms, end_ms)
        offered = self._ask({"kube_node_status_capacity"}, gpu, start_ms, end_ms)
        nodes |= {label_of(one.labels, "node") for one in (*offered, *found)} - {""}
        plain = NODE_METRICS - RESOURCES_BY_LABEL - {"kube_node_status_condition"}
        resources = {"resource": "|".join(["cpu", "memory", *gpu_resources()])}
        for matchers in _by_name("node", nodes):
            found += self._ask(plain, matchers, start_ms, end_ms)
            found += self._ask({"kube_node_status_condition"}, {**matchers, "condition": "Ready"}, start_ms, end_ms)
            found += self._ask(NODE_METRICS & RESOURCES_BY_LABEL, {**matchers, **resources}, start_ms, end_ms)
        return merge(found)

    def _owners(self, pods: Sequence[Series], start_ms: int, end_ms: int) -> list[Series]:
        found: list[Series] = []
        for metric, label, kind in (
            ("kube_replicaset_owner", "replicaset", "ReplicaSet"),
            ("kube_job_owner", "job_name", "Job"),
        ):
            owners = {_owner_name(one, kind) for one in pods} - {""}
            for pattern in any_of(owners):
                found += self._ask({metric}, {label: pattern}, start_ms, end_ms)
        return found

    def _ask(self, metrics: Iterable[str], matchers: dict[str, str], start_ms: int, end_ms: int) -> list[Series]:
        known = sorted(self.names & set(metrics))
        return self.reader.read(selector(known, matchers, self.more), start_ms, end_ms, self.usual_ms) if known else []

    def _scrapes(self, series: Sequence[Series], start_ms: int, end_ms: int) -> dict[str, list[int]]:
        """When each target was read, whatever it listed then: `up` is 1 at every scrape that went well."""
        found: dict[str, list[int]] = {}
        for pattern in any_of({one.labels["instance"] for one in series if "instance" in one.labels}):
            for one in self.reader.read(selector(["up"], {"instance": pattern}, self.more), start_ms, end_ms, self.usual_ms):
                name = f"{one.labels.get('job', '')} {one.labels.get('instance', '')}"
                found.setdefault(name, []).extend(at for at, value in one.points if value == 1)
        targets = {f"{one.labels.get('job', '')} {one.labels.get('instance', '')}" for one in series}
        return {target: sorted(found.get(target, [])) for target in targets}

    def _last_before(self, start_ms: int, pods: set[str], nodes: set[str]) -> list[Series]:
        """The series at the last listing before an instant."""
        gpu = {"resource": "|".join(gpu_resources())}
        until = start_ms
        for reach in SEARCH:
            begin = start_ms - reach // timedelta(milliseconds=1)
            seen = self._ask(GPU_RESOURCE_METRICS & RESOURCES_BY_LABEL, gpu, begin, until)
            seen += self._ask(GPU_RESOURCE_METRICS - RESOURCES_BY_LABEL, {}, begin, until)
            last = max((one.points[-1][0] for one in seen if one.points), default=None)
            if last is not None:
                return self._series(last - 2 * self.usual_ms, last + 1, pods, nodes)
            until = begin
        return []


def _by_name(label: str, names: Iterable[str]) -> Iterator[dict[str, str]]:
    """Matchers of the objects of these names, under the label's own name and under the one a scrape gives it."""
    for pattern in any_of(names):
        for prefix in PREFIXES:
            yield {f"{prefix}{label}": pattern}


def _owner_name(series: Series, kind: str) -> str:
    labels = series.labels
    if series.name == "kube_pod_owner" and labels.get("owner_kind") == kind:
        return labels.get("owner_name", "")
    if series.name == "kube_pod_info" and labels.get("created_by_kind") == kind:
        return labels.get("created_by_name", "")
    return ""


def _facts(series: Sequence[Series]) -> Iterator[Fact]:
    for one in series:
        labels = {
            name: label_of(one.labels, name) for name in ("namespace", "replicaset", "job_name", "owner_kind", "owner_name")
        }
        yield Fact(one.name, tuple(sorted(labels.items())), 1.0)
