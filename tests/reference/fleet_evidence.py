"""What random fleets tell of devices besides their UUIDs: indexes, MIG profiles, pods by name, shares without a device.

A second die is cast, so that a seed stays the fleet it was but for this.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.reference.world import MINUTE_US, SECOND_US, instant, stamp

if TYPE_CHECKING:
    from tests.reference.fleet import Card, Fleet

Row = dict[str, str]
#: the last one no card here is cut into
PROFILES = ("1g.10gb", "1g.10gb", "2g.20gb", "MIG 3g.40gb", "1c.3g.40gb", "4g.40gb")


def add_evidence(fleet: Fleet, cards: Sequence[Card], start: int, end: int, seed: int) -> None:
    """Change and add rows of a fleet whose runs are told of already."""
    dice = random.Random(f"{seed} evidence")
    _number_cards(dice, fleet, cards, start, end)
    runs: dict[str, list[Row]] = {}
    for row in fleet.first["runs"]:
        if row.get("started_at"):
            runs.setdefault(row["job_id"], []).append(row)
    held = fleet.first.get("run_gpus", [])
    exact = {row["job_id"]: row for row in held}
    for job_id, rows in runs.items():
        if job_id in exact:
            _blur(dice, rows, exact[job_id])
        else:
            _tell_of_pool(dice, fleet, rows, cards)
    _show_processes(dice, fleet, runs, cards, start, end)
    if dice.random() < 0.3:
        _forget_pods(dice, fleet, cards, start, end)


def _number_cards(dice: random.Random, fleet: Fleet, cards: Sequence[Card], start: int, end: int) -> None:
    """Indexes of the cards on their nodes; now and then a node starts anew and counts its cards another way."""
    numbers: dict[str, tuple[int, int, int]] = {}
    turns = {card.node: dice.randrange(start, end) if dice.random() < 0.4 else end for card in cards}
    for card in cards:
        mates = [other.gpu for other in cards if other.node == card.node]
        place = mates.index(card.gpu)
        numbers[card.gpu] = (place, turns[card.node], (place + 1) % len(mates))
    for row in fleet.first["gpu_inventory"]:
        before, turn, after = numbers[row["gpu_uuid"]]
        row["gpu_index"] = str(before if instant(row["seen_at"]) < turn else after)


def _blur(dice: random.Random, rows: Sequence[Row], held: Row) -> None:
    """Say less of a run whose device is told: only its pod's name, or one of two devices."""
    row, kind = rows[0], dice.random()
    if row["scheduler"] == "kubernetes" and kind < 0.2:
        held["job_id"] = f"{row['namespace']}/{row['name']}"
        held["started_at"] = stamp(instant(row["started_at"]) + 20 * SECOND_US)
        held["ended_at"] = ""
        held["assignment_method"] = "exporter_label"
    elif not row["share_ratio"] and kind > 0.9:
        for told in rows:
            told["gpu_count"] = "2"


def _tell_of_pool(dice: random.Random, fleet: Fleet, rows: Sequence[Row], cards: Sequence[Card]) -> None:
    """Say more of a run of which only the count is told: indexes, or a MIG profile, or that it asked for a share."""
    row, kind = rows[0], dice.random()
    count = int(float(row["gpu_count"]))
    mates = [card for card in cards if card.node == row["node_list"]]
    if kind < 0.3 and count <= len(mates):
        start = instant(row["started_at"])
        for index in dice.sample(range(len(mates) + 1), count):
            for at in (start, start + SECOND_US) if dice.random() < 0.3 else (start,):
                told: dict[str, object] = {"job_id": row["job_id"], "node": row["node_list"], "gpu_index": index, "gpu_count": 1}
                fleet.add("run_gpus", **told, started_at=stamp(at), assignment_method="gres_index")
    elif kind < 0.6:
        profile = dice.choice(PROFILES)
        for told in rows:
            told["mig_profile"] = profile
    elif kind < 0.75:
        share = dice.choice(("0.25", "0.5"))
        for told in rows:
            told["share_ratio"] = share


def _show_processes(
    dice: random.Random, fleet: Fleet, runs: Mapping[str, Sequence[Row]], cards: Sequence[Card], start: int, end: int
) -> None:
    """Processes on cards of the runs' nodes, most of them with the job they belong to."""
    for number, (job_id, rows) in enumerate(runs.items()):
        mates = [card for card in cards if card.node == rows[0]["node_list"]]
        if dice.random() < 0.6 or not mates:
            continue
        for card in dice.sample(mates, min(len(mates), dice.choice((1, 1, 2)))):
            for _ in range(dice.choice((1, 3, 8))):
                fleet.add(
                    "gpu_processes",
                    node=card.node,
                    gpu_uuid=card.gpu,
                    slot_uuid=dice.choice(card.slots) if card.slots else None,
                    pid=1000 + number,
                    seen_at=stamp(dice.randrange(start, end)),
                    job_id=job_id if dice.random() < 0.9 else None,
                )


def _forget_pods(dice: random.Random, fleet: Fleet, cards: Sequence[Card], start: int, end: int) -> None:
    """A cluster of which only Slurm is told: what else there is are pods that labels name."""
    for row in fleet.first["runs"]:
        # a name of its own keeps each job a workload of its own
        row["scheduler"], row["owner_kind"], row["owner_name"] = "slurm", "", row["job_id"]
    for row in fleet.first.get("run_gpus", []):
        if "/" in row["job_id"]:
            row["job_id"] = row["job_id"].split("/", 1)[1]
    taken = {row.get("gpu_uuid") for row in fleet.first.get("run_gpus", [])}
    for card in cards:
        if card.gpu not in taken:
            for slot in card.slots or (None,):
                _label(dice, fleet, card, slot, start, end)


def _label(dice: random.Random, fleet: Fleet, card: Card, slot: str | None, start: int, end: int) -> None:
    at = start + dice.randrange(0, 40 * MINUTE_US // SECOND_US) * SECOND_US
    while at < end:
        names = dice.sample(range(6), dice.choice((1, 1, 1, 2)))
        for name in names:
            cells: Mapping[str, object] = {"node": card.node, "gpu_uuid": card.gpu, "slot_uuid": slot, "gpu_count": 1}
            is_alone = len(names) == 1
            fleet.add(
                "run_gpus",
                **cells,
                job_id=f"team/web-{name}",
                share_ratio=None if is_alone else 0.5,
                started_at=stamp(at),
                assignment_method="exporter_label" if is_alone else "exporter_label_equal_split",
            )
        at += round(dice.uniform(2, 90) * 60) * SECOND_US
