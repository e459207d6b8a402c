"""Readings of devices → the rows that the `dcgm` collector gives for the same scrapes, however the time was cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby

from collectors.dcgm.history import History
from collectors.dcgm.labels import Holder, Slot, is_no_node
from collectors.dcgm.parse import Reading
from collectors.dcgm.rows import to_rows
from collectors.dcgm.scale import in_dcgms_scale, judge
from collectors.dcgm.schema import COUNTERS
from collectors.parsed import Parsed, Row
from collectors.prometheus.answers import to_milliseconds
from collectors.prometheus.intervals import intervals_ms, look_back_ms
from collectors.prometheus.pods import FindPod
from collectors.prometheus.window import Span


@dataclass
class DeviceRows:
    """Makes the rows of one cluster, window after window in the order of time; `history` is what was read so far.

    `is_fixed`: `usual_ms` was told and is not to be read from the samples' times.
    """

    cluster: str
    usual_ms: int
    is_fixed: bool = False
    history: History | None = None
    #: the instants of each GPU's readings in the look-back
    _times: dict[str, list[int]] = field(default_factory=dict)

    def rows(self, readings: Sequence[Reading], span: Span, find: FindPod) -> Parsed:
        """The rows of the readings in the span; those before it are taken in, those behind it tell resets from glitches.

        `find` tells the uid of a pod that is known by name only.
        """
        parsed = Parsed()
        readings = sorted(readings, key=lambda reading: reading.at)
        readings = self._in_one_scale([_with_uids(reading, find) for reading in readings])
        if self.history is None:
            self.history = History()
            self._begin([reading for reading in readings if reading.at < span.start_at], parsed)
        inside = [reading for reading in readings if span.holds(reading.at)]
        later = self._next_readings([reading for reading in readings if reading.at >= span.start_at])
        for interval, batch in self._batches([r for r in readings if r.at < span.start_at], inside):
            self._add(batch, interval, later, parsed)
        return parsed

    def _begin(self, earlier: Sequence[Reading], parsed: Parsed) -> None:
        """Take in what came before: holds that go on are told, and inventory will be, since this call may be the first."""
        assert self.history is not None
        told = to_rows(earlier, cluster=self.cluster, interval=self._usual, history=self.history)
        for row in told.tables.get("run_gpus", []):
            if row["ended_at"] is None:
                parsed.add("run_gpus", row)
        self.history.layouts.clear()

    @property
    def _usual(self) -> timedelta:
        return timedelta(milliseconds=self.usual_ms)

    def _in_one_scale(self, readings: Sequence[Reading]) -> list[Reading]:
        """Each node's readings in DCGM's own scale, as they and what was read before tell it."""
        scales = self.history.scales if self.history else {}
        by_node: dict[str, list[Reading]] = {}
        for reading in readings:
            by_node.setdefault(reading.node, []).append(reading)
        scaled: list[Reading] = []
        for node, own in by_node.items():
            scales[node] = judge(own, scales.get(node))
            scaled += in_dcgms_scale(own, scales[node])
        return sorted(scaled, key=lambda reading: reading.at)

    def _batches(self, earlier: Sequence[Reading], inside: Sequence[Reading]) -> Iterator[tuple[timedelta, list[Reading]]]:
        """The readings with their nominal interval, in an order in which each GPU's come in the order of time.

        `to_rows` takes one interval for all that it is given, and a GPU's may change; all slots of a GPU go together.
        """
        for reading in earlier:
            self._times.setdefault(reading.slot.gpu_uuid, []).append(to_milliseconds(reading.at))
        by_gpu: dict[str, dict[int, list[Reading]]] = {}
        for reading in inside:
            by_gpu.setdefault(reading.slot.gpu_uuid, {}).setdefault(to_milliseconds(reading.at), []).append(reading)
        rounds: list[dict[int, list[Reading]]] = []
        for gpu, instants in by_gpu.items():
            times = sorted({*self._times.get(gpu, []), *instants})
            found = [self.usual_ms] * len(times) if self.is_fixed else intervals_ms(times, self.usual_ms)
            self._times[gpu] = [at for at in times if at >= times[-1] - look_back_ms(self.usual_ms)]
            nominal = [(interval, at) for at, interval in zip(times, found, strict=True) if at in instants]
            for number, (interval, run) in enumerate(groupby(nominal, key=lambda pair: pair[0])):
                if number == len(rounds):
                    rounds.append({})
                rounds[number].setdefault(interval, []).extend(reading for _, at in run for reading in instants[at])
        for batches in rounds:
            for interval, batch in sorted(batches.items()):
                yield timedelta(milliseconds=interval), batch

    def _next_readings(self, readings: Sequence[Reading]) -> Mapping[tuple[Slot, datetime], Reading]:
        """Of each reading with a counter that fell, the next one of the slot. `readings` follow on what was read before."""
        assert self.history is not None
        found: dict[tuple[Slot, datetime], Reading] = {}
        fell: dict[Slot, Reading] = {}
        last: dict[tuple[Slot, str], float] = {}
        for slot, known in self.history.slots.items():
            last |= {(slot, name): points[-1][1] for name in COUNTERS if (points := known.counter(name))}
        for reading in readings:
            if reading.slot in fell:
                found[reading.slot, fell.pop(reading.slot).at] = reading
            counted = {(reading.slot, name): reading.values[name] for name in COUNTERS if name in reading.values}
            if any(value < last.get(counter, 0.0) for counter, value in counted.items()):
                fell[reading.slot] = reading
            last |= counted
        return found

    def _add(
        self, batch: list[Reading], interval: timedelta, later: Mapping[tuple[Slot, datetime], Reading], parsed: Parsed
    ) -> None:
        """The rows of a batch. Where its last reading of a slot has a counter that fell, the next one tells what that was."""
        assert self.history is not None
        last = {reading.slot: reading for reading in batch}
        open_falls = [slot for slot, reading in last.items() if (slot, reading.at) in later]
        told: dict[tuple[Slot, int], Row] = {}
        if open_falls:
            with_next = [reading for reading in batch if reading.slot in open_falls]
            with_next += [later[slot, last[slot].at] for slot in open_falls]
            known = History(slots={slot: self.history.slots[slot] for slot in open_falls if slot in self.history.slots})
            found = to_rows(with_next, cluster=self.cluster, interval=interval, history=known)
            told = {_key(row): row for row in found.tables.get("gpu_samples", [])}
        found = to_rows(batch, cluster=self.cluster, interval=interval, history=self.history)
        for table, rows in found.tables.items():
            for row in rows:
                parsed.add(table, told.get(_key(row), row) if table == "gpu_samples" else row)
        parsed.rejects += found.rejects


def _key(row: Row) -> tuple[Slot, int]:
    """Slot and end of a row of `gpu_samples`."""
    return Slot(row["gpu_uuid"], row["slot_uuid"]), to_milliseconds(row["interval_start_at"]) + row["interval_ms"]


def by_name_only(reading: Reading, find: FindPod) -> bool:
    """Whether a holder of the slot is known by a name alone, which may be used again."""
    return any(holder.pod and not holder.job_id for holder in _with_uids(reading, find).holders)


def _with_uids(reading: Reading, find: FindPod) -> Reading:
    """The reading with the uid of each pod that is known by name only, and the node of an exporter that names its own pod."""
    holders = frozenset(_with_uid(holder, reading.at, find) for holder in reading.holders)
    place = find(None, reading.node, reading.at) if is_no_node(reading.node) else None
    node = place.node if place and place.node else reading.node
    if holders == reading.holders and node == reading.node:
        return reading
    return replace(reading, holders=holders, node=node)


def _with_uid(holder: Holder, at: datetime, find: FindPod) -> Holder:
    if holder.job_id or not holder.pod:
        return holder
    place = find(holder.namespace, holder.pod, at)
    return replace(holder, job_id=place.uid) if place else holder
