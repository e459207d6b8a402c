"""Node objects: how many cards, how they are split or shared, and whether the node is in service."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from collectors.kubernetes.fields import NOT_DATED, as_count, as_instant, as_map, as_number, as_text, as_texts, is_true, maps
from collectors.kubernetes.objects import Object
from collectors.kubernetes.quantities import parse_quantity
from collectors.kubernetes.registered import RegisteredGpu, read_registered
from collectors.kubernetes.requests import is_gpu
from collectors.kubernetes.schema import (
    CORDONED,
    GKE_CLIENTS,
    GKE_COUNT,
    GKE_PARTITION,
    MEBIBYTE,
    MEMORY_OF_NODE,
    MIG,
    NODE_MODEL_LABELS,
    PERCENT_OF_GPU,
    PROVIDERS,
    SHARED,
    SOFT_TAINT,
    TAINTS,
    WHOLE_GPUS,
)
from collectors.mig import card_slices, compute_slices
from warehouse.landing.conform import redact

NVIDIA, GPU_COUNT = "nvidia.com/gpu", "nvidia.com/gpu.count"
_CARD_GIGABYTES = re.compile(r"(\d+)GB", re.IGNORECASE)
_PROFILE = re.compile(r"(?:\d+c\.)?(\d+)g\.(\d+)gb.*")


@dataclass(frozen=True)
class Node:
    """A node as one object tells it. `state` is None for a node that says nothing of itself; a cordoned one is `draining` here,
    and becomes `drained` where no pod holds a GPU on it."""

    file: str
    line: int
    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, Decimal]
    allocatable: Mapping[str, Decimal]
    cpu_count: int | None
    memory_bytes: int | None
    registered: tuple[RegisteredGpu, ...]
    provider: str | None
    provider_resource_id: str | None
    state: str | None
    reason: str | None
    since: datetime | None
    ready_since: datetime | None
    taints: tuple[str, ...] = ()
    at: datetime = NOT_DATED

    def label(self, *names: str) -> str | None:
        return next((self.labels[name] for name in names if self.labels.get(name)), None)

    @property
    def gpu_model(self) -> str | None:
        """The product, without what time-slicing and MIG add to it."""
        product = self.label(*NODE_MODEL_LABELS)
        return re.sub(r"(-MIG-[\w.+]+)?(-SHARED)?$", "", product) if product else None

    @property
    def card_memory_bytes(self) -> int | None:
        """Memory of one card, where a label tells it and the label is not about slices."""
        mebibytes = as_number(self.labels.get("nvidia.com/gpu.memory"))
        if mebibytes and not self.mig_profile(NVIDIA):
            return int(mebibytes * MEBIBYTE)
        return max((int(gpu.memory_mib * MEBIBYTE) for gpu in self.registered if gpu.memory_mib), default=None)

    def mig_profile(self, resource: str) -> str | None:
        """The profile of what the node offers under this name: of `nvidia.com/mig-1g.5gb` its own; of `nvidia.com/gpu` the one
        that all cards are split into (MIG strategy `single`, GKE's partition size)."""
        own = mig_profile_of(resource)
        if own or resource.removesuffix(SHARED) != NVIDIA:
            return own
        product = re.search(r"-MIG-([\w.+]+?)(-SHARED)?$", self.labels.get("nvidia.com/gpu.product", ""))
        return _profile_name(product[1]) if product else self.label(GKE_PARTITION)

    def replicas(self, resource: str) -> int | None:
        """Into how many shares the node divides each device that it offers under this name; 1 where it does not, None where it
        does and the labels do not say how."""
        plain = resource.removesuffix(SHARED)
        named = as_count(self.labels.get(f"{plain}.replicas"))
        if resource.endswith(SHARED):
            return named or self._clients()
        renamed = self.capacity.get(plain + SHARED, Decimal(0)) > 0
        if self.labels.get("nvidia.com/gpu.sharing-strategy") == "none" or renamed:
            named = None
        return (named if named and named > 1 else None) or self._clients() or self._intel_share(plain) or 1

    def _clients(self) -> int | None:
        return as_count(self.labels.get(GKE_CLIENTS)) or None

    def _intel_share(self, resource: str) -> int | None:
        """`shared-dev-num` of Intel's plugin: devices offered over the cards that its label names."""
        cards = len([card for card in self.labels.get("gpu.intel.com/cards", "").split(".") if card])
        offered = int(self.capacity.get(resource, 0))
        return offered // cards if resource.startswith("gpu.intel.com/") and cards and offered > cards else None

    @property
    def gpu_count(self) -> int:
        """Cards, not slices or replicas: what the device plugin or the labels count, else worked out of what is offered."""
        if self.registered:
            return len(self.registered)
        offered = sum((self._cards(name) for name in WHOLE_GPUS if name != NVIDIA), Decimal(0))
        counted = as_count(self.labels.get(GPU_COUNT)) or as_count(self.labels.get(GKE_COUNT))
        profile = self.mig_profile(NVIDIA)
        if counted and profile and self.labels.get(GPU_COUNT):  # under MIG strategy `single` it counts instances
            offered += Decimal(counted) / self._instances_per_card(profile)
        elif counted:
            offered += counted
        else:
            split = {name.removesuffix(SHARED) for name in self.allocatable if MIG.fullmatch(name.removesuffix(SHARED))}
            own = {name for name in self.capacity if not is_gpu(name) and name not in MEMORY_OF_NODE.values()}
            offered += self._cards(NVIDIA) + sum((self._cards(name) for name in split | own), Decimal(0))
        return math.ceil((offered or self._cards_of_sharing()) - Decimal("1e-9"))

    def _cards_of_sharing(self) -> Decimal:
        """Cards of a node that offers parts of them only."""
        counts = [self.capacity.get(name, Decimal(0)) for name in MEMORY_OF_NODE.values()]
        return max(*counts, *(self.capacity.get(name, Decimal(0)) / 100 for name in PERCENT_OF_GPU))

    def _cards(self, resource: str) -> Decimal:
        """Cards behind the devices of one name, replicas of them included. Of MIG, what a card's slices are worth."""
        profile = self.mig_profile(resource)
        own_split = bool(MIG.fullmatch(resource.removesuffix(SHARED)))
        # the capacity of a profile stays when the card is split anew; of whole cards it counts the broken ones too
        devices = self.allocatable if own_split and self.allocatable else self.capacity or self.allocatable
        count = Decimal(0)
        for name in {resource, resource.removesuffix(SHARED) + SHARED}:
            count += devices.get(name, Decimal(0)) / (self.replicas(name) or 1)
        if own_split and profile and (slices := compute_slices(profile)) is not None:
            return count * slices / self._card_slices()
        return count / self._instances_per_card(profile) if profile else count

    def _card_slices(self) -> int:
        # GPU feature discovery writes the model with dashes
        return card_slices((self.gpu_model or "").replace("-", " ")) or 7

    def _instances_per_card(self, profile: str) -> int:
        """How many instances of one profile a card has room for: by its compute slices, and by its eight memory slices."""
        match = _PROFILE.fullmatch(profile)
        if match is None or not int(match[1]):
            return 1
        by_compute = self._card_slices() // int(match[1])
        card = _CARD_GIGABYTES.search(self.gpu_model or "")
        if card and int(card[1]):
            slices = max(1, round(8 * int(match[2]) / int(card[1])))
            return max(1, min(by_compute, 8 // min(slices, 8)))
        return max(1, by_compute)


def parse_node(item: Object, file: str, own: frozenset[str] = frozenset()) -> Node:
    """A node from its object. Raises ValueError where it has no name, or a number of GPUs that is none."""
    labels = as_texts(item.metadata.get("labels"))
    annotations = as_texts(item.metadata.get("annotations"))
    name = as_text(item.metadata.get("name"))
    if not name:
        raise ValueError("no metadata.name")
    spec, status = as_map(item.data.get("spec")), as_map(item.data.get("status"))
    capacity, allocatable = as_map(status.get("capacity")), as_map(status.get("allocatable"))
    state, reason, since, ready_since = _state(spec, status)
    provider, resource_id = read_provider_id(as_text(spec.get("providerID")))
    return Node(
        file=file,
        line=item.line,
        name=name,
        labels=labels,
        capacity=_gpus(capacity, own),
        allocatable=_gpus(allocatable, own),
        cpu_count=_whole(capacity.get("cpu")),
        memory_bytes=_whole(capacity.get("memory")),
        registered=read_registered(annotations),
        provider=provider,
        provider_resource_id=resource_id,
        state=state,
        reason=reason,
        since=since,
        ready_since=ready_since,
        taints=tuple(sorted({key for taint in maps(spec.get("taints")) if (key := as_text(taint.get("key")))})),
    )


def read_provider_id(text: str | None) -> tuple[str | None, str | None]:
    """`aws:///eu-west-1a/i-0abc` → (AWS, i-0abc): the provider and the resource as its bills name it."""
    if (text or "").startswith("ocid1."):  # Oracle's cloud controller writes no scheme
        return PROVIDERS.get("oci"), text
    match = re.fullmatch(r"(\w+)://(.*)", text or "")
    if match is None:
        return None, None
    scheme, path = match.groups()
    if scheme == "aws":
        path = path.rsplit("/", 1)[-1]
    elif scheme == "gce" and (parts := re.fullmatch(r"/*([^/]+)/([^/]+)/([^/]+)", path)):
        path = f"projects/{parts[1]}/zones/{parts[2]}/instances/{parts[3]}"
    return PROVIDERS.get(scheme), path or None


def _state(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str | None, str | None, datetime | None, datetime | None]:
    """State, reason, since when (None: the object does not say), and since when the node has been ready."""
    ready = next((c for c in maps(status.get("conditions")) if as_text(c.get("type")) == "Ready"), None)
    if ready is None:
        return None, None, None, None
    changed = as_instant(ready.get("lastTransitionTime"))
    if as_text(ready.get("status")) != "True":
        words = [as_text(ready.get(part)) for part in ("reason", "message")]
        return "down", redact(": ".join(word for word in words if word), 200) or None, changed, None
    hard = [taint for taint in maps(spec.get("taints")) if as_text(taint.get("effect")) != SOFT_TAINT]
    for pattern, state in TAINTS:
        for taint in hard:
            key = as_text(taint.get("key")) or ""
            if pattern.search(key):
                return state, f"taint {key}", _added(taint), changed
    if is_true(spec.get("unschedulable")):
        cordon = [taint for taint in hard if as_text(taint.get("key")) == CORDONED]
        return "draining", "cordoned", _added(cordon[0]) if cordon else None, changed
    return "in_service", None, None, changed


def _added(taint: Mapping[str, Any]) -> datetime | None:
    try:
        return as_instant(taint.get("timeAdded"))
    except ValueError:
        return None


def _gpus(resources: Mapping[str, Any], own: frozenset[str]) -> dict[str, Decimal]:
    found = {}
    for name, value in resources.items():
        if is_gpu(name, own) or name in MEMORY_OF_NODE.values():
            try:
                found[name] = parse_quantity(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return found


def _whole(value: Any) -> int | None:
    try:
        number = int(parse_quantity(value)) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and number < 2**63 else None


def mig_profile_of(resource: str) -> str | None:
    """The profile that a resource's name says: of `nvidia.com/mig-1g.5gb` 1g.5gb."""
    match = MIG.fullmatch(resource.removesuffix(SHARED))
    return _profile_name(match["profile"]) if match else None


def _profile_name(text: str) -> str:
    """A profile as NVIDIA writes it: a resource's name has a dot for the plus of `1g.5gb+me`."""
    match = re.fullmatch(r"((?:\d+c\.)?\d+g\.\d+gb)\.(.+)", text)
    return f"{match[1]}+{match[2]}" if match else text


def latest_before(nodes: Iterable[Node], at: datetime) -> Node | None:
    """Of one node's objects the one that speaks of `at`: the last until then, else the first after."""
    ordered = sorted(nodes, key=lambda node: node.at)
    before = [node for node in ordered if node.at <= at]
    return before[-1] if before else ordered[0] if ordered else None
