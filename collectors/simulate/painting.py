"""The plan of one node as arrays, slot by minute: what its cards did, and what could be seen of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.simulate import noise
from collectors.simulate.hardware import Node, Slot
from collectors.simulate.loads import EMPTY_MIB
from collectors.simulate.plan import ABSENT, DOWN, DRAINED, DRAINING, FROZEN, HOT, LOST, RESERVED, SILENT, Plan

Cells = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Painting:
    """Arrays of `slots` by the minutes from `first`.

    `activity` in millionths, `memory_mib`, `clock_mhz` (of working cards as much as heat leaves them) and `bits`, the
    clock event reasons; `state` says what keeps the slot from being handed out, as a number of `STATES`, or is 0;
    `is_there`: in inventory; `is_silent`: nothing is told; `is_frozen`: the last reading of the minute `source` is told
    again, and again (other minutes are their own source).
    """

    slots: Sequence[Slot]
    first: int
    activity: Cells
    memory_mib: Cells
    clock_mhz: Cells
    bits: Cells
    state: Cells
    is_there: Flags
    is_silent: Flags
    is_frozen: Flags
    source: Cells

    @property
    def is_told(self) -> Flags:
        """Whether readings of the minute exist."""
        return self.is_there & ~self.is_silent & ~np.isin(self.state, [STATES.index(DOWN), STATES.index(LOST)])


STATES = ("", DOWN, DRAINED, LOST, DRAINING, RESERVED)
#: states in which a slot is out of service
OUT_OF_SERVICE = (DOWN, DRAINED, LOST)


def slot_key(plan: Plan, slot: Slot) -> int:
    """What chance knows a slot by."""
    return noise.key_of(plan.seed, slot.gpu_uuid, slot.instance)


def paint(plan: Plan, node: Node, first: int, last: int) -> Painting:
    """The minutes `[first, last)` of a node's slots."""
    shape = (len(node.slots), last - first)
    activity, bits, state = (np.zeros(shape, np.int64) for _ in range(3))
    memory = np.full(shape, EMPTY_MIB, np.int64)
    clock = np.full(shape, node.model.clock_mhz, np.int64)
    is_there = np.ones(shape, np.bool_)
    is_silent, is_frozen = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    source = np.broadcast_to(np.arange(first, last), shape).copy()
    for row, slot in enumerate(node.slots):
        for use in plan.uses_within(slot.number, first, last):
            start, end = max(use.start, first), min(use.end, last)
            stretch = slice(start - first, end - first)
            activity[row, stretch] = use.load.activity(np.arange(start, end), use.start, slot_key(plan, slot))
            memory[row, stretch] = use.load.memory_mib
    for trouble in plan.troubles_by_node.get(node.name, []):
        if trouble.start >= last or trouble.end <= first:
            continue
        stretch = slice(max(trouble.start, first) - first, min(trouble.end, last) - first)
        for row, slot in enumerate(node.slots):
            if not trouble.concerns(slot):
                continue
            if trouble.kind == HOT:
                clock[row, stretch] = round(node.model.clock_mhz * trouble.clock_ratio)
                bits[row, stretch] = trouble.bits
            elif trouble.kind == ABSENT:
                is_there[row, stretch] = False
            elif trouble.kind == SILENT:
                is_silent[row, stretch] = True
            elif trouble.kind == FROZEN:
                is_frozen[row, stretch] = True
                source[row, stretch] = trouble.start - 1
            else:
                state[row, stretch] = STATES.index(trouble.kind)
    painting = Painting(node.slots, first, activity, memory, clock, bits, state, is_there, is_silent, is_frozen, source)
    _repeat(plan, node, painting)
    return painting


def _repeat(plan: Plan, node: Node, painting: Painting) -> None:
    """Put into frozen minutes what their source shows."""
    for minute in np.unique(painting.source[painting.is_frozen]):
        before = paint(plan, node, int(minute), int(minute) + 1)
        for row in range(len(painting.slots)):
            frozen = painting.is_frozen[row] & (painting.source[row] == minute)
            for name in ("activity", "memory_mib", "clock_mhz", "bits"):
                getattr(painting, name)[row, frozen] = getattr(before, name)[row, 0]
