"""Jobs of machines without a scheduler: a process group holds the cards that its processes are seen on.

A run is a process group of one boot as long as it is seen, with no gap longer than `REUSE_WINDOW`, in which its id may have
gone to another. It holds a card over the intervals whose snapshots show it there; of several groups on one card each has an
even share. A batch system's jobs are told by it: here only their processes are landed, since a card that a job holds and does
not use shows none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from collectors.parsed import Parsed
from collectors.sonar.snapshots import Process, Snapshot

REUSE_WINDOW = timedelta(hours=2)
#: how it ended, nobody says
STATE_SEEN, STATE_GONE = "RUNNING", "UNKNOWN"

Group = tuple[int, int]
#: (snapshot, index) → the card there at that time
Uuid = Callable[[Snapshot, int], str]


@dataclass(frozen=True)
class Interval:
    """A snapshot and the time `[start_at, end_at)` it stands for."""

    start_at: datetime
    end_at: datetime
    snapshot: Snapshot


@dataclass
class _Run:
    group: Group
    started_at: datetime
    ended_at: datetime
    line: int
    user: str
    most_cards: int = 0
    commands: Counter[str] = field(default_factory=Counter)


def add_jobs(parsed: Parsed, node: str, cluster: str, intervals: Sequence[Interval], uuid: Uuid) -> None:
    """Add the runs that were seen on a card, and which card they held from when to when."""
    runs: list[_Run] = []
    last: dict[Group, _Run] = {}
    pieces: list[dict[str, Any]] = []
    open_pieces: dict[tuple[int, Group], dict[str, Any]] = {}
    for interval in intervals:
        groups = _groups(interval.snapshot)
        for group, processes in groups.items():
            run = last.get(group)
            if run is None or interval.start_at - run.ended_at > REUSE_WINDOW:
                run = last[group] = _Run(group, interval.start_at, interval.end_at, interval.snapshot.line, processes[0].user)
                runs.append(run)
            run.ended_at = interval.end_at
            run.most_cards = max(run.most_cards, len({index for process in processes for index in process.uses}))
            run.commands.update(process.command for process in processes if process.uses)
        open_pieces = dict(_held(interval, groups, open_pieces, pieces, uuid))
    for run in runs:
        if run.most_cards:
            parsed.add("runs", _run_row(run, node, cluster, intervals[-1]))
    for piece in pieces:
        group = piece.pop("group")
        parsed.add("run_gpus", {"cluster": cluster, "node": node, "job_id": f"{node}/{group[0]}", **piece})


def _groups(snapshot: Snapshot) -> dict[Group, list[Process]]:
    """The snapshot's process groups that are no batch jobs; a job id of 0 is none."""
    groups: dict[Group, list[Process]] = {}
    for process in snapshot.processes.values():
        if process.job and not process.is_batch:
            groups.setdefault((process.job, process.epoch), []).append(process)
    return groups


def _held(
    interval: Interval,
    groups: dict[Group, list[Process]],
    before: dict[tuple[int, Group], dict[str, Any]],
    pieces: list[dict[str, Any]],
    uuid: Uuid,
) -> Iterator[tuple[tuple[int, Group], dict[str, Any]]]:
    """What is held in this interval, as pieces that go on from the one before where nothing changed."""
    holders: dict[int, list[Group]] = {}
    for group, processes in groups.items():
        for index in sorted({index for process in processes for index in process.uses}):
            holders.setdefault(index, []).append(group)
    for index, held_by in sorted(holders.items()):
        held = {"gpu_uuid": uuid(interval.snapshot, index), "share_ratio": None if len(held_by) == 1 else 1 / len(held_by)}
        for group in held_by:
            piece = before.get((index, group))
            if piece is None or piece["ended_at"] != interval.start_at or any(piece[name] != held[name] for name in held):
                piece = {
                    **held,
                    "line_number": interval.snapshot.line,
                    "group": group,
                    "gpu_index": index,
                    "gpu_count": 1.0,
                    "started_at": interval.start_at,
                    "assignment_method": "process",
                }
                pieces.append(piece)
            piece["ended_at"] = interval.end_at
            yield (index, group), piece


def _run_row(run: _Run, node: str, cluster: str, latest: Interval) -> dict[str, Any]:
    """One that the latest snapshot still shows is closed there all the same: the next file tells its next part."""
    command = min(run.commands, key=lambda name: (-run.commands[name], name), default="")
    return {
        "line_number": run.line,
        "cluster": cluster,
        "scheduler": "other",
        "job_id": f"{node}/{run.group[0]}",
        "name": command or "process group",
        "user": run.user or None,
        "state": STATE_SEEN if run.ended_at == latest.end_at else STATE_GONE,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "gpu_count": float(run.most_cards),
        "node_count": 1,
        "node_list": node,
        "labels": json.dumps({"process_group": str(run.group[0])}),
        "observed_at": latest.end_at,
    }
