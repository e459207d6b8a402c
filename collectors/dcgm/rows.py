"""Readings of one or more scrapes, in time order → rows of the landing shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from collectors.dcgm.parse import DUPLICATE, Reading, Slot
from collectors.dcgm.schema import (
    DERIVED_FROM,
    ENERGY,
    FIELDS,
    FREE,
    MAX_SM_CLOCK,
    MEBIBYTE,
    POWER_LIMIT,
    RESERVED,
    TOTAL,
    USED,
)
from collectors.metrics.counters import grown_within, increases
from collectors.parsed import Parsed
from warehouse.conform import Reject
from warehouse.readings import BLANK_DOUBLE, BLANK_INT32, BLANK_INT64

SOURCE = "dcgm"
#: a reading stands for the time since the one before it, at most this many nominal intervals (semantics 4)
LONGEST_INTERVAL = 2.5
#: compute slices of a card that is split: 4 on A30 and RTX PRO 6000, 7 on the others (semantics 2)
CARD_SLICES = ((re.compile(r"\bA30\b|RTX PRO 6000"), 4), (re.compile(r"\b(A100|A800|G?H[12]00|H800|H20|G?B[123]00)"), 7))
_PROFILE = re.compile(r"(?:\d+c\.)?((\d+)g\.\d+gb.*)")


@dataclass(frozen=True)
class _Covered:
    """A reading with the time it stands for, `[start_at, reading.at)`."""

    reading: Reading
    start_at: datetime


def blank_reason(value: float, *, is_narrow: bool = True) -> str | None:
    """Why a value is none of DCGM's: its blanks in any width; `is_narrow` where a unit never reaches 2³¹ (MiB, %, W, MHz)."""
    for first in (BLANK_INT64, BLANK_DOUBLE, *([BLANK_INT32] if is_narrow else [])):
        if first <= value < first + 16:
            return "not_permitted" if value - first == 3 else "not_supported"
    return "not_supported" if value >= (BLANK_INT32 if is_narrow else BLANK_INT64) else None


def to_rows(readings: Sequence[Reading], *, cluster: str, interval: timedelta) -> Parsed:
    """Samples, inventory and run evidence of the readings; `interval` is the nominal time between two scrapes."""
    parsed = Parsed()
    by_slot: dict[Slot, list[Reading]] = {}
    for reading in sorted(readings, key=lambda reading: reading.at):
        by_slot.setdefault(reading.slot, []).append(reading)
    series = {slot: _cover(slot_readings, interval, parsed) for slot, slot_readings in by_slot.items()}
    for covered in series.values():
        counter = [(piece.reading.at, value) for piece in covered if (value := _energy(piece.reading)) is not None]
        found = increases(counter)
        for piece in covered:
            joules = grown_within(found, piece.start_at, piece.reading.at)
            parsed.add("gpu_samples", _sample(cluster, piece, None if joules is None else joules / 1000))
    for reading in _layout_changes(piece.reading for covered in series.values() for piece in covered):
        row = _inventory(cluster, reading)
        if row:
            parsed.add("gpu_inventory", row)
    for evidence in _evidence(cluster, series):
        parsed.add("run_gpus", evidence)
    return parsed


def compute_slices(profile: str) -> int | None:
    """GPU-instance slices of a MIG profile: 2 of `2g.10gb`, and of `1c.2g.10gb`, a part of such an instance."""
    match = _PROFILE.fullmatch(profile)
    return int(match.group(2)) if match else None


def card_slices(model: str) -> int | None:
    """Compute slices of the whole card; None for a model that is not known to be split."""
    return next((slices for pattern, slices in CARD_SLICES if pattern.search(model)), None)


def memory_total_bytes(values: Mapping[str, float]) -> int | None:
    """The slot's memory: the field for it, else used + free, + reserved unless that is as large as all the rest."""
    present = {name: values[name] for name in (TOTAL, USED, FREE, RESERVED) if name in values}
    known = {name: value for name, value in present.items() if value >= 0 and not blank_reason(value)}
    parts = known[USED] + known[FREE] if {USED, FREE} <= set(known) else None
    if known.get(TOTAL, 0) > 0 and known[TOTAL] >= (parts or 0):
        return int(known[TOTAL] * MEBIBYTE)
    if parts is None or parts <= 0:
        return None
    reserved = known.get(RESERVED, 0)
    return int((parts + (reserved if reserved < parts else 0)) * MEBIBYTE)


def _cover(readings: Sequence[Reading], interval: timedelta, parsed: Parsed) -> list[_Covered]:
    covered: list[_Covered] = []
    for reading in readings:
        gap = reading.at - covered[-1].reading.at if covered else interval
        if gap < timedelta(milliseconds=1):
            detail = f"{reading.slot.slot_uuid or reading.slot.gpu_uuid} was already read at {reading.at:%Y-%m-%dT%H:%M:%SZ}"
            parsed.rejects.append(Reject(reading.file, reading.line, DUPLICATE, detail))
            continue
        covered.append(_Covered(reading, reading.at - min(gap, interval * LONGEST_INTERVAL)))
    return covered


def _energy(reading: Reading) -> float | None:
    """The energy counter in mJ, where it is one. 2147 kJ is a good reading: the 32-bit blank does not apply."""
    value = reading.values.get(ENERGY, -1.0)
    return value if value >= 0 and not blank_reason(value, is_narrow=False) else None


