"""Section 5 of semantics.md: the state of every piece of every slot and minute (rules 1–5, 8–11, 13, 14)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.reference.activity import Key, Minute
from tests.reference.capacity import Device, Slot
from tests.reference.holders import Hold
from tests.reference.intervals import Span, common, total
from tests.reference.world import GIB, HOUR_US, MINUTE_US, Run, World

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


def held_minutes(
    device: Device, slots: Mapping[Slot, Sequence[Span]], held: Sequence[Hold], minutes: Mapping[Key, Minute]
) -> list[HeldMinute]:
    """What each run holds of each minute of the device's slots, inside inventory and service."""
    result: list[HeldMinute] = []
    for slot in slots:
        for minute, rolled in _minutes_of_slot(device, slot, minutes):
            by_run: dict[str, tuple[Fraction, int]] = {}
            for start, end, shares, _ in _shares(slot, held, rolled.present):
                for run_id, share in shares.items():
                    us, first = by_run.get(run_id, (Fraction(0), start))
                    by_run[run_id] = (us + share * (end - start), min(first, start))
            result += [
                HeldMinute(run_id, device.gpu, slot, minute, rolled, us, first) for run_id, (us, first) in by_run.items() if us
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

    `closed` tells when the node takes no new work: reason (`reserved_empty`, `draining`) → spans.
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
                    parts = {("unallocated", why): rest * us for why, us in _free_time(slot, start, end, closed).items()}
                for (state, why), us in parts.items():
                    if us:
                        whole = us * slot.fraction
                        yield Piece(_hour(minute), device.gpu, slot.slot_id, NOBODY, state, why, rolled.signal, whole)


def _free_time(slot: Slot, start: int, end: int, closed: Mapping[str, Sequence[Span]]) -> dict[str, int]:
    """Reason → microseconds of a stretch that nobody holds."""
    if slot.is_stranded:
        return {"stranded": end - start}
    by_reason = {reason: total(common(spans, [(start, end)])) for reason, spans in closed.items()}
    return by_reason | {"free": end - start - sum(by_reason.values())}


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


def run_pieces(world: World, run: Run, start: int, end: int, held: Sequence[HeldMinute]) -> Iterator[Piece]:
    """Rules 4 to 14 for all minutes of one run, which is held from `start` to `end`."""
    suspended = min(Fraction(1), Fraction(run.suspended_us, end - start))
    active = _active_minutes(held)
    first_active = min((minute for found in active.values() for minute in found), default=None)
    for part in held:
        rolled = part.rolled
        left = part.held_us * (1 - suspended)
        share_of_present = left / rolled.present_us
        split = {("suspended", "position_unknown"): part.held_us * suspended}
        split["unobserved", ""] = left - share_of_present * rolled.covered_us
        split[_idle_state(world, run, part, start, first_active, active)] = share_of_present * rolled.idle_us
        working = share_of_present * rolled.active_us
        throttled = share_of_present * rolled.throttled_us
        split["throttled", ""] = throttled
        split["underfilled", ""] = (working - throttled) * _empty_part(rolled)
        split["productive", ""] = (working - throttled) * (1 - _empty_part(rolled))
        for (state, reason), us in split.items():
            if us:
                whole = us * part.slot.fraction
                yield Piece(_hour(part.minute), part.gpu, part.slot.slot_id, run.run_id, state, reason, rolled.signal, whole)


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
    waiting = [(w.start, w.end) for w in world.waiting if w.job_id == run.job_id]
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


def _empty_part(rolled: Minute) -> Fraction:
    """Rule 13: how far the active part's mean activity is below 0.40; utilisation alone cannot tell."""
    if rolled.signal not in ("sm_active", "graphics_engine_active") or rolled.mean_active >= UNDERFILLED_BELOW:
        return Fraction(0)
    return 1 - rolled.mean_active / UNDERFILLED_BELOW


def _hour(at: int) -> int:
    return at - at % HOUR_US
