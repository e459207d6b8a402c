"""Readings with their instants, one after the other → rows of the landing shape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from collectors.mig import card_slices
from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.fleet import Fleet, Instance
from collectors.nvidia_smi.records import GpuReading, ProcessSighting
from collectors.nvidia_smi.schema import INSTANCE_COLUMNS, READINGS, SAMPLE_COLUMNS
from collectors.nvidia_smi.values import is_lost, read_reasons, read_text, read_value
from warehouse.landing.conform import Reject

SOURCE = "nvidia-smi"
DUPLICATE = "duplicate"
#: a reading stands for the time since the one before it, at most this many nominal intervals (semantics 4)
LONGEST_INTERVAL = 2.5

Row = dict[str, Any]

#: fields of an inventory record; as long as their texts stay the same there is nothing new to tell
_DESCRIBING = (
    *("name", "serial", "driver_version", "mig.mode.current", "memory.total"),
    *("power.limit", "enforced.power.limit", "clocks.max.sm"),
)


@dataclass
class RowBuilder:
    """Turns readings into rows. It keeps, per slot, when it was read last, and per GPU what was told of it last."""

    cluster: str
    fleet: Fleet
    inventory: list[Row] = field(default_factory=list)
    #: lost GPUs whose model nothing in the call names; GPUs of which nothing tells whether they are split
    nameless: set[str] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)
    #: all GPUs, and those of them that were read in instances
    gpus: set[str] = field(default_factory=set)
    split: set[str] = field(default_factory=set)
    _last: dict[tuple[str, str | None], datetime] = field(default_factory=dict)
    _energy: dict[str, tuple[datetime, float]] = field(default_factory=dict)
    _told: dict[str, list[Row]] = field(default_factory=dict)
    _described: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def add(
        self, item: GpuReading, gpu: str, node: str, at: datetime, nominal: timedelta, reading: Reading
    ) -> Iterator[Row | Reject]:
        """The samples of a reading; its inventory records, where they say something new, go to `inventory`.

        Raises UnreadableValueError where a text is no value of its field.
        """
        place = {
            "cluster": self.cluster,
            "node": node,
            "gpu_uuid": gpu,
            "gpu_index": item.identity.index,
            "pci_bus_id": item.identity.pci,
            "line_number": item.line,
        }
        self.gpus.add(gpu)
        model = read_text(item.texts, "name") or self.fleet.model(gpu)
        instances = self.fleet.instances(gpu, item, model)
        if instances:
            self.split.add(gpu)
        values, missing = _values(item)
        if "gap" in missing.values() and any(is_lost(text) for text in item.texts.values()):
            self._note_lost(place, model, at)
            return
        self._note_inventory(place, item, model, instances, values, at)
        if not READINGS & item.texts.keys():
            return
        slots: Sequence[Instance | None] = instances or [None]
        for instance in slots:
            slot = instance.slot_uuid if instance else None
            length = self._length(gpu, slot, at, nominal)
            if length is None:
                yield Reject(reading.file, item.line, DUPLICATE, f"{slot or gpu} was already read at {at.isoformat()}Z")
                continue
            sample, gaps = dict(values), dict(missing)
            if instance:
                _put_instance(sample, gaps, instance)
            sample["energy_joules"] = self._grown(item, gpu, at, length) if instance is None else None
            yield {
                **place,
                "slot_uuid": slot,
                "interval_start_at": at - length,
                "interval_ms": length // timedelta(milliseconds=1),
                **sample,
                "source": item.tool,
                "missing": json.dumps(gaps) if gaps else None,
            }

    def process(self, item: ProcessSighting, gpu: str, node: str, at: datetime) -> Row:
        """The row of a sighting. Raises UnreadableValueError as `add`."""
        memory = read_value("used_gpu_memory", item.memory_used, item.memory_unit or None)
        utilization = read_value("gpu_utilization", item.sm_utilization)
        return {
            "cluster": self.cluster,
            "node": node,
            "gpu_uuid": gpu,
            "slot_uuid": self.fleet.slot(gpu, item.gi),
            "seen_at": at,
            "pid": item.pid,
            "memory_used_bytes": None if isinstance(memory, str) else int(memory),
            "sm_utilization_ratio": None if isinstance(utilization, str) else utilization,
            "line_number": item.line,
        }

    def _length(self, gpu: str, slot: str | None, at: datetime, nominal: timedelta) -> timedelta | None:
        """How long the reading stands for; None where the slot was read at this instant before.

        A clock that went back begins the series anew.
        """
        before = self._last.get((gpu, slot))
        if before is not None and abs(at - before) < timedelta(milliseconds=1):
            return None
        self._last[gpu, slot] = at
        return nominal if before is None or at < before else min(at - before, nominal * LONGEST_INTERVAL)

    def _grown(self, item: GpuReading, gpu: str, at: datetime, length: timedelta) -> float | None:
        """Joules in the interval, from the counter at its two ends; None after a drop, of which the reset is not known."""
        counted = read_value("energy", item.texts.get("energy", ""), item.units.get("energy"))
        if isinstance(counted, str):
            return None
        before = self._energy.get(gpu)
        self._energy[gpu] = (at, counted)
        if before is None or counted < before[1] or at <= before[0]:
            return None
        return (counted - before[1]) * (length / (at - before[0]))

    def _note_inventory(
        self, place: Row, item: GpuReading, model: str | None, instances: list[Instance], values: Row, at: datetime
    ) -> None:
        """Add the inventory records of a reading, if they differ from the last ones: the samples between are sightings.

        A record without slots says that the card is whole, so there is none where this kind of output does not tell.
        """
        gpu = place["gpu_uuid"]
        described = (item.identity, instances, *map(item.texts.get, _DESCRIBING))
        if self._described.get(gpu) == described:
            return
        self._described[gpu] = described
        if model is None or not (instances or _is_whole(item, model, values)):
            del self._described[gpu]  # the next reading may tell by its utilisation
            if model is not None and not self.fleet.is_listed(gpu):
                self.undecided.add(gpu)
            return
        limit = next(
            (value for name in ("power.limit", "enforced.power.limit") if isinstance(value := _number(item, name), float)), None
        )
        card = {
            **place,
            "slot_uuid": None,
            "gpu_model": model,
            "memory_total_bytes": values.get("memory_total_bytes"),
            "serial": _serial(item),
            "driver_version": _driver(item),
            "power_limit_watts": limit,
            "sm_clock_max_mhz": values.get("sm_clock_max_mhz"),
            "is_lost": None,
        }
        rows = [card]
        for instance in instances:
            total = read_value("memory.total", instance.memory_total)
            slot = {
                "slot_uuid": instance.slot_uuid,
                "mig_profile": instance.profile,
                "compute_slices": instance.compute_slices,
                "card_slices": card_slices(model),
                "gpu_instance_id": instance.number,
                "memory_total_bytes": None if isinstance(total, str) else int(total),
            }
            rows.append({**card, **slot})
            # schedulers name the compute instances of a GPU instance by their own UUIDs
            rows += [{**card, **slot, "slot_uuid": uuid, "mig_profile": profile} for uuid, profile in instance.parts]
        known = self._told.get(gpu)
        told = _merged(known, rows)
        self.undecided.discard(gpu)
        if told != known:
            self._told[gpu] = told
            self.inventory += [{**row, "line_number": item.line, "seen_at": at} for row in told]

    def _note_lost(self, place: Row, model: str | None, at: datetime) -> None:
        """Add the records of a GPU that NVML calls lost, in the layout it was last seen in."""
        gpu = place["gpu_uuid"]
        known = self._told.get(gpu)
        self._described.pop(gpu, None)
        if known is None and model is None:
            self.nameless.add(gpu)
            return
        rows = known or _merged(None, [{**place, "slot_uuid": None, "gpu_model": model}])
        if not rows[0].get("is_lost"):
            lost = [{**row, "is_lost": True} for row in rows]
            self._told[gpu] = lost
            self.inventory += [{**row, "line_number": place["line_number"], "seen_at": at} for row in lost]


def _values(item: GpuReading) -> tuple[Row, dict[str, str]]:
    """Columns of a sample → numbers, and column → why there is none, for the fields that the text has."""
    values: Row = {}
    missing: dict[str, str] = {}
    for column, names in SAMPLE_COLUMNS.items():
        for name in names:
            value = _number(item, name)
            if isinstance(value, float):
                values[column] = int(value) if column.endswith("_bytes") else value
                missing.pop(column, None)
                break
            if value is not None:
                missing.setdefault(column, value)
    reasons = read_reasons(item.texts)
    if isinstance(reasons, str):
        missing["clock_event_reasons"] = reasons
    else:
        values["clock_event_reasons"] = reasons
    return values, missing


def _number(item: GpuReading, name: str) -> float | str | None:
    text = item.texts.get(name)
    return None if text is None else read_value(name, text, item.units.get(name))


def _put_instance(sample: Row, gaps: dict[str, str], instance: Instance) -> None:
    """Put an instance's own readings in the place of the card's; what nvidia-smi does not measure for it is missing."""
    for column in INSTANCE_COLUMNS:
        sample.pop(column, None)
        gaps.pop(column, None)
    gaps["gpu_utilization_ratio"] = "not_supported"
    for column, name, text in (
        ("memory_used_bytes", "memory.used", instance.memory_used),
        ("memory_total_bytes", "memory.total", instance.memory_total),
    ):
        value = read_value(name, text)
        if isinstance(value, str):
            gaps[column] = value
        else:
            sample[column] = int(value)


def _is_whole(item: GpuReading, model: str, values: Mapping[str, Any]) -> bool:
    """Whether it is sure that the card is not split: a split one has no utilisation, and says that MIG is enabled."""
    mode = item.texts.get("mig.mode.current", "").strip().lower()
    return (
        item.shows_mig
        or values.get("gpu_utilization_ratio") is not None
        or card_slices(model) is None
        or (mode != "" and mode != "enabled")
    )


def _driver(item: GpuReading) -> str | None:
    """The version without the remark that some drivers print behind it."""
    text = read_text(item.texts, "driver_version")
    return text.split(" [")[0] if text else None


def _serial(item: GpuReading) -> str | None:
    text = read_text(item.texts, "serial")
    return None if text is None or not text.strip("0") else text


def _merged(known: list[Row] | None, rows: list[Row]) -> list[Row]:
    """A description, completed by what the last one of the same layout said and this one does not tell."""
    rows = [{name: value for name, value in row.items() if name != "line_number"} for row in rows]
    if known is None or [row["slot_uuid"] for row in known] != [row["slot_uuid"] for row in rows]:
        return rows
    return [
        {name: before.get(name) if value is None and name != "is_lost" else value for name, value in row.items()}
        for row, before in zip(rows, known, strict=True)
    ]
