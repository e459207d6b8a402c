"""Snapshots and machines into rows of the landing shape.

A snapshot at t stands for the time since the node's last one, at most 2.5 nominal intervals (semantics 4). Where the form
tells nothing of cards but through their processes, a card's utilisation and memory are the sums over its processes, and a card
without any is idle: the driver was asked for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from collectors.parsed import Parsed
from collectors.sonar.holds import Interval, add_jobs
from collectors.sonar.machines import Machine, MachineCard, machine_of
from collectors.sonar.schema import MEMORY, UTILIZATION
from collectors.sonar.snapshots import Card, Process, Snapshot

SOURCE = "sonar"
LONGEST_INTERVAL = 2.5

CARDS_GUESSED = "{}: nothing tells how many cards it has; those that processes were seen on are taken (give --config)"
FAILED = "{} snapshots in which the driver did not answer: no samples of their cards"
UNNAMED = "cards of {} have no UUID: node and index stand for it"


@dataclass(frozen=True)
class Node:
    """A node's snapshots with the time each stands for, and what is known of its cards."""

    name: str
    cluster: str
    intervals: Sequence[Interval]
    cards: Mapping[int, MachineCard]

    def uuid(self, snapshot: Snapshot, index: int) -> str:
        """The UUID of the card in this place at that time; where nothing tells it, the place: node and index."""
        told, known = (snapshot.cards or {}).get(index), self.cards.get(index)
        return (told and told.uuid) or (known and known.uuid) or place_of(self.name, index)


def to_rows(nodes: Mapping[str, Sequence[Snapshot]], machines: Sequence[Machine], cluster: str, interval: timedelta) -> Parsed:
    """Samples, processes, jobs without a scheduler, inventory and nodes."""
    parsed = Parsed()
    for name, snapshots in nodes.items():
        machine = machine_of(machines, name)
        cards = _cards(snapshots, machine)
        if not cards and not machine:
            continue
        place = next((snapshot.cluster for snapshot in snapshots if snapshot.cluster), None)
        node = Node(name, place or cluster, cover(snapshots, interval), cards)
        if not machine and not any(snapshot.cards for snapshot in snapshots):
            parsed.notes.append(CARDS_GUESSED.format(name))
        for interval_of in node.intervals:
            _add_samples(parsed, node, interval_of)
            _add_processes(parsed, node, interval_of.snapshot)
        add_jobs(parsed, node.name, node.cluster, node.intervals, node.uuid)
        if machine and machine.at is None:
            _add_machine(parsed, machine, node.name, node.cluster, snapshots[0].at)
    for machine in machines:
        if machine.at is not None:
            _add_machine(parsed, machine, machine.node, machine.cluster or cluster, machine.at)
    _add_notes(parsed, nodes)
    return parsed


def place_of(node: str, index: int) -> str:
    return f"{node}/{index}"


def cover(snapshots: Sequence[Snapshot], interval: timedelta) -> list[Interval]:
    """The time that each snapshot stands for."""
    longest = interval * LONGEST_INTERVAL
    first = Interval(snapshots[0].at - interval, snapshots[0].at, snapshots[0])
    return [first] + [
        Interval(max(before.at, snapshot.at - longest), snapshot.at, snapshot) for before, snapshot in pairwise(snapshots)
    ]


def _cards(snapshots: Sequence[Snapshot], machine: Machine | None) -> dict[int, MachineCard]:
    """The node's cards: those of its description, of its own counters, and those that processes were seen on."""
    found = {card.index: card for card in (machine.cards if machine else ())}
    for snapshot in snapshots:
        for card in (snapshot.cards or {}).values():
            known = found.setdefault(card.index, MachineCard(card.index, None))
            if card.uuid and card.uuid != known.uuid:
                found[card.index] = MachineCard(card.index, known.model, known.memory_bytes, card.uuid, known.details)
        for process in snapshot.processes.values():
            for index in process.uses:
                found.setdefault(index, MachineCard(index, None))
    return dict(sorted(found.items()))


