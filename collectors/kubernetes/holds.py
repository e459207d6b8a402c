"""What a pod holds: devices where an annotation, a claim or a reservation names them, else how many, and what share of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from collectors.kubernetes.fields import as_count
from collectors.kubernetes.holding import BY_CLAIM, Fleet, Hold, UnknownShareError
from collectors.kubernetes.nodes import Node, mig_profile_of
from collectors.kubernetes.pods import Pod
from collectors.kubernetes.schema import (
    GKE_CLIENTS,
    GKE_PARTITION,
    INTEL_MILLICORES,
    MEBIBYTE,
    MEMORY_OF_NODE,
    PERCENT_OF_GPU,
    PERCENT_SPREAD,
    SHARED,
    VIRTUAL_GPUS,
)
from collectors.kubernetes.sharing import (
    WITHOUT_NODE,
    aliyun,
    annotated_mig,
    fraction,
    koordinator,
    node_memory,
    runai_mig,
    virtual,
)


def holds_of(pod: Pod, node: Node | None, fleet: Fleet) -> list[Hold]:
    """What the pod holds, or would hold once it is bound: the first that applies of claims, a scheduler's own word for a
    device, a fraction, plain resources.

    Raises UnknownShareError where a share depends on an object that is not there, ValueError where a number is none.
    """
    if pod.is_reservation:
        return []
    for find in (_claimed, virtual, koordinator, aliyun, runai_mig, fraction):
        found = list(find(pod, node, fleet))
        if found:
            return found
    return [*annotated_mig(pod), *_counted(pod, node)]


def claims_gpus(pod: Pod, fleet: Fleet) -> bool | None:
    """Whether the pod uses a claim for GPUs; None where it uses one that is not among the objects."""
    known = [fleet.claims.get((pod.namespace or "", name)) for name in pod.claims]
    if any(claim and (claim.devices if claim.devices is not None else claim.wanted != 0) for claim in known):
        return True
    return None if None in known else False


def summary(holds: Sequence[Hold]) -> dict[str, Any]:
    """What a run's own row says of its holds: the slots together; profile and share only where all have the same."""
    counts = [hold.count for hold in holds]
    profiles = {hold.mig_profile for hold in holds}
    shares = {hold.share for hold in holds}
    return {
        "gpu_count": None if None in counts else float(sum(count for count in counts if count is not None)),
        "mig_profile": profiles.pop() if len(profiles) == 1 else None,
        "share_ratio": shares.pop() if len(shares) == 1 else None,
    }


def _claimed(pod: Pod, node: Node | None, fleet: Fleet) -> Iterator[Hold]:
    """DRA: the devices that the pod's claims were given. A claim that the scheduler made for a plain request stands for it."""
    names = [*pod.claims, *([pod.generated_claim] if pod.generated_claim else [])]
    is_served = False
    for name in names:
        claim = fleet.claims.get((pod.namespace or "", name))
        if claim is None:
            continue
        is_served = is_served or name == pod.generated_claim
        if claim.devices is None and claim.wanted != 0:
            yield Hold(claim.wanted)
        for given in claim.devices or ():
            share = 1 / given.sharers if given.sharers > 1 else None
            device = fleet.devices.get(given.key)
            if device:
                yield Hold(1, share, device.mig_profile, device.gpu_uuid, device.slot_uuid, device.index, BY_CLAIM)
            else:
                yield Hold(1, share)
    if names and not is_served:
        yield from _counted(pod, node)


def _counted(pod: Pod, node: Node | None) -> Iterator[Hold]:
    """Plain resources: how many, and the share of each that the node or the request says."""
    asked = pod.requests.gpus
    percents = [name for name in PERCENT_OF_GPU if name in asked]
    if percents:
        spread = max([1.0, *(float(pod.requests.attributes.get(name, 1)) for name in PERCENT_SPREAD)])
        total = max(float(asked[name]) for name in percents) / 100
        cards = max(spread, float(int(total)))
        yield Hold(cards, total / cards if total < cards else None)
    for name, amount in sorted(asked.items()):
        if name in PERCENT_OF_GPU:
            continue
        if name in MEMORY_OF_NODE:
            of_card = node_memory(name, node)
            if not of_card:
                raise UnknownShareError(WITHOUT_NODE)
            count = float(pod.requests.attributes.get(MEMORY_OF_NODE[name], 1)) or 1.0
            yield Hold(count, float(amount) / of_card if float(amount) < of_card else None)
            continue
        share = _virtual_share(name, pod, node)
        if share is None:
            share = _replica_share(name, pod, node)
        profile = mig_profile_of(name) or (node.mig_profile(name) if node else _gke_profile(name, pod))
        yield Hold(float(amount), share, profile)


def _virtual_share(name: str, pod: Pod, node: Node | None) -> float | None:
    """What memory or cores each of HAMi's or Volcano's devices is given, of the card's; None where it is all of it."""
    if name not in VIRTUAL_GPUS:
        return None
    memory, memory_percent, cores = (float(pod.requests.attributes.get(part, 0)) for part in VIRTUAL_GPUS[name])
    parts = [memory_percent / 100, cores / 100]
    if memory and not (node and node.card_memory_bytes):
        raise UnknownShareError(WITHOUT_NODE)
    if memory and node and node.card_memory_bytes:
        parts.append(memory * MEBIBYTE / node.card_memory_bytes)
    return max(parts) if 0 < max(parts) < 1 else None


def _replica_share(name: str, pod: Pod, node: Node | None) -> float | None:
    millicores = float(pod.requests.attributes.get(INTEL_MILLICORES, 0))
    if name.startswith("gpu.intel.com/") and 0 < millicores < 1000 * float(pod.requests.gpus[name]):
        return millicores / 1000 / float(pod.requests.gpus[name])
    replicas = node.replicas(name) if node else _gke_clients(pod) if name == "nvidia.com/gpu" else None
    if replicas is None and name.endswith(SHARED):
        raise UnknownShareError(f"{name}: how many share a GPU the node's labels say; save nodes with the pods")
    return 1 / replicas if replicas and replicas > 1 else None


def _gke_clients(pod: Pod) -> int | None:
    return as_count(pod.node_selector.get(GKE_CLIENTS))


def _gke_profile(name: str, pod: Pod) -> str | None:
    return pod.node_selector.get(GKE_PARTITION) if name == "nvidia.com/gpu" else None
