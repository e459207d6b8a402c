"""Section 3 of semantics.md: which run holds which slot, when, and with what share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tests.reference.activity import Minute
from tests.reference.capacity import CARRY_US, Device, seen_between, telemetry_sightings
from tests.reference.intervals import Span, common, holds, united, without
from tests.reference.world import GIB, HOUR_US, MINUTE_US, Run, RunGpu, World

WAIT_US = 2 * HOUR_US  # telemetry_wait_hours
IDLE = 0.05  # idle_activity_ratio


@dataclass(frozen=True)
class Hold:
    """A run's hold on one slot (`slot` None: all slots of the device but the stranded one)."""

    run_id: str
    gpu: str
    slot: str | None
    start: int
    end: int
    share: Fraction


@dataclass(frozen=True)
class PoolHold:
    """A run's hold of `count` devices of a node, not known which."""

    run_id: str
    node: str
    count: Fraction
    start: int
    end: int


def clip(world: World) -> int | None:
    """Section 1: where a run without an end is clipped."""
    scheduler, telemetry = world.scheduler_through, world.telemetry_through
    if scheduler is None:
        return telemetry
    if telemetry is None or not 0 < scheduler - telemetry <= WAIT_US:
        return scheduler
    return telemetry


def held_spans(world: World) -> dict[str, Span]:
    """The held interval of every run that started, before other holders cut it."""
    open_end = clip(world)
    spans: dict[str, Span] = {}
    for run in world.runs:
        if run.start is None:
            continue
        end = run.end if run.end is not None else open_end
        if end is not None and end > run.start:
            spans[run.run_id] = (run.start, end)
    return spans


def claims(world: World) -> tuple[list[Hold], list[PoolHold]]:
    """What the scheduler says each run holds: exactly where it names the device, else so many of a node's pool."""
    exact: list[Hold] = []
    pool: list[PoolHold] = []
    cut = _cut_runaways(world, held_spans(world))
    for run in world.runs:
        if run.run_id not in cut:
            continue
        start, end = cut[run.run_id]
        rows = _rows_of(world, run)
        for row in rows:
            a, b = max(start, row.start), min(end, row.end if row.end is not None else end)
            if a >= b:
                continue
            if row.gpu:
                exact.append(Hold(run.run_id, row.gpu, row.slot, a, b, _share(run, row)))
            else:
                pool.append(PoolHold(run.run_id, row.node, Fraction(row.count), a, b))
        if not rows and run.gpu_count and run.nodes:
            each = Fraction(run.gpu_count) / len(run.nodes)
            pool += [PoolHold(run.run_id, node, each, start, end) for node in run.nodes]
    return _cut_overlaps(exact), pool


def _rows_of(world: World, run: Run) -> list[RunGpu]:
    """The `run_gpus` rows of an attempt: of its job id, and beginning inside its time."""
    begin, end = held_spans(world)[run.run_id]
    return [row for row in world.run_gpus if row.job_id == run.job_id and begin <= row.start < end]


def _share(run: Run, row: RunGpu) -> Fraction:
    share = row.share if row.share is not None else run.share
    return Fraction(1) if share is None else Fraction(share)


def _cut_runaways(world: World, spans: Mapping[str, Span]) -> dict[str, Span]:
    """A run that the scheduler never closed ends, on all its devices, at the next exclusive holder's start on any."""
    exclusive: dict[str, list[RunGpu]] = {
        run.run_id: [row for row in _rows_of(world, run) if row.gpu and _share(run, row) == 1]
        for run in world.runs
        if run.run_id in spans
    }
    cut = dict(spans)
    for run in world.runs:
        if run.end is not None or run.run_id not in spans:
            continue
        slots = {(row.gpu, row.slot) for row in exclusive[run.run_id]}
        start, end = spans[run.run_id]
        next_starts = [
            row.start
            for other, rows in exclusive.items()
            if other != run.run_id
            for row in rows
            if (row.gpu, row.slot) in slots and start < row.start < end
        ]
        cut[run.run_id] = (start, min([end, *next_starts]))
    return cut


def _cut_overlaps(exact: Sequence[Hold]) -> list[Hold]:
    """Of two exclusive holders of a slot the earlier ends where the later starts."""
    result: list[Hold] = []
    for hold in exact:
        later = [
            other.start
            for other in exact
            if hold.share == 1
            and other.share == 1
            and other.run_id != hold.run_id
            and (other.gpu, other.slot) == (hold.gpu, hold.slot)
            and (hold.start, hold.run_id) < (other.start, other.run_id)
            and other.start < hold.end
        ]
        end = min([hold.end, *later])
        if end > hold.start:
            result.append(replace(hold, end=end))
    return result


def pool_members(world: World, known: Mapping[str, Device], hold: PoolHold) -> list[str]:
    """The devices of the node last seen no more than 24 h before the hold (or first seen within it)."""
    return [
        gpu
        for gpu, device in known.items()
        if device.node == hold.node and seen_between(telemetry_sightings(world, gpu), hold.start - CARRY_US, hold.end)
    ]


