"""What the fleet's GPUs would have told: a reading per slot and minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from demo.fleet import FROZEN, HOT, LOADS, NODES, SILENT, Load, Node, Slot, jitter

MINUTE = timedelta(minutes=1)
GIB = 1 << 30
THERMAL_SLOWDOWN = 0x40
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
    """Every reading of `[start_at, end_at)`, by slot and time; a silent exporter's are left out."""
    for node in NODES:
        for slot in node.slots:
            loads = [load for load in LOADS if (load.node, load.index, load.instance) == (node.name, slot.index, slot.instance)]
            before: Reading | None = None
            now = start_at
            while now < end_at:
                reading = _reading(node, slot, loads, now)
                if before and _is_frozen(node, slot, now):
                    reading = replace(before, start_at=now)
                if not _is_silent(node, now):
                    yield reading
                before = reading
                now += MINUTE


def _activity(load: Load | None, slot: Slot, now: datetime) -> float:
    level = load.activity(int((now - load.start_at) / MINUTE), now) if load else 0.0
    return round(min(1.0, level * (1 + 0.05 * jitter("sm", slot, now))), 4) if level else 0.0


def _load(loads: list[Load], now: datetime) -> Load | None:
    return next((load for load in loads if load.start_at <= now < load.end_at), None)


def _card_activity(node: Node, slot: Slot, now: datetime) -> float:
    """Activity of the whole card: its own, or that of its instances weighted by their slices."""
    total = 0.0
    for part in (part for part in node.slots if part.index == slot.index):
        loads = [load for load in LOADS if (load.node, load.index, load.instance) == (node.name, part.index, part.instance)]
        total += _activity(_load(loads, now), part, now) * (part.compute_slices or 7) / 7
    return total


def _reading(node: Node, slot: Slot, loads: list[Load], now: datetime) -> Reading:
    load = _load(loads, now)
    activity = _activity(load, slot, now)
    card = activity if slot.instance is None else _card_activity(node, slot, now)
    watts = node.idle_watts + (node.full_watts - node.idle_watts) * card * 0.9
    hot_clock = _hot_clock(node, slot, now)
    clock = hot_clock or (node.clock_mhz if activity else node.clock_mhz // 4)
    return Reading(
        node,
        slot,
        now,
        activity,
        int((load.memory_gib if load else EMPTY_GIB) * GIB),
        round(watts * (1 + 0.02 * jitter("watts", node.name, slot.index, now)), 3),
        round(31 + 40 * card + (14 if hot_clock else 0) + 2 * jitter("heat", node.name, slot.index, now)),
        clock,
        THERMAL_SLOWDOWN if hot_clock and activity else 0 if activity else 1,
    )


def _hot_clock(node: Node, slot: Slot, now: datetime) -> int | None:
    for name, index, start_at, end_at, clock in HOT:
        if (name, index) == (node.name, slot.index) and start_at <= now < end_at:
            return clock
    return None


def _is_frozen(node: Node, slot: Slot, now: datetime) -> bool:
    return any((name, index) == (node.name, slot.index) and start <= now < end for name, index, start, end in FROZEN)


def _is_silent(node: Node, now: datetime) -> bool:
    return any(name == node.name and start <= now < end for name, start, end in SILENT)
