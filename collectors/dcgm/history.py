"""What is known of slots, devices and nodes from the scrapes before, kept between calls in `collectors.memory`.

slot GPU-…      its last readings with the energy counter, and who held it by the last of them
device GPU-…    the layout that was landed last
node …          the scale in which its exporter gives ratios
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from collectors.dcgm.labels import Slot
from collectors.dcgm.scale import Scale
from collectors.memory import Memory, Remembered
from collectors.metrics.counters import Point

EPOCH = datetime(1970, 1, 1)
#: readings of a slot that the next call needs: the last, and one before it to tell a glitch from a reset
RECENT = 2
#: how the names of a hold's values begin: JSON of job, node and what it is
_HOLD = "["
_LAYOUT, _PROFILING, _UTILIZATION = "layout", "profiling", "utilization"


@dataclass(frozen=True)
class Hold:
    """A holder of a slot as the scrapes show it. `since` is the start of its last landed row; `missed` the first
    scrape that did not show it any more."""

    job_id: str
    node: str
    sharers: int
    since: datetime
    seen: datetime
    missed: datetime | None = None


@dataclass(frozen=True)
class SlotHistory:
    """A slot's last readings, (instant, counter → value) in time order, and its holders by the last of them."""

    recent: tuple[tuple[datetime, Mapping[str, float]], ...] = ()
    holds: tuple[Hold, ...] = ()

    @property
    def at(self) -> datetime | None:
        return self.recent[-1][0] if self.recent else None

    def counter(self, name: str) -> list[Point]:
        """The readings of one counter."""
        return [(at, values[name]) for at, values in self.recent if name in values]


@dataclass(frozen=True)
class Layout:
    """A device's slots and description as they were landed at `at`, as a number that any change changes."""

    at: datetime
    digest: float


@dataclass
class History:
    """All that is known; `memories` hold it between calls, a memory per target. Without them each call begins anew."""

    memories: Mapping[str, Memory] = field(default_factory=dict)
    slots: dict[Slot, SlotHistory] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    _targets: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    def slot(self, slot: Slot, target: str, at: datetime) -> SlotHistory:
        """What was known of the slot before `at`."""
        known = self.slots.get(slot)
        if known is None:
            known = _slot_history(self._before(f"slot {slot}", target, at))
        return known if known.at is not None and known.at < at else SlotHistory()

    def layout(self, gpu_uuid: str, target: str, at: datetime) -> Layout | None:
        """The device's layout that was landed last before `at`."""
        known = self.layouts.get(gpu_uuid)
        if known is None:
            entries = self._before(f"device {gpu_uuid}", target, at)
            if not entries:
                return None
            known = self.layouts[gpu_uuid] = Layout(entries[-1].at, entries[-1].values.get(_LAYOUT, 0.0))
        return known if known.at < at else None

    def scale(self, node: str, target: str, at: datetime) -> Scale | None:
        """The scale of the node's exporter."""
        known = self.scales.get(node)
        if known is None:
            entries = self._before(f"node {node}", target, at)
            values = entries[-1].values if entries else {}
            known = Scale(values.get(_PROFILING, 1.0), values.get(_UTILIZATION, 1.0)) if entries else None
        return known

    def save(self, run_id: str | None) -> None:
        """Note in the memories what this call found, as of the landing `run_id`, and write them."""
        for slot, known in self.slots.items():
            *before, last = [Remembered(at, values, run_id) for at, values in known.recent]
            holds = {name: value for hold in known.holds for name, value in _written(hold).items()}
            last = Remembered(last.at, {**last.values, **holds}, run_id)
            self._note(f"slot {slot}", [*before, last])
        for gpu_uuid, layout in self.layouts.items():
            self._note(f"device {gpu_uuid}", [Remembered(layout.at, {_LAYOUT: layout.digest}, run_id)])
        for node, scale in self.scales.items():
            series = f"node {node}"
            if series in self._targets and scale != Scale():
                at = self._targets[series][1]
                values = {_PROFILING: scale.profiling, _UTILIZATION: scale.utilization}
                self._note(series, [Remembered(at, values, run_id)])
        for memory in self.memories.values():
            memory.save()

    def _before(self, series: str, target: str, at: datetime) -> list[Remembered]:
        self._targets[series] = (target, at)
        memory = self.memories.get(target)
        return memory.before(series, at) if memory else []

    def _note(self, series: str, readings: list[Remembered]) -> None:
        target = self._targets.get(series)
        memory = self.memories.get(target[0]) if target else None
        if memory:
            memory.note(series, readings)


def _slot_history(entries: list[Remembered]) -> SlotHistory:
    if not entries:
        return SlotHistory()
    recent = tuple(
        (entry.at, {name: value for name, value in entry.values.items() if not name.startswith(_HOLD)})
        for entry in entries[-RECENT:]
    )
    holds: dict[tuple[str, str], dict[str, float]] = {}
    for name, value in entries[-1].values.items():
        if name.startswith(_HOLD):
            job_id, node, part = json.loads(name)
            holds.setdefault((job_id, node), {})[part] = value
    return SlotHistory(recent, tuple(_read(job_id, node, values) for (job_id, node), values in sorted(holds.items())))


def _written(hold: Hold) -> dict[str, float]:
    """A hold as numbers, which is what a memory keeps."""
    values = {"sharers": float(hold.sharers), "since": _seconds(hold.since), "seen": _seconds(hold.seen)}
    if hold.missed is not None:
        values["missed"] = _seconds(hold.missed)
    return {json.dumps([hold.job_id, hold.node, part]): value for part, value in values.items()}


def _read(job_id: str, node: str, values: Mapping[str, float]) -> Hold:
    missed = values.get("missed")
    return Hold(
        job_id,
        node,
        int(values["sharers"]),
        _instant(values["since"]),
        _instant(values["seen"]),
        None if missed is None else _instant(missed),
    )


def _seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()


def _instant(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)
