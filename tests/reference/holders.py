"""Section 3 of semantics.md: which run holds which slot, when, and with what share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tests.reference.capacity import CARRY_US, Device, seen_between, telemetry_sightings
from tests.reference.intervals import Span
from tests.reference.world import HOUR_US, Run, RunGpu, World

WAIT_US = 2 * HOUR_US  # telemetry_wait_hours


@dataclass(frozen=True)
class Hold:
    """A run's hold on one slot (`slot` None: all slots of the device but the stranded one).

    `is_shared`: of what the holders did not ask for, they may have used a part.
    """

    run_id: str
    gpu: str
    slot: str | None
    start: int
    end: int
    share: Fraction
    is_shared: bool = False


@dataclass(frozen=True)
class PoolHold:
    """A run's hold of `count` devices of a node (or instances of a MIG profile), not known which."""

    run_id: str
    node: str
    profile: str | None
    count: Fraction
    start: int
    end: int
    is_shared: bool


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
    """What the scheduler says each run holds: exactly where a device is named, else so many of a node's pool."""
    exact: list[Hold] = []
    pool: list[PoolHold] = []
    cut = cut_runaways(world, held_spans(world))
    for run in world.runs:
        if run.run_id not in cut:
            continue
        start, end = cut[run.run_id]
        rows = _rows_of(world, run)
        placed = Counter(node for node, _ in {(row.node, (row.gpu, row.slot)) for row in rows if row.gpu})
        for row in rows:
            a, b = max(start, row.start), min(end, row.end if row.end is not None else end)
            share = _share(run, row)
            is_shared = row.share is not None or run.share is not None
            if a >= b:
                continue
            if row.gpu:
                exact.append(Hold(run.run_id, row.gpu, row.slot, a, b, share, is_shared))
            else:
                count = Fraction(row.count) * share * _part_not_placed(rows, row.node, placed[row.node])
                pool.append(PoolHold(run.run_id, row.node, row.profile, count, a, b, is_shared))
        for node, count in _not_placed(run, rows, placed).items():
            share = Fraction(1) if run.share is None else Fraction(run.share)
            pool.append(PoolHold(run.run_id, node, run.profile, count * share, start, end, run.share is not None))
    return _cut_overlaps(exact), [hold for hold in pool if hold.count]


def _part_not_placed(rows: Sequence[RunGpu], node: str, placed: int) -> Fraction:
    """Of the devices that rows of a node only count, the part that other rows do not name."""
    if not placed:
        return Fraction(1)
    here = [row for row in rows if row.node == node]
    counted = sum((Fraction(row.count) for row in here if not row.gpu or row.index is not None), Fraction(0))
    unplaced = sum((Fraction(row.count) for row in here if not row.gpu), Fraction(0))
    return min(Fraction(1), max(Fraction(0), (counted - placed) / unplaced))


def _not_placed(run: Run, rows: Sequence[RunGpu], placed: Mapping[str, int]) -> dict[str, Fraction]:
    """Node → devices that no row tells of: the run's count, spread evenly over its nodes, less the devices named there."""
    is_told = any(not row.gpu or row.index is not None or row.share is not None for row in rows)
    if not run.gpu_count or not run.nodes or (rows and (is_told or run.share is not None)):
        return {}
    count = Fraction(run.gpu_count)
    missing = {node: max(Fraction(0), count / len(run.nodes) - placed.get(node, 0)) for node in run.nodes}
    left = max(Fraction(0), count - sum(placed.values()))
    return {node: part * left / sum(missing.values()) for node, part in missing.items() if part}


def _rows_of(world: World, run: Run) -> list[RunGpu]:
    """The `run_gpus` rows of an attempt: of its job id, and beginning inside its time."""
    begin, end = held_spans(world)[run.run_id]
    return [row for row in world.run_gpus if row.job_id == run.job_id and begin <= row.start < end]


def _share(run: Run, row: RunGpu) -> Fraction:
    share = row.share if row.share is not None else run.share
    return Fraction(1) if share is None else Fraction(share)


def cut_runaways(world: World, spans: Mapping[str, Span]) -> dict[str, Span]:
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
