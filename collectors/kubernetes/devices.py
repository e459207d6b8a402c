"""Devices by their own ids, where objects tell them: DRA ResourceSlices, Koordinator's Devices, what plugins register on nodes.

GPU feature discovery's labels tell product, memory and count, but no id: those are in `nodes`, and no id is made up for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from collectors.kubernetes.fields import NOT_DATED, as_count, as_list, as_map, as_text, as_texts, is_true, maps
from collectors.kubernetes.node_rows import driver_version
from collectors.kubernetes.nodes import Node
from collectors.kubernetes.objects import Object
from collectors.kubernetes.quantities import parse_quantity
from collectors.kubernetes.schema import GPU_DRIVER, MEBIBYTE, NODE_MODEL_LABELS, REGION_LABELS, ZONE_LABELS

_SLICES = re.compile(r"(?:\d+c\.)?(\d+)g\.")
_NAMESPACED = re.compile(r"[^/]+/")


@dataclass(frozen=True)
class Device:
    """A card, or a MIG instance of one (`slot_uuid`). `key` is how its driver calls it: (driver, pool, device)."""

    file: str
    line: int
    node: str
    gpu_uuid: str
    slot_uuid: str | None = None
    key: tuple[str, str, str] | None = None
    mig_profile: str | None = None
    model: str | None = None
    memory_bytes: int | None = None
    index: int | None = None
    pci_bus_id: str | None = None
    driver_version: str | None = None
    at: datetime = NOT_DATED


@dataclass(frozen=True)
class ClaimedDevice:
    """A device that a ResourceClaim was given; `sharers` pods use the claim together."""

    key: tuple[str, str, str]
    sharers: int


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim. `devices` are None where none has been allocated yet; `wanted` counts its GPUs, None where it may vary."""

    namespace: str
    name: str
    pod_uids: frozenset[str]
    devices: tuple[ClaimedDevice, ...] | None
    wanted: int | None


def parse_slice(item: Object, file: str) -> Iterator[Device]:
    """The devices of a ResourceSlice of GPUs that have a UUID; those a driver would make on demand have none yet.

    From v1alpha3 to v1beta1 a device's facts lie in `basic`; `kubectl get resourceslices` shows every version.
    """
    spec = as_map(item.data.get("spec"))
    driver, node = as_text(spec.get("driver")) or "", as_text(spec.get("nodeName"))
    pool = as_text(as_map(spec.get("pool")).get("name")) or ""
    if not node or not GPU_DRIVER.search(driver):
        return
    for entry in maps(spec.get("devices")):
        facts = as_map(entry.get("basic")) or entry
        told = {_NAMESPACED.sub("", str(name)): _attribute(value) for name, value in as_map(facts.get("attributes")).items()}
        uuid, parent, name = told.get("uuid"), told.get("parentUUID"), as_text(entry.get("name")) or ""
        if not uuid:
            continue
        is_part = told.get("type") == "mig" or parent is not None
        if is_part and not parent:
            continue
        yield Device(
            file=file,
            line=item.line,
            node=node,
            gpu_uuid=parent or uuid,
            slot_uuid=uuid if is_part else None,
            key=(driver, pool, name),
            mig_profile=told.get("profile") if is_part else None,
            model=told.get("productName") or told.get("model"),
            memory_bytes=_bytes(as_map(facts.get("capacity")).get("memory")),
            index=as_count(told.get("parentIndex") if is_part else told.get("index")),
            pci_bus_id=told.get("pciBusID") or told.get("pcieBusID"),
            driver_version=told.get("driverVersion"),
        )


def parse_koordinator(item: Object, file: str) -> Iterator[Device]:
    """The GPUs of Koordinator's `Device` object, one per node; their minor number is what its pods are given."""
    node = as_text(item.metadata.get("name"))
    labels = as_texts(item.metadata.get("labels"))
    for entry in maps(as_map(item.data.get("spec")).get("devices")):
        uuid = as_text(entry.get("id"))
        if node and uuid and as_text(entry.get("type")) == "gpu":
            resources = as_map(entry.get("resources"))
            memory = resources.get("koordinator.sh/gpu-memory") or resources.get("kubernetes.io/gpu-memory")
            yield Device(
                file=file,
                line=item.line,
                node=node,
                gpu_uuid=uuid,
                key=("koordinator", node, as_text(entry.get("minor")) or ""),
                model=next((labels[name] for name in NODE_MODEL_LABELS if name in labels), None),
                memory_bytes=_bytes(memory),
                index=as_count(entry.get("minor")),
                pci_bus_id=as_text(as_map(entry.get("topology")).get("busID")),
            )


