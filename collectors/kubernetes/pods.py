"""Pod objects: what each asks for, when it held it, how it ended and whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from collectors.kubernetes.fields import NOT_DATED, as_count, as_instant, as_map, as_text, as_texts, maps
from collectors.kubernetes.objects import Object
from collectors.kubernetes.owners import Owner, read_owner
from collectors.kubernetes.requests import Requests, read_requests
from collectors.kubernetes.schema import (
    ABOUT_PEOPLE,
    CONTAINER_FRACTION,
    FAILURES,
    INTERACTIVE_PRIORITIES,
    JUPYTER,
    MIG_ANNOTATION,
    POD_ANNOTATIONS,
    RESERVATION_APPS,
    RESERVATION_LABEL,
    RESERVATION_NAME,
    RESERVES_GPU,
)

ENDED = frozenset({"Succeeded", "Failed"})
DEFAULT_GRACE_SECONDS = 30


@dataclass(frozen=True)
class Pod:
    """A pod as one object tells it. Times are naive UTC; `bound_at` is None for a pod without a node.

    `end_is_exact` says that the containers told when they ended; else `ended_at` is the last sign of the pod's end.
    """

    file: str
    line: int
    uid: str
    name: str
    namespace: str | None
    node: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    owner: Owner | None
    requests: Requests
    claims: tuple[str, ...]
    #: the claim that the scheduler made for a plain request of the pod, since a driver serves it
    generated_claim: str | None
    container_count: int
    phase: str
    state: str
    exit_code: str | None
    end_reason: str | None
    restarts: int
    created_at: datetime | None
    bound_at: datetime | None
    ended_at: datetime | None
    end_is_exact: bool
    deletion_at: datetime | None
    grace_seconds: int
    time_limit_seconds: int | None
    priority_class: str | None
    scheduler: str | None
    is_interactive: bool
    at: datetime = NOT_DATED

    @property
    def is_reservation(self) -> bool:
        """Whether it only holds a card for the pods that use fractions of it (Run:ai, KAI)."""
        return (
            RESERVES_GPU in self.annotations
            or RESERVATION_LABEL in self.labels
            or self.labels.get("app") in RESERVATION_APPS
            or bool(RESERVATION_NAME.match(self.name) and self.namespace in RESERVATION_APPS)
        )

    @property
    def uses_gpus(self) -> bool:
        """Whether it asks for GPUs in any way that is known here. A claim may be for something else: see its objects."""
        return bool(self.requests.gpus or self.is_reservation or any(name not in ABOUT_PEOPLE for name in self.annotations))


def parse_pod(item: Object, file: str, own: frozenset[str] = frozenset()) -> Pod:
    """A pod from its object. Raises ValueError where it is none of an API server's, or what it holds cannot be told."""
    metadata = item.metadata
    spec, status = as_map(item.data.get("spec")), as_map(item.data.get("status"))
    uid, name, phase = (as_text(value) for value in (metadata.get("uid"), metadata.get("name"), status.get("phase")))
    if not uid or not name:
        raise ValueError("no uid or no name: a manifest? Save what the API server says: kubectl get pods -A -o json")
    if not phase:
        raise ValueError("no status.phase: is the file cut off, or the pod a manifest?")
    node = as_text(spec.get("nodeName"))
    containers = [*maps(status.get("initContainerStatuses")), *maps(status.get("containerStatuses"))]
    bound_at = _bound_at(status, metadata) if node else None
    ended_at, is_exact = _ended_at(status, metadata, bound_at) if phase in ENDED else (None, False)
    ends = [end for container in containers if (end := as_map(as_map(container.get("state")).get("terminated")))]
    reason = _end_reason(status, ends) if phase == "Failed" else None
    labels = as_texts(metadata.get("labels"))
    priority = as_text(spec.get("priorityClassName"))
    images = [as_text(container.get(part)) or "" for container in maps(spec.get("containers")) for part in ("image", "name")]
    return Pod(
        file=file,
        line=item.line,
        uid=uid,
        name=name,
        namespace=as_text(metadata.get("namespace")),
        node=node,
        labels=labels,
        annotations=_annotations(metadata),
        node_selector=as_texts(spec.get("nodeSelector")),
        owner=read_owner(metadata),
        requests=read_requests(spec, own),
        claims=_claims(spec, status),
        generated_claim=as_text(as_map(status.get("extendedResourceClaimStatus")).get("resourceClaimName")),
        container_count=len(maps(spec.get("containers"))),
        phase=phase,
        state=_state(phase, reason, is_bound=node is not None),
        exit_code=_exit_code(ends) if phase in ENDED else None,
        end_reason=reason,
        restarts=sum(as_count(container.get("restartCount")) or 0 for container in containers),
        created_at=as_instant(metadata.get("creationTimestamp")),
        bound_at=bound_at,
        ended_at=ended_at,
        end_is_exact=is_exact,
        deletion_at=as_instant(metadata.get("deletionTimestamp")),
        grace_seconds=_grace(metadata, spec),
        time_limit_seconds=as_count(spec.get("activeDeadlineSeconds")),
        priority_class=priority,
        scheduler=as_text(spec.get("schedulerName")),
        is_interactive=(
            any(JUPYTER.search(text) for text in (name, *images))
            or "notebook-name" in labels
            or labels.get("workloadKind") == "InteractiveWorkload"
            or (priority in INTERACTIVE_PRIORITIES and "runai" in (as_text(spec.get("schedulerName")) or ""))
        ),
    )


