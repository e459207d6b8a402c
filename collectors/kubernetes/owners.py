"""Whose pod it is: the top of its chain of owners, as far as the objects at hand, its labels and its owner's name tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from collectors.kubernetes.fields import as_map, as_text, is_true, maps
from collectors.kubernetes.schema import (
    LWS_GROUP,
    LWS_NAME,
    OWNER_LABELS,
    RAY_ORIGIN_KIND,
    RAY_ORIGIN_NAME,
    REPLICA_LABELS,
    TOP_OWNER,
)

#: a chain is never longer
_LONGEST_CHAIN = 10
#: a CronJob names its Jobs by the minute (before 1.21 the second) since 1970 at which they were due
_DUE = re.compile(r"(.+)-(\d{8}|\d{10})")
#: a Job is created this long after it was due at most, or its name only looks like it
_LATEST = timedelta(days=2)


@dataclass(frozen=True)
class Owner:
    kind: str
    name: str
    uid: str | None = None


def read_owner(metadata: Mapping[str, Any]) -> Owner | None:
    """The controller among an object's owners, else the first of them."""
    owners = maps(metadata.get("ownerReferences"))
    owners = [owner for owner in owners if is_true(owner.get("controller"))] or owners
    for owner in owners:
        kind, name = as_text(owner.get("kind")), as_text(owner.get("name"))
        if kind and name:
            return Owner(kind, name, as_text(owner.get("uid")))
    return None


def top_owner(
    owner: Owner | None,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    created_at: datetime | None,
    above: Mapping[str, Owner],
) -> Owner | None:
    """The top of the chain that begins with `owner`; `above` maps the uid of an object at hand to its own owner.

    Where the chain breaks off for want of the object, what controllers put into labels and names goes on: the pod template
    hash of a ReplicaSet's name, the time in a CronJob's Job's.
    """
    told = _told_by_scheduler(annotations)
    if told:
        return told
    for _ in range(_LONGEST_CHAIN):
        higher = above.get(owner.uid) if owner and owner.uid else None
        if higher is None:
            break
        owner = higher
    labelled = _told_by_label(labels)
    if labelled and (owner is None or owner.kind != labelled.kind):
        return labelled
    return _named_after(owner, labels, created_at) if owner else None


def replica_group(labels: Mapping[str, str]) -> str | None:
    """What pods that serve together as one replica have in common."""
    if LWS_NAME in labels and LWS_GROUP in labels:
        return f"{labels[LWS_NAME]}-{labels[LWS_GROUP]}"
    return next((labels[name] for name in REPLICA_LABELS if name in labels), None)


def _told_by_scheduler(annotations: Mapping[str, str]) -> Owner | None:
    """What KAI and Run:ai write of a pod's top owner, as YAML; a pod of its own has none."""
    for name in TOP_OWNER:
        try:
            told = as_map(yaml.load(annotations.get(name, ""), Loader=yaml.BaseLoader))
        except (yaml.YAMLError, RecursionError, ValueError):
            continue
        kind, top = as_text(told.get("kind")), as_text(told.get("name"))
        if kind and top and kind != "Pod":
            return Owner(kind, top, as_text(told.get("uid")))
    return None


def _told_by_label(labels: Mapping[str, str]) -> Owner | None:
    if RAY_ORIGIN_NAME in labels and RAY_ORIGIN_KIND in labels:
        return Owner(labels[RAY_ORIGIN_KIND], labels[RAY_ORIGIN_NAME])
    return next((Owner(kind, labels[name]) for name, kind in OWNER_LABELS if labels.get(name)), None)


def _named_after(owner: Owner, labels: Mapping[str, str], created_at: datetime | None) -> Owner:
    if owner.kind == "ReplicaSet":
        for label, kind in (("rollouts-pod-template-hash", "Rollout"), ("pod-template-hash", "Deployment")):
            made = owner.name.removesuffix(f"-{labels[label]}") if labels.get(label) else owner.name
            if made != owner.name:
                return Owner(kind, made)
    if owner.kind == "ReplicationController" and labels.get("deploymentconfig"):
        return Owner("DeploymentConfig", labels["deploymentconfig"])
    match = _DUE.fullmatch(owner.name) if owner.kind == "Job" else None
    if match and created_at:
        due = datetime.fromtimestamp(int(match[2]) * (60 if len(match[2]) == 8 else 1), UTC).replace(tzinfo=None)
        if timedelta(0) <= created_at - due <= _LATEST:
            return Owner("CronJob", match[1])
    return owner