def registered_devices(node: Node) -> Iterator[Device]:
    """The GPUs that a device plugin wrote into the node's annotations."""
    for gpu in node.registered:
        yield Device(
            file=node.file,
            line=node.line,
            node=node.name,
            gpu_uuid=gpu.uuid,
            model=gpu.model or node.gpu_model,
            memory_bytes=int(gpu.memory_mib * MEBIBYTE) if gpu.memory_mib else None,
            index=gpu.index,
        )


def parse_claim(item: Object) -> Claim:
    """A ResourceClaim with the GPUs it was given. One that only watches (`adminAccess`) holds nothing."""
    spec, status = as_map(item.data.get("spec")), as_map(item.data.get("status"))
    users = [user for user in maps(status.get("reservedFor")) if as_text(user.get("resource")) == "pods"]
    uids = frozenset(uid for user in users if (uid := as_text(user.get("uid"))))
    given = as_map(as_map(status.get("allocation")).get("devices"))
    devices = None
    if isinstance(given.get("results"), list):
        devices = tuple(
            ClaimedDevice((driver, as_text(result.get("pool")) or "", as_text(result.get("device")) or ""), max(1, len(uids)))
            for result in maps(given["results"])
            if GPU_DRIVER.search(driver := as_text(result.get("driver")) or "") and not is_true(result.get("adminAccess"))
        )
    return Claim(
        namespace=as_text(item.metadata.get("namespace")) or "",
        name=as_text(item.metadata.get("name")) or "",
        pod_uids=uids,
        devices=devices,
        wanted=_wanted(as_list(as_map(spec.get("devices")).get("requests"))),
    )


def inventory_row(device: Device, node: Node | None, cluster: str) -> Mapping[str, Any] | None:
    """The row of `gpu_inventory`; None where nothing tells the model."""
    model = device.model or (node.gpu_model if node else None)
    if not model:
        return None
    slices = _SLICES.match(device.mig_profile or "")
    return {
        "cluster": cluster,
        "node": device.node,
        "gpu_uuid": device.gpu_uuid,
        "slot_uuid": device.slot_uuid,
        "mig_profile": device.mig_profile,
        "compute_slices": int(slices[1]) or None if slices else None,
        "gpu_model": model,
        "memory_total_bytes": device.memory_bytes,
        "pci_bus_id": device.pci_bus_id,
        "gpu_index": device.index,
        "driver_version": device.driver_version or (driver_version(node) if node else None),
        "provider": node.provider if node else None,
        "provider_resource_id": node.provider_resource_id if node else None,
        "region": node.label(*REGION_LABELS) if node else None,
        "zone": node.label(*ZONE_LABELS) if node else None,
        "seen_at": device.at,
        "line_number": device.line,
    }


def without_split_cards(devices: Iterable[Device]) -> list[Device]:
    """A driver may list a card beside its instances; where there are instances they are what can be held."""
    found = list({(device.gpu_uuid, device.slot_uuid, device.at): device for device in devices}.values())
    split = {(device.gpu_uuid, device.at) for device in found if device.slot_uuid}
    return [device for device in found if device.slot_uuid or (device.gpu_uuid, device.at) not in split]


def _attribute(value: Any) -> str | None:
    """`{string: x}`, `{int: 0}`, `{version: 1.2.3}` → the text of it."""
    return next((text for part in as_map(value).values() if (text := as_text(part)) is not None), None)


def _bytes(value: Any) -> int | None:
    """A capacity, plain or as `{value: 80Gi}`."""
    value = as_map(value).get("value") if isinstance(value, dict) else value
    try:
        number = int(parse_quantity(value)) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and number < 2**63 else None


def _wanted(requests: list[Any]) -> int | None:
    """GPUs that a claim's requests ask for, by the name of their device class; None where it takes all there are."""
    total = 0
    for request in maps(requests):
        exact = as_map(request.get("exactly")) or next(iter(maps(request.get("firstAvailable"))), request)
        kind = as_text(exact.get("deviceClassName")) or ""
        if not (GPU_DRIVER.search(kind) or kind.startswith("mig.")) or is_true(exact.get("adminAccess")):
            continue
        if as_text(exact.get("allocationMode")) == "All":
            return None
        count = as_count(exact.get("count"))
        total += 1 if count is None else count
    return total
