"""Objects as an API server writes them, with what a test says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from collectors.kubernetes.history import History, complete_kinds
from collectors.kubernetes.parse import Snapshot, read_snapshot
from collectors.kubernetes.rows import gather
from collectors.parsed import Parsed

AT = datetime(2026, 11, 1, 12, 0)
BOUND = "2026-11-01T10:00:00Z"
GPU = "GPU-8983c66a-23df-e63b-4c2f-afcae9ec79b3"
OTHER_GPU = "GPU-0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
Json = dict[str, Any]


def container(resources: Mapping[str, Any] | None = None, **more: Any) -> Json:
    return {"name": "main", "image": "registry.example/train:1", "resources": {"limits": dict(resources or {})}, **more}


def pod(
    name: str = "train-0",
    resources: Mapping[str, Any] | None = None,
    *,
    node: str | None = "n1",
    phase: str = "Running",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Json:
    """A pod bound at `BOUND`, by default with one whole GPU."""
    scheduled = {"type": "PodScheduled", "status": "True" if node else "False", "lastTransitionTime": BOUND}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-01T09:59:00Z",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            **(metadata or {}),
        },
        "spec": {
            "containers": [container({"nvidia.com/gpu": "1"} if resources is None else resources)],
            **({"nodeName": node} if node else {}),
            **(spec or {}),
        },
        "status": {"phase": phase, "conditions": [scheduled], "startTime": "2026-11-01T10:00:05Z", **(status or {})},
    }


def ended(code: int = 0, finished: str | None = "2026-11-01T11:30:00Z", reason: str = "Completed") -> Json:
    """A container's status after its end."""
    return {
        "name": "main",
        "restartCount": 0,
        "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": finished}},
    }


def node(
    name: str = "n1",
    gpus: Mapping[str, Any] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: str = "True",
    spec: Mapping[str, Any] | None = None,
    changed: str = "2026-10-01T00:00:00Z",
) -> Json:
    resources = {"cpu": "64", "memory": "512Gi", **({"nvidia.com/gpu": "8"} if gpus is None else gpus)}
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady", "lastTransitionTime": changed}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": dict(spec or {}),
        "status": {"capacity": resources, "allocatable": resources, "conditions": [condition]},
    }


def a_list(*items: Json) -> bytes:
    """What `kubectl get … -o json` prints of several objects."""
    return json.dumps(
        {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}, indent=4
    ).encode()


def snapshot(*items: Json, at: datetime | None = AT, file: str = "f.json", **options: Any) -> Snapshot:
    return read_snapshot(a_list(*items), file, at=at, **options)


def rows(*items: Json, **options: Any) -> Parsed:
    """The rows of one snapshot of these objects."""
    taken = snapshot(*items, **options)
    return History("c1", all_pods=options.get("all_pods", False)).take(taken, gather([taken]), complete_kinds(taken))


def runs(*items: Json, **options: Any) -> list[Json]:
    return [dict(row) for row in rows(*items, **options).tables.get("runs", [])]


def run(*items: Json, **options: Any) -> Json:
    """The one run of these objects."""
    (row,) = runs(*items, **options)
    return row


def held(*items: Json, **options: Any) -> list[Json]:
    """What `run_gpus` says, without the columns that are the same for each."""
    same = {"cluster", "job_id", "node", "started_at", "ended_at", "line_number"}
    found = rows(*items, **options).tables.get("run_gpus", [])
    return [{name: value for name, value in row.items() if name not in same and value is not None} for row in found]
