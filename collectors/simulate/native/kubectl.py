"""What `kubectl get pods,nodes -A -o json` prints of a cluster at the end of a part of the plan."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from datetime import datetime
from typing import Any

from collectors.simulate.hardware import MIG, REPLICAS, SHARED, SPOT, Node
from collectors.simulate.plan import Plan, Run

Object = dict[str, Any]


def objects(plan: Plan, cluster: str, first: int, last: int) -> str:
    """Pods that touched `[first, last)`, and the nodes that are there at `last`."""
    pods = [
        _pod(plan, run, last)
        for run in plan.runs
        if run.cluster == cluster and run.start < last and run.until(plan.window) > first
    ]
    nodes = [
        _node(plan, node, last)
        for node in plan.fleet.in_cluster(cluster)
        if any(start < last <= end for start, end in plan.presence(node))
    ]
    items = [*pods, *nodes]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}, indent=1) + "\n"


def _pod(plan: Plan, run: Run, last: int) -> Object:
    node = plan.fleet.by_name[run.node]
    is_over = run.end is not None and run.end <= last
    started = _time(plan.window.at(run.start))
    state: Object = {"running": {"startedAt": started}}
    if is_over and run.end is not None:
        code = 0 if run.state == "Succeeded" else 1
        reason = "Completed" if code == 0 else "Error"
        ended = _time(plan.window.at(run.end))
        state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": ended}}
    requests = {"cpu": str(2 * len(run.slots)), "memory": f"{16 * len(run.slots)}Gi", **_asked(run, node)}
    is_notebook = run.name.startswith("jupyter-")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": run.name,
            "namespace": run.namespace,
            "uid": run.job_id,
            "creationTimestamp": _time(plan.window.at(run.submitted)),
            "labels": {**run.labels, **_labels(run)},
            "ownerReferences": [_owner(run)],
        },
        "spec": {
            "nodeName": run.node,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/jupyter:12" if is_notebook else f"registry.example/{run.workload}:3",
                    "resources": {"requests": requests, "limits": requests},
                }
            ],
        },
        "status": {
            "phase": run.state if is_over else "Running",
            "startTime": started,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "ready": not is_over, "state": state}],
        },
    }


def _asked(run: Run, node: Node) -> dict[str, str]:
    """The extended resources of the pod's slots."""
    profiles = Counter(slot.profile for slot in node.slots if slot.number in run.slots)
    return {f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu": str(count) for profile, count in profiles.items()}


def _labels(run: Run) -> dict[str, str]:
    return {"pod-template-hash": run.name.rsplit("-", 2)[1]} if run.owner_kind == "Deployment" else {}


def _owner(run: Run) -> Object:
    """The pod's own controller: of a Deployment its ReplicaSet, of a CronJob its Job."""
    kind, name = run.owner_kind or "", run.owner_name or ""
    if kind == "Deployment":
        kind, name = "ReplicaSet", run.name.rsplit("-", 1)[0]
    if kind == "CronJob":
        kind, name = "Job", run.name.rsplit("-", 1)[0]
    version = {"Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1"}.get(kind, "apps/v1")
    uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run.cluster}/{run.namespace}/{kind}/{name}"))
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _node(plan: Plan, node: Node, last: int) -> Object:
    start, _ = next(span for span in plan.presence(node) if span[0] < last <= span[1])
    offered: dict[str, str] = {"nvidia.com/gpu": str(node.cards * (REPLICAS if node.role == SHARED else 1))}
    if node.role == MIG:
        counts = Counter(slot.profile for slot in node.slots)
        offered = {"nvidia.com/gpu": "0"} | {f"nvidia.com/mig-{profile}": str(count) for profile, count in counts.items()}
    capacity = {"cpu": str(16 * node.cards), "memory": f"{128 * node.cards}Gi", **offered}
    labels = {
        "kubernetes.io/hostname": node.name,
        "node.kubernetes.io/instance-type": node.instance_type,
        "nvidia.com/gpu.count": str(node.cards),
        "nvidia.com/gpu.memory": str(node.model.memory_mib),
        "nvidia.com/gpu.product": node.model.name.replace(" ", "-") + ("-SHARED" if node.role == SHARED else ""),
        "nvidia.com/gpu.replicas": str(REPLICAS if node.role == SHARED else 1),
        "nvidia.com/mig.strategy": "mixed" if node.role == MIG else "single",
    }
    if node.role == SPOT:
        labels["node.kubernetes.io/capacity"] = "spot"
    ready = _time(plan.window.at(start))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "creationTimestamp": ready, "labels": labels},
        "spec": {"providerID": f"example:///eu-north/{node.resource_id}"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastTransitionTime": ready,
                    "lastHeartbeatTime": _time(plan.window.at(last)),
                }
            ],
        },
    }


def _time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
