"""Section 3 of semantics.md, node pools: which devices and slots the runs get that only say how many they hold."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tests.reference.activity import Minute
from tests.reference.capacity import Device
from tests.reference.holders import Hold, PoolHold, held_spans, pool_members
from tests.reference.intervals import Span, common, holds, united, without
from tests.reference.world import GIB, HOUR_US, MINUTE_US, World

IDLE = 0.05  # idle_activity_ratio
#: compute slices of a card that can be cut into instances, and of an A30, whose profiles no other card has
CARD_SLICES, A30_SLICES = 7, 4
A30_PROFILES = frozenset({"1g.6gb", "2g.12gb", "4g.24gb"})
PROFILE = re.compile(r"(?:(\d+)c\.)?((\d+)g\.\d+gb)")


@dataclass(frozen=True)
class Unit:
    """What a pool hands out: a device (`slot` None), or one slot of it."""

    gpu: str
    slot: str | None


Free = Mapping[Unit, Sequence[tuple[int, int, Fraction]]]
Minutes = Mapping[tuple[str, str, int], Minute]


@dataclass(frozen=True)
class Stretch:
    """A stretch, within an hour, in which neither what is on offer (unit → the part free) nor the holders change."""

    start: int
    end: int
    offer: dict[Unit, Fraction]
    holders: dict[str, Fraction]
    shared: frozenset[str]


def assign_pools(
    world: World,
    known: Mapping[str, Device],
    exact: Sequence[Hold],
    pool: Sequence[PoolHold],
    inventory: Mapping[str, Sequence[Span]],
    in_service: Mapping[str, Sequence[Span]],
    minutes: Minutes,
) -> list[Hold]:
    """Give the pools' holders their units, stretch by stretch; `in_service` is inventory less the time out of service."""
    assigned: list[Hold] = []
    placed = [part for hold in pool for part in _placed(known, hold, inventory)]
    for node in sorted({hold.node for hold in placed}):
        here = [hold for hold in placed if hold.node == node]
        members = sorted({gpu for hold in pool if hold.node == node for gpu in pool_members(world, known, hold)})
        profiles = {hold.profile for hold in here if hold.profile}
        for profile in sorted({hold.profile for hold in here}, key=str):
            mine = [hold for hold in here if hold.profile == profile]
            units = [unit for gpu in members for unit in _units(world, known[gpu], profile)]
            free: Free = {unit: _free(known[unit.gpu], unit, in_service[unit.gpu], exact) for unit in units}
            for stretch in _stretches(mine, free):
                assigned += _given(world, known, stretch, profiles, minutes)
    return assigned


def profile_of(world: World, gpu: str, slot: str | None) -> str | None:
    return next((r.profile for r in world.inventory if (r.gpu, r.slot) == (gpu, slot) and slot), None)


def _units(world: World, device: Device, profile: str | None) -> list[Unit]:
    if not profile:
        return [Unit(device.gpu, None)]
    slots = {slot.slot_uuid for layout in device.layouts for slot in layout.slots}
    return [Unit(device.gpu, slot) for slot in sorted(filter(None, slots)) if profile_of(world, device.gpu, slot) == profile]


def _placed(known: Mapping[str, Device], hold: PoolHold, inventory: Mapping[str, Sequence[Span]]) -> list[PoolHold]:
    """A claim of instances of a profile, while the node has a slot of it; else of that fraction of a device."""
    match = PROFILE.search((hold.profile or "").lower())
    if not match:
        return [hold]
    profile, slices = match[2], int(match[3])
    # 1c.3g.40gb is one of the three compute instances of a slot 3g.40gb: a share of it
    part = Fraction(int(match[1] or slices), slices)
    hold = replace(hold, profile=profile, count=hold.count * part, is_shared=hold.is_shared or part < 1)
    here = [device for device in known.values() if device.node == hold.node]
    having = united(span for device in here if profile in device.profiles for span in inventory[device.gpu])
    span = [(hold.start, hold.end)]
    slots = [replace(hold, start=start, end=end) for start, end in common(span, having)]
    fraction = Fraction(slices, A30_SLICES if profile in A30_PROFILES else CARD_SLICES)
    rest = without(span, having)
    return slots + [replace(hold, start=start, end=end, profile=None, count=hold.count * fraction) for start, end in rest]


