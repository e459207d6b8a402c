"""Ratios or percentages? What the values of an exporter's scrapes say, whatever their HELP texts do.

DCGM gives its profiling fields from 0 to 1 and its GPU utilisation as a whole percentage. Relabelling rules and other
exporters with DCGM's names multiply or divide by 100. One value tells nothing: 0.9 is busy in the one scale and idle in
the other, 1.29 a device's error (NVIDIA/DCGM#152). So a node's scrapes are judged together, and what they said is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from collectors.dcgm.parse import Reading
from collectors.dcgm.schema import GPU_UTIL, GRAPHICS_ACTIVE, RATIO_FIELDS

#: no error of a device makes a ratio this large, and no percentage is above the other
LEAST_PERCENT, MOST_PERCENT = 2.0, 102.0
#: so many values beyond a ratio make a scale; a single one is an error
ENOUGH = 2
#: a card that NVML calls busy by this much is not idle by this ratio, so a reading between the two is a ratio
BUSY_PERCENT, IDLE_PERCENT = 20.0, 1.02
LEAST_ACTIVE = 0.1


@dataclass(frozen=True)
class Scale:
    """Factors that bring the profiling fields to a ratio and GPU utilisation to a percentage; 1 is DCGM's own."""

    profiling: float = 1.0
    utilization: float = 1.0


def judge(readings: Sequence[Reading], known: Scale | None = None) -> Scale:
    """The scale of one node's readings; what was `known` stands where they tell nothing."""
    known = known or Scale()
    return Scale(_profiling(readings, known.profiling), _utilization(readings, known.utilization))


def in_dcgms_scale(readings: Iterable[Reading], scale: Scale) -> list[Reading]:
    """The readings with ratios from 0 to 1 and GPU utilisation in percent."""
    if scale == Scale():
        return list(readings)
    factors = dict.fromkeys(RATIO_FIELDS, scale.profiling) | {GPU_UTIL: scale.utilization}
    return [
        replace(reading, values={name: value * factors.get(name, 1.0) for name, value in reading.values.items()})
        for reading in readings
    ]


def _profiling(readings: Sequence[Reading], known: float) -> float:
    values = [value for reading in readings for name, value in reading.values.items() if name in RATIO_FIELDS]
    # blanks are above every percentage
    percentages = sum(LEAST_PERCENT < value <= MOST_PERCENT for value in values)
    ratios = sum(_is_surely_a_ratio(reading) for reading in readings)
    if percentages >= ENOUGH and percentages > ratios:
        return 0.01
    return 1.0 if ratios else known


def _is_surely_a_ratio(reading: Reading) -> bool:
    active, utilization = reading.values.get(GRAPHICS_ACTIVE), reading.values.get(GPU_UTIL)
    if active is None or utilization is None:
        return False
    return LEAST_ACTIVE < active <= IDLE_PERCENT and BUSY_PERCENT <= utilization <= MOST_PERCENT


def _utilization(readings: Sequence[Reading], known: float) -> float:
    values = [reading.values[GPU_UTIL] for reading in readings if 0 <= reading.values.get(GPU_UTIL, -1) <= MOST_PERCENT]
    if any(value > IDLE_PERCENT for value in values):
        return 1.0
    fractions = sum(0 < value < 1 for value in values)
    return 100.0 if fractions >= ENOUGH else known
