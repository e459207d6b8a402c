"""Snapshots one after the other: what changed between two of them, and what a later one lacks.

A pod that is gone from a complete list has ended since the list before. When, nobody says: it is taken as the middle of the time
in which it can have been, and `labels.ended_between` tells that time. Events (`Killing`, `Preempted`, …) and the pod's own
deletion time make it shorter.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from collectors.kubernetes.devices import inventory_row, without_split_cards
from collectors.kubernetes.holds import claims_gpus
from collectors.kubernetes.node_rows import node_row
from collectors.kubernetes.nodes import Node, latest_before
from collectors.kubernetes.parse import EndEvent, Snapshot
from collectors.kubernetes.rows import Context, pod_rows
from collectors.kubernetes.sharing import reserved_device
from collectors.parsed import Parsed
from warehouse.landing.conform import MALFORMED, Reject

DELETED = "Deleted"
DUPLICATE = "duplicate"
#: every object of its kind, not only of some namespaces
EVERYWHERE = None
#: columns of a run that depend on its node's object
TOLD_BY_NODES = ("gpu_model", "mig_profile", "share_ratio", "requested_gpu_count", "gpu_count")


@dataclass
class SeenPod:
    """A pod as it was last told: its row of `runs` without `observed_at`, and when the row was landed."""

    row: dict[str, Any]
    seen_at: datetime
    landed_at: datetime
    grace_seconds: int = 0
    deletion_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.row.get("ended_at") is None


@dataclass
class SeenNode:
    """A node's state as it was last told: its row of `node_states`, and when the node was last there."""

    row: dict[str, Any]
    seen_at: datetime


@dataclass
class History:
    """What has been seen of one cluster so far. `take` brings in the next snapshot and returns the rows it makes."""

    cluster: str
    #: leave out rows that say what has been landed before; a row is said again on another day, so that none grows too old
    only_changes: bool = False
    all_pods: bool = False
    pods: dict[str, SeenPod] = field(default_factory=dict)
    nodes: dict[str, SeenNode] = field(default_factory=dict)
    pods_at: datetime | None = None
    nodes_at: datetime | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    pods_without_node: int = 0

    def take(self, snapshot: Snapshot, context: Context, complete: Mapping[str, set[str] | None]) -> Parsed:
        """The rows of `snapshot`. `complete` says of which kinds it has all there are: kind → the namespaces, or EVERYWHERE."""
        parsed = Parsed(rejects=list(snapshot.rejects))
        self._take_pods(snapshot, context, parsed)
        if "Pod" in complete:
            self._close_pods(snapshot, context, complete["Pod"], parsed)
            self.pods_at = snapshot.at
        self._take_nodes(snapshot, context, parsed)
        if "Node" in complete:
            self._close_nodes(snapshot, parsed)
            self.nodes_at = snapshot.at
        reserved = [device for pod in snapshot.pods if (device := reserved_device(pod))]
        for device in without_split_cards([*reserved, *snapshot.devices]):
            node = latest_before(context.nodes.get(device.node, []), snapshot.at)
            row = inventory_row(device, node, self.cluster)
            if row:
                parsed.add("gpu_inventory", row)
        return parsed

    def _take_pods(self, snapshot: Snapshot, context: Context, parsed: Parsed) -> None:
        seen: set[str] = set()
        for pod in snapshot.pods:
            if pod.uid in seen:
                detail = f"pod {pod.namespace}/{pod.name} stands twice in it with one uid"
                parsed.rejects.append(Reject(pod.file, pod.line, DUPLICATE, detail))
                continue
            seen.add(pod.uid)
            if not (self.all_pods or pod.uses_gpus) and claims_gpus(pod, context.fleet) is False:
                continue  # it claims something else
            try:
                rows = pod_rows(pod, context, self.cluster)
            except (ValueError, ArithmeticError) as error:
                parsed.rejects.append(Reject(pod.file, pod.line, MALFORMED, f"pod {pod.namespace}/{pod.name}: {error}"))
                continue
            if rows.unknown:
                self.unknown[rows.unknown] += 1
            known = self.pods.get(pod.uid)
            if pod.node and pod.node not in context.nodes:
                if known and known.row["node_list"] == pod.node:
                    # this time the nodes could not be read: what they told before still stands
                    rows.run.update({name: known.row[name] for name in TOLD_BY_NODES})
                    rows.gpus.clear()
                elif rows.run["gpu_count"] and rows.run["share_ratio"] is None and rows.run["mig_profile"] is None:
                    self.pods_without_node += 1
            is_news = known is None or known.row != rows.run or known.landed_at.date() < snapshot.at.date()
            if is_news or not self.only_changes:
                parsed.add("runs", {**rows.run, "observed_at": snapshot.at, "line_number": pod.line})
                for row in rows.gpus:
                    parsed.add("run_gpus", {**row, "line_number": pod.line})
            landed_at = snapshot.at if is_news or known is None or not self.only_changes else known.landed_at
            self.pods[pod.uid] = SeenPod(rows.run, snapshot.at, landed_at, pod.grace_seconds, pod.deletion_at)

    def _close_pods(self, snapshot: Snapshot, context: Context, namespaces: set[str] | None, parsed: Parsed) -> None:
        gone = [
            uid
            for uid, known in self.pods.items()
            if uid not in snapshot.present
            and known.seen_at < snapshot.at
            and (namespaces is EVERYWHERE or (known.row.get("namespace") or "") in namespaces)
        ]
        for uid in gone:
            known = self.pods.pop(uid)
            if known.is_open:
                parsed.add("runs", {**closed_row(known, snapshot.at, context.events.get(uid)), "observed_at": snapshot.at})

    def _take_nodes(self, snapshot: Snapshot, context: Context, parsed: Parsed) -> None:
        busy = self._busy_nodes()
        for node in {node.name: node for node in snapshot.nodes}.values():
            parsed.add("nodes", node_row(node, self.cluster))
            known = self.nodes.get(node.name)
            row = self._state_row(node, known, busy)
            if row is None:
                continue
            is_news = known is None or _differs(known.row, row) or known.seen_at.date() < snapshot.at.date()
            if is_news or not self.only_changes:
                parsed.add("node_states", {**row, "line_number": node.line})
            self.nodes[node.name] = SeenNode(row, snapshot.at)

    def _state_row(self, node: Node, known: SeenNode | None, busy: set[str] | None) -> dict[str, Any] | None:
        """The node's state. In service is a sighting: it is so at that time, which ends whatever state it was in before; after
        it was down, from the moment at which it was ready again."""
        if node.state is None:
            return None
        state = node.state
        if state == "draining" and busy is not None and node.name not in busy:
            state = "drained"
        started_at = node.since or node.at
        if state == "in_service":
            was_down = known is not None and known.row["state"] == "down"
            back = node.ready_since if was_down and node.ready_since else node.at
            started_at = max(back, known.row["started_at"]) if known and was_down else back
        elif known and known.row["state"] == state and node.since is None:
            started_at = known.row["started_at"]
        return {"cluster": self.cluster, "node": node.name, "state": state, "reason": node.reason, "started_at": started_at}

    def _busy_nodes(self) -> set[str] | None:
        """Nodes on which a pod holds a GPU; None where no pods are known."""
        if not self.pods and self.pods_at is None:
            return None
        holders = (known.row for known in self.pods.values() if known.is_open and known.row.get("started_at"))
        return {row["node_list"] for row in holders if row.get("node_list") and row.get("gpu_count") != 0}

    def _close_nodes(self, snapshot: Snapshot, parsed: Parsed) -> None:
        """A node that is gone is in no state any more: else one that was down when it was deleted would be down for ever."""
        for name in [name for name, known in self.nodes.items() if name not in snapshot.present and known.seen_at < snapshot.at]:
            known = self.nodes.pop(name)
            ended_at = max(_middle(known.seen_at, snapshot.at), known.row["started_at"])
            parsed.add("node_states", {**known.row, "ended_at": ended_at})


