"""Which pod had a name at an instant: names are used again, uids are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from collectors.prometheus.answers import to_milliseconds
from collectors.prometheus.listings import Fact, Facts, Listings


@dataclass(frozen=True)
class Place:
    """A pod and the node it is on."""

    uid: str
    node: str | None


#: (namespace, pod, instant) → the pod of that name then, where kube-state-metrics told it
FindPod = Callable[[str | None, str, datetime], Place | None]


def find_none(namespace: str | None, pod: str, at: datetime) -> Place | None:
    """Where kube-state-metrics is not scraped, no pod is known."""
    return None


@dataclass(frozen=True)
class _Life:
    first_ms: int
    last_ms: int
    uid: str
    #: (since when, node), in time order
    nodes: tuple[tuple[int, str | None], ...]

    def place(self, at_ms: int) -> Place:
        known = [node for since_ms, node in self.nodes if since_ms <= at_ms]
        return Place(self.uid, known[-1] if known else None)

    def distance(self, at_ms: int) -> int:
        return max(self.first_ms - at_ms, at_ms - self.last_ms, 0)


def finder(pods: Listings, slack_ms: int) -> FindPod:
    """Find among the pods listed; a listing may come `slack_ms` later than the pod, or miss its end by as much."""
    lives: dict[tuple[str, str], list[_Life]] = {}
    for uid, listed in pods.objects.items():
        times = listed.times
        named = _info(listed.facts[times[-1]])
        nodes = tuple((at, _info(facts).label("node") or None) for at, facts in listed.changes())
        life = _Life(times[0], times[-1], uid, nodes)
        for namespace in {named.label("namespace"), ""}:
            lives.setdefault((namespace, named.label("pod")), []).append(life)

    def find(namespace: str | None, pod: str, at: datetime) -> Place | None:
        at_ms = to_milliseconds(at)
        near = sorted((life.distance(at_ms), life.uid, life) for life in lives.get((namespace or "", pod), []))
        # two pods of one name at once are in two namespaces, and which one is meant was not said
        if not near or near[0][0] > slack_ms or (len(near) > 1 and near[0][0] == near[1][0]):
            return None
        return near[0][2].place(at_ms)

    return find


def _info(facts: Facts) -> Fact:
    """The series that says most of a pod."""
    return min(facts, key=lambda fact: (fact.metric != "kube_pod_info", not fact.label("node"), fact.metric, fact.labels))
