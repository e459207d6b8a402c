"""Alibaba's trace of a Kubernetes cluster (`openb`, 2023) as rows of the landing shape: who asked for which part of a GPU, when.

- Times are seconds from the trace's beginning, which is taken as `BEGIN`.
- `gpu_milli` is the part of one card (460 is 0.46), told only where `num_gpu` is 1.
- The trace does not say on which node a pod ran. Each pod is landed on a node of its own name, so that its hours are exact
  and nothing is said of a neighbour.
- A pod without `scheduled_time` never held a GPU. One whose phase is still `Running` is cut off at `deletion_time`, the end of
  what is known of it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from collectors.parsed import Parsed

SOURCE = "openb"
BEGIN = datetime(2023, 1, 1)
MEBIBYTE = 1 << 20
STATES = {"Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED", "Pending": "PENDING"}


def to_rows(path: Path, cluster: str) -> Parsed:
    """Rows of `runs`, a row per pod of `openb_pod_list_*.csv`."""
    parsed = Parsed()
    with path.open(newline="") as text:
        rows = list(csv.DictReader(text))
    taken_at = BEGIN + timedelta(seconds=max(float(row["deletion_time"]) for row in rows))
    for run in _runs(rows, cluster, taken_at):
        parsed.add("runs", run)
    return parsed


def _runs(rows: list[dict[str, str]], cluster: str, taken_at: datetime) -> Iterator[dict[str, Any]]:
    for line, row in enumerate(rows, start=2):
        gpus = int(row["num_gpu"])
        share = int(row["gpu_milli"]) / 1000
        started_at = _instant(row["scheduled_time"])
        yield {
            "cluster": cluster,
            "scheduler": "kubernetes",
            "job_id": row["name"],
            "name": row["name"],
            "qos": row["qos"],
            "state": STATES[row["pod_phase"]] if started_at else "PENDING",
            "submitted_at": _instant(row["creation_time"]),
            "started_at": started_at,
            "ended_at": _instant(row["deletion_time"]) if started_at else None,
            "requested_gpu_count": gpus,
            "gpu_count": gpus if started_at else None,
            "gpu_model": row["gpu_spec"].split("|")[0] or None,
            "share_ratio": share if gpus == 1 and share < 1 else None,
            "cpu_count": int(row["cpu_milli"]) / 1000,
            "memory_bytes": int(row["memory_mib"]) * MEBIBYTE,
            "node_list": row["name"] if started_at else None,
            "observed_at": taken_at,
            "line_number": line,
        }


def _instant(seconds: str) -> datetime | None:
    return BEGIN + timedelta(seconds=float(seconds)) if seconds else None
