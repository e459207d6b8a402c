"""What kube-state-metrics told → rows of `runs`, `run_gpus`, `nodes`, `node_states`, by the `kubernetes` collector's rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from collectors.kubernetes.history import SeenPod, closed_row
from collectors.kubernetes.node_rows import node_row
from collectors.kubernetes.nodes import Node, parse_node
from collectors.kubernetes.parse import Snapshot
from collectors.kubernetes.pods import Pod, parse_pod
from collectors.kubernetes.rows import Context, gather, pod_rows
from collectors.parsed import Parsed
from collectors.prometheus.answers import to_instant, to_milliseconds
from collectors.prometheus.changes import Event, events
from collectors.prometheus.listings import Facts, Listings
from collectors.prometheus.objects import is_ended, node_object, owners_above, pod_object
from collectors.prometheus.states import Told
from collectors.prometheus.window import Span
from warehouse.landing.conform import MALFORMED, Reject

SOURCE_FILE = "prometheus"


@dataclass(frozen=True)
class StateRows:
    """Makes the rows of one cluster, read since `since`; `interval_ms` is the time between two scrapes."""

    cluster: str
    since: datetime
    interval_ms: int
    #: whether anything tells how many GPUs a pod asked for
    tells_requests: bool

    def rows(self, told: Told, span: Span, exporters: Set[str] = frozenset()) -> Parsed:
        """The rows of the span. `exporters` are names of pods that were asked for only to learn their nodes."""
        parsed = Parsed()
        context = self._context(told, span, parsed)
        for event in events(told.pods, span, to_milliseconds(self.since), self.interval_ms, lambda facts: not is_ended(facts)):
            if not any(fact.label("pod") in exporters for fact in event.facts):
                self._pod(event, context, parsed)
        for event in events(told.nodes, span, to_milliseconds(self.since), self.interval_ms, lambda facts: True):
            if event.gone_ms is None:
                node = _node(event.key, event.facts, event.at_ms)
                parsed.add("nodes", node_row(node, self.cluster))
        busy = _busy(told.pods)
        for name in sorted(told.nodes.objects):
            for row in self._node_states(name, told.nodes, busy, span):
                parsed.add("node_states", row)
        return parsed

    def _context(self, told: Told, span: Span, parsed: Parsed) -> Context:
        nodes = [_node(name, facts, at) for name, listed in told.nodes.objects.items() for at, facts in listed.changes()]
        pods = []
        for uid, listed in told.pods.objects.items():
            try:
                last = listed.times[-1]
                pods.append(_pod(uid, listed.facts[last], last))
            except (ValueError, ArithmeticError) as error:
                parsed.rejects.append(Reject(SOURCE_FILE, None, MALFORMED, f"pod {uid}: {error}"))
        return gather([Snapshot(SOURCE_FILE, span.end_at, pods=pods, nodes=nodes, owners=owners_above(told.owners))])

    def _pod(self, event: Event, context: Context, parsed: Parsed) -> None:
        last_ms = event.at_ms if event.last_ms is None else event.last_ms
        if event.gone_ms is not None and is_ended(event.facts):
            return
        try:
            pod = _pod(event.key, event.facts, last_ms, to_instant(event.at_ms) if event.ended else None)
            found = pod_rows(pod, context, self.cluster)
        except (ValueError, ArithmeticError) as error:
            parsed.rejects.append(Reject(SOURCE_FILE, None, MALFORMED, f"pod {event.key}: {error}"))
            return
        run: dict[str, Any] = found.run
        if not self.tells_requests:
            run = {**run, "gpu_count": None, "requested_gpu_count": None}
        if event.gone_ms is not None:
            seen_at = to_instant(last_ms)
            seen = SeenPod(run, seen_at, seen_at, pod.grace_seconds, pod.deletion_at)
            run = closed_row(seen, to_instant(event.gone_ms), None)
        parsed.add("runs", {**run, "observed_at": to_instant(event.at_ms), "line_number": 0})
        for row in found.gpus:
            parsed.add("run_gpus", {**row, "ended_at": run["ended_at"], "line_number": 0})

    def _node_states(self, name: str, nodes: Listings, busy: Mapping[str, list[tuple[int, int]]], span: Span) -> Iterator[Any]:
        """A row at the first listing since reading began, and wherever the state differs from the listing before."""
        since_ms = to_milliseconds(self.since)
        known: tuple[str, str | None] | None = None
        parts: tuple[Facts, bool] | None = None
        before_ms: int | None = None
        for at, facts in nodes.objects[name].facts.items():
            is_busy = any(first <= at <= last for first, last in busy.get(name, ()))
            if (facts, is_busy) != parts:
                parts = (facts, is_busy)
                node = _node(name, facts, at)
                state = "drained" if node.state == "draining" and not is_busy else node.state
                current = (state, node.reason) if state else None
            is_first = before_ms is None or before_ms < since_ms <= at
            if current and (is_first or current != known) and span.start_ms <= at < span.end_ms:
                yield self._node_state(name, current, at)
            known, before_ms = current, at
        gone = nodes.gone(name, before_ms, None, self.interval_ms) if before_ms is not None else None
        if gone and known and before_ms is not None and span.start_ms <= gone[1] < span.end_ms:
            yield {**self._node_state(name, known, before_ms), "ended_at": to_instant(gone[0])}

    def _node_state(self, name: str, state: tuple[str, str | None], at_ms: int) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "node": name,
            "state": state[0],
            "reason": state[1],
            "started_at": to_instant(at_ms),
            "line_number": 0,
        }


def _pod(uid: str, facts: Facts, at_ms: int, changed_at: datetime | None = None) -> Pod:
    return replace(parse_pod(pod_object(uid, facts, changed_at), SOURCE_FILE), at=to_instant(at_ms))


def _node(name: str, facts: Facts, at_ms: int) -> Node:
    return replace(parse_node(node_object(name, facts), SOURCE_FILE), at=to_instant(at_ms))


def _busy(pods: Listings) -> dict[str, list[tuple[int, int]]]:
    """Node → the stretches in which a pod that holds a GPU was listed on it and had not ended."""
    found: dict[str, list[tuple[int, int]]] = {}
    for listed in pods.objects.values():
        open_times = [at for at, facts in listed.facts.items() if not is_ended(facts)]
        nodes = {fact.label("node") for at in open_times[-1:] for fact in listed.facts[at] if fact.metric == "kube_pod_info"}
        for node in nodes - {""}:
            found.setdefault(node, []).append((open_times[0], open_times[-1]))
    return found
