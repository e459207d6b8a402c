"""Readings of one or more scrapes, in time order → rows of the landing shape."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from collectors.dcgm.history import RECENT, History, Layout, SlotHistory
from collectors.dcgm.holders import follow
from collectors.dcgm.labels import Slot
from collectors.dcgm.parse import DUPLICATE, Reading
from collectors.dcgm.schema import (
    COUNTERS,
    CYCLES_ACTIVE,
    CYCLES_ELAPSED,
    DERIVED_FROM,
    ENERGY,
    FIELDS,
    FREE,
    MAX_SM_CLOCK,
    MEBIBYTE,
    PCIE_RX_COUNTER,
    PCIE_TX_COUNTER,
    POWER_LIMITS,
    RESERVED,
    TOTAL,
    USED,
)
from collectors.metrics.counters import Increase, Point, grown_within, increases
from collectors.mig import card_slices, compute_slices, instance_profile
from collectors.parsed import Parsed
from warehouse.landing.conform import Reject
from warehouse.landing.readings import BLANK_DOUBLE, BLANK_INT32, BLANK_INT64, RATIO_CEILING

SOURCE = "dcgm"
#: labels that describe the GPU, under the exporter's names and the fields' older and newer ones
MODEL_LABELS = ("modelName", "model_name", "DCGM_FI_DEV_NAME", "DCGM_FI_DEV_GPU_NAME", "gpu_model")
SERIAL_LABELS = ("DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL")
DRIVER_LABELS = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
#: a reading stands for the time since the one before it, at most this many nominal intervals (semantics 4)
LONGEST_INTERVAL = 2.5
#: no GPU draws as much (the largest have 1.4 kW), so a counter that says so is wrong
MOST_WATTS = 10_000


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


def to_rows(
    readings: Sequence[Reading],
    *,
    cluster: str,
    interval: timedelta,
    history: History | None = None,
    target: Callable[[Reading], str] = lambda reading: reading.file,
) -> Parsed:
    """Samples, inventory and run evidence of the readings; `interval` is the nominal time between two scrapes.

    `history` is what the scrapes before showed, and takes in what these show; `target` says whose memory a reading's is.
    """
    history = History() if history is None else history
    parsed = Parsed()
    by_slot: dict[Slot, list[Reading]] = {}
    for reading in sorted(readings, key=lambda reading: reading.at):
        by_slot.setdefault(reading.slot, []).append(reading)
    kept: list[Reading] = []
    for slot, found in by_slot.items():
        before = history.slot(slot, target(found[0]), found[0].at)
        covered = _cover(found, before, interval, parsed)
        counted = [(piece.reading.at, _counters(piece.reading)) for piece in covered]
        grown = {name: _increases(name, before.counter(name) + SlotHistory(tuple(counted)).counter(name)) for name in COUNTERS}
        for piece in covered:
            amounts = {name: grown_within(found, piece.start_at, piece.reading.at) for name, found in grown.items()}
            parsed.add("gpu_samples", _sample(cluster, piece, amounts))
        own = [piece.reading for piece in covered]
        rows, holds = follow(cluster, slot, own, (before.at, before.holds), interval * LONGEST_INTERVAL)
        for row in rows:
            parsed.add("run_gpus", row)
        recent = (*before.recent, *counted)[-RECENT:]
        known = history.slots.get(slot)
        if known is None or known.at is None or known.at < recent[-1][0]:
            history.slots[slot] = SlotHistory(recent, holds)
        kept += own
    for reading in _layout_changes(kept, history, target):
        described = _inventory(cluster, reading)
        if described:
            parsed.add("gpu_inventory", described)
    return parsed


def model_of(labels: Mapping[str, str]) -> str | None:
    """The GPU's model, None where no label names it."""
    return _first(labels, MODEL_LABELS)


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


def _cover(readings: Sequence[Reading], before: SlotHistory, interval: timedelta, parsed: Parsed) -> list[_Covered]:
    covered: list[_Covered] = []
    last_at = before.at
    for reading in readings:
        gap = interval if last_at is None else reading.at - last_at
        if gap < timedelta(milliseconds=1):
            detail = f"{reading.slot} was already read at {reading.at:%Y-%m-%dT%H:%M:%SZ}"
            parsed.rejects.append(Reject(reading.file, reading.line, DUPLICATE, detail))
            continue
        covered.append(_Covered(reading, reading.at - min(gap, interval * LONGEST_INTERVAL)))
        last_at = reading.at
    return covered


def _counters(reading: Reading) -> dict[str, float]:
    """The counters that have a value. 2147 kJ is a good reading of energy: the 32-bit blank does not apply to them."""
    found = {name: reading.values[name] for name in COUNTERS if name in reading.values}
    return {name: value for name, value in found.items() if value >= 0 and not blank_reason(value, is_narrow=False)}


