"""What the readers answer → rows: the GPUs of this host, the time of each slot, what counters grew by, inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from collectors.metrics.counters import Point, grown_within, increases
from collectors.nvml.grid import instant, text_of
from collectors.nvml.schema import ACTIVITY, COUNTERS_BY_COLUMN, READINGS
from collectors.nvml.timeline import Stretch, Timeline
from warehouse.landing.values import pseudonym

#: NVML's "GPU has fallen off the bus": of several XIDs in one interval it is the one that decides
LOST_XID = 79
#: readings of a counter kept: a single one that drops and comes back is told by the one after it
KEPT_POINTS = 3
#: a GPU that the driver does not list any more is told as lost for this long after it was last read
VANISHED_MS = 24 * 3600 * 1000

Row = tuple[str, dict[str, Any]]


@dataclass
class Device:
    """One GPU. `slots` maps a MIG instance's UUID, or "" for the whole card, to its time."""

    uuid: str
    index: int
    described: dict[str, Any] = field(default_factory=dict)
    slots: dict[str, Timeline] = field(default_factory=dict)
    points: dict[str, list[Point]] = field(default_factory=dict)
    #: XIDs that no row has told yet, by slot
    xids: dict[str, list[int]] = field(default_factory=dict)
    read_at: int = 0
    is_lost: bool = False

    @property
    def is_listed(self) -> bool:
        """Whether the driver still lists it."""
        return self.index >= 0


