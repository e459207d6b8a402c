"""Where the plan's GPU-time went, by the rules of semantics 2 to 5, worked out on the plan itself.

Nothing of the pipeline is asked. Everything in the plan begins and ends on whole minutes, and a minute is wholly idle or
wholly active, so that each rule is a comparison of arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from collectors.simulate.hardware import A100, ALDER, CARD_SLICES, H100, Node
from collectors.simulate.painting import OUT_OF_SERVICE, STATES, Painting, paint
from collectors.simulate.plan import DRAINING, INFERENCE_KIND, PIPELINED, RESERVED, Plan, Run

MINUTE_US = 60e6
GIB = 1 << 30
#: semantics 5: the thresholds of rules 7, 8, 9, 11, 12 and 13
QUIET_BELOW, BUSY_FROM, UNBALANCED_MINUTES = 0.30, 0.80, 15
OVERSIZED_UP_TO, OVERSIZED_MINUTES, MEMORY_HEADROOM, FULLEST = 0.20, 60, 1.1, 0.8
STARTUP_MINUTES = STALL_MINUTES = 30
RESERVED_RATIO = 0.10
THROTTLING_BITS = 0x8 | 0x20 | 0x40 | 0x80
UNDERFILLED_BELOW = 0.40
#: the profiles of a card that can be split, the smallest first: compute slices of seven, memory slices of eight
SMALLER = ((1, 1), (1, 2), (2, 2), (3, 4), (4, 4))
SPLITTABLE = (A100, H100)
NOBODY = "unallocated"
#: a minute that no run of integers reaches
NEVER = 1 << 40

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
#: (workload id, state, reason)
Part = tuple[str, str, str]


@dataclass
class Split:
    """GPU-microseconds of one node by part and date."""

    dates: npt.NDArray[np.int64]
    date_count: int
    parts: dict[Part, Numbers] = field(default_factory=lambda: defaultdict(lambda: np.zeros(1)))

    def add(self, part: Part, us: Numbers, first: int = 0) -> None:
        """Add the microseconds of the minutes from `first` on."""
        if us.any():
            days = self.dates[first : first + len(us)]
            self.parts[part] = self.parts[part] + np.bincount(days, weights=us, minlength=self.date_count)


@dataclass(frozen=True)
class _Seen:
    """A node's minutes as rules ask for them."""

    in_service: npt.NDArray[np.bool_]
    is_covered: npt.NDArray[np.bool_]
    is_frozen: npt.NDArray[np.bool_]
    is_active: npt.NDArray[np.bool_]
    activity: Numbers
    memory_mib: npt.NDArray[np.int64]
    holds_memory: npt.NDArray[np.bool_]
    throttled: Numbers


def split_node(plan: Plan, node: Node) -> Mapping[Part, Numbers]:
    """GPU-microseconds of a node's time in inventory, by workload, state and reason, for each date of the plan."""
    window = plan.window
    painting = paint(plan, node, 0, window.minutes)
    seen = _look(node, painting)
    split = Split(window.date_numbers(0, window.minutes), len(window.dates()))
    runs = plan.runs_by_node.get(node.name, [])
    rows = {slot.number: row for row, slot in enumerate(node.slots)}
    held = np.zeros(painting.activity.shape)
    shared = np.zeros(painting.activity.shape, np.bool_)
    for run in runs:
        for number in run.slots:
            held[rows[number], run.start : run.until(window)] += 1.0 if run.share is None else run.share
            shared[rows[number], run.start : run.until(window)] |= run.share is not None
    _split_unheld(split, node, painting, seen, held, shared)
    in_use = held > 0
    pool = in_use.sum(axis=0)
    for run in runs:
        stretch = slice(run.start, run.until(window))
        if node.cluster == ALDER:
            # nobody tells which cards: each that is in use is everybody's, in proportion
            shares = [(row, in_use[row, stretch] * (len(run.slots) / pool[stretch])) for row in range(len(node.slots))]
        else:
            shares = [(rows[number], np.full(stretch.stop - stretch.start, run.share or 1.0)) for number in run.slots]
        _split_run(split, plan, node, run, seen, [(row, share) for row, share in shares if share.any()])
    return split.parts


