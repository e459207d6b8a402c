"""Readings as frames of `gpu_samples`, a few nodes and an hour at a time, so that memory does not grow with the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from collectors.simulate.hardware import Node
from collectors.simulate.plan import Plan
from collectors.simulate.readings import XID_LOST, Readings, read_node

#: rows of a frame, about
FRAME_ROWS = 500_000
#: who measured
SOURCE = "dcgm"
MIB = 1 << 20

Numbers = npt.NDArray[np.float64]


def sample_frames(plan: Plan, nodes: Sequence[Node], first: int, last: int, interval: int) -> Iterator[pl.DataFrame]:
    """The samples of `nodes` in the minutes `[first, last)`, one each `interval` seconds (a divisor of 60), by time."""
    per_minute = 60 // interval
    slots = sum(len(node.slots) for node in nodes)
    step = max(1, min(24, FRAME_ROWS // max(1, slots * 60 * per_minute))) * 60
    for start in _steps(plan, first, last, step):
        end = min(last, start - (start + plan.window.first_minute_of_day) % step + step)
        for group in _groups(nodes, FRAME_ROWS // ((end - start) * per_minute) + 1):
            frames = [_frame(plan, node, read_node(plan, node, start, end, per_minute), interval) for node in group]
            yield pl.concat(frames, rechunk=False)


def _steps(plan: Plan, first: int, last: int, step: int) -> Iterator[int]:
    """Starts of stretches that end on multiples of `step` since midnight."""
    start = first
    while start < last:
        yield start
        start += step - (start + plan.window.first_minute_of_day) % step


def _groups(nodes: Sequence[Node], slots: int) -> Iterator[list[Node]]:
    """The nodes in groups of about so many slots."""
    group: list[Node] = []
    count = 0
    for node in nodes:
        group.append(node)
        count += len(node.slots)
        if count >= slots:
            yield group
            group, count = [], 0
    if group:
        yield group


def _frame(plan: Plan, node: Node, readings: Readings, interval: int) -> pl.DataFrame:
    starts = start_us(plan) + readings.minute * 60_000_000 + readings.part * (interval * 1_000_000)
    activity = readings.activity / 1e6
    # DCGM gives SM activity and utilisation per card only; the graphics engine's works per instance
    is_split = any(slot.instance is not None for slot in node.slots)
    by_card = {"sm_active_ratio": activity, "gpu_utilization_ratio": utilization(activity)}
    measured: dict[str, npt.NDArray[Any] | None] = {
        **(dict.fromkeys(by_card) if is_split else by_card),
        "graphics_engine_active_ratio": activity if is_split else graphics_activity(activity),
        "memory_used_bytes": readings.memory_mib * MIB,
        "power_watts": readings.power_milliwatts / 1e3,
        "energy_joules": readings.power_milliwatts * interval / 1e3,
        "temperature_celsius": readings.temperature_celsius.astype(np.float64),
        "sm_clock_mhz": readings.clock_mhz.astype(np.float64),
        "clock_event_reasons": readings.bits,
    }
    frame = _slots(readings)[pl.Series(readings.row.astype(np.uint32))].with_columns(
        pl.lit(node.cluster).alias("cluster"),
        pl.lit(node.name).alias("node"),
        pl.Series("interval_start_at", starts).cast(pl.Datetime("us")),
        pl.lit(interval * 1000, pl.Int64).alias("interval_ms"),
        *(_column(name, values) for name, values in measured.items()),
        pl.lit(float(node.model.clock_mhz)).alias("sm_clock_max_mhz"),
        pl.Series("xid", np.where(readings.is_lost, XID_LOST, 0)),
        pl.lit(SOURCE).alias("source"),
    )
    if readings.is_lost.any():
        # a card that fell off the bus answers nothing else
        answers = ~pl.Series(readings.is_lost)
        frame = frame.with_columns(pl.when(answers).then(pl.col(name)).alias(name) for name in measured)
    return frame


def _column(name: str, values: npt.NDArray[Any] | None) -> pl.Expr | pl.Series:
    return pl.lit(None, pl.Float64).alias(name) if values is None else pl.Series(name, values)


def _slots(readings: Readings) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "gpu_uuid": [slot.gpu_uuid for slot in readings.slots],
            "slot_uuid": pl.Series([slot.slot_uuid for slot in readings.slots], dtype=pl.String),
            "gpu_index": [slot.index for slot in readings.slots],
            "pci_bus_id": [slot.pci_bus_id for slot in readings.slots],
            "memory_total_bytes": [slot.memory_mib * MIB for slot in readings.slots],
        }
    )


def start_us(plan: Plan) -> int:
    """The plan's start in microseconds since 1970."""
    return (plan.window.start_at - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def graphics_activity(activity: Numbers) -> Numbers:
    """The graphics engine is busy a little longer than its SMs."""
    return np.minimum(1.0, np.round(activity * 1.04, 6))


def utilization(activity: Numbers) -> Numbers:
    """NVML's utilisation, in whole percent: that some kernel ran says more than what it used of the card."""
    return np.where(activity > 0, np.round(0.4 + 0.6 * activity, 2), 0.0)