def _add_samples(parsed: Parsed, node: Node, interval: Interval) -> None:
    snapshot = interval.snapshot
    milliseconds = (interval.end_at - interval.start_at) // timedelta(milliseconds=1)
    if snapshot.has_failed or not milliseconds:
        return
    for index, known in node.cards.items():
        card = snapshot.cards.get(index) if snapshot.cards is not None else _summed(snapshot, index, known)
        if card is None:
            continue
        parsed.add(
            "gpu_samples",
            {
                "line_number": snapshot.line,
                "cluster": node.cluster,
                "node": node.name,
                "gpu_uuid": node.uuid(snapshot, index),
                "gpu_index": index,
                "pci_bus_id": known.details.get("pci_bus_id"),
                "interval_start_at": interval.start_at,
                "interval_ms": milliseconds,
                "memory_total_bytes": known.memory_bytes,
                "source": SOURCE,
                **card.readings,
                "missing": dict(card.missing) or None,
            },
        )


def _summed(snapshot: Snapshot, index: int, known: MachineCard) -> Card:
    """A card as its processes tell it: the sum of what they do, at most all of it."""
    uses = [process.uses[index] for process in snapshot.processes.values() if index in process.uses]
    readings: dict[str, Any] = {}
    missing: dict[str, str] = {}
    ratios = [use.utilization_ratio for use in uses]
    if None in ratios:
        missing[UTILIZATION] = "out_of_range"
    else:
        readings[UTILIZATION] = min(sum(ratio for ratio in ratios if ratio is not None), 1.0)
    if all(use.memory_bytes is not None for use in uses):
        readings[MEMORY] = sum(use.memory_bytes or 0 for use in uses)
    elif known.memory_bytes:
        readings[MEMORY] = int(sum(_memory(use.memory_bytes, use.memory_ratio, known.memory_bytes) for use in uses))
    else:
        missing[MEMORY] = "not_supported"
    return Card(index, None, readings, missing)


def _memory(told: int | None, ratio: float, total: int) -> float:
    return told if told is not None else ratio * total


def _add_processes(parsed: Parsed, node: Node, snapshot: Snapshot) -> None:
    """A row per process and card; those of one job rolled up, or told without their ids, together."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for process in snapshot.processes.values():
        for index, use in process.uses.items():
            pid = process.pid or process.job
            row = rows.setdefault(
                (node.uuid(snapshot, index), pid),
                {
                    "line_number": snapshot.line,
                    "cluster": node.cluster,
                    "node": node.name,
                    "gpu_uuid": node.uuid(snapshot, index),
                    "seen_at": snapshot.at,
                    "pid": pid,
                    "memory_used_bytes": 0,
                    "sm_utilization_ratio": 0.0,
                    "job_id": job_name(node.name, process),
                    "user": process.user or None,
                },
            )
            for column, value in (("memory_used_bytes", use.memory_bytes), ("sm_utilization_ratio", use.utilization_ratio)):
                row[column] = None if value is None or row[column] is None else row[column] + value
    for row in rows.values():
        parsed.add("gpu_processes", row)


def job_name(node: str, process: Process) -> str | None:
    """The job's id: a batch system's own, else the node and the process group, which is one node's."""
    if not process.job:
        return None
    return str(process.job) if process.is_batch else f"{node}/{process.job}"


def _add_machine(parsed: Parsed, machine: Machine, name: str, cluster: str, seen_at: datetime) -> None:
    identity = {"line_number": machine.line, "cluster": cluster, "node": name, "seen_at": seen_at}
    parsed.add(
        "nodes",
        {
            **identity,
            "cpu_count": machine.cpu_count,
            "memory_bytes": machine.memory_bytes,
            "gpu_count": len(machine.cards),
        },
    )
    for card in machine.cards:
        if card.model:
            parsed.add(
                "gpu_inventory",
                {
                    **identity,
                    "gpu_uuid": card.uuid or place_of(name, card.index),
                    "gpu_model": card.model,
                    "gpu_index": card.index,
                    "memory_total_bytes": card.memory_bytes,
                    **card.details,
                },
            )


def _add_notes(parsed: Parsed, nodes: Mapping[str, Sequence[Snapshot]]) -> None:
    failed = sum(snapshot.has_failed for snapshots in nodes.values() for snapshot in snapshots)
    if failed:
        parsed.notes.append(FAILED.format(failed))
    unnamed = sorted(set(_places(parsed)))
    if unnamed:
        parsed.notes.append(UNNAMED.format(", ".join(unnamed)[:200]))


def _places(parsed: Parsed) -> Iterator[str]:
    for row in parsed.tables.get("gpu_samples", []):
        if row["gpu_uuid"] == place_of(row["node"], row["gpu_index"]):
            yield row["node"]
