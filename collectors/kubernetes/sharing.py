"""What sharing schedulers write of devices into a pod's annotations: HAMi, Volcano, Koordinator, gpushare, Run:ai and KAI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from collectors.kubernetes.devices import Device
from collectors.kubernetes.fields import as_count, as_map, as_number, as_text, maps
from collectors.kubernetes.holding import BY_ANNOTATION, BY_RESERVATION, UUID, Fleet, Hold, Reservation, UnknownShareError
from collectors.kubernetes.nodes import Node, mig_profile_of
from collectors.kubernetes.pods import Pod
from collectors.kubernetes.quantities import parse_quantity
from collectors.kubernetes.schema import (
    ALIYUN_ALLOCATION,
    ALIYUN_INDEX,
    ALIYUN_OF_GPU,
    ALIYUN_OF_POD,
    CONTAINER_FRACTION,
    FRACTION,
    FRACTION_DEVICES,
    FRACTION_MEMORY,
    GPU_GROUP,
    KOORDINATOR_ALLOCATED,
    MEBIBYTE,
    MEMORY_OF_NODE,
    RESERVES_GPU,
    RUNAI_MIG_DEVICE,
    VGPU_ALLOCATED,
)

#: the share needs the memory of a card, which the node's labels, annotations or capacity tell
WITHOUT_NODE = "its part of the GPU's memory is not known without the node; save nodes with the pods"
#: a pod of more fractions than a node has cards is none
_MOST_DEVICES = 64


def read_reservation(pod: Pod) -> Reservation:
    """What a reservation pod reserves. The annotation speaks of an index and holds a UUID, since 2023 at the latest."""
    text = pod.annotations.get(RESERVES_GPU, "")
    is_uuid = text.startswith("GPU-") and UUID.fullmatch(text)
    return Reservation(text if is_uuid else None, as_count(text) if text.isdecimal() else None)


def reserved_device(pod: Pod) -> Device | None:
    """The card that a reservation pod names: it is on the pod's node while the pod is."""
    uuid = read_reservation(pod).gpu_uuid if pod.is_reservation else None
    if uuid is None or pod.node is None or pod.ended_at:
        return None
    return Device(file=pod.file, line=pod.line, node=pod.node, gpu_uuid=uuid, at=pod.at)


def gpu_groups(pod: Pod) -> list[str]:
    """The groups of pods that share a card with this one, one per card."""
    named = [value for name, value in sorted(pod.labels.items()) if name.startswith(f"{GPU_GROUP}/")]
    return named or [pod.labels[GPU_GROUP]] if GPU_GROUP in pod.labels or named else []


def virtual(pod: Pod, node: Node | None, fleet: Fleet) -> Iterator[Hold]:
    """HAMi and Volcano: UUID, MiB and percent of the cores of each device, per container. A pod holds the larger of the two
    parts; a device without either is held whole."""
    text = next((pod.annotations[name] for name in VGPU_ALLOCATED if pod.annotations.get(name)), "")
    containers = [_vgpus(part) for part in text.split(";") if part.strip(" :")]
    if not any(containers):
        return
    beginners = max(0, len(containers) - pod.container_count)
    shares: dict[str, float | None] = {}
    for uuid in {uuid for container in containers for uuid, _, _ in container}:
        parts = [[_part_of(node, *given) for given in container if given[0] == uuid] for container in containers]
        known = [sum(part for part in of_container if part is not None) for of_container in parts]
        is_whole = any(part is None for of_container in parts for part in of_container)
        share = max([*known[:beginners], sum(known[beginners:])])
        shares[uuid] = None if is_whole or share >= 1 else share
    for uuid in sorted(shares):
        yield Hold(1, shares[uuid], gpu_uuid=uuid, method=BY_ANNOTATION)


def _vgpus(text: str) -> list[tuple[str, float, float]]:
    """`UUID,type,MiB,percent:` → (UUID, MiB, percent). Of a MIG device the place is written behind the card's UUID."""
    found = []
    for entry in text.split(":"):
        fields = [part.strip() for part in entry.split(",")]
        uuid = re.sub(r"\[.*\]$", "", fields[0])
        if len(fields) >= 3 and UUID.fullmatch(uuid):
            found.append((uuid, as_number(fields[2]) or 0.0, (as_number(fields[3]) or 0.0) if len(fields) > 3 else 0.0))
    return found


def _part_of(node: Node | None, uuid: str, mib: float, percent: float) -> float | None:
    total = next((gpu.memory_mib for gpu in node.registered if gpu.uuid == uuid), None) if node else None
    if not total and node and node.card_memory_bytes:
        total = node.card_memory_bytes / MEBIBYTE
    if mib and not total and not percent:
        raise UnknownShareError(WITHOUT_NODE)
    parts = [part for part in (mib / total if total else 0.0, percent / 100) if part > 0]
    return max(parts) if parts and max(parts) < 1 else None


