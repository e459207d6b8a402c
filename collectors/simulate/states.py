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

from collectors.simulate.hardware import ALDER, CARD_SLICES, Node
from collectors.simulate.painting import OUT_OF_SERVICE, STATES, Painting, paint
from collectors.simulate.plan import DRAINING, INFERENCE_KIND, PIPELINED, RESERVED, Plan, Run

MINUTE_US = 60e6
GIB = 1 << 30
#: semantics 5: the thresholds of rules 8, 9, 11 and 13
STARTUP_MINUTES = STALL_MINUTES = 30
RESERVED_RATIO = 0.10
THROTTLING_BITS = 0x8 | 0x20 | 0x40 | 0x80
UNDERFILLED_BELOW = 0.40
NOBODY = "unallocated"
#: a minute that no run of integers reaches
NEVER = 1 << 40

Numbers = npt.NDArray[np.float64]
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
    holds_memory: npt.NDArray[np.bool_]
    throttled: Numbers
    underfilled: Numbers


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
        holds_memory=memory >= np.maximum(RESERVED_RATIO * totals, GIB),
        throttled=np.where(is_throttled, 1.0 - painting.clock_mhz / node.model.clock_mhz, 0.0),
        underfilled=np.maximum(0.0, 1.0 - activity / UNDERFILLED_BELOW),
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
    for row, share in shares:
        here = slice(start, until)
        us = MINUTE_US * node.slots[row].fraction * share * seen.in_service[row, here]
        rest = us * (1.0 - suspended)
        covered, active = seen.is_covered[row, here], actives[row]
        idle = covered & ~active & (share > 0)
        working = rest * active
        throttled = working * seen.throttled[row, here]
        underfilled = (working - throttled) * seen.underfilled[row, here]
        parts = {
            ("suspended", "position_unknown"): us * suspended,
            ("unobserved", "stale"): rest * (~covered & seen.is_frozen[row, here]),
            ("unobserved", "gap"): rest * (~covered & ~seen.is_frozen[row, here]),
            ("throttled", ""): throttled,
            ("underfilled", ""): underfilled,
            ("productive", ""): working - throttled - underfilled,
        }
        for reasons, is_so in _idle_states(run, minutes, idle, active, first_active, is_waiting, seen.holds_memory[row, here]):
            parts[reasons] = rest * is_so
        for (state, reason), amount in parts.items():
            split.add((run.workload_id, state, reason), amount, start)


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