def _look(node: Node, painting: Painting) -> _Seen:
    in_service = painting.is_there & ~np.isin(painting.state, [STATES.index(state) for state in OUT_OF_SERVICE])
    is_covered = painting.is_told & ~painting.is_frozen
    activity = painting.activity / 1e6
    totals = np.array([[slot.memory_mib] for slot in node.slots]) << 20
    memory = painting.memory_mib << 20
    is_throttled = (painting.bits & THROTTLING_BITS) != 0
    return _Seen(
        in_service=in_service,
        is_covered=is_covered,
        is_frozen=painting.is_frozen,
        is_active=is_covered & (painting.activity > 0),
        activity=activity,
        memory_mib=painting.memory_mib,
        holds_memory=memory >= np.maximum(RESERVED_RATIO * totals, GIB),
        throttled=np.where(is_throttled, 1.0 - painting.clock_mhz / node.model.clock_mhz, 0.0),
    )


def _split_unheld(
    split: Split, node: Node, painting: Painting, seen: _Seen, held: Numbers, shared: npt.NDArray[np.bool_]
) -> None:
    """Rules 1 to 3: out of service, unallocated, borrowed."""
    for row, slot in enumerate(node.slots):
        whole = MINUTE_US * slot.fraction
        for state in OUT_OF_SERVICE:
            is_out = painting.is_there[row] & (painting.state[row] == STATES.index(state))
            split.add((NOBODY, "out_of_service", state), whole * is_out)
        is_free = seen.in_service[row] & (held[row] == 0)
        for state, reason in ((DRAINING, "draining"), (RESERVED, "reserved_empty")):
            is_closed = painting.state[row] == STATES.index(state)
            split.add((NOBODY, "unallocated", reason), whole * (is_free & is_closed))
            is_free = is_free & ~is_closed
        split.add((NOBODY, "unallocated", "free"), whole * is_free)
        rest = np.where(seen.in_service[row] & shared[row], 1.0 - held[row], 0.0)
        borrowed = np.where(seen.is_covered[row], np.maximum(0.0, rest - (1.0 - seen.activity[row])), 0.0)
        split.add((NOBODY, "borrowed", ""), whole * borrowed)
        split.add((NOBODY, "unallocated", "unrequested_share"), whole * (rest - borrowed))
    if node.stranded_slices:
        left_over = MINUTE_US * node.stranded_slices / CARD_SLICES
        split.add((NOBODY, "unallocated", "stranded"), left_over * seen.in_service[0])


def _split_run(split: Split, plan: Plan, node: Node, run: Run, seen: _Seen, shares: list[tuple[int, Numbers]]) -> None:
    """Rules 4 to 14 for one run; `shares` are its parts of slots, by row, for each minute of it."""
    window = plan.window
    start, until = run.start, run.until(window)
    minutes = np.arange(start, until)
    suspended = run.suspended / (until - start)
    actives = {row: seen.is_active[row, start:until] & (share > 0) for row, share in shares}
    first_active = min((start + int(found.argmax()) for found in actives.values() if found.any()), default=NEVER)
    is_waiting = _waiting(plan, run, minutes)
    watched = {row: seen.is_covered[row, start:until] & seen.in_service[row, start:until] & (share > 0) for row, share in shares}
    unbalanced = _unbalanced(seen, slice(start, until), watched)
    fits = _fits(split, node, run, seen, suspended, watched)
    for row, share in shares:
        here = slice(start, until)
        us = MINUTE_US * node.slots[row].fraction * share * seen.in_service[row, here]
        rest = us * (1.0 - suspended)
        covered, active, activity = seen.is_covered[row, here], actives[row], seen.activity[row, here]
        waits, fit = unbalanced[row], fits[row]
        idle = covered & ~active & (share > 0) & ~waits
        # of a card that waits for a busier one only what it did counts as active, and is none too full
        working = rest * np.where(waits, activity, active)
        throttled = np.where(active, working * seen.throttled[row, here], 0.0)
        carried = (working - throttled) * fit
        underfilled = np.where(waits, 0.0, carried * np.maximum(0.0, 1.0 - np.minimum(1.0, activity / fit) / UNDERFILLED_BELOW))
        parts = {
            ("suspended", "position_unknown"): us * suspended,
            ("unobserved", "stale"): rest * (~covered & seen.is_frozen[row, here]),
            ("unobserved", "gap"): rest * (~covered & ~seen.is_frozen[row, here]),
            ("unbalanced", ""): rest * waits * (1.0 - activity),
            ("throttled", ""): throttled,
            ("oversized", ""): (working - throttled) * (1.0 - fit),
            ("underfilled", ""): underfilled,
            ("productive", ""): carried - underfilled,
        }
        for reasons, is_so in _idle_states(run, minutes, idle, active, first_active, is_waiting, seen.holds_memory[row, here]):
            parts[reasons] = rest * is_so
        for (state, reason), amount in parts.items():
            split.add((run.workload_id, state, reason), amount, start)