def koordinator(pod: Pod, node: Node | None, fleet: Fleet) -> Iterator[Hold]:
    for entry in maps(_json_map(pod.annotations.get(KOORDINATOR_ALLOCATED)).get("gpu")):
        minor = as_count(entry.get("minor"))
        resources = as_map(entry.get("resources"))
        parts = [
            float(parse_quantity(value)) / 100
            for name, value in resources.items()
            if str(name).endswith(("/gpu-core", "/gpu-memory-ratio"))
        ]
        device = fleet.devices.get(("koordinator", pod.node or "", str(minor)))
        part = max(parts, default=1.0)
        share, uuid = part if 0 < part < 1 else None, device.gpu_uuid if device else None
        yield Hold(1, share, gpu_uuid=uuid, gpu_index=minor, method=BY_ANNOTATION)


def aliyun(pod: Pod, node: Node | None, fleet: Fleet) -> Iterator[Hold]:
    """Alibaba's gpushare: index of the card, memory of the pod and of the card in one unit, GiB or MiB."""
    notes = pod.annotations
    given: dict[int, float] = {}
    for container in _json_map(notes.get(ALIYUN_ALLOCATION)).values():
        for name, amount in as_map(container).items():
            place = as_count(name)
            if place is not None:
                given[place] = given.get(place, 0.0) + (as_number(amount) or 0.0)
    own = as_count(notes.get(ALIYUN_INDEX))
    if not given and own is not None:
        given[own] = as_number(notes.get(ALIYUN_OF_POD)) or 0.0
    of_card = as_number(notes.get(ALIYUN_OF_GPU)) or next(
        filter(None, (node_memory(name, node) for name in MEMORY_OF_NODE)), None
    )
    for index, part in sorted(given.items()):
        if not of_card or not part:
            raise UnknownShareError(WITHOUT_NODE)
        yield Hold(1, part / of_card if part < of_card else None, gpu_index=index, method=BY_ANNOTATION)


def runai_mig(pod: Pod, node: Node | None, fleet: Fleet) -> Iterator[Hold]:
    """Run:ai's dynamic MIG: the instance by its UUID, the card by its index. Two versions name the UUID differently."""
    told = _json_map(pod.annotations.get(RUNAI_MIG_DEVICE))
    uuid = as_text(told.get("instanceid")) or as_text(told.get("deviceUUID"))
    if uuid and UUID.fullmatch(uuid):
        known = next((device for device in fleet.devices.values() if device.slot_uuid == uuid), None)
        yield Hold(
            1,
            mig_profile=mig_profile_of(as_text(told.get("name")) or ""),
            gpu_uuid=known.gpu_uuid if known else None,
            slot_uuid=uuid,
            gpu_index=as_count(told.get("gpuindex")),
            method=BY_ANNOTATION,
        )


def fraction(pod: Pod, node: Node | None, fleet: Fleet) -> Iterator[Hold]:
    """Run:ai and KAI: a fraction, or memory, of one or several cards; which cards their reservation pods tell."""
    share = _fraction_of(pod, node)
    if share is None:
        return
    groups = gpu_groups(pod)
    count = as_count(pod.annotations.get(FRACTION_DEVICES)) or len(groups) or 1
    for position in range(min(count, _MOST_DEVICES)):
        reserved = fleet.reservations.get(groups[position]) if position < len(groups) else None
        part = share if share < 1 else None
        if reserved and (reserved.gpu_uuid or reserved.gpu_index is not None):
            yield Hold(1, part, gpu_uuid=reserved.gpu_uuid, gpu_index=reserved.gpu_index, method=BY_RESERVATION)
        else:
            yield Hold(1, part)


def _fraction_of(pod: Pod, node: Node | None) -> float | None:
    """The part of a card that the pod asked for, the most particular word first: bytes for a container, a fraction, MiB."""
    asked = {match["what"]: text for name, text in pod.annotations.items() if (match := CONTAINER_FRACTION.fullmatch(name))}
    memory = asked.get("-memory.request") or asked.get("-memory.limit")
    size = float(parse_quantity(memory)) if memory else None
    if size is None and FRACTION in pod.annotations:
        fraction = as_number(pod.annotations[FRACTION])
        if fraction is None or fraction <= 0:
            raise ValueError(f"{FRACTION}: {pod.annotations[FRACTION]!r} is no fraction of a GPU")
        return fraction
    if size is None and FRACTION_MEMORY in pod.annotations:
        size = (as_number(pod.annotations[FRACTION_MEMORY]) or 0.0) * MEBIBYTE
    if not size:
        return None
    if node is None or not node.card_memory_bytes:
        raise UnknownShareError(WITHOUT_NODE)
    return size / node.card_memory_bytes


def annotated_mig(pod: Pod) -> Iterator[Hold]:
    """Run:ai's way to ask for MIG instances: `nvidia.com/mig-1g.5gb: "1"` as an annotation."""
    for name, text in sorted(pod.annotations.items()):
        profile = mig_profile_of(name)
        if profile and name not in pod.requests.gpus and (count := as_count(text)):
            yield Hold(count, mig_profile=profile)


def node_memory(name: str, node: Node | None) -> float | None:
    """Memory of one card in the node's own unit."""
    if node is None:
        return None
    memory, cards = node.capacity.get(name), node.capacity.get(MEMORY_OF_NODE[name])
    return float(memory / cards) if memory and cards else None


def _json_map(text: str | None) -> Mapping[str, Any]:
    try:
        return as_map(json.loads(text)) if text else {}
    except (ValueError, RecursionError):
        return {}