def sightings_by_holding(
    world: World, known: Mapping[str, Device], exact: Sequence[Hold], pool: Sequence[PoolHold]
) -> dict[str, list[Span]]:
    """Device → the intervals in which a run holds it, or holds devices of the pool it is in."""
    spans: dict[str, list[Span]] = {}
    for hold in exact:
        spans.setdefault(hold.gpu, []).append((hold.start, hold.end))
    for waiting in pool:
        for gpu in pool_members(world, known, waiting):
            spans.setdefault(gpu, []).append((waiting.start, waiting.end))
    return spans


def assign_pools(
    world: World,
    known: Mapping[str, Device],
    exact: Sequence[Hold],
    pool: Sequence[PoolHold],
    in_service: Mapping[str, Sequence[Span]],
    minutes: Mapping[tuple[str, str, int], Minute],
) -> list[Hold]:
    """Give the pool's holders devices, stretch by stretch; `in_service` is inventory less the time out of service."""
    assigned: list[Hold] = []
    for node in sorted({hold.node for hold in pool}):
        here = [hold for hold in pool if hold.node == node]
        members = sorted({gpu for hold in here for gpu in pool_members(world, known, hold)})
        taken = {gpu: united((hold.start, hold.end) for hold in exact if hold.gpu == gpu) for gpu in members}
        free = {gpu: without(in_service[gpu], taken[gpu]) for gpu in members}
        for start, end, available, holders in _stretches(here, free):
            wanted = sum(holders.values(), Fraction(0))
            ranked = sorted(available, key=lambda gpu: _rank(world, known[gpu], start, end, minutes))
            for place, gpu in enumerate(ranked):
                part = min(Fraction(1), max(Fraction(0), wanted - place))
                for run_id, count in holders.items():
                    if part > 0:
                        assigned.append(Hold(run_id, gpu, None, start, end, part * count / wanted))
    return assigned


Stretch = tuple[int, int, list[str], dict[str, Fraction]]


def _stretches(pool: Sequence[PoolHold], free: Mapping[str, Sequence[Span]]) -> list[Stretch]:
    """Stretches, within an hour, in which neither the pool's devices nor its holders change."""
    edges = {edge for hold in pool for edge in (hold.start, hold.end)}
    edges |= {edge for spans in free.values() for span in spans for edge in span}
    first, last = min(edges), max(edges)
    edges |= set(range(first - first % HOUR_US, last + HOUR_US, HOUR_US))
    result: list[Stretch] = []
    for start, end in _between(edges):
        available = [gpu for gpu, spans in free.items() if holds(spans, start, end)]
        holders: dict[str, Fraction] = {}
        for hold in pool:
            if hold.start <= start and end <= hold.end:
                holders[hold.run_id] = holders.get(hold.run_id, Fraction(0)) + hold.count
        if not available or not holders:
            continue
        if result and result[-1][1:] == (start, available, holders) and start % HOUR_US:
            result[-1] = (result[-1][0], end, available, holders)
        else:
            result.append((start, end, available, holders))
    return result


def _between(edges: Iterable[int]) -> list[Span]:
    ordered = sorted(edges)
    return list(itertools.pairwise(ordered))


def _rank(
    world: World, device: Device, start: int, end: int, minutes: Mapping[tuple[str, str, int], Minute]
) -> tuple[int, Fraction, Fraction, str]:
    """Smaller is earlier: processes seen; work by memory or activity; no usable samples; the rest; ties by id."""
    weight = activity = memory = Fraction(0)
    for slot in device.layout_at(start).slots:
        for minute in range(start - start % MINUTE_US, end, MINUTE_US):
            rolled = minutes.get((device.gpu, slot.slot_id, minute))
            if rolled is None or not rolled.present_us or not rolled.covered_us:
                continue
            inside = sum(b - a for a, b in common(rolled.present, [(start, end)]))
            part = slot.fraction * rolled.covered_us * Fraction(inside, rolled.present_us)
            weight += part
            activity += part * rolled.mean_activity
            memory += part * (rolled.memory or 0) / slot.fraction
    if any(process.gpu == device.gpu and start <= process.at < end for process in world.processes):
        group = 0
    elif not weight:
        group = 2
    else:
        group = 1 if memory / weight >= GIB or activity / weight >= IDLE else 3
    if group > 1:
        return group, Fraction(0), Fraction(0), device.gpu
    return group, -activity / (weight or 1), -memory / (weight or 1), device.gpu


def implied_holds(world: World, known: Mapping[str, Device], pool: Sequence[PoolHold]) -> list[Hold]:
    """Holds on the implied devices of nodes without any known device: each instant the first Σ n are in inventory."""
    unknown = [hold for hold in pool if not pool_members(world, known, hold)]
    result: list[Hold] = []
    for node in sorted({hold.node for hold in unknown}):
        here = [hold for hold in unknown if hold.node == node]
        for start, end in _between({edge for hold in here for edge in (hold.start, hold.end)}):
            counts = {hold.run_id: hold.count for hold in here if hold.start <= start and end <= hold.end}
            wanted = sum(counts.values(), Fraction(0))
            place = 0
            while place < wanted:
                part = min(Fraction(1), wanted - place)
                gpu = f"{world.cluster}/{node}#{place + 1}"
                result += [Hold(run_id, gpu, None, start, end, part * count / wanted) for run_id, count in counts.items()]
                place += 1
    return result
