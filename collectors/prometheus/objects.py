"""What kube-state-metrics told of an object → that object as the API server has it, as far as it is told.

kube-state-metrics writes names of labels and resources with `_` for every character that a metric's label may not hold,
since 2.0 of labels also `camel_case` for `camelCase`. The names that mean something here are known, so they are found again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from collectors.kubernetes import schema
from collectors.kubernetes.objects import Object
from collectors.kubernetes.owners import Owner
from collectors.kubernetes.pods import ENDED
from collectors.prometheus.answers import to_instant
from collectors.prometheus.listings import Fact, Facts

#: in the year 2200
LAST_SECOND = 7_258_118_400
_MIG = re.compile(r"nvidia_com_mig_((?:\d+c_)?\d+g_\d+gb)((?:_[a-z]+)*)(_shared)?")
#: names that `collectors.kubernetes` reads beside those of its schema
_MORE_NAMES = (
    "cpu",
    "memory",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/mig.strategy",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "gpu.intel.com/cards",
)
_QUANTITY_METRICS = {
    "kube_node_status_capacity": "capacity",
    "kube_node_status_allocatable": "allocatable",
}
#: kube-state-metrics before 2.0: metric → (where, resource)
_OLD_CAPACITY = {
    "kube_node_status_capacity_cpu_cores": "cpu",
    "kube_node_status_capacity_memory_bytes": "memory",
    "kube_node_status_capacity_nvidia_gpu_cards": "nvidia.com/gpu",
}
_OLD_REQUESTS = {
    "kube_pod_container_resource_requests_nvidia_gpu_devices": "requests",
    "kube_pod_container_resource_limits_nvidia_gpu_devices": "limits",
}


def pod_object(uid: str, facts: Facts, changed_at: datetime | None = None) -> Object:
    """The pod; `line` is 0. `changed_at`: when it was first seen to have ended, where nothing else tells its end."""
    metadata: dict[str, Any] = {"uid": uid, "labels": _named(facts, "kube_pod_labels", "label_")}
    metadata["annotations"] = _named(facts, "kube_pod_annotations", "annotation_")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    containers: dict[str, dict[str, dict[str, str]]] = {}
    for fact in sorted(facts, key=lambda fact: (fact.metric, fact.labels)):
        metadata.setdefault("name", fact.label("pod") or None)
        metadata.setdefault("namespace", fact.label("namespace") or None)
        if fact.metric == "kube_pod_info":
            spec["nodeName"] = fact.label("node") or None
            spec["priorityClassName"] = fact.label("priority_class") or None
            metadata.setdefault("ownerReferences", _owner(fact, "created_by"))
        elif fact.metric == "kube_pod_owner" and fact.label("owner_is_controller") != "false":
            metadata["ownerReferences"] = _owner(fact, "owner")
        elif fact.metric == "kube_pod_status_phase":
            status["phase"] = fact.label("phase")
        elif fact.metric == "kube_pod_status_reason":
            status["reason"] = fact.label("reason")
        elif fact.metric in ("kube_pod_container_resource_requests", "kube_pod_container_resource_limits"):
            kind = fact.metric.rsplit("_", 1)[1]
            resource = resource_name(fact.label("resource"))
            containers.setdefault(fact.label("container"), {}).setdefault(kind, {})[resource] = _number(fact.value)
        elif fact.metric in _OLD_REQUESTS:
            kind = _OLD_REQUESTS[fact.metric]
            containers.setdefault(fact.label("container"), {}).setdefault(kind, {})["nvidia.com/gpu"] = _number(fact.value)
    metadata["creationTimestamp"] = _time(facts, "kube_pod_created")
    metadata["deletionTimestamp"] = _time(facts, "kube_pod_deletion_timestamp")
    status["startTime"] = _time(facts, "kube_pod_start_time")
    scheduled = _time(facts, "kube_pod_status_scheduled_time") or (status["startTime"] if spec.get("nodeName") else None)
    if scheduled:
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}]
    if is_ended(facts):
        completed = _time(facts, "kube_pod_completion_time")
        reasons = [fact.label("reason") for fact in facts if fact.metric == "kube_pod_container_status_terminated_reason"]
        if completed or reasons:
            terminated = {"finishedAt": completed, "reason": min(reasons, key=lambda reason: reason == "Completed", default=None)}
            status["containerStatuses"] = [{"state": {"terminated": terminated}}]
        if changed_at and not completed:
            status.setdefault("conditions", []).append(
                {"type": "Ready", "status": "False", "lastTransitionTime": f"{changed_at.isoformat()}Z"}
            )
    # kube-state-metrics may be told not to give the phase
    status.setdefault("phase", "Running" if spec.get("nodeName") else "Pending")
    spec["containers"] = [{"name": name, "resources": resources} for name, resources in sorted(containers.items())]
    return Object("Pod", 0, {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})


def is_ended(facts: Facts) -> bool:
    """Whether the pod's containers have ended for good."""
    return any(fact.metric == "kube_pod_status_phase" and fact.label("phase") in ENDED for fact in facts)


