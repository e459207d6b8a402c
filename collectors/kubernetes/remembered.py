"""What the last readings of an API server held, kept between calls: a pod that is gone tells by its absence that it ended.

    $GPU_NET_HOME/state/kubernetes/<cluster>-<hash of the API server and the namespaces asked>.json

The file holds the last two readings, each with the id of its landing. A reading counts once its landing is committed, so that a
call that is killed leaves the one before it to compare with.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from collectors.command import SourceFailedError
from collectors.kubernetes.history import History, SeenNode, SeenPod
from warehouse.atomic import replaced
from warehouse.home import Home
from warehouse.landing.outcomes import is_committed

SOURCE = "kubernetes"
KEPT = 2
WAIT_SECONDS = 60.0
#: columns of remembered rows that are times
_TIMES = frozenset({"submitted_at", "started_at", "ended_at"})


@dataclass
class Remembered:
    """The readings of one API server. Open it with `remembering`, which holds its lock."""

    home: Home
    path: Path
    readings: list[Mapping[str, Any]] = field(default_factory=list)

    def last(self, cluster: str, before: datetime) -> History:
        """What was seen last before `before`, as the history to go on from; an empty one where nothing was."""
        for reading in reversed(self.readings):
            try:
                at = datetime.fromisoformat(reading["at"])
                if at < before and is_committed(self.home.raw, SOURCE, reading["run"]):
                    return _history(cluster, reading)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue  # written by another version: as if it were not there
        return History(cluster)

    def save(self, history: History, at: datetime, run_id: str) -> None:
        """Write the reading that the landing `run_id` is about to hold; whole or not at all."""
        reading = {
            "at": at.isoformat(),
            "run": run_id,
            "pods_at": _text(history.pods_at),
            "nodes_at": _text(history.nodes_at),
            "pods": {
                uid: {
                    "row": _plain(pod.row),
                    "seen_at": _text(pod.seen_at),
                    "landed_at": _text(pod.landed_at),
                    "grace_seconds": pod.grace_seconds,
                    "deletion_at": _text(pod.deletion_at),
                }
                for uid, pod in history.pods.items()
            },
            "nodes": {name: {"row": _plain(node.row), "seen_at": _text(node.seen_at)} for name, node in history.nodes.items()},
        }
        self.readings = [*(entry for entry in self.readings if _run_of(entry) != run_id), reading][-KEPT:]
        with replaced(self.path) as temporary:
            temporary.write_text(json.dumps(self.readings))


@contextmanager
def remembering(home: Home, cluster: str, target: str) -> Iterator[Remembered]:
    """The readings of `target` (the cluster's own uid, or an address without credentials), for one caller at a time."""
    digest = hashlib.sha256(f"{cluster}/{target}".encode()).hexdigest()[:12]
    path = home.create().state / SOURCE / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', cluster)[:60]}-{digest}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{path}.lock", timeout=WAIT_SECONDS):
            yield Remembered(home, path, _read(path))
    except Timeout:
        raise SourceFailedError(f"another call reads {target} and does not end; end it, then run this again") from None


def _read(path: Path) -> list[Mapping[str, Any]]:
    """The file's readings; one that cannot be read is as none, and the next reading begins anew."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return []
    return document if isinstance(document, list) else []


def _run_of(reading: Any) -> Any:
    return reading.get("run") if isinstance(reading, dict) else None


def _history(cluster: str, reading: Mapping[str, Any]) -> History:
    pods = {
        uid: SeenPod(
            _row(entry["row"]),
            datetime.fromisoformat(entry["seen_at"]),
            datetime.fromisoformat(entry["landed_at"]),
            int(entry["grace_seconds"]),
            _instant(entry["deletion_at"]),
        )
        for uid, entry in reading["pods"].items()
    }
    nodes = {
        name: SeenNode(_row(entry["row"]), datetime.fromisoformat(entry["seen_at"])) for name, entry in reading["nodes"].items()
    }
    return History(cluster, pods=pods, nodes=nodes, pods_at=_instant(reading["pods_at"]), nodes_at=_instant(reading["nodes_at"]))


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _instant(value) if name in _TIMES else value for name, value in row.items()}


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