def _unbalanced(seen: _Seen, here: slice, watched: Mapping[int, Flags]) -> dict[int, Flags]:
    """Rule 7: stretches in which a card is quiet while another one of the run is busy.

    Cards of a service are never busy enough for that (`MOST_SERVING`), so that a run's own cards are all its siblings.
    """
    busy = {row: flags & (seen.activity[row, here] >= BUSY_FROM) for row, flags in watched.items()}
    any_busy = np.any(list(busy.values()), axis=0)
    found: dict[int, Flags] = {}
    for row, flags in watched.items():
        quiet = flags & (seen.activity[row, here] < QUIET_BELOW) & any_busy
        places = np.flatnonzero(np.diff(np.concatenate([[0], quiet.astype(np.int8), [0]])))
        for first, last in zip(places[::2], places[1::2], strict=True):
            quiet[first:last] = last - first >= UNBALANCED_MINUTES
        found[row] = quiet
    return found


def _fits(split: Split, node: Node, run: Run, seen: _Seen, suspended: float, watched: Mapping[int, Flags]) -> dict[int, Numbers]:
    """Rule 12: for each minute of a slot the part of it that a smaller profile has that would have carried the day; else 1.

    What a service needs of its memory is not told: its servers took most of it when they started.
    """
    count = len(next(iter(watched.values()), np.zeros(0)))
    here = slice(run.start, run.start + count)
    fits = {row: np.ones(count) for row in watched}
    if run.kind == INFERENCE_KIND or node.model not in SPLITTABLE:
        return fits
    days = split.dates[here]
    for day in np.unique(days):
        mine = {row: flags & (days == day) for row, flags in watched.items()}
        levels = np.sort(np.concatenate([seen.activity[row, here][flags] for row, flags in mine.items()]))
        if len(levels) * (1.0 - suspended) < OVERSIZED_MINUTES or not 0 < levels.mean() <= OVERSIZED_UP_TO:
            continue
        # the smallest level that 95 % of the minutes do not exceed
        highest = levels[-(-len(levels) * 95 // 100) - 1] / FULLEST
        memory = max(int(seen.memory_mib[row, here][flags].max(initial=0)) for row, flags in mine.items()) * MEMORY_HEADROOM
        for row, fit in fits.items():
            slices = node.slots[row].slices
            for compute, eighths in SMALLER:
                if compute < slices and highest <= compute / slices and memory <= node.model.memory_mib * eighths / 8:
                    fit[days == day] = compute / slices
                    break
    return fits


def _idle_states(
    run: Run,
    minutes: npt.NDArray[np.int64],
    idle: npt.NDArray[np.bool_],
    active: npt.NDArray[np.bool_],
    first_active: int,
    is_waiting: npt.NDArray[np.bool_],
    holds_memory: npt.NDArray[np.bool_],
) -> Iterator[tuple[tuple[str, str], npt.NDArray[np.bool_]]]:
    """Rules 8 to 10: each idle minute goes to the first that takes it."""
    is_starting = np.zeros(len(minutes), np.bool_)
    is_stalled = is_starting
    if run.kind in PIPELINED:
        is_starting = (minutes < run.start + STARTUP_MINUTES) & (minutes < first_active)
        before = np.maximum.accumulate(np.where(active, minutes, -NEVER))
        after = np.minimum.accumulate(np.where(active, minutes, NEVER)[::-1])[::-1]
        is_stalled = after - before - 1 <= STALL_MINUTES
    left = idle
    for state, is_so in (
        (("pipeline_waiting", "waiting_requests"), is_waiting),
        (("pipeline_waiting", "startup"), is_starting),
        (("pipeline_waiting", "stall"), is_stalled),
        (("reserved_memory", ""), holds_memory),
        (("idle_compute", ""), np.ones(len(minutes), np.bool_)),
    ):
        yield state, left & is_so
        left = left & ~is_so


def _waiting(plan: Plan, run: Run, minutes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Minutes in which requests waited for the run's service."""
    found = np.zeros(len(minutes), np.bool_)
    service = plan.services_by_name.get((run.namespace, run.workload)) if run.kind == INFERENCE_KIND else None
    for first, last in service.waiting if service else ():
        found |= (minutes >= first) & (minutes < last)
    return found
