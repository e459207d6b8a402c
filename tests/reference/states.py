"""Section 5 of semantics.md: the state of every piece of every slot and minute.

Rules 6, 7 and 12 are judged in `services`, `balance` and `sizes`; here they take their part in their place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction

from tests.reference.activity import Key, Minute
from tests.reference.capacity import Device, Slot
from tests.reference.holders import Hold
from tests.reference.intervals import Span, common, total, without
from tests.reference.world import DAY_US, GIB, HOUR_US, MINUTE_US, Run, World

HALF_HOUR_US = 30 * MINUTE_US
UNDERFILLED_BELOW = Fraction(4, 10)
NOBODY = "unallocated"


@dataclass(frozen=True)
class Piece:
    """Part of a device's time, in microseconds of the whole device."""

    hour: int
    gpu: str
    slot_id: str
    run_id: str
    state: str
    reason: str
    signal: str
    us: Fraction


@dataclass(frozen=True)
class HeldMinute:
    """A run's part of one slot and minute: its time (weighted by share) and the first instant of it."""

    run_id: str
    gpu: str
    slot: Slot
    minute: int
    rolled: Minute
    held_us: Fraction
    first: int
    wall_us: int
    suspended: Fraction  # the part of it in which the run is suspended

    @property
    def covered_us(self) -> Fraction:
        """GPU time held, not suspended, and covered by samples."""
        return self.slot.fraction * self.held_us * self._observed

    @property
    def covered_wall_us(self) -> Fraction:
        """The same of the wall's time, whatever share of the slot is held and whatever part of the card the slot is."""
        return self.wall_us * self._observed

    @property
    def _observed(self) -> Fraction:
        return (1 - self.suspended) * Fraction(self.rolled.covered_us, self.rolled.present_us)


@dataclass(frozen=True)
class Verdicts:
    """What rules 6, 7 and 12 found: (run, minute), (run, slot, minute), and (run, slot, day) → fit fraction."""

    surplus: Set[tuple[str, int]] = frozenset()
    unbalanced: Set[tuple[str, str, int]] = frozenset()
    fit: Mapping[tuple[str, str, int], Fraction] = field(default_factory=dict)


def held_minutes(
    device: Device,
    slots: Mapping[Slot, Sequence[Span]],
    held: Sequence[Hold],
    minutes: Mapping[Key, Minute],
    suspended: Mapping[str, Fraction],
) -> list[HeldMinute]:
    """What each run holds of each minute of the device's slots, inside inventory and service."""
    result: list[HeldMinute] = []
    for slot in slots:
        for minute, rolled in _minutes_of_slot(device, slot, minutes):
            by_run: dict[str, tuple[Fraction, int, int]] = {}
            for start, end, shares, _ in _shares(slot, held, rolled.present):
                for run_id, share in shares.items():
                    us, first, wall = by_run.get(run_id, (Fraction(0), start, 0))
                    by_run[run_id] = (us + share * (end - start), min(first, start), wall + end - start)
            result += [
                HeldMinute(run_id, device.gpu, slot, minute, rolled, us, first, wall, suspended[run_id])
                for run_id, (us, first, wall) in by_run.items()
                if us
            ]
    return result


def unheld_pieces(
    device: Device,
    slots: Mapping[Slot, Sequence[Span]],
    held: Sequence[Hold],
    minutes: Mapping[Key, Minute],
    closed: Mapping[str, Sequence[Span]],
) -> Iterator[Piece]:
    """Rules 2 and 3: time or share that nobody holds, and how much of that the holders used.

    `closed` tells when the node takes no new work: reason (`reserved_empty`, `draining`, `stranded`) → spans, the first counts.
    """
    for slot in slots:
        for minute, rolled in _minutes_of_slot(device, slot, minutes):
            covered = Fraction(rolled.covered_us, rolled.present_us)
            for start, end, shares, is_shared in _shares(slot, held, rolled.present):
                rest = 1 - sum(shares.values(), Fraction(0))
                if is_shared:
                    quiet = min(rest, 1 - rolled.mean_activity)
                    unallocated = rest * (1 - covered) + quiet * covered
                    split = {("unallocated", "unrequested_share"): unallocated, ("borrowed", ""): rest - unallocated}
                    parts = {key: part * (end - start) for key, part in split.items()}
                else:
                    free = _free_time(slot, start, end, closed)
                    parts = {("unallocated", why): rest * us for why, us in free.items()}
                for (state, why), us in parts.items():
                    if us:
                        whole = us * slot.fraction
                        yield Piece(_hour(minute), device.gpu, slot.slot_id, NOBODY, state, why, rolled.signal, whole)


def _free_time(slot: Slot, start: int, end: int, closed: Mapping[str, Sequence[Span]]) -> dict[str, int]:
    """Reason → microseconds of a stretch that nobody holds."""
    if slot.is_stranded:
        return {"stranded": end - start}
    left: list[Span] = [(start, end)]
    by_reason: dict[str, int] = {}
    for reason, spans in closed.items():
        by_reason[reason] = total(common(spans, left))
        left = without(left, spans)
    return by_reason | {"free": total(left)}


def _minutes_of_slot(device: Device, slot: Slot, minutes: Mapping[Key, Minute]) -> Iterator[tuple[int, Minute]]:
    return ((m, rolled) for (gpu, slot_id, m), rolled in minutes.items() if gpu == device.gpu and slot_id == slot.slot_id)


