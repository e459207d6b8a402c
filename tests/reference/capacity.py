"""Section 2 of semantics.md: which devices there are, how they are cut into slots, when they are out of service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.reference.intervals import Span, united
from tests.reference.world import DAY_US, MINUTE_US, NodeState, Sample, World

CARRY_US = DAY_US  # inventory_carry_hours
ABSENT_US = 15 * MINUTE_US  # inventory_absent_minutes


@dataclass(frozen=True)
class Slot:
    slot_id: str
    slot_uuid: str | None  # None: the whole device, or what a partitioning leaves over
    fraction: Fraction
    is_stranded: bool = False


@dataclass(frozen=True)
class Layout:
    """The slots of a device from `valid_from` on."""

    valid_from: int
    slots: tuple[Slot, ...]

    @property
    def is_partitioned(self) -> bool:
        return any(slot.slot_uuid for slot in self.slots)


@dataclass(frozen=True)
class Device:
    gpu: str
    node: str
    memory_total: int | None
    layouts: tuple[Layout, ...]
    profiles: frozenset[str] = frozenset()
    model: str = "unknown"

    def layout_at(self, at: int) -> Layout:
        """The layout in force; before the first sighting of one, that one."""
        return next((layout for layout in reversed(self.layouts) if layout.valid_from <= at), self.layouts[0])


def devices(world: World) -> dict[str, Device]:
    """Every device that an inventory record, a sample or a run names. A device stays on one node in these worlds."""
    nodes: dict[str, str] = {}
    for record in world.inventory:
        nodes[record.gpu] = record.node
    for sample in world.samples:
        nodes.setdefault(sample.gpu, sample.node)
    for held in world.run_gpus:
        if held.gpu:
            nodes.setdefault(held.gpu, held.node)
    return {
        gpu: Device(
            gpu,
            node,
            max((r.memory_total for r in world.inventory if r.gpu == gpu and r.memory_total and not r.slot), default=None),
            _layouts(world, gpu),
            frozenset(record.profile for record in world.inventory if record.gpu == gpu and record.slot and record.profile),
            next((record.model for record in reversed(world.inventory) if record.gpu == gpu), "unknown"),
        )
        for gpu, node in sorted(nodes.items())
    }


def _layouts(world: World, gpu: str) -> tuple[Layout, ...]:
    """A new layout holds from the first sighting that shows it."""
    layouts: list[Layout] = []
    for at in sorted({record.at for record in world.inventory if record.gpu == gpu}):
        instances = [r for r in world.inventory if r.gpu == gpu and r.at == at and r.slot]
        slots = [Slot(r.slot or "", r.slot, Fraction(r.compute_slices or r.card_slices, r.card_slices)) for r in instances]
        left_over = 1 - sum((slot.fraction for slot in slots), Fraction(0))
        if not slots:
            slots = [Slot(gpu, None, Fraction(1))]
        elif left_over > 0:
            slots.append(Slot(f"{gpu}/stranded", None, left_over, is_stranded=True))
        if not layouts or layouts[-1].slots != tuple(slots):
            layouts.append(Layout(at, tuple(slots)))
    return tuple(layouts) or (Layout(0, (Slot(gpu, None, Fraction(1)),)),)


def telemetry_sightings(world: World, gpu: str) -> list[Span]:
    """Inventory records (instants, as empty spans) and samples (their whole intervals) of a device."""
    records = [(record.at, record.at) for record in world.inventory if record.gpu == gpu]
    return sorted(records + [(sample.start, sample.end) for sample in world.samples if sample.gpu == gpu])


def seen_between(sightings: Sequence[Span], start: int, end: int) -> bool:
    """Whether a sighting touches `[start, end]`."""
    return any(a <= end and b >= start for a, b in sightings)


def node_state_spans(world: World) -> list[NodeState]:
    """Node states with their ends: an open one ends where the node's next begins, the last at the scheduler's through."""
    closed: list[NodeState] = []
    for state in world.node_states:
        following = [other.start for other in world.node_states if other.node == state.node and other.start > state.start]
        end = state.end if state.end is not None else min(following, default=world.scheduler_through or state.start)
        closed.append(NodeState(state.node, state.state, state.start, max(end, state.start)))
    return closed


def inventory_spans(world: World, known: Mapping[str, Device], held: Mapping[str, Sequence[Span]]) -> dict[str, list[Span]]:
    """When each device is in inventory. `held` are the intervals in which a run holds it, or may hold it in its pool."""
    telemetry = {gpu: telemetry_sightings(world, gpu) for gpu in known}
    result: dict[str, list[Span]] = {}
    for gpu, device in known.items():
        out = [
            (state.start, state.end or state.start)
            for state in node_state_spans(world)
            if state.node == device.node
            and state.state in ("down", "drained", "maintenance")
            and seen_between(telemetry[gpu], state.start - CARRY_US, state.start)
        ]
        sightings = sorted([*telemetry[gpu], *held.get(gpu, ()), *out])
        others = [span for other, spans in telemetry.items() if other != gpu for span in spans]
        present: list[Span] = []
        for start, end in sightings:
            if present and start <= present[-1][1]:
                present[-1] = (present[-1][0], max(present[-1][1], end))
            elif present and _is_present_between(present[-1][1], start, others):
                present[-1] = (present[-1][0], end)
            else:
                present.append((start, end))
        result[gpu] = united(present)
    return result


def _is_present_between(end: int, start: int, others: Sequence[Span]) -> bool:
    """Whether the hole from one sighting's end to the next one's start belongs to inventory."""
    if start - end <= ABSENT_US:
        return True
    return start - end <= DAY_US and not any(end < a and b < start for a, b in others)


def node_spans(world: World, device: Device, *names: str) -> list[Span]:
    """When the device's node is in one of the named states."""
    return united(
        (state.start, state.end or state.start)
        for state in node_state_spans(world)
        if state.node == device.node and state.state in names
    )