def node_object(name: str, facts: Facts) -> Object:
    """The node; `line` is 0."""
    spec: dict[str, Any] = {"taints": []}
    status: dict[str, Any] = {"capacity": {}, "allocatable": {}, "conditions": []}
    for fact in sorted(facts, key=lambda fact: (fact.metric, fact.labels)):
        if fact.metric == "kube_node_info":
            spec["providerID"] = fact.label("provider_id") or None
        elif fact.metric == "kube_node_spec_unschedulable":
            spec["unschedulable"] = fact.value == 1
        elif fact.metric == "kube_node_spec_taint":
            spec["taints"].append({part: fact.label(part) for part in ("key", "value", "effect")})
        elif fact.metric == "kube_node_status_condition":
            status["conditions"].append({"type": fact.label("condition"), "status": fact.label("status").capitalize()})
        elif fact.metric in _QUANTITY_METRICS:
            status[_QUANTITY_METRICS[fact.metric]][resource_name(fact.label("resource"))] = _number(fact.value)
        elif fact.metric in _OLD_CAPACITY:
            status["capacity"].setdefault(_OLD_CAPACITY[fact.metric], _number(fact.value))
    metadata = {"name": name, "labels": _named(facts, "kube_node_labels", "label_")}
    return Object("Node", 0, {"kind": "Node", "metadata": metadata, "spec": spec, "status": status})


def owners_above(facts: Iterable[Fact]) -> dict[str, Owner]:
    """The owner of each ReplicaSet and Job, by the id that `pod_object` gives those."""
    kinds = {"kube_replicaset_owner": ("ReplicaSet", "replicaset"), "kube_job_owner": ("Job", "job_name")}
    above = {}
    for fact in facts:
        kind, label = kinds[fact.metric]
        for owner in _owner(fact, "owner"):
            above[_id(kind, fact.label("namespace"), fact.label(label))] = Owner(owner["kind"], owner["name"], owner["uid"])
    return above


def resource_name(written: str) -> str:
    """`nvidia_com_mig_1g_5gb` → `nvidia.com/mig-1g.5gb`; a name that is not known stays as it was written."""
    mig = _MIG.fullmatch(written)
    if mig:
        profile, attributes, shared = mig.groups()
        return f"nvidia.com/mig-{(profile + attributes).replace('_', '.')}{'.shared' if shared else ''}"
    return _known_names().get(written, written)


def gpu_resources() -> list[str]:
    """Regexes of the names of GPU resources, as kube-state-metrics writes them."""
    names = {*schema.WHOLE_GPUS, *schema.PERCENT_OF_GPU, *schema.MEMORY_OF_NODE, *schema.VIRTUAL_GPUS}
    names |= {f"{name}{schema.SHARED}" for name in schema.WHOLE_GPUS}
    return [*sorted(_written(name) for name in names), "nvidia_com_mig_.+"]


def _named(facts: Facts, metric: str, prefix: str) -> dict[str, str]:
    """Labels or annotations under the names they have in Kubernetes, where those are known."""
    found: dict[str, str] = {}
    for fact in facts:
        if fact.metric == metric:
            for key, value in fact.labels:
                if key.startswith(prefix):
                    found.setdefault(_label_name(key.removeprefix(prefix)), value)
    return found


@cache
def _label_name(written: str) -> str:
    known = _known_names().get(written)
    if known:
        return known
    own = next((name for name in schema.OWN_LABELS if written.endswith(f"_{_written(name)}")), None)
    return f"{written.removesuffix(f'_{_written(own)}')}/{own}" if own else written


@cache
def _known_names() -> Mapping[str, str]:
    """Written name → name, of every name that `collectors.kubernetes` looks for."""
    names = {*_MORE_NAMES, *_texts_in(value for name, value in vars(schema).items() if name.isupper())}
    names |= {f"{name}{end}" for name in schema.WHOLE_GPUS for end in (schema.SHARED, ".replicas")}
    return {written: name for name in sorted(names, reverse=True) for written in (_written(name), _snake(_written(name)))}


def _texts_in(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | tuple | frozenset):
            yield from _texts_in(value)


def _written(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _snake(name: str) -> str:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def _owner(fact: Fact, prefix: str) -> list[dict[str, Any]]:
    kind, name = fact.label(f"{prefix}_kind"), fact.label(f"{prefix}_name")
    if not kind or not name or kind == "<none>":
        return []
    return [{"kind": kind, "name": name, "uid": _id(kind, fact.label("namespace"), name), "controller": True}]


def _id(kind: str, namespace: str, name: str) -> str:
    """kube-state-metrics tells no uid of an owner; its name does, as long as it lives."""
    return f"{kind}/{namespace}/{name}"


def _time(facts: Facts, metric: str) -> str | None:
    """The value of a metric that is a time in seconds since 1970, as the API server writes it."""
    found = next((fact.value for fact in facts if fact.metric == metric), 0.0)
    return f"{to_instant(round(found * 1000)).isoformat()}Z" if 0 < found < LAST_SECOND else None


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
