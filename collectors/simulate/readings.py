"""What exporters would tell of a node: each minute of the plan as so many readings, with jitter that leaves its mean alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.simulate import noise
from collectors.simulate.hardware import Node, Slot
from collectors.simulate.painting import Painting, paint, slot_key
from collectors.simulate.plan import LOST, Plan

#: the bit of the clock event reasons that says the card is idle
IDLE_BIT = 0x1
THERMAL_BITS = 0x20 | 0x40
XID_LOST = 79
#: readings of a minute jitter by so many parts of a million around its activity
JITTER = 0.04

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Readings:
    """Flat arrays, slot by slot and in the order of time; `minute` and `part` say which reading of the plan it is.

    `activity` is in millionths, power in milliwatts. Where `is_lost` the card does not answer: only the XID is told.
    """

    slots: Sequence[Slot]
    row: Cells
    minute: Cells
    part: Cells
    activity: Cells
    memory_mib: Cells
    power_milliwatts: Cells
    temperature_celsius: Cells
    clock_mhz: Cells
    bits: Cells
    is_lost: npt.NDArray[np.bool_]


def read_node(plan: Plan, node: Node, first: int, last: int, per_minute: int) -> Readings:
    """All readings of the minutes `[first, last)`, `per_minute` of each."""
    painting = paint(plan, node, first, last)
    shape = (*painting.activity.shape, per_minute)
    part = np.broadcast_to(np.arange(per_minute), shape)
    # an exporter that repeats itself repeats the last reading it made
    part_read = np.where(painting.is_frozen[:, :, None], per_minute - 1, part)
    source = painting.source[:, :, None]
    keys = np.array([slot_key(plan, slot) for slot in node.slots], np.uint64)[:, None, None]
    activity = _jitter(painting.activity[:, :, None], keys, source, part_read, per_minute)
    power, heat = _card(plan, node, painting, source * per_minute + part_read)
    works = np.broadcast_to(painting.activity[:, :, None] > 0, shape)
    clock = np.where(works, painting.clock_mhz[:, :, None], node.model.clock_mhz // 4)
    bits = np.where(works, painting.bits[:, :, None], IDLE_BIT)
    heat = heat + np.where((bits & THERMAL_BITS) != 0, 14, 0)
    is_lost = np.broadcast_to(_first_lost(plan, node, painting)[:, :, None], shape) & (part == 0)
    told = np.broadcast_to(painting.is_told[:, :, None], shape) | is_lost
    minutes = np.broadcast_to(np.arange(first, last)[None, :, None], shape)
    rows = np.broadcast_to(np.arange(len(node.slots))[:, None, None], shape)
    memory = np.broadcast_to(painting.memory_mib[:, :, None], shape)
    return Readings(
        slots=node.slots,
        row=rows[told],
        minute=minutes[told],
        part=part[told],
        activity=activity[told],
        memory_mib=memory[told],
        power_milliwatts=power[told],
        temperature_celsius=heat[told],
        clock_mhz=clock[told],
        bits=bits[told],
        is_lost=is_lost[told],
    )


def _jitter(activity: Cells, keys: noise.Words, minute: Cells, part: Cells, per_minute: int) -> Cells:
    """Readings around a minute's activity: what one is above it the next is below, so that their sum is exact."""
    if per_minute == 1:
        return np.broadcast_to(activity, part.shape)
    most = activity * JITTER
    places = minute * per_minute
    up = (most * noise.part(noise.words(keys, places + part), 0)).astype(np.int64)
    down = (most * noise.part(noise.words(keys, places + (part + 1) % per_minute), 0)).astype(np.int64)
    return np.asarray(activity + up - down)


def _card(plan: Plan, node: Node, painting: Painting, places: Cells) -> tuple[Cells, Cells]:
    """Power and temperature of the card, which its instances repeat; power is never a whole number of watts."""
    fractions = np.array([[slot.fraction] for slot in node.slots])
    cards = np.array([slot.card for slot in node.slots])
    load = np.zeros(painting.activity.shape)
    for card in np.unique(cards):
        mine = cards == card
        load[mine] = (painting.activity[mine] * fractions[mine] / 1e6).sum(axis=0)
    keys = np.array([noise.key_of(plan.seed, slot.gpu_uuid, "card") for slot in node.slots], np.uint64)
    chance = noise.words(keys[:, None, None], places)
    watts = node.model.idle_watts + (node.model.full_watts - node.model.idle_watts) * 0.9 * load[:, :, None]
    milliwatts = (watts * 1000 * (0.97 + 0.06 * noise.part(chance, 0))).astype(np.int64)
    celsius = (30 + 38 * load[:, :, None] + 3 * noise.part(chance, 1)).astype(np.int64)
    return milliwatts + (milliwatts % 1000 == 0), celsius


def _first_lost(plan: Plan, node: Node, painting: Painting) -> npt.NDArray[np.bool_]:
    """The minutes in which a card falls off the bus."""
    found = np.zeros(painting.activity.shape, np.bool_)
    for trouble in plan.troubles_by_node.get(node.name, []):
        place = trouble.start - painting.first
        if trouble.kind == LOST and 0 <= place < len(painting.activity[0]):
            for row, slot in enumerate(node.slots):
                found[row, place] |= trouble.concerns(slot)
    return found