def _free(device: Device, unit: Unit, in_service: Sequence[Span], exact: Sequence[Hold]) -> list[tuple[int, int, Fraction]]:
    """The unit's time in service, and the part of it that nobody holds exactly; who holds one slot takes the device."""
    taking = [hold for hold in exact if hold.gpu == unit.gpu and (not unit.slot or hold.slot in (unit.slot, None))]
    result: list[tuple[int, int, Fraction]] = []
    for begin, finish in in_service:
        edges = {begin, finish} | {edge for hold in taking for edge in (hold.start, hold.end) if begin < edge < finish}
        for start, end in itertools.pairwise(sorted(edges)):
            held: dict[str, Fraction] = {}
            for hold in taking:
                if hold.start <= start and end <= hold.end:
                    whole = unit.slot is None and device.layout_at(start).is_partitioned
                    held[hold.run_id] = Fraction(1) if whole else max(held.get(hold.run_id, Fraction(0)), hold.share)
            free = 1 - sum(held.values(), Fraction(0))
            if free > 0:
                result.append((start, end, free))
    return result


def _stretches(pool: Sequence[PoolHold], free: Free) -> list[Stretch]:
    edges = {edge for hold in pool for edge in (hold.start, hold.end)}
    edges |= {edge for spans in free.values() for start, end, _ in spans for edge in (start, end)}
    first, last = min(edges), max(edges)
    edges |= set(range(first - first % HOUR_US, last + HOUR_US, HOUR_US))
    result: list[Stretch] = []
    for start, end in between(edges):
        holders: dict[str, Fraction] = {}
        shared: set[str] = set()
        for hold in pool:
            if hold.start <= start and end <= hold.end:
                holders[hold.run_id] = holders.get(hold.run_id, Fraction(0)) + hold.count
                shared |= {hold.run_id} if hold.is_shared else set()
        # a unit of which others hold a share serves those who ask for shares, and nobody else
        offer = {
            unit: part
            for unit, spans in free.items()
            for begin, finish, part in spans
            if holds([(begin, finish)], start, end) and (part == 1 or shared)
        }
        if not offer or not holders:
            continue
        last_one = result[-1] if result else None
        if last_one and (last_one.end, last_one.offer, last_one.holders) == (start, offer, holders) and start % HOUR_US:
            result[-1] = replace(last_one, end=end)
        else:
            result.append(Stretch(start, end, offer, holders, frozenset(shared)))
    return result


def _given(world: World, known: Mapping[str, Device], stretch: Stretch, profiles: set[str], minutes: Minutes) -> list[Hold]:
    """Units of which processes tell whose they are; the others in their order, each to all in proportion."""
    is_shared_only = set(stretch.holders) == stretch.shared

    def order(unit: Unit) -> tuple[object, ...]:
        device = known[unit.gpu]
        is_partitioned = unit.slot is None and device.layout_at(stretch.start).is_partitioned
        is_claimed = is_partitioned and bool(profiles & set(device.profiles))
        # shares go where there are shares already, whole devices are whole ones first
        first = (stretch.offer[unit] == 1) == is_shared_only
        return (first, is_partitioned + is_claimed, *_rank(world, device, unit, stretch.start, stretch.end, minutes))

    given, left, offer = _by_process(world, stretch)
    wanted = sum(left.values(), Fraction(0))
    before = Fraction(0)
    for unit in sorted((unit for unit, part in offer.items() if part), key=order):
        part = min(offer[unit], max(Fraction(0), wanted - before))
        before += offer[unit]
        given += [
            Hold(run_id, unit.gpu, unit.slot, stretch.start, stretch.end, part * count / wanted, bool(stretch.shared))
            for run_id, count in left.items()
            if part * count > 0
        ]
    return given


