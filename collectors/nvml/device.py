"""One GPU as a reader sees it: what it is, how it is split, and what it answers now. Runs in the reader's process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from collectors.mig import instance_profile
from collectors.nvml import gpm, processes
from collectors.nvml.driver import DeviceLostError, Events, Missing, nvml, query, text
from collectors.nvml.schema import CARD_CALLS, COUNTERS, ENERGY, GPM_METRICS, SLOW_CALLS, Call

_PROFILE = re.compile(r"MIG (\S+)\s*$")
#: the member of NVML's union that holds a value of a type; every other type is read as an unsigned int
_MEMBERS = {
    "NVML_VALUE_TYPE_DOUBLE": "dVal",
    "NVML_VALUE_TYPE_UNSIGNED_LONG": "ulVal",
    "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG": "ullVal",
    "NVML_VALUE_TYPE_SIGNED_LONG_LONG": "sllVal",
}


SlotKey = tuple[str | None, int | None]


@dataclass
class Values:
    """Columns with a value, with what they grow by per second, or with the reason why they have none."""

    values: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def put(self, column: str, value: Any, factor: float = 1.0) -> None:
        if isinstance(value, Missing):
            self.missing[column] = value.reason
        else:
            self.values[column] = value if factor == 1.0 else round(value * factor, 6)

    def as_answer(self) -> dict[str, Any]:
        return {"values": self.values, "rates": self.rates, "missing": self.missing}


@dataclass(frozen=True)
class Slot:
    """The whole card (`uuid` None) or one GPU instance of it, with the handle that its memory is asked of.

    Compute instances divide a GPU instance; its UUID is that of the first of them, and `parts` are the handles of all,
    each of which tells its own processes.
    """

    uuid: str | None
    handle: Any
    instance_id: int | None = None
    parts: tuple[Any, ...] = ()

    @property
    def key(self) -> SlotKey:
        """What tells it from other slots; an instance made anew in the same place may have the UUID of the one before."""
        return self.uuid, self.instance_id


class Card:
    """One GPU. Raises DeviceLostError where it does not answer, DriverGoneError where nothing does."""

    def __init__(self, index: int, driver: str | None) -> None:
        self.index, self._driver = index, driver
        self._open()

    def _open(self) -> None:
        handle = query("nvmlDeviceGetHandleByIndex", self.index)
        uuid = handle if isinstance(handle, Missing) else query("nvmlDeviceGetUUID", handle)
        if isinstance(uuid, Missing):
            raise DeviceLostError(f"GPU {self.index} cannot be opened ({uuid.reason})")
        self._handle = handle
        self.uuid = text(uuid) or ""
        self._lost = False
        self._events = Events(handle)
        self._has_gpm = gpm.is_supported(handle)
        self._gpm: dict[SlotKey, gpm.GpmSeries] = {}
        self._seen_at = 0
        self._samples_are_percent = True
        self._processes_seen_at = 0
        self._layout: list[SlotKey] | None = None
        self._slow = Values()
        # the first samples of GPM, so that the first reading has something to compare with
        self._series_of(self._slots())

    def read(self, *, describe: bool, with_processes: bool) -> dict[str, Any]:
        """Everything of one reading, as the JSON that goes to the agent; a lost card says so."""
        xids: list[int] = []
        try:
            if self._lost:
                before = self.uuid
                self._open()
                if self.uuid != before:
                    raise DeviceLostError(f"another GPU answers at index {self.index}")
            xids = self._events.xids()
            return {"status": "ok", **self._read(describe, with_processes), "xids": xids + self._events.xids()}
        except DeviceLostError as error:
            self._lost = True
            return {"status": "lost", "detail": str(error), "xids": xids + self._events.xids()}

    def _read(self, describe: bool, with_processes: bool) -> dict[str, Any]:
        slots = self._slots()
        layout = [slot.key for slot in slots]
        described = None
        if describe or layout != self._layout:
            self._layout = layout
            described = self._describe(slots)
        card, counters = self._read_card()
        answers: list[tuple[Slot, Values]] = [(slot, self._read_slot(slot)) for slot in slots]
        held = [row for slot in slots for row in self._processes(slot)] if with_processes else None
        # GPM last: on some drivers a GPM sample makes the memory call that follows it fail
        series = self._series_of(slots)
        for slot, values in answers:
            self._read_gpm(series.get(slot.key), values)
        if len(slots) == 1 and slots[0].uuid is None:
            self._read_field_counters(answers[0][1], counters)
        return {
            "uuid": self.uuid,
            "card": card.as_answer(),
            "counters": counters,
            "slots": [{"uuid": slot.uuid, **values.as_answer()} for slot, values in answers],
            **({"described": described} if described else {}),
            **({"processes": held} if held is not None else {}),
        }

    def _slots(self) -> list[Slot]:
        """The MIG instances where the card is split, else the card."""
        mode = query("nvmlDeviceGetMigMode", self._handle)
        if isinstance(mode, Missing) or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return [Slot(None, self._handle, parts=(self._handle,))]
        count = query("nvmlDeviceGetMaxMigDeviceCount", self._handle)
        found: dict[Any, Slot] = {}
        for position in range(0 if isinstance(count, Missing) else count):
            handle = query("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, position)
            uuid = None if isinstance(handle, Missing) else text(query("nvmlDeviceGetUUID", handle))
            if uuid:
                instance = query("nvmlDeviceGetGpuInstanceId", handle)
                number = None if isinstance(instance, Missing) else instance
                # what the scheduler hands out is the GPU instance (semantics 2)
                first = found.setdefault(uuid if number is None else number, Slot(uuid, handle, number))
                found[uuid if number is None else number] = replace(first, parts=(*first.parts, handle))
        return list(found.values()) or [Slot(None, self._handle, parts=(self._handle,))]

    def _describe(self, slots: list[Slot]) -> dict[str, Any]:
        self._slow = Values()
        for call in SLOW_CALLS:
            self._slow.put(call.column, self._call(call), call.factor)
        limit = query("nvmlDeviceGetEnforcedPowerLimit", self._handle)
        if isinstance(limit, Missing):
            limit = query("nvmlDeviceGetPowerManagementLimit", self._handle)
        pci = query("nvmlDeviceGetPciInfo", self._handle)
        return {
            "gpu_model": text(query("nvmlDeviceGetName", self._handle)) or "unknown",
            "serial": text(query("nvmlDeviceGetSerial", self._handle)),
            "pci_bus_id": None if isinstance(pci, Missing) else text(pci.busId),
            "driver_version": self._driver,
            "power_limit_watts": None if isinstance(limit, Missing) else limit / 1000,
            "sm_clock_max_mhz": self._slow.values.get("sm_clock_max_mhz"),
            "slots": [self._describe_slot(slot) for slot in slots],
        }

    def _describe_slot(self, slot: Slot) -> dict[str, Any]:
        _, total = self._memory(slot.handle)
        described = {"uuid": slot.uuid, "memory_total_bytes": None if isinstance(total, Missing) else total}
        if slot.uuid is None:
            return described
        attributes = query("nvmlDeviceGetAttributes_v2", slot.handle)
        slices = None if isinstance(attributes, Missing) else attributes.gpuInstanceSliceCount
        others = [handle for handle in slot.parts if handle is not slot.handle]
        return described | {
            "mig_profile": self._profile(slot.handle),
            "compute_slices": slices or None,
            "card_slices": self._card_slices(),
            "gpu_instance_id": slot.instance_id,
            # schedulers name the compute instances by their own UUIDs
            **({"parts": [part for handle in others if (part := self._describe_part(handle))]} if others else {}),
        }

    def _describe_part(self, handle: Any) -> dict[str, Any] | None:
        uuid = text(query("nvmlDeviceGetUUID", handle))
        return {"uuid": uuid, "mig_profile": self._profile(handle)} if uuid else None

    def _profile(self, handle: Any) -> str | None:
        """The profile of a MIG device: `3g.71gb`, or `1c.3g.71gb` of a compute instance that is a part of one."""
        named = _PROFILE.search(text(query("nvmlDeviceGetName", handle)) or "")
        return named.group(1) if named and instance_profile(named.group(1)) else None

    def _card_slices(self) -> int | None:
        """The compute slices of the whole card, which its largest profile has: 7, on A30 and RTX PRO 6000 4."""
        for profile in (nvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE, nvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE):
            found = query("nvmlDeviceGetGpuInstanceProfileInfo", self._handle, profile, 1)
            if not isinstance(found, Missing):
                return int(found.sliceCount)
        return None

    def _call(self, call: Call) -> Any:
        arguments = [getattr(nvml, call.argument)] if call.argument else []
        answer: Any = Missing("not_supported")
        for function in call.functions:
            answer = query(function, self._handle, *arguments)
            # an older name of the call is for an older driver, not for one that refuses
            if not isinstance(answer, Missing) or answer.reason != "not_supported":
                break
        return answer

    def _read_card(self) -> tuple[Values, dict[str, Any]]:
        card = Values(dict(self._slow.values), {}, dict(self._slow.missing))
        for call in CARD_CALLS:
            card.put(call.column, self._call(call), call.factor)
        if self._events.missing:
            card.missing["xid"] = self._events.missing.reason
        counters: dict[str, Any] = {}
        energy = query(ENERGY.field, self._handle)
        if isinstance(energy, Missing):
            card.missing[ENERGY.column] = energy.reason
        else:
            counters[ENERGY.column] = energy
        return card, counters

    def _read_slot(self, slot: Slot) -> Values:
        read = Values()
        used, total = self._memory(slot.handle)
        read.put("memory_used_bytes", used)
        read.put("memory_total_bytes", total)
        read.put("gpu_utilization_ratio", self._utilization() if slot.uuid is None else Missing("not_supported"), 0.01)
        return read

    def _memory(self, handle: Any) -> tuple[Any, Any]:
        """Used and total bytes."""
        memory = query("nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2)
        if isinstance(memory, Missing) and memory.reason == "not_supported":
            memory = query("nvmlDeviceGetMemoryInfo", handle)
        if isinstance(memory, Missing):
            return memory, memory
        return int(memory.used), int(memory.total)

    def _utilization(self) -> Any:
        """Percent: the mean of the driver's samples since the last reading, else its reading of the last second."""
        if self._samples_are_percent:
            answer = query("nvmlDeviceGetSamples", self._handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, self._seen_at)
            if not isinstance(answer, Missing):
                kind, samples = answer
                fresh = [(s.timeStamp, value_of(kind, s.sampleValue)) for s in samples if s.timeStamp > self._seen_at]
                # some drivers keep them in another unit (0.0001 %), which only a large one gives away
                self._samples_are_percent = all(0 <= value <= 100 for _, value in fresh)
                if fresh and self._samples_are_percent:
                    is_first, self._seen_at = not self._seen_at, max(stamp for stamp, _ in fresh)
                    # the first time the buffer holds what was before this series: only its last second counts
                    since = self._seen_at - 1_000_000 if is_first else 0
                    values = [value for stamp, value in fresh if stamp > since]
                    return sum(values) / len(values)
        rates = query("nvmlDeviceGetUtilizationRates", self._handle)
        return rates if isinstance(rates, Missing) else rates.gpu

    def _series_of(self, slots: list[Slot]) -> dict[SlotKey, gpm.GpmSeries]:
        """The GPM samples of the slots there are now; those of slots that are gone are freed."""
        if not self._has_gpm:
            return {}
        present = {slot.key: slot for slot in slots}
        for key in [key for key in self._gpm if key not in present]:
            self._gpm.pop(key).close()
        for key, slot in present.items():
            if key not in self._gpm:
                self._gpm[key] = gpm.GpmSeries(self._handle, slot.instance_id)
        return self._gpm

    def _read_gpm(self, series: gpm.GpmSeries | None, values: Values) -> None:
        if series is None:
            for metric in GPM_METRICS:
                values.missing.setdefault(metric.column, "not_supported")
            return
        answers = series.read()
        for metric in GPM_METRICS:
            answer = answers[metric.column]
            if isinstance(answer, Missing):
                values.missing[metric.column] = answer.reason
            elif metric.per_second:
                values.rates[metric.column] = round(answer, 3)
            else:
                values.values[metric.column] = round(answer, 6)

    def _read_field_counters(self, values: Values, counters: dict[str, Any]) -> None:
        """The byte counters of the columns that GPM does not know of this card."""
        wanted = [c for c in COUNTERS if values.missing.get(c.column) == "not_supported" and hasattr(nvml, c.field)]
        if not wanted:
            return
        answers = query("nvmlDeviceGetFieldValues", self._handle, [(getattr(nvml, c.field), c.scope) for c in wanted])
        for counter, answer in zip(wanted, [] if isinstance(answers, Missing) else answers, strict=False):
            # a counter of 32 bits may go round many times between two readings
            if answer.nvmlReturn == nvml.NVML_SUCCESS and answer.valueType not in _NARROW:
                counters[counter.column] = value_of(answer.valueType, answer.value)
                del values.missing[counter.column]

    def _processes(self, slot: Slot) -> list[dict[str, Any]]:
        """Who computes on the slot, with their memory and, on a whole card, their share of the SMs lately."""
        held: dict[int, dict[str, Any]] = {}
        calls = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses_v3")
        for part, function in product(slot.parts, calls):
            answer = query(function, part)
            for process in [] if isinstance(answer, Missing) else answer:
                row = {"slot_uuid": slot.uuid, "pid": process.pid, "memory_used_bytes": process.usedGpuMemory}
                held.setdefault(process.pid, row)
        if held and slot.uuid is None:
            busy: dict[int, list[int]] = {}
            samples = query("nvmlDeviceGetProcessUtilization", slot.handle, self._processes_seen_at)
            for sample in [] if isinstance(samples, Missing) else samples:
                if sample.smUtil <= 100:
                    busy.setdefault(sample.pid, []).append(sample.smUtil)
                self._processes_seen_at = max(self._processes_seen_at, sample.timeStamp)
            for pid, row in held.items():
                if pid in busy:
                    row["sm_utilization_ratio"] = round(sum(busy[pid]) / len(busy[pid]) / 100, 4)
        return [row | processes.identify(pid) for pid, row in held.items()]


_NARROW = (nvml.NVML_VALUE_TYPE_UNSIGNED_INT, getattr(nvml, "NVML_VALUE_TYPE_SIGNED_INT", 5))


def value_of(kind: int, value: Any) -> Any:
    """The member of NVML's union that holds the value."""
    for name, member in _MEMBERS.items():
        if kind == getattr(nvml, name, None):
            return getattr(value, member)
    return value.uiVal
