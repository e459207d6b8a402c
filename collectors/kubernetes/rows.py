"""Pods, nodes and devices into rows of the landing shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from collectors.kubernetes.devices import without_split_cards
from collectors.kubernetes.holding import Fleet, Hold, UnknownShareError
from collectors.kubernetes.holds import claims_gpus, holds_of, summary
from collectors.kubernetes.nodes import Node, latest_before
from collectors.kubernetes.owners import Owner, replica_group, top_owner
from collectors.kubernetes.parse import EndEvent, Snapshot
from collectors.kubernetes.pods import Pod
from collectors.kubernetes.schema import (
    LABEL_NAMES,
    LANDED_LABELS,
    OWN_LABELS,
    QUEUE_ANNOTATIONS,
    QUEUE_LABELS,
    USER_ANNOTATIONS,
    USER_LABELS,
)
from collectors.kubernetes.sharing import gpu_groups, read_reservation


@dataclass
class Context:
    """What is known of everything around a pod, from all snapshots of a call."""

    nodes: dict[str, list[Node]] = field(default_factory=dict)
    owners: dict[str, Owner] = field(default_factory=dict)
    events: dict[str, EndEvent] = field(default_factory=dict)
    fleet: Fleet = field(default_factory=Fleet)
    groups: set[str] = field(default_factory=set)

    def node_of(self, pod: Pod) -> Node | None:
        return latest_before(self.nodes.get(pod.node or "", []), pod.at)


@dataclass(frozen=True)
class PodRows:
    """A pod's row of `runs`, its rows of `run_gpus`, and why its GPUs are not known, if so."""

    run: dict[str, Any]
    gpus: list[dict[str, Any]]
    unknown: str | None


def gather(snapshots: Sequence[Snapshot]) -> Context:
    """The context of pods in these snapshots; of what several say, the latest stands."""
    context = Context()
    for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.at):
        for node in snapshot.nodes:
            context.nodes.setdefault(node.name, []).append(node)
        context.owners.update(snapshot.owners)
        context.events.update(snapshot.events)
        for claim in snapshot.claims:
            context.fleet.claims[(claim.namespace, claim.name)] = claim
        for device in without_split_cards(snapshot.devices):
            if device.key:
                context.fleet.devices[device.key] = device
        for pod in snapshot.pods:
            for group in gpu_groups(pod):
                if pod.is_reservation:
                    context.fleet.reservations[group] = read_reservation(pod)
                else:
                    context.groups.add(group)
    return context


def pod_rows(pod: Pod, context: Context, cluster: str) -> PodRows:
    """The rows of one pod. Raises ValueError where what it holds cannot be told from what it says."""
    node = context.node_of(pod)
    event = context.events.get(pod.uid)
    if event and pod.bound_at and pod.ended_at and not pod.end_is_exact and pod.bound_at <= event.at <= pod.at:
        pod = replace(pod, ended_at=event.at)
    unknown = None
    try:
        holds = holds_of(pod, node, context.fleet)
        held = summary(holds) if holds else {"gpu_count": 0.0, "mig_profile": None, "share_ratio": None}
    except UnknownShareError as error:
        unknown, holds, held = str(error), [], {"gpu_count": None, "mig_profile": None, "share_ratio": None}
    if not holds and claims_gpus(pod, context.fleet) is None and not pod.requests.gpus and not unknown:
        unknown = "its resource claims are not among the objects; save resourceclaims,resourceslices with the pods"
        held["gpu_count"] = None
    owner = top_owner(pod.owner, pod.labels, pod.annotations, pod.created_at, context.owners)
    run = {
        "cluster": cluster,
        "scheduler": "kubernetes",
        "job_id": pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "user": _first(pod.annotations, USER_ANNOTATIONS) or _first(pod.labels, USER_LABELS),
        "queue": _first(pod.labels, QUEUE_LABELS) or _first(pod.annotations, QUEUE_ANNOTATIONS) or _project(pod),
        "qos": pod.priority_class,
        "state": pod.state,
        "exit_code": pod.exit_code,
        "submitted_at": pod.created_at,
        "started_at": pod.bound_at,
        "ended_at": pod.ended_at if pod.bound_at else None,
        "time_limit_seconds": pod.time_limit_seconds,
        "requested_gpu_count": held["gpu_count"],
        "gpu_count": held["gpu_count"] if pod.bound_at else None,
        "gpu_model": node.gpu_model if node else None,
        "mig_profile": held["mig_profile"],
        "share_ratio": held["share_ratio"],
        "cpu_count": pod.requests.cpu_count,
        "memory_bytes": pod.requests.memory_bytes,
        "node_count": 1 if pod.node else None,
        "node_list": pod.node,
        "owner_kind": owner.kind if owner else None,
        "owner_name": owner.name if owner else None,
        "replica_group": replica_group(pod.labels),
        "labels": run_labels(pod),
    }
    return PodRows(run, _gpu_rows(pod, holds, cluster), unknown)


def run_labels(pod: Pod) -> str | None:
    """What the columns have no room for, as JSON: labels on the allow-list, and what dbt and a reader ask of a pod."""
    labels: dict[str, Any] = {name: text for name, text in pod.labels.items() if name in LANDED_LABELS}
    for name, text in sorted(pod.labels.items()):
        own = name.rsplit("/", 1)[-1]
        if own in OWN_LABELS and (name == own or own not in pod.labels):
            labels[LABEL_NAMES.get(own, own)] = text
    if pod.is_interactive:
        labels["interactive"] = True
    if pod.is_reservation:
        labels["reservation"] = True
        labels["reserved_gpu_uuid"] = read_reservation(pod).gpu_uuid
    if groups := gpu_groups(pod):
        labels["gpu_group"] = ",".join(groups)
    if pod.restarts:
        labels["restarts"] = pod.restarts
    if pod.end_reason:
        labels["end_reason"] = pod.end_reason
    if pod.ended_at and not pod.end_is_exact:
        labels["end_estimated"] = True
    labels = {name: value for name, value in labels.items() if value is not None}
    return json.dumps(labels, sort_keys=True) if labels else None


def _gpu_rows(pod: Pod, holds: Sequence[Hold], cluster: str) -> list[dict[str, Any]]:
    """Rows of `run_gpus`: one per device, and one per kind of slots of which only the number is known."""
    if not pod.bound_at or not pod.node:
        return []
    merged: dict[tuple[Any, ...], float] = {}
    for hold in holds:
        key = (hold.gpu_uuid, hold.slot_uuid, hold.gpu_index, hold.mig_profile, hold.share, hold.method)
        if hold.count is not None:
            is_device = hold.gpu_uuid or hold.slot_uuid or hold.gpu_index is not None
            merged[key] = hold.count if is_device else merged.get(key, 0.0) + hold.count
    return [
        {
            "cluster": cluster,
            "job_id": pod.uid,
            "node": pod.node,
            "gpu_uuid": gpu_uuid,
            "slot_uuid": slot_uuid,
            "gpu_index": gpu_index,
            "mig_profile": profile,
            "gpu_count": count,
            "share_ratio": share,
            "started_at": pod.bound_at,
            "ended_at": pod.ended_at,
            "assignment_method": method,
        }
        for (gpu_uuid, slot_uuid, gpu_index, profile, share, method), count in merged.items()
    ]


def _first(values: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((values[name] for name in names if values.get(name)), None)


def _project(pod: Pod) -> str | None:
    """Run:ai's project is the queue that its quota belongs to."""
    return pod.labels.get("project") if "runai" in (pod.scheduler or "") else None