def closed_row(known: SeenPod, gone_at: datetime, event: EndEvent | None) -> dict[str, Any]:
    """The row of a pod that was there at `known.seen_at` and was gone at `gone_at`."""
    first, last = known.seen_at, gone_at
    if event and first < event.at < last:
        first = event.at
        last = min(last, first + timedelta(seconds=known.grace_seconds))
    if known.deletion_at and first < known.deletion_at < last:
        last = known.deletion_at
    labels = json.loads(known.row["labels"]) if known.row.get("labels") else {}
    labels["ended_between"] = [f"{moment.isoformat()}Z" for moment in (first, last)]
    if event:
        labels["end_reason"] = event.reason
    started_at = known.row.get("started_at")
    return {
        **known.row,
        "state": event.state if event else DELETED,
        "ended_at": max(_middle(first, last), started_at) if started_at else None,
        "labels": json.dumps(labels, sort_keys=True),
    }


def complete_kinds(snapshot: Snapshot) -> dict[str, set[str] | None]:
    """Of which kinds a file has all there are. A List of pods from several namespaces is one of the cluster (`-A`), from one
    namespace one of that; an empty one does not say of what."""
    found: dict[str, set[str] | None] = {}
    if "Node" in snapshot.listed and snapshot.nodes:
        found["Node"] = EVERYWHERE
    if "Pod" in snapshot.listed and snapshot.namespaces:
        found["Pod"] = EVERYWHERE if len(snapshot.namespaces) > 1 else set(snapshot.namespaces)
    return found


def history_notes(history: History) -> Sequence[str]:
    """What is not known of the pods taken in."""
    found = [f"{count} pods hold GPUs, how many is not known: {reason}" for reason, count in sorted(history.unknown.items())]
    if history.pods_without_node:
        found.append(
            f"{history.pods_without_node} pods are on nodes that are not among the objects: their GPUs are taken as whole cards, "
            "shared by nobody, of no known model; save nodes with the pods"
        )
    return found


def _differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a state is another than before; seen again in service is the same."""
    if old["state"] == new["state"] == "in_service":
        return False
    return any(old.get(name) != new.get(name) for name in ("state", "reason", "started_at"))


def _middle(first: datetime, last: datetime) -> datetime:
    return first + (last - first) / 2