def _place(cluster: str, reading: Reading) -> dict[str, Any]:
    index = reading.labels.get("gpu", "")
    return {
        "cluster": cluster,
        "node": reading.node,
        "gpu_uuid": reading.slot.gpu_uuid,
        "slot_uuid": reading.slot.slot_uuid,
        "gpu_index": int(index) if index.isdecimal() and len(index) < 6 else None,
        "pci_bus_id": reading.labels.get("pci_bus_id"),
        "line_number": reading.line,
    }


def _sample(cluster: str, piece: _Covered, joules: float | None) -> dict[str, Any]:
    reading = piece.reading
    length = reading.at - piece.start_at
    missing: dict[str, str] = {}
    row: dict[str, Any] = {
        **_place(cluster, reading),
        "interval_start_at": piece.start_at,
        "interval_ms": length // timedelta(milliseconds=1),
        "memory_total_bytes": memory_total_bytes(reading.values),
        "energy_joules": joules,
        "source": SOURCE,
    }
    for name, field in FIELDS.items():
        value = reading.values.get(name)
        if value is None or row.get(field.column) is not None:
            continue
        # a blank must be told before it is scaled; what is not scaled is told by `conform`
        is_scaled = field.factor != 1 or field.per_second
        reason = blank_reason(value, is_narrow=not field.per_second) if is_scaled else None
        if reason:
            missing[field.column] = reason
        else:
            row[field.column] = value * field.factor * (length.total_seconds() if field.per_second else 1)
    if ENERGY in reading.values and joules is None and _energy(reading) is None:
        missing["energy_joules"] = blank_reason(reading.values[ENERGY], is_narrow=False) or "out_of_range"
    return {**row, "missing": json.dumps(missing) if missing else None}


def _layout_changes(readings: Iterable[Reading]) -> list[Reading]:
    """The readings of a device whenever its slots, place or description differ from its scrape before.

    Between two changes the samples are the sightings; repeating the inventory with each would say nothing new.
    """
    scrapes: dict[tuple[str, datetime], list[Reading]] = {}
    for reading in readings:
        scrapes.setdefault((reading.slot.gpu_uuid, reading.at), []).append(reading)
    last: dict[str, Any] = {}
    changed: list[Reading] = []
    for (gpu_uuid, _), parts in sorted(scrapes.items(), key=lambda item: item[0][1]):
        layout = sorted((str(part.slot.slot_uuid), part.node, str(_description(part))) for part in parts)
        if last.get(gpu_uuid) != layout:
            last[gpu_uuid] = layout
            changed += parts
    return changed


def _description(reading: Reading) -> dict[str, Any]:
    labels = reading.labels
    model = labels.get("modelName") or labels.get("DCGM_FI_DEV_NAME") or labels.get("gpu_model")
    match = _PROFILE.fullmatch(labels.get("GPU_I_PROFILE", "")) if reading.slot.slot_uuid else None
    limit, clock = reading.values.get(POWER_LIMIT), reading.values.get(MAX_SM_CLOCK)
    return {
        "gpu_model": model,
        "mig_profile": match.group(1) if match else None,
        "compute_slices": int(match.group(2)) if match else None,
        "card_slices": card_slices(model) if match and model else None,
        "serial": labels.get("DCGM_FI_DEV_SERIAL"),
        "driver_version": labels.get("DCGM_FI_DRIVER_VERSION"),
        "power_limit_watts": limit if limit is not None and limit >= 0 and not blank_reason(limit) else None,
        "sm_clock_max_mhz": clock if clock is not None and clock >= 0 and not blank_reason(clock) else None,
    }


def _inventory(cluster: str, reading: Reading) -> dict[str, Any] | None:
    described = _description(reading)
    if not described["gpu_model"]:
        return None
    return {
        **_place(cluster, reading),
        **described,
        "memory_total_bytes": memory_total_bytes(reading.values),
        "seen_at": reading.at,
    }


def _evidence(cluster: str, series: Mapping[Slot, Sequence[_Covered]]) -> Iterable[dict[str, Any]]:
    """Who held which slot, where labels name them by id. A pod keeps its devices to its end, so the evidence is open.

    Several holders at one instant share the slot evenly: the labels say who, not how much.
    """
    for slot, covered in series.items():
        first: dict[str, Reading] = {}
        sharers: dict[str, int] = {}
        for reading in (piece.reading for piece in covered):
            jobs = {holder.job_id for holder in reading.holders if holder.job_id}
            for job in sorted(jobs):
                first.setdefault(job, reading)
                sharers[job] = max(sharers.get(job, 1), len(jobs))
        for job, reading in first.items():
            yield {
                "cluster": cluster,
                "job_id": job,
                "node": reading.node,
                "gpu_uuid": slot.gpu_uuid,
                "slot_uuid": slot.slot_uuid,
                "gpu_count": 1,
                "share_ratio": 1 / sharers[job] if sharers[job] > 1 else None,
                "started_at": reading.at,
                "ended_at": None,
                "assignment_method": "exporter_label" if sharers[job] == 1 else "exporter_label_equal_split",
                "line_number": reading.line,
            }


def fields_without_column(fields: Iterable[str]) -> list[str]:
    """Fields that were read and fill no column of the landing shape."""
    return sorted(set(fields) - set(FIELDS) - DERIVED_FROM)
