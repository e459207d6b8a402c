"""Series of kube-state-metrics → what it listed of each pod and node, and when it did not list them any more.

A series is there as long as its object is. That one is gone says that the object is gone only where kube-state-metrics
was read without it: it restarts, its scrapes fail, and it may be split into shards that each list a part of the objects.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.prometheus.answers import Series

#: labels that the scrape adds, or that say nothing of the object
TARGET_LABELS = frozenset({"job", "instance", "endpoint", "service", "prometheus", "prometheus_replica"})
#: labels of the object that change with no meaning here
UNSTEADY = frozenset({"host_ip", "pod_ip", "internal_ip", "kernel_version", "kubelet_version", "kubeproxy_version"})
#: metrics with a series per possible value, of which one is 1
ONE_OF = frozenset(
    {
        "kube_pod_status_phase",
        "kube_pod_status_reason",
        "kube_pod_container_status_terminated_reason",
        "kube_node_status_condition",
        "kube_node_spec_unschedulable",
    }
)
#: scrapes in a row without an object, until it is gone: a fresh kube-state-metrics has not read all of them yet
ABSENT_SCRAPES = 2


@dataclass(frozen=True)
class Fact:
    """One series of an object at one instant."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def label(self, name: str) -> str:
        return next((value for key, value in self.labels if key == name), "")


Facts = frozenset[Fact]
#: which object a series is of at an instant
KeyOf = Callable[[Series, int], str | None]


@dataclass
class Listed:
    """What was told of one object: its facts at each instant (milliseconds) at which it was listed, and by which target."""

    facts: dict[int, Facts] = field(default_factory=dict)
    target: dict[int, str] = field(default_factory=dict)

    @property
    def times(self) -> list[int]:
        return list(self.facts)

    def changes(self) -> Iterator[tuple[int, Facts]]:
        """The instants at which the facts were others than at the listing before, with the facts."""
        before: Facts | None = None
        for at, facts in self.facts.items():
            if facts != before:
                yield at, facts
            before = facts


@dataclass
class Listings:
    """All objects of one kind by their key, and the instants at which each target was read."""

    objects: dict[str, Listed] = field(default_factory=dict)
    scrapes: dict[str, list[int]] = field(default_factory=dict)

    def gone(self, key: str, at: int, until: int | None, interval_ms: int) -> tuple[int, int] | None:
        """(until when the object may have been there, when that was sure) where it was not listed between `at` and `until`.

        The end lies at most one interval behind the listing, whatever gap follows. None where nobody read without it.
        """
        target = self.objects[key].target[at]
        absent = self._between(target, at, until)
        if len(absent) < ABSENT_SCRAPES:
            absent = sorted({time for heir in self._heirs(target, at) for time in self._between(heir, at, until)})
        if len(absent) < ABSENT_SCRAPES:
            return None
        return min(absent[0], at + interval_ms), absent[ABSENT_SCRAPES - 1]

    def _between(self, target: str, at: int, until: int | None) -> list[int]:
        times = self.scrapes.get(target, [])
        first = bisect_right(times, at)
        return [time for time in times[first : first + ABSENT_SCRAPES] if until is None or time < until]

    def _heirs(self, target: str, at: int) -> Iterator[str]:
        """The targets that list what this one listed at its last scrape: its next pod, another address."""
        last = max((time for time in self.scrapes.get(target, []) if time <= at), default=at)
        siblings = {key for key, listed in self.objects.items() if listed.target.get(last) == target}
        for other, times in self.scrapes.items():
            if other != target and times and times[-1] > last and self._lists_one_of(siblings, other, last):
                yield other

    def _lists_one_of(self, keys: Iterable[str], target: str, after: int) -> bool:
        for key in keys:
            listed = self.objects[key]
            times = listed.times
            if any(listed.target[at] == target for at in times[bisect_left(times, after + 1) :]):
                return True
        return False


def label_of(labels: Mapping[str, str], name: str) -> str:
    """The object's own label: where the scrape put labels of its target on every series, the object's were renamed."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def target_of(series: Series) -> str:
    return f"{series.labels.get('job', '')} {series.labels.get('instance', '')}"


def list_pods(series: Sequence[Series], scrapes: Mapping[str, Iterable[int]]) -> Listings:
    """Pods by uid. A series without one (kube-state-metrics before 2.0) belongs to the pod of its name at that instant."""
    uids: dict[tuple[str, str], dict[int, str]] = {}
    for one in series:
        uid = label_of(one.labels, "uid")
        if uid:
            known = uids.setdefault(_name_of(one), {})
            known.update(dict.fromkeys((at for at, _ in one.points), uid))
    return _gather(series, scrapes, lambda one, at: label_of(one.labels, "uid") or uids.get(_name_of(one), {}).get(at))


def list_nodes(series: Sequence[Series], scrapes: Mapping[str, Iterable[int]]) -> Listings:
    """Nodes by name."""
    return _gather(series, scrapes, lambda one, at: label_of(one.labels, "node") or None)


def _name_of(series: Series) -> tuple[str, str]:
    return label_of(series.labels, "namespace"), label_of(series.labels, "pod")


def _gather(series: Sequence[Series], scrapes: Mapping[str, Iterable[int]], key_of: KeyOf) -> Listings:
    told: dict[str, dict[int, list[Fact]]] = {}
    targets: dict[str, dict[int, str]] = {}
    read: dict[str, set[int]] = {target: set(times) for target, times in scrapes.items()}
    for one in series:
        target = target_of(one)
        labels = _own_labels(one.labels)
        facts: dict[float, Fact] = {}
        for at, value in one.points:
            key = key_of(one, at)
            if key is None or not math.isfinite(value) or (value == 0 and one.name in ONE_OF):
                continue
            fact = facts.setdefault(value, Fact(one.name, labels, value))
            told.setdefault(key, {}).setdefault(at, []).append(fact)
            targets.setdefault(key, {})[at] = target
            read.setdefault(target, set()).add(at)
    listings = Listings(scrapes={target: sorted(times) for target, times in read.items()})
    known: dict[Facts, Facts] = {}
    for key, instants in told.items():
        # the same facts at every scrape are one set in memory
        facts_at = {
            at: known.setdefault(found, found) for at, found in ((at, frozenset(instants[at])) for at in sorted(instants))
        }
        listings.objects[key] = Listed(facts_at, targets[key])
    return listings


def _own_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels that kube-state-metrics wrote, under the names it gave them."""
    own = {
        name: value for name, value in labels.items() if name not in TARGET_LABELS | UNSTEADY and not name.startswith("exported_")
    }
    own |= {name.removeprefix("exported_"): value for name, value in labels.items() if name.startswith("exported_")}
    return tuple(sorted((name, value) for name, value in own.items() if value))