def _annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Only those that say how GPUs are shared, and who owns the pod."""
    return {
        name: text
        for name, text in as_texts(metadata.get("annotations")).items()
        if name in POD_ANNOTATIONS or MIG_ANNOTATION.match(name) or CONTAINER_FRACTION.fullmatch(name)
    }


def _bound_at(status: Mapping[str, Any], metadata: Mapping[str, Any]) -> datetime | None:
    """When the scheduler bound it: a pod given its node by hand has no such condition, but the kubelet's start."""
    for condition in maps(status.get("conditions")):
        if as_text(condition.get("type")) == "PodScheduled" and as_text(condition.get("status")) == "True":
            scheduled = as_instant(condition.get("lastTransitionTime"))
            if scheduled:
                return scheduled
    return as_instant(status.get("startTime")) or as_instant(metadata.get("creationTimestamp"))


def _ended_at(status: Mapping[str, Any], metadata: Mapping[str, Any], bound_at: datetime | None) -> tuple[datetime | None, bool]:
    """When the last container ended; where the containers do not say (evicted, node lost), the last sign of the end."""
    finished = [_finished_at(container) for container in maps(status.get("containerStatuses"))]
    known = [moment for moment in finished if moment]
    if known and len(known) == len(finished):
        return max([*known, *([bound_at] if bound_at else [])]), True
    signs = [*known]
    for condition in maps(status.get("conditions")):
        kind, is_so = as_text(condition.get("type")), as_text(condition.get("status")) == "True"
        if (kind in ("Ready", "ContainersReady") and not is_so) or (kind == "DisruptionTarget" and is_so):
            signs += [moment for moment in [as_instant(condition.get("lastTransitionTime"))] if moment]
    written = [
        as_instant(entry.get("time"))
        for entry in maps(metadata.get("managedFields"))
        if as_text(entry.get("subresource")) == "status"
    ]
    signs = [moment for moment in written if moment] or signs or [as_instant(status.get("startTime")) or bound_at]  # type: ignore[list-item]
    found = [moment for moment in (*signs, bound_at) if moment]
    return (max(found) if found else None), False


def _finished_at(container: Mapping[str, Any]) -> datetime | None:
    return as_instant(as_map(as_map(container.get("state")).get("terminated")).get("finishedAt"))


def _end_reason(status: Mapping[str, Any], ends: list[Mapping[str, Any]]) -> str | None:
    """Why it failed, the word that says most first: a cause that is told apart, the pod's own reason, a container's."""
    words = [as_text(status.get("reason"))]
    words += [as_text(condition.get("reason")) for condition in maps(status.get("conditions")) if _is_disruption(condition)]
    words += [as_text(end.get("reason")) for end in ends if as_text(end.get("exitCode")) != "0"]
    said = [word for word in words if word]
    return next((word for word in said if word in FAILURES), said[0] if said else None)


def _is_disruption(condition: Mapping[str, Any]) -> bool:
    return as_text(condition.get("type")) == "DisruptionTarget" and as_text(condition.get("status")) == "True"


def _state(phase: str, reason: str | None, *, is_bound: bool) -> str:
    """The phase, or what dbt tells apart within it. A pod that is bound and pulls its image holds its GPUs: it is not pending."""
    if phase == "Pending" and is_bound:
        return "ContainerCreating"
    return FAILURES.get(reason or "", phase) if phase == "Failed" else phase


def _exit_code(ends: list[Mapping[str, Any]]) -> str | None:
    """The first one that is not 0, else 0."""
    codes = [code for end in ends if (code := as_text(end.get("exitCode")))]
    return next((code for code in codes if code != "0"), codes[0] if codes else None)


def _grace(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    told = (as_count(part) for part in (metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")))
    return next((seconds for seconds in told if seconds is not None), DEFAULT_GRACE_SECONDS)


def _claims(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the ResourceClaims that the pod uses, those made from a template by the name they were given."""
    made = {
        as_text(entry.get("name")): as_text(entry.get("resourceClaimName")) for entry in maps(status.get("resourceClaimStatuses"))
    }
    names = []
    for entry in maps(spec.get("resourceClaims")):
        source = as_map(entry.get("source"))  # before Kubernetes 1.31
        name = as_text(entry.get("resourceClaimName")) or as_text(source.get("resourceClaimName"))
        names.append(name or made.get(as_text(entry.get("name"))) or "")
    return tuple(names)
