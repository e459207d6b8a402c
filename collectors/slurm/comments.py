"""GPU statistics that sites leave in a job's Comment: `{"gpu_mem_max": 12345, "ncpu": 2, "ngpu": 1, "gpu_util": 53.1}`.

A convention of slurm2sql (NordicHPC). Only its numbers are taken; a comment that is anything else is its author's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from collectors.slurm.records import Record

_MOST_GPUS = 10_000


@dataclass(frozen=True)
class GpuStatistics:
    """GPUs the job had, and the mean utilisation of them over its life, 0 to 1; None where the comment does not say."""

    count: int | None
    utilization_ratio: float | None


def statistics_of(records: Iterable[Record]) -> dict[tuple[str, str], GpuStatistics]:
    """(cluster, raw job id) → the statistics in the comment of the job or of one of its steps."""
    found: dict[tuple[str, str], GpuStatistics] = {}
    for record in records:
        text = record.get("Comment")
        if '"ngpu"' in text and (statistics := _read(text)):
            found.setdefault((record.get("Cluster"), record.raw_id.partition(".")[0]), statistics)
    return found


def _read(text: str) -> GpuStatistics | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    count, percent = _number(values.get("ngpu"), _MOST_GPUS), _number(values.get("gpu_util"), 100)
    return GpuStatistics(
        int(count) if count is not None and count == int(count) else None, percent / 100 if percent is not None else None
    )


def _number(value: object, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None