def _increases(name: str, counter: Sequence[Point]) -> list[Increase]:
    """What a counter grew by; without energy that no GPU can have drawn, and without a last reading that drops.

    Only the next reading tells whether a drop is a driver that was loaded anew or a single wrong reading.
    """
    if len(counter) > 1 and counter[-1][1] < counter[-2][1]:
        counter = counter[:-1]
    found = increases(counter)
    if name != ENERGY:
        return found
    return [one for one in found if one.amount <= MOST_WATTS * 1000 * (one.end_at - one.start_at).total_seconds()]


def _mean_activity(amounts: Mapping[str, float | None]) -> float | None:
    """The part of an interval's cycles in which an SM was active; None where the counters do not say, or say nonsense."""
    active, elapsed = amounts.get(CYCLES_ACTIVE), amounts.get(CYCLES_ELAPSED)
    if active is None or not elapsed:
        return None
    return active / elapsed if active <= elapsed * RATIO_CEILING else None


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


def _sample(cluster: str, piece: _Covered, grown: Mapping[str, float | None]) -> dict[str, Any]:
    """A row of `gpu_samples`; `grown` is what each counter grew by in its interval, None where that is not known."""
    reading = piece.reading
    length = reading.at - piece.start_at
    missing: dict[str, str] = {}
    energy = grown.get(ENERGY)
    row: dict[str, Any] = {
        **_place(cluster, reading),
        "interval_start_at": piece.start_at,
        "interval_ms": length // timedelta(milliseconds=1),
        "memory_total_bytes": memory_total_bytes(reading.values),
        "energy_joules": None if energy is None else energy / 1000,
        # what was counted over the interval stands over what was measured at its end
        "sm_active_ratio": _mean_activity(grown),
        "pcie_rx_bytes": grown.get(PCIE_RX_COUNTER),
        "pcie_tx_bytes": grown.get(PCIE_TX_COUNTER),
        "source": SOURCE,
    }
    for name, field in FIELDS.items():
        value = reading.values.get(name)
        if value is None or row.get(field.column) is not None:
            continue
        missing.pop(field.column, None)
        # a blank must be told before it is scaled, and gives way to the next field of its column
        reason = blank_reason(value, is_narrow=not field.per_second)
        if reason:
            missing[field.column] = reason
        else:
            row[field.column] = value * field.factor * (length.total_seconds() if field.per_second else 1)
    if ENERGY in reading.values and ENERGY not in _counters(reading):
        missing["energy_joules"] = blank_reason(reading.values[ENERGY], is_narrow=False) or "out_of_range"
    return {**row, "missing": json.dumps(missing) if missing else None}


def _layout_changes(readings: Iterable[Reading], history: History, target: Callable[[Reading], str]) -> list[Reading]:
    """The readings of a device whenever its slots, place or description differ from those landed last, and once a day.

    Between two changes the samples are the sightings; repeating the inventory with each would say nothing new.
    """
    scrapes: dict[tuple[str, datetime], list[Reading]] = {}
    for reading in readings:
        scrapes.setdefault((reading.slot.gpu_uuid, reading.at), []).append(reading)
    changed: list[Reading] = []
    for (gpu_uuid, at), parts in sorted(scrapes.items(), key=lambda item: item[0][1]):
        layout = sorted((str(part.slot.slot_uuid), part.node, str(_description(part))) for part in parts)
        # 52 bits, which a memory keeps exactly
        digest = float(int.from_bytes(hashlib.sha256(repr(layout).encode()).digest()[:8]) >> 12)
        last = history.layout(gpu_uuid, target(parts[0]), at)
        if last is None or last.digest != digest or last.at.date() != at.date():
            history.layouts[gpu_uuid] = Layout(at, digest)
            changed += parts
    return changed


def _description(reading: Reading) -> dict[str, Any]:
    labels = reading.labels
    model = model_of(labels)
    profile = instance_profile(labels.get("GPU_I_PROFILE", "")) if reading.slot.slot_uuid else None
    limit = next((value for name in POWER_LIMITS if (value := _good(reading.values.get(name))) is not None), None)
    return {
        "gpu_model": model,
        "mig_profile": profile,
        "compute_slices": compute_slices(profile) if profile else None,
        "card_slices": card_slices(model) if profile and model else None,
        "serial": _first(labels, SERIAL_LABELS),
        "driver_version": _first(labels, DRIVER_LABELS),
        "power_limit_watts": limit,
        "sm_clock_max_mhz": _good(reading.values.get(MAX_SM_CLOCK)),
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


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)


def _good(value: float | None) -> float | None:
    return value if value is not None and value >= 0 and not blank_reason(value) else None


def fields_without_column(fields: Iterable[str]) -> list[str]:
    """Fields that were read and fill no column of the landing shape."""
    return sorted(set(fields) - set(FIELDS) - DERIVED_FROM)