class Fleet:
    """The GPUs of one host. Its methods return the rows that what they are told gives; instants are ms since 1970."""

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms
        self.devices: dict[str, Device] = {}
        #: GPUs that do not answer and whose UUID nobody knows: index → why
        self.nameless: dict[int, str] = {}

    def open(self, opened: Mapping[int, str | None], skipped: list[int]) -> None:
        """The driver was asked for its GPUs: index → UUID, None where one does not open."""
        for index, uuid in opened.items():
            if uuid:
                self._device(uuid, index)
        known = {uuid: device.index for uuid, device in self.devices.items() if device.index not in skipped}
        matched = unmatched(known, opened)
        self.nameless = {index: "" for index, uuid in opened.items() if uuid is None and index not in matched}
        for index, uuid in matched.items():
            self.devices[uuid].index = index
        for device in self.devices.values():
            if device.uuid in known and device.uuid not in opened.values() and device.uuid not in matched.values():
                device.index = -1

    def begin(self, at: int) -> None:
        """Count the time of every slot from `at` on, at which all of them were read."""
        for device in self.devices.values():
            for timeline in device.slots.values():
                timeline.told_until = timeline.good_at = at

    def answer(self, message: Mapping[str, Any]) -> Iterator[Row]:
        """One GPU's answer to the request of the tick `at`."""
        at, index = message["at"], message["index"]
        if message["status"] == "lost":
            device = self._at(index)
            if device is None:
                self.nameless[index] = message["detail"]
                return
            self._note_xids(device, message["xids"])
            yield from self._lose(device, at)
            return
        device = self._device(message["uuid"], index)
        self.nameless.pop(index, None)
        yield from self._describe(device, message, at)
        self._note_xids(device, message["xids"])
        if device.is_lost:
            device.is_lost = False
            yield from self._inventory(device, at)
        device.read_at = max(device.read_at, at)
        self._count(device, message, at)
        for slot in message["slots"]:
            yield from self._sample(device, message, slot, at)
        for process in message.get("processes", ()):
            yield "gpu_processes", _process(device, process, at)

    def tick(self, at: int, stepped_ms: int, pending: Callable[[int], int | None]) -> Iterator[Row]:
        """A new tick, after its request went out: what no answer can cover any more is a gap; a vanished GPU is lost."""
        for device in list(self.devices.values()):
            for timeline in device.slots.values():
                if stepped_ms:
                    timeline.step_clock(stepped_ms)
            if not device.is_listed:
                if at - device.read_at > VANISHED_MS:
                    del self.devices[device.uuid]
                else:
                    yield from self._lose(device, at)
                continue
            still = pending(device.index)
            earliest = at + self.interval_ms if still is None else still
            for slot, timeline in device.slots.items():
                yield from self._gaps(device, slot, timeline.wait(earliest))

    def no_driver(self, at: int) -> Iterator[Row]:
        """No driver answers: all GPUs that were known are unobserved, not lost."""
        for device in self.devices.values():
            for slot, timeline in device.slots.items():
                timeline.begin(at)
                yield from self._gaps(device, slot, timeline.wait(at + self.interval_ms))

    def inventory(self, at: int) -> Iterator[Row]:
        """Every GPU as it is known."""
        for device in self.devices.values():
            yield from self._inventory(device, at)

    def close(self, at: int) -> Iterator[Row]:
        """Nothing more is read after `at`."""
        for device in self.devices.values():
            for slot, timeline in device.slots.items():
                yield from self._gaps(device, slot, timeline.close(at))

    def _at(self, index: int) -> Device | None:
        return next((device for device in self.devices.values() if device.index == index), None)

    def _device(self, uuid: str, index: int) -> Device:
        device = self.devices.get(uuid)
        if device is None:
            device = self.devices[uuid] = Device(uuid, index)
        device.index = index
        return device

    def _note_xids(self, device: Device, xids: list[int]) -> None:
        for slot in device.slots if xids else ():
            device.xids.setdefault(slot, []).extend(xids)

    def _forget_replaced(self, device: Device) -> None:
        """A GPU that was known at this one's PCI address has been taken out; its time has ended."""
        place = device.described.get("pci_bus_id")
        for other in list(self.devices.values()):
            if place and other is not device and other.described.get("pci_bus_id") == place:
                del self.devices[other.uuid]

    def _describe(self, device: Device, message: Mapping[str, Any], at: int) -> Iterator[Row]:
        """A new description gives inventory rows; slots that are gone end, slots that are new begin."""
        described = message.get("described")
        if described and described != device.described:
            device.described = described
            present = {slot["uuid"] or "" for slot in described["slots"]}
            if device.slots:
                # a new layout holds from the first sighting that shows it (semantics 2), and so does the time of its slots
                for slot in present - set(device.slots):
                    device.slots[slot] = Timeline(self.interval_ms, at)
            for slot in [slot for slot in device.slots if slot not in present]:
                yield from self._gaps(device, slot, device.slots.pop(slot).close(at))
            self._forget_replaced(device)
            yield from self._inventory(device, at)
        for slot in message["slots"]:
            device.slots.setdefault(slot["uuid"] or "", Timeline(self.interval_ms)).begin(at)

    def _lose(self, device: Device, at: int) -> Iterator[Row]:
        if not device.slots:
            device.slots[""] = Timeline(self.interval_ms)
        for slot, timeline in device.slots.items():
            yield from self._gaps(device, slot, timeline.lost(at))
        device.points.clear()
        if not device.is_lost:
            device.is_lost = True
            yield from self._inventory(device, at)

    def _inventory(self, device: Device, at: int) -> Iterator[Row]:
        if not device.described and not device.is_lost:
            return  # opened, but not read yet
        described = {name: value for name, value in device.described.items() if name != "slots"}
        for slot in device.described.get("slots", [{"uuid": None}]):
            # compute instances of one GPU instance are one slot, and known by their own UUIDs all the same
            for part in [slot, *({**slot, **other} for other in slot.get("parts", ()))]:
                yield (
                    "gpu_inventory",
                    {
                        **self._place(device),
                        "gpu_model": "unknown",
                        **described,
                        **{name: value for name, value in part.items() if name not in ("uuid", "parts")},
                        "slot_uuid": part["uuid"],
                        "is_lost": device.is_lost,
                        "seen_at": text_of(at),
                    },
                )

    def _place(self, device: Device) -> dict[str, Any]:
        place: dict[str, Any] = {"gpu_uuid": device.uuid, "pci_bus_id": device.described.get("pci_bus_id")}
        return place | ({"gpu_index": device.index} if device.is_listed else {})

    def _count(self, device: Device, message: Mapping[str, Any], at: int) -> None:
        for column, value in message["counters"].items():
            points = device.points.setdefault(column, [])
            if points and instant(at) <= points[-1][0]:
                points.clear()  # the clock was set back: growth is counted anew
            points.append((instant(at), value))
            del points[:-KEPT_POINTS]

    def _sample(self, device: Device, message: Mapping[str, Any], slot: Mapping[str, Any], at: int) -> Iterator[Row]:
        timeline = device.slots[slot["uuid"] or ""]
        card = message["card"]
        values = {**card["values"], **slot["values"]}
        missing = {**card["missing"], **slot["missing"]}
        if all(values.get(name) is None for name in ACTIVITY) and "gap" in [missing.get(name) for name in ACTIVITY]:
            return  # not answered now, as it may be at the next tick; until then this time is untold
        taken = timeline.good(at)
        if taken is None:
            return
        gaps, start = taken
        yield from self._gaps(device, slot["uuid"] or "", gaps)
        seconds = (at - start) / 1000
        for column, per_second in slot["rates"].items():
            values[column] = round(per_second * seconds)
        for column in message["counters"]:
            amount = grown(device.points[column], column, start, at)
            if amount is None:
                missing[column] = "gap"
            else:
                values[column] = amount
        if "xid" not in missing:
            values["xid"] = xid_of(device.xids.pop(slot["uuid"] or "", []))
        yield "gpu_samples", self._row(device, slot["uuid"], start, at, values, missing)

    def _gaps(self, device: Device, slot: str, stretches: list[Stretch]) -> Iterator[Row]:
        for start, end in stretches:
            # an XID is told with the last of them, the nearest to when it came
            xids = device.xids.pop(slot, []) if end == stretches[-1][1] else []
            values = {"xid": xid_of(xids)} if xids else {}
            yield "gpu_samples", self._row(device, slot or None, start, end, values, dict.fromkeys(READINGS, "gap"))

    def _row(
        self, device: Device, slot: str | None, start: int, end: int, values: dict[str, Any], missing: dict[str, str]
    ) -> dict[str, Any]:
        return {
            **self._place(device),
            "slot_uuid": slot,
            "interval_start_at": text_of(start),
            "interval_ms": end - start,
            **values,
            "missing": {column: reason for column, reason in missing.items() if values.get(column) is None},
        }


