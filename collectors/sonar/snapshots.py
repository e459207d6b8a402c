"""What every form of `sonar ps` is read into: the processes and cards of one node at one instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Use:
    """What a process does on one card: utilisation 0 to 1, memory in bytes; None where its reading is none."""

    utilization_ratio: float | None
    memory_bytes: int | None
    #: of the card's memory, where the card tells no bytes (AMD)
    memory_ratio: float = 0.0


@dataclass(frozen=True)
class Process:
    """A process, or several rolled into one (`pid` 0). `job` is a batch job's id, or a process group's where `is_batch` is no.

    `epoch` counts the boots of the node, so that a process group's id of another boot is another job.
    """

    job: int
    pid: int
    parent: int
    user: str
    command: str
    epoch: int = 0
    is_batch: bool = False
    uses: Mapping[int, Use] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        return (self.job, self.epoch, self.pid, self.parent, self.user, self.command)


@dataclass(frozen=True)
class Card:
    """A card as its own counters tell it; `readings` are columns of `gpu_samples`."""

    index: int
    uuid: str | None
    readings: Mapping[str, Any]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Snapshot:
    """`cards` is None where the form tells nothing of cards but through their processes; `has_failed`: the driver did not
    answer, so that no process on a card means nothing."""

    node: str
    at: datetime
    line: int
    cluster: str | None = None
    processes: dict[tuple[Any, ...], Process] = field(default_factory=dict)
    cards: dict[int, Card] | None = None
    has_failed: bool = False

    def add(self, process: Process) -> None:
        self.processes.setdefault(process.identity, process)

    def join(self, other: Snapshot) -> None:
        """Take in what another file, or another line, tells of the same instant."""
        for process in other.processes.values():
            self.add(process)
        if other.cards is not None:
            self.cards = {**other.cards, **(self.cards or {})}
        self.has_failed = self.has_failed or other.has_failed
        self.cluster = self.cluster or other.cluster


def by_node(snapshots: Iterable[Snapshot]) -> dict[str, list[Snapshot]]:
    """Each node's snapshots in time order, those of one instant joined."""
    found: dict[tuple[str, datetime], Snapshot] = {}
    for snapshot in snapshots:
        known = found.setdefault((snapshot.node, snapshot.at), snapshot)
        if known is not snapshot:
            known.join(snapshot)
    nodes: dict[str, list[Snapshot]] = {}
    for (node, _), snapshot in sorted(found.items()):
        nodes.setdefault(node, []).append(snapshot)
    return nodes
