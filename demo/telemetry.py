"""What the fleet's GPUs would have told: a reading per slot and minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from demo.fleet import FROZEN, HOT, LOADS, NODES, SILENT, Load, Node, Slot, jitter

MINUTE = timedelta(minutes=1)
GIB = 1 << 30
#: clock event reasons
GPU_IDLE, THERMAL_SLOWDOWN = 0x1, 0x40
#: a driver and nothing else
EMPTY_GIB = 0.45


@dataclass(frozen=True)
class Reading:
    """One slot over the minute from `start_at`. Power, temperature and clocks are the card's, as under MIG they are."""

    node: Node
    slot: Slot
    start_at: datetime
    activity: float
    memory_bytes: int
    power_watts: float
    temperature_celsius: int
    clock_mhz: int
    clock_event_reasons: int

    @property
    def is_partition(self) -> bool:
        return self.slot.instance is not None


def readings(start_at: datetime, end_at: datetime) -> Iterator[Reading]:
    """Every reading of `[start_at, end_at)`, by card and time; a silent exporter's are left out."""
    for node in NODES:
        for index in range(node.cards):
            slots = [slot for slot in node.slots if slot.index == index]
            loads = {slot: [load for load in LOADS if _is_of(load, slot)] for slot in slots}
            before: list[Reading] = []
            now = start_at
            while now < end_at:
                at_once = _card_readings(node, loads, now)
                if before and _is_frozen(slots[0], now):
                    at_once = [replace(reading, start_at=now) for reading in before]
                if not _is_silent(node, now):
                    yield from at_once
                before = at_once
                now += MINUTE


def _is_of(load: Load, slot: Slot) -> bool:
    return (load.node, load.index, load.instance) == (slot.node, slot.index, slot.instance)


def _card_readings(node: Node, loads: dict[Slot, list[Load]], now: datetime) -> list[Reading]:
    """A reading of each slot of one card; the card works as much as its instances do, weighted by their slices."""
    current = {
        slot: next((load for load in of_slot if load.start_at <= now < load.end_at), None) for slot, of_slot in loads.items()
    }
    activity = {slot: _activity(load, slot, now) for slot, load in current.items()}
    card = sum(value * (slot.compute_slices or 7) / 7 for slot, value in activity.items())
    place = next(iter(loads))
    hot_clock = _hot_clock(place, now)
    watts = node.idle_watts + (node.full_watts - node.idle_watts) * card * 0.9
    power = round(watts * (1 + 0.02 * jitter("watts", place.node, place.index, now)), 3)
    heat = round(31 + 40 * card + (14 if hot_clock else 0) + 2 * jitter("heat", place.node, place.index, now))
    readings_of_card = []
    for slot, load in current.items():
        is_busy = activity[slot] > 0
        readings_of_card.append(
            Reading(
                node,
                slot,
                now,
                activity[slot],
                int((load.memory_gib if load else EMPTY_GIB) * GIB),
                power,
                heat,
                hot_clock or (node.clock_mhz if is_busy else node.clock_mhz // 4),
                (THERMAL_SLOWDOWN if hot_clock else 0) if is_busy else GPU_IDLE,
            )
        )
    return readings_of_card


def _activity(load: Load | None, slot: Slot, now: datetime) -> float:
    level = load.activity(int((now - load.start_at) / MINUTE), now) if load else 0.0
    return round(min(1.0, level * (1 + 0.05 * jitter("sm", slot.node, slot.index, slot.instance, now))), 4) if level else 0.0


def _hot_clock(slot: Slot, now: datetime) -> int | None:
    for name, index, start_at, end_at, clock in HOT:
        if (name, index) == (slot.node, slot.index) and start_at <= now < end_at:
            return clock
    return None


def _is_frozen(slot: Slot, now: datetime) -> bool:
    return any((name, index) == (slot.node, slot.index) and start <= now < end for name, index, start, end in FROZEN)


def _is_silent(node: Node, now: datetime) -> bool:
    return any(name == node.name and start <= now < end for name, start, end in SILENT)
