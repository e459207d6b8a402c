"""Nodes into rows of `nodes`: what no column holds is in `labels`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collectors.kubernetes.nodes import NVIDIA, Node
from collectors.kubernetes.schema import (
    DRIVER_LABELS,
    DRIVER_PARTS,
    INSTANCE_TYPE_LABELS,
    NODE_POOL_LABELS,
    REGION_LABELS,
    SHARED,
    SPOT_LABELS,
    ZONE_LABELS,
)


def node_row(node: Node, cluster: str) -> dict[str, Any]:
    """The row of `nodes`; what no column holds is in `labels`."""
    profiles = {
        profile: int(count)
        for name, count in sorted(node.allocatable.items())
        if count and (profile := node.mig_profile(name)) and not name.endswith(SHARED)
    }
    labels = {
        "gpu_model": node.gpu_model,
        "gpu_memory_bytes": node.card_memory_bytes,
        "mig_strategy": node.label("nvidia.com/mig.strategy") if profiles or node.gpu_count else None,
        "mig_profiles": profiles,
        "gpu_replicas": replicas if (replicas := node.replicas(NVIDIA)) and replicas > 1 else None,
        "sharing_strategy": node.label("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy"),
        "driver_version": driver_version(node),
        "provider": node.provider,
        "provider_resource_id": node.provider_resource_id,
        "region": node.label(*REGION_LABELS),
        "zone": node.label(*ZONE_LABELS),
        "taints": list(node.taints),
    }
    return {
        "cluster": cluster,
        "node": node.name,
        "cpu_count": node.cpu_count,
        "memory_bytes": node.memory_bytes,
        "gpu_count": node.gpu_count,
        "instance_type": node.label(*INSTANCE_TYPE_LABELS),
        "is_spot": is_spot(node.labels),
        "partitions": node.label(*NODE_POOL_LABELS),
        "labels": json.dumps({name: value for name, value in labels.items() if value}, sort_keys=True),
        "seen_at": node.at,
        "line_number": node.line,
    }


def driver_version(node: Node) -> str | None:
    parts = [node.label(part) for part in DRIVER_PARTS]
    return node.label(*DRIVER_LABELS) or (".".join(part for part in parts if part) if parts[0] else None)


def is_spot(labels: Mapping[str, str]) -> bool | None:
    """Whether the provider may take the node back; None where no label speaks of it."""
    said = [labels[name].lower() in values for name, values in SPOT_LABELS.items() if name in labels]
    return any(said) if said else None