def out_of_service_spans(world: World, device: Device) -> list[Span]:
    """Time in which the node is down or in maintenance, or the device is lost (not yet: drained without a holder)."""
    return united([*node_spans(world, device, "down", "maintenance"), *_lost_spans(world, device.gpu)])


def _lost_spans(world: World, gpu: str) -> list[Span]:
    """From the record that says lost, or the sample with XID 79, to the next that shows the device working.

    An XID 79 that the reading before carried already is old: a reading that has an activity, and is not that one over again,
    shows a device that works.
    """
    signs = [(record.at, record.is_lost, not record.is_lost) for record in world.inventory if record.gpu == gpu]
    before: dict[tuple[str | None, str], Sample] = {}
    for sample in sorted((sample for sample in world.samples if sample.gpu == gpu), key=lambda sample: sample.start):
        last = before.get((sample.slot, sample.source))
        before[sample.slot, sample.source] = sample
        is_old = last is not None and last.xid == 79 and _reading(last) != _reading(sample)
        is_working = sample.activity is not None and (sample.xid != 79 or is_old)
        signs.append((sample.start, sample.xid == 79 and not is_working, is_working))
    end_of_time = max([s.end for s in world.samples if s.gpu == gpu] + [at for at, _, _ in signs], default=0) + DAY_US
    spans: list[Span] = []
    lost_at: int | None = None
    for at, is_lost, is_working in sorted(signs):
        if is_lost and lost_at is None:
            lost_at = at
        elif is_working and lost_at is not None and at > lost_at:
            spans.append((lost_at, at))
            lost_at = None
    return [*spans, (lost_at, end_of_time)] if lost_at is not None else spans


def _reading(sample: Sample) -> tuple[object, ...]:
    return (sample.power, sample.temperature, sample.clock, sample.memory, sample.activity)