def _by_process(world: World, stretch: Stretch) -> tuple[list[Hold], dict[str, Fraction], dict[Unit, Fraction]]:
    """Units on which a holder's processes were seen within the hour are its own; and what is left of claims and units.

    Processes are evidence of a run on no more units than it asks for; those of several runs on one unit only where they ask
    for shares that fit, else they contradict each other.
    """
    hour = stretch.start - stretch.start % HOUR_US
    runs = {run.run_id: run for run in world.runs}
    spans = held_spans(world)
    seen: dict[str, set[Unit]] = {}
    for process in world.processes:
        for unit in stretch.offer:
            if process.gpu != unit.gpu or not hour <= process.at < hour + HOUR_US:
                continue
            if unit.slot and process.slot not in (None, unit.slot):
                continue
            for run_id in stretch.holders:
                start, end = spans[run_id]
                if process.job == runs[run_id].job_id and start <= process.at < end:
                    seen.setdefault(run_id, set()).add(unit)
    given: list[Hold] = []
    left, offer = dict(stretch.holders), dict(stretch.offer)
    for unit in stretch.offer:
        mine = [run_id for run_id, units in seen.items() if unit in units]
        parts = {run_id: min(Fraction(1), stretch.holders[run_id] / len(seen[run_id])) for run_id in mine}
        fits = sum(parts.values(), Fraction(0)) <= stretch.offer[unit]
        one = len(mine) == 1 and mine[0] not in stretch.shared and len(seen[mine[0]]) <= stretch.holders[mine[0]]
        if not mine or not fits or not (set(mine) <= stretch.shared or one):
            continue
        for run_id, part in parts.items():
            given.append(Hold(run_id, unit.gpu, unit.slot, stretch.start, stretch.end, part, run_id in stretch.shared))
            left[run_id] -= part
            offer[unit] -= part
    return given, {run_id: count for run_id, count in left.items() if count}, offer


def between(edges: Iterable[int]) -> list[Span]:
    return list(itertools.pairwise(sorted(edges)))


def _rank(
    world: World, device: Device, unit: Unit, start: int, end: int, minutes: Minutes
) -> tuple[int, Fraction, Fraction, str, str]:
    """Smaller is earlier: processes seen; work by memory or activity; no usable samples; the rest; ties by id."""
    weight = activity = memory = Fraction(0)
    for slot in device.layout_at(start).slots:
        if unit.slot and slot.slot_uuid != unit.slot:
            continue
        for minute in range(start - start % MINUTE_US, end, MINUTE_US):
            rolled = minutes.get((device.gpu, slot.slot_id, minute))
            if rolled is None or not rolled.present_us or not rolled.covered_us:
                continue
            inside = sum(b - a for a, b in common(rolled.present, [(start, end)]))
            part = slot.fraction * rolled.covered_us * Fraction(inside, rolled.present_us)
            weight += part
            activity += part * rolled.mean_activity
            memory += part * (rolled.memory or 0) / (1 if unit.slot else slot.fraction)
    seen = [process for process in world.processes if process.gpu == device.gpu and start <= process.at < end]
    if any(not unit.slot or process.slot in (None, unit.slot) for process in seen):
        group = 0
    elif not weight:
        group = 2
    else:
        group = 1 if memory / weight >= GIB or activity / weight >= IDLE else 3
    if group > 1:
        return group, Fraction(0), Fraction(0), device.gpu, unit.slot or ""
    return group, -activity / (weight or 1), -memory / (weight or 1), device.gpu, unit.slot or ""


def implied_holds(
    world: World, known: Mapping[str, Device], pool: Sequence[PoolHold], inventory: Mapping[str, Sequence[Span]]
) -> list[Hold]:
    """Holds on the implied devices of nodes without any known device: each instant the first Σ n are in inventory."""
    unknown = [part for hold in pool if not pool_members(world, known, hold) for part in _placed(known, hold, inventory)]
    result: list[Hold] = []
    for node in sorted({hold.node for hold in unknown}):
        here = [hold for hold in unknown if hold.node == node]
        for start, end in between({edge for hold in here for edge in (hold.start, hold.end)}):
            counts: dict[str, Fraction] = {}
            for hold in here:
                if hold.start <= start and end <= hold.end:
                    counts[hold.run_id] = counts.get(hold.run_id, Fraction(0)) + hold.count
            wanted = sum(counts.values(), Fraction(0))
            place = 0
            while place < wanted:
                part = min(Fraction(1), wanted - place)
                gpu = f"{world.cluster}/{node}#{place + 1}"
                result += [Hold(run_id, gpu, None, start, end, part * count / wanted) for run_id, count in counts.items()]
                place += 1
    return result