def grown(points: list[Point], column: str, start: int, end: int) -> float | int | None:
    """What a counter grew by in `[start, end)`, in the column's unit; None where that is not known (yet)."""
    counter = COUNTERS_BY_COLUMN[column]
    if len(points) >= 2 and points[-1][1] < points[-2][1]:
        # begun anew, or a glitch: the next reading tells
        return None
    if counter.wraps and any(later[1] < earlier[1] for earlier, later in pairwise(points)):
        return None
    amount = grown_within(increases(points), instant(start), instant(end))
    if amount is None:
        return None
    scaled = amount * counter.factor
    return round(scaled, 3) if column == "energy_joules" else round(scaled)


def xid_of(xids: list[int]) -> int:
    """The one XID that a row can hold: 79 before all others, else the last; 0 where none came."""
    return LOST_XID if LOST_XID in xids else (xids[-1] if xids else 0)


def _process(device: Device, process: Mapping[str, Any], at: int) -> dict[str, Any]:
    row = {**process, "gpu_uuid": device.uuid, "seen_at": text_of(at)}
    if "user" in row:
        row["user"] = pseudonym(row["user"])
    return row


def unmatched(known: Mapping[str, int], opened: Mapping[int, str | None]) -> dict[int, str]:
    """Indices at which a GPU does not open → the UUID that it had: the one known at that index, or the only one missing."""
    seen = set(opened.values())
    absent = {uuid: index for uuid, index in known.items() if uuid not in seen}
    nameless = [index for index, uuid in opened.items() if uuid is None]
    found = {index: uuid for uuid, index in absent.items() if index in nameless}
    if len(nameless) == 1 and len(absent) == 1 and not found:
        found = {nameless[0]: next(iter(absent))}
    return found