def _shares(slot: Slot, held: Sequence[Hold], present: Sequence[Span]) -> Iterator[tuple[int, int, dict[str, Fraction], bool]]:
    """The stretches of `present` in which the slot's holders do not change, with their shares; above 1 they are scaled.

    And whether a holder asked for a share, so that the holders may have used what nobody asked for.
    """
    mine = [hold for hold in held if (not slot.is_stranded if hold.slot is None else hold.slot == slot.slot_uuid)]
    for begin, finish in present:
        inside = {edge for hold in mine for edge in (hold.start, hold.end) if begin < edge < finish}
        edges = sorted({begin, finish, *inside})
        for start, end in itertools.pairwise(edges):
            shares: dict[str, Fraction] = {}
            is_shared = False
            for hold in mine:
                if hold.start <= start and end <= hold.end:
                    is_shared = is_shared or hold.is_shared
                    # the same hold seen again is the same hold
                    shares[hold.run_id] = max(shares.get(hold.run_id, Fraction(0)), hold.share)
            asked = sum(shares.values(), Fraction(0))
            yield start, end, {run_id: share / max(asked, 1) for run_id, share in shares.items()}, is_shared


def run_pieces(world: World, run: Run, start: int, held: Sequence[HeldMinute], verdicts: Verdicts) -> Iterator[Piece]:
    """Rules 4 to 14 for all minutes of one run, which is held from `start` on."""
    active = _active_minutes(held)
    first_active = min((minute for found in active.values() for minute in found), default=None)
    for part in held:
        rolled = part.rolled
        left = part.held_us * (1 - part.suspended)
        covered = left * Fraction(rolled.covered_us, rolled.present_us)
        split = {("suspended", "position_unknown"): part.held_us * part.suspended}
        split["unobserved", ""] = left - covered
        if (run.run_id, part.minute) in verdicts.surplus:
            split["overprovisioned", ""] = covered
        elif covered:
            fit = verdicts.fit.get((run.run_id, part.slot.slot_id, part.minute // DAY_US), Fraction(1))
            is_unbalanced = (run.run_id, part.slot.slot_id, part.minute) in verdicts.unbalanced
            idle = _idle_state(world, run, part, start, first_active, active)
            split |= _covered_states(rolled, covered, fit, is_unbalanced, idle)
        for (state, reason), us in split.items():
            if us:
                whole = us * part.slot.fraction
                yield Piece(_hour(part.minute), part.gpu, part.slot.slot_id, run.run_id, state, reason, rolled.signal, whole)


def _covered_states(
    rolled: Minute, covered: Fraction, fit: Fraction, is_unbalanced: bool, idle_state: tuple[str, str]
) -> dict[tuple[str, str], Fraction]:
    """Rules 7 to 14: how the covered part of a minute is divided."""
    split: dict[tuple[str, str], Fraction] = {}
    if is_unbalanced:
        # what is left counts as active, throttled in the proportion in which the active time was
        working = covered * rolled.mean_activity
        split["unbalanced", ""] = covered - working
    else:
        working = covered * Fraction(rolled.active_us, rolled.covered_us)
        split[idle_state] = covered - working
    throttled = working * rolled.throttled_us / rolled.active_us if rolled.active_us else Fraction(0)
    fitting = (working - throttled) * fit
    empty = Fraction(0) if is_unbalanced else _empty_part(rolled, fit)
    split["throttled", ""] = throttled
    split["oversized", ""] = working - throttled - fitting
    split["underfilled", ""] = fitting * empty
    split["productive", ""] = fitting * (1 - empty)
    return split


def _active_minutes(held: Sequence[HeldMinute]) -> dict[str, list[int]]:
    """Slot → the minutes in which the run's part has active time."""
    active: dict[str, list[int]] = {}
    for part in sorted(held, key=lambda part: part.minute):
        if part.rolled.active_us:
            active.setdefault(part.slot.slot_id, []).append(part.minute)
    return active


def _idle_state(
    world: World,
    run: Run,
    part: HeldMinute,
    run_start: int,
    first_active: int | None,
    active: Mapping[str, Sequence[int]],
) -> tuple[str, str]:
    """Rules 8 to 10: the state of the idle time of one minute."""
    minute, rolled = part.minute, part.rolled
    waiting = [(row.start, row.end) for row in world.usage if row.waiting > 0 and row.workload == run.workload]
    if common(waiting, [(minute, minute + MINUTE_US)]):
        return "pipeline_waiting", "waiting_requests"
    if run.kind in ("training", "batch"):
        if part.first - run_start < HALF_HOUR_US and (first_active is None or minute < first_active):
            return "pipeline_waiting", "startup"
        of_slot = active.get(part.slot.slot_id, [])
        before = max((m for m in of_slot if m < minute), default=None)
        after = min((m for m in of_slot if m > minute), default=None)
        between = before is not None and after is not None and after - (before + MINUTE_US) <= HALF_HOUR_US
        if minute in of_slot or between:
            return "pipeline_waiting", "stall"
    if rolled.memory is not None and rolled.memory >= max(Fraction(rolled.memory_total or 0, 10), Fraction(GIB)):
        return "reserved_memory", ""
    return "idle_compute", ""


def _empty_part(rolled: Minute, fit: Fraction) -> Fraction:
    """Rule 13: how far the active part's mean activity, of the slot that fits, is below 0.40; utilisation cannot tell."""
    activity = min(Fraction(1), rolled.mean_active / fit)
    if rolled.signal not in ("sm_active", "graphics_engine_active") or activity >= UNDERFILLED_BELOW:
        return Fraction(0)
    return 1 - activity / UNDERFILLED_BELOW


def _hour(at: int) -> int:
    return at - at % HOUR_US
