"""The hourly ledger of one world, computed slowly and in the open: the SQL must agree with it.

Nothing here is SQL, nothing is approximate: time is integers, shares are fractions, and microseconds are rounded once
per device and hour (section 1). Where semantics.md leaves two readings the one taken is said where it is taken; the ones
that matter most:

- a sample lies *strictly inside* a hole of inventory if its whole interval does;
- a device counts as last seen on a node by inventory records and samples, not by being held;
- a drained node's devices take part in the ranking of the pool, and are out of service only while nobody holds them;
- of a partly covered minute the uncovered part of an unrequested share is unallocated, the covered part at most 1 − activity;
- a minute is active for a run if its part of it has active time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from tests.reference.activity import roll_up, slot_spans
from tests.reference.balance import unbalanced_minutes
from tests.reference.capacity import Device, Slot, devices, inventory_spans, node_spans, out_of_service_spans
from tests.reference.evidence import understood
from tests.reference.holders import Hold, claims, cut_runaways, held_spans, sightings_by_holding
from tests.reference.intervals import Span, common, united, without
from tests.reference.pools import assign_pools, implied_holds
from tests.reference.services import scopes, surplus_minutes
from tests.reference.sizes import fits
from tests.reference.states import NOBODY, HeldMinute, Piece, Verdicts, held_minutes, run_pieces, unheld_pieces
from tests.reference.stranding import stranded_spans, usual_sizes
from tests.reference.world import DAY_US, HOUR_US, World

Key = tuple[int, str, str, str, str, str, str]  # hour, device, slot, run, state, reason, signal


@dataclass(frozen=True)
class LedgerRow:
    hour: int
    gpu: str
    slot_id: str
    run_id: str
    state: str
    reason: str
    signal: str
    microseconds: int


def ledger(world: World) -> list[LedgerRow]:
    """The rows of the world's ledger; per device and hour they add up to its time in inventory exactly."""
    return rounded(pieces(world))


def pieces(world: World) -> list[Piece]:
    """Every part of every device's time in inventory, exact."""
    # section 2 and 3: who claims what, which devices are there and in service
    world = understood(world, held_spans(world))
    known = devices(world)
    exact, pool = claims(world)
    # a label says no more than the sample that bears it
    by_name = {run.run_id for run in world.runs if run.is_known_by_name}
    told = [hold for hold in exact if hold.run_id not in by_name]
    inventory = inventory_spans(world, known, sightings_by_holding(world, known, told, pool))
    broken = {gpu: out_of_service_spans(world, device) for gpu, device in known.items()}
    able = {gpu: without(inventory[gpu], broken[gpu]) for gpu in known}
    held = exact + assign_pools(world, known, exact, pool, inventory, able, roll_up(world, known, able))
    for gpu, device in known.items():
        holding = united((hold.start, hold.end) for hold in held if hold.gpu == gpu)
        broken[gpu] = united([*broken[gpu], *without(node_spans(world, device, "drained"), holding)])
    in_service = {gpu: without(inventory[gpu], broken[gpu]) for gpu in known}

    # section 4: what the samples say, minute by minute
    minutes = roll_up(world, known, in_service)

    # section 5: states
    result: list[Piece] = []
    parts: list[HeldMinute] = []
    starts = held_spans(world)
    suspended = {
        run.run_id: min(Fraction(1), Fraction(run.suspended_us, end - start))
        for run in world.runs
        if run.run_id in starts
        for start, end in [starts[run.run_id]]
    }
    implied = implied_holds(world, known, pool, inventory)
    lacking = _lacking(world, held, implied)
    for gpu, device in known.items():
        mine = [hold for hold in held if hold.gpu == gpu]
        result += _out_of_service_pieces(gpu, slot_spans(device, common(inventory[gpu], broken[gpu])))
        slots = slot_spans(device, in_service[gpu])
        closed = {
            "reserved_empty": node_spans(world, device, "reserved"),
            # a drained node that still serves a holder takes nothing new either
            "draining": node_spans(world, device, "draining", "drained"),
            "stranded": lacking.get(device.node, []),
        }
        result += unheld_pieces(device, slots, mine, minutes, closed)
        parts += held_minutes(device, slots, mine, minutes, suspended)
    verdicts = judge(world, known, parts)
    for run in world.runs:
        of_run = [part for part in parts if part.run_id == run.run_id]
        if of_run:
            result += run_pieces(world, run, starts[run.run_id][0], of_run, verdicts)
    return result + _implied_pieces(implied)


def judge(world: World, known: Mapping[str, Device], parts: Sequence[HeldMinute]) -> Verdicts:
    """Rules 6, 7 and 12, which look at more than a minute of one run."""
    together = scopes(world)
    return Verdicts(
        surplus=surplus_minutes(world, parts),
        unbalanced=unbalanced_minutes(parts, together),
        fit=fits(world, known, parts, together),
    )


def _lacking(world: World, held: Sequence[Hold], implied: Sequence[Hold]) -> dict[str, list[Span]]:
    """Node → when it lacks CPU or memory for one more GPU job."""
    days = {(hold.run_id, day) for hold in [*held, *implied] for day in range(hold.start // DAY_US, (hold.end - 1) // DAY_US + 1)}
    usual = usual_sizes(world, days)
    running = cut_runaways(world, held_spans(world))
    return {node: stranded_spans(world, node, running, usual) for node in sorted({record.node for record in world.nodes})}


def _out_of_service_pieces(gpu: str, slots: dict[Slot, list[Span]]) -> list[Piece]:
    """Rule 1: in full, for every slot of the device."""
    return [
        Piece(hour, gpu, slot.slot_id, NOBODY, "out_of_service", "", "none", (end - start) * slot.fraction)
        for slot, spans in slots.items()
        for hour, start, end in _by_hour(spans)
    ]


def _implied_pieces(held: Iterable[Hold]) -> list[Piece]:
    """Implied devices are in inventory only while held, and nobody observes them (suspended time is not looked at)."""
    return [
        Piece(hour, hold.gpu, hold.gpu, hold.run_id, "unobserved", "", "none", hold.share * (end - start))
        for hold in held
        for hour, start, end in _by_hour([(hold.start, hold.end)])
    ]


def _by_hour(spans: Iterable[Span]) -> list[tuple[int, int, int]]:
    return [
        (hour, max(start, hour), min(end, hour + HOUR_US))
        for start, end in spans
        for hour in range(start - start % HOUR_US, end, HOUR_US)
    ]


def rounded(found: Iterable[Piece]) -> list[LedgerRow]:
    """Section 1: per device and hour each part is rounded down, what is left goes to the largest fractions."""
    exact: dict[tuple[int, str], dict[Key, Fraction]] = {}
    for piece in found:
        parts = exact.setdefault((piece.hour, piece.gpu), {})
        key = (piece.hour, piece.gpu, piece.slot_id, piece.run_id, piece.state, piece.reason, piece.signal)
        parts[key] = parts.get(key, Fraction(0)) + piece.us
    rows: list[LedgerRow] = []
    for parts in exact.values():
        whole = {key: floor(us) for key, us in parts.items()}
        left_over = round(sum(parts.values(), Fraction(0))) - sum(whole.values())
        by_fraction = sorted(parts, key=lambda key: (whole[key] - parts[key], key))
        for key in by_fraction[:left_over]:
            whole[key] += 1
        rows += [LedgerRow(*key, microseconds=us) for key, us in whole.items() if us]
    return sorted(rows, key=lambda row: (row.hour, row.gpu, row.slot_id, row.run_id, row.state, row.reason, row.signal))
