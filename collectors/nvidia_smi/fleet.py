"""Which GPU a text speaks of: by UUID; else by what other texts of the same call say of its place; else by its place.

Index and PCI address locate a device at a time, they do not identify it (semantics 2). A log that prints only those is
therefore best landed together with `nvidia-smi -L` of the same host, which names the UUIDs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.mig import compute_slices, instance_profile, slices_by_size
from collectors.nvidia_smi.records import NVIDIA_SMI, GpuReading, Identity, MigDevice
from collectors.nvidia_smi.schema import BYTES
from collectors.nvidia_smi.values import UnreadableValueError, read_text, read_value


@dataclass(frozen=True)
class Instance:
    """One MIG GPU instance, which is a slot; memory texts as printed.

    `parts` are the compute instances that divide it, by UUID and profile, the one that gave the slot its id left out.
    """

    slot_uuid: str
    profile: str | None
    compute_slices: int | None
    memory_used: str
    memory_total: str
    number: int | None = None
    parts: tuple[tuple[str, str | None], ...] = ()


@dataclass
class Fleet:
    """What the texts of one call say of the GPUs."""

    _ids: dict[tuple[str, str, str | int], set[str]] = field(default_factory=dict)
    _addresses: dict[str, str] = field(default_factory=dict)
    _listed: dict[str, tuple[MigDevice, ...]] = field(default_factory=dict)
    _models: dict[str, str] = field(default_factory=dict)
    _slots: dict[tuple[str, int], str] = field(default_factory=dict)

    def learn(self, node: str, reading: GpuReading) -> None:
        """Take in what a reading says of its GPU's place, model and MIG devices."""
        identity, vendor = reading.identity, _vendor(reading.tool)
        if identity.vendor_id:
            for place in (identity.pci, identity.index):
                if place is not None:
                    self._ids.setdefault((node, vendor, place), set()).add(identity.vendor_id)
            if identity.pci:
                self._addresses[identity.vendor_id] = identity.pci
        name = read_text(reading.texts, "name")
        gpu = self.resolve(node, identity, reading.tool)
        if name and gpu:
            self._models.setdefault(gpu, name)
        if gpu and reading.mig and all(device.uuid for device in reading.mig):
            self._listed.setdefault(gpu, reading.mig)

    def resolve(self, node: str, identity: Identity, tool: str = NVIDIA_SMI) -> str | None:
        """The GPU's id; None where the text does not name it at all. A place that several GPUs had is its own id."""
        if identity.vendor_id:
            return identity.vendor_id
        for place in (identity.pci, identity.index):
            known = self._ids.get((node, _vendor(tool), place), set()) if place is not None else set()
            if len(known) == 1:
                gpu = next(iter(known))
                # one that sits at another address is another card
                if identity.pci is None or self._addresses.get(gpu, identity.pci) == identity.pci:
                    return gpu
        if identity.pci:
            return f"{node}/{identity.pci}"
        return None if identity.index is None else f"{node}/gpu{identity.index}"

    def model(self, gpu: str) -> str | None:
        """What any text of the call calls the GPU."""
        return self._models.get(gpu)

    def is_listed(self, gpu: str) -> bool:
        """Whether a text of the call names the GPU's MIG devices."""
        return gpu in self._listed

    def instances(self, gpu: str, reading: GpuReading, model: str | None) -> list[Instance]:
        """The GPU instances of a reading. Compute instances share one: they are one slot, its memory counted once.

        A slot's id is the UUID of its first MIG device, where this reading or a listing of the call tells it; else the
        number of its GPU instance, as for dcgm-exporter.
        """
        found = []
        for devices in _by_instance(self._named(gpu, reading.mig)):
            first = devices[0]
            number = f"gi{first.gi}" if first.gi is not None else f"mig{first.index}"
            slot = next((device.uuid for device in devices if device.uuid), None) or f"{gpu}/{number}"
            if first.gi is not None:
                self._slots[gpu, first.gi] = slot
            profile = next((device.profile for device in devices if device.profile and instance_profile(device.profile)), None)
            slices = compute_slices(profile) if profile else _slices(model, devices, reading.texts)
            parts = tuple((device.uuid, device.profile) for device in devices if device.uuid and device.uuid != slot)
            found.append(Instance(slot, profile, slices, first.memory_used, first.memory_total, first.gi, parts))
        return found

    def slot(self, gpu: str, gi: int | None) -> str | None:
        """The slot of a GPU instance's number, as `instances` named it last."""
        return None if gi is None else self._slots.get((gpu, gi), f"{gpu}/gi{gi}")

    def _named(self, gpu: str, devices: tuple[MigDevice, ...]) -> list[MigDevice]:
        """The devices with the UUIDs and profiles that a listing gives to those of the same index."""
        listed = {device.index: device for device in self._listed.get(gpu, ())}
        if {device.index for device in devices} != set(listed):
            return list(devices)
        named = []
        for device in devices:
            other = listed[device.index]
            named.append(
                MigDevice(
                    *(device.index, device.gi if device.gi is not None else other.gi, device.ci),
                    *(device.profile or other.profile, device.uuid or other.uuid, device.multiprocessors),
                    *(device.memory_used, device.memory_total),
                )
            )
        return named


def _vendor(tool: str) -> str:
    return "nvidia" if tool == NVIDIA_SMI else "amd"


def _by_instance(devices: list[MigDevice]) -> list[list[MigDevice]]:
    """The devices of each GPU instance: by its number; without numbers, parts of one profile until they fill it."""
    groups: list[list[MigDevice]] = []
    for device in devices:
        group = groups[-1] if groups else None
        if group is None or not _belongs(device, group):
            groups.append([device])
        else:
            group.append(device)
    return groups


def _belongs(device: MigDevice, group: list[MigDevice]) -> bool:
    if device.gi is not None or group[0].gi is not None:
        return device.gi == group[0].gi
    profile, before = device.profile or "", group[0].profile or ""
    if _part(profile) is None or _part(before) is None or instance_profile(profile) != instance_profile(before):
        return False
    held = sum(_part(other.profile or "") or 0 for other in group)
    return held + (_part(profile) or 0) <= (compute_slices(profile) or 0)


def _part(profile: str) -> int | None:
    """Compute slices of a compute instance that is a part of its GPU instance: 1 of `1c.3g.71gb`."""
    slices, is_part, _ = profile.partition("c.")
    return int(slices) if is_part and slices.isdecimal() else None


def _slices(model: str | None, devices: list[MigDevice], texts: Mapping[str, str]) -> int | None:
    counts = [device.multiprocessors for device in devices if device.multiprocessors]
    try:
        of_slot = read_value("memory.total", devices[0].memory_total, BYTES)
        of_card = read_value("memory.total", texts.get("memory.total", ""), BYTES)
    except UnreadableValueError:
        return None
    if model is None or isinstance(of_slot, str) or isinstance(of_card, str) or of_card <= 0:
        return None
    return slices_by_size(model, of_slot / of_card, sum(counts) if counts else None)
