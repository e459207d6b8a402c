"""Random small fleets in the landing shape, seeded: the same seed is the same fleet.

They are small and unkind: MIG and shares, node states at odd seconds, gaps, sentinels, readings that overlap and straddle
minutes, two sources, frozen exporters, lost devices, runs that nobody closed, pools with more holders than devices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.reference.fleet_evidence import add_evidence
from tests.reference.fleet_services import add_services
from tests.reference.world import MINUTE_US, SECOND_US, instant, stamp

Tables = dict[str, list[dict[str, str]]]

BASE = instant("2026-11-02T20:00:00Z")
SENTINELS = ("[N/A]", "9223372036854775794", "140737488355328.0", "nan", "-1", "1.294", "<<<NULL>>>")
LAYOUTS = (
    (("1g.10gb", 1),) * 7,
    (("1g.10gb", 1), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 3)),
    (("3g.40gb", 3), ("2g.20gb", 2)),
)
CARD_BYTES = 80_000_000_000


@dataclass
class Fleet:
    """`first` is landed before `late`, which repeats and corrects some of its rows."""

    cluster: str
    first: Tables = field(default_factory=dict)
    late: Tables = field(default_factory=dict)

    def add(self, table: str, **cells: object) -> dict[str, str]:
        row = {"cluster": self.cluster} | {name: "" if cell is None else str(cell) for name, cell in cells.items()}
        self.first.setdefault(table, []).append(row)
        return row

    def tables(self) -> Tables:
        """All rows, the late ones last."""
        return {name: self.first.get(name, []) + self.late.get(name, []) for name in self.first.keys() | self.late.keys()}


@dataclass(frozen=True)
class Card:
    gpu: str
    node: str
    slots: tuple[str, ...]  # empty: a whole device
    has_slot_samples: bool


def make_fleet(seed: int) -> Fleet:
    """A cluster `fleet_<seed>` of one to three nodes over two to six hours."""
    dice = random.Random(seed)
    fleet = Fleet(f"fleet_{seed}")
    end = BASE + dice.choice((2, 3, 4, 6)) * 60 * MINUTE_US
    nodes = [f"n{number}" for number in range(dice.randint(1, 3))]
    cards = [_card(dice, fleet.cluster, node, number) for node in nodes for number in range(dice.randint(1, 4))]
    blackout = _span(dice, end, 30, 70) if dice.random() < 0.3 else None
    for node in nodes:
        _node_states(dice, fleet, node, end)
    for card in cards:
        gone = _span(dice, end, 40, 90) if dice.random() < 0.2 else None
        quiet = [span for span in (blackout, gone) if span]
        _inventory(dice, fleet, card, end, quiet)
        _samples(dice, fleet, card, end, quiet)
    for node in nodes:
        _runs(dice, fleet, node, [card for card in cards if card.node == node], end)
    add_evidence(fleet, cards, BASE, end, seed)
    add_services(fleet, BASE, end, seed)
    _close(dice, fleet, end)
    return fleet


def _card(dice: random.Random, cluster: str, node: str, number: int) -> Card:
    gpu = f"GPU-{cluster}-{node}-{number}"
    if dice.random() < 0.7:
        return Card(gpu, node, (), False)
    slots = tuple(f"MIG-{cluster}-{node}-{number}-{place}" for place in range(len(dice.choice(LAYOUTS))))
    return Card(gpu, node, slots, dice.random() < 0.8)


def _layout(card: Card) -> tuple[tuple[str, int], ...]:
    return next(layout for layout in LAYOUTS if len(layout) == len(card.slots))


def _span(dice: random.Random, end: int, low: float, high: float) -> tuple[int, int]:
    """A stretch of `low` to `high` minutes somewhere in the fleet's time, at odd milliseconds."""
    length = round(dice.uniform(low, high) * 60_000) * 1000
    start = BASE + dice.randrange(0, max(1, (end - BASE - length) // 1000)) * 1000
    return start, min(end, start + length)


def _node_states(dice: random.Random, fleet: Fleet, node: str, end: int) -> None:
    at = BASE
    while dice.random() < 0.6:
        at += round(dice.uniform(5, 80) * 60) * SECOND_US
        until = at + round(dice.uniform(1, 40) * 60) * SECOND_US
        if until >= end:
            return
        state = dice.choice(("down", "maintenance", "drained", "drained", "draining", "reserved"))
        is_open = dice.random() < 0.3
        fleet.add("node_states", node=node, state=state, started_at=stamp(at), ended_at=None if is_open else stamp(until))
        fleet.add("node_states", node=node, state="in_service", started_at=stamp(until), ended_at=None)
        at = until


def _inventory(dice: random.Random, fleet: Fleet, card: Card, end: int, quiet: list[tuple[int, int]]) -> None:
    at = BASE - 5 * MINUTE_US
    while at <= end:
        if not any(start <= at < until for start, until in quiet):
            is_lost = at > BASE and dice.random() < 0.02
            rows: list[tuple[str | None, str | None, int | None]] = [(None, None, None)]
            if card.slots:
                rows = [(slot, *kind) for slot, kind in zip(card.slots, _layout(card), strict=True)]
            for slot, profile, slices in rows:
                fleet.add(
                    "gpu_inventory",
                    node=card.node,
                    gpu_uuid=card.gpu,
                    slot_uuid=slot,
                    mig_profile=profile,
                    compute_slices=slices,
                    card_slices=7 if slot else None,
                    gpu_model="H100",
                    memory_total_bytes=CARD_BYTES // 8 if slot else CARD_BYTES,
                    is_lost="true" if is_lost else None,
                    seen_at=stamp(at),
                )
        at += round(dice.uniform(600, 880)) * SECOND_US


def _samples(dice: random.Random, fleet: Fleet, card: Card, end: int, quiet: list[tuple[int, int]]) -> None:
    for slot in card.slots if card.has_slot_samples else (None,):
        rhythm = dice.choice(("10 s", "15 s", "60 s", "60 s", "60 s", "5 min", "overlapping"))
        _series(dice, fleet, card, slot, "dcgm", rhythm, end, quiet)
        if dice.random() < 0.2:
            _series(dice, fleet, card, slot, "nvml", "60 s", end, quiet)


def _series(
    dice: random.Random,
    fleet: Fleet,
    card: Card,
    slot: str | None,
    source: str,
    rhythm: str,
    end: int,
    quiet: list[tuple[int, int]],
) -> None:
    moods = _moods(dice, end)
    frozen_until, frozen = 0, {}
    gap_until = BASE if dice.random() < 0.8 else BASE + 20 * MINUTE_US
    total = CARD_BYTES if not slot else CARD_BYTES // 8
    for at, length in _rhythm(dice, rhythm, end):
        mood, memory = next((m for m in moods if m[0] <= at < m[1]), moods[-1])[2:]
        if at < gap_until or any(start <= at < until for start, until in quiet):
            continue
        if dice.random() < 0.004:
            gap_until = at + round(dice.uniform(1, 30) * 60) * SECOND_US
            continue
        cells: dict[str, object] = {
            "power_watts": round(dice.uniform(100, 600), 3),
            "temperature_celsius": dice.randint(30, 80),
            "sm_clock_mhz": dice.choice((900, 1200, 1500, 1980)),
            "sm_clock_max_mhz": 1980,
            "sm_clock_application_mhz": dice.choice((None, 1500)),
            "clock_event_reasons": dice.choice((0, 0, 0, 1, 4, 0x40, 0x20 | 0x4, 0x8)),
            "memory_used_bytes": memory if total == CARD_BYTES else memory // 8,
            "memory_total_bytes": total,
        }
        activity = min(1.0, max(0.0, round(dice.gauss(mood, 0.05), 4))) if mood else dice.choice((0, 0, 0.01, 0.049))
        if source == "nvml":
            cells["gpu_utilization_ratio"] = activity
        else:
            cells |= {"sm_active_ratio": activity, "graphics_engine_active_ratio": round(min(1, activity * 1.1), 4)}
            if dice.random() < 0.03:
                cells["sm_active_ratio"] = dice.choice(SENTINELS)
            if dice.random() < 0.01:
                cells |= {"sm_active_ratio": None, "graphics_engine_active_ratio": dice.choice(SENTINELS)}
        if not frozen_until and dice.random() < 0.002:
            frozen_until, frozen = at + round(dice.uniform(4, 25) * 60) * SECOND_US, dict(cells)
            frozen["power_watts"] = dice.choice((187.5, 250))
        if at < frozen_until:
            cells = dict(frozen)
        if dice.random() < 0.001:
            cells["xid"] = 79
            gap_until = at + length + round(dice.uniform(1, 15) * 60) * SECOND_US
        row = fleet.add(
            "gpu_samples",
            node=card.node,
            gpu_uuid=card.gpu,
            slot_uuid=slot,
            source=source,
            interval_start_at=stamp(at),
            interval_ms=length // 1000,
            **{"xid": None, "gpu_utilization_ratio": None} | cells,
        )
        if dice.random() < 0.004 and "sm_active_ratio" in cells:
            fleet.late.setdefault("gpu_samples", []).append(row | {"sm_active_ratio": str(dice.choice((0, 0.5, 0.97)))})


def _moods(dice: random.Random, end: int) -> list[tuple[int, int, float, int]]:
    """Stretches of one kind of work: start, end, mean activity, memory in use."""
    moods: list[tuple[int, int, float, int]] = []
    at = BASE - MINUTE_US
    while at < end + 10 * MINUTE_US:
        until = at + round(dice.uniform(0.5, 45) * 60) * SECOND_US
        moods.append((at, until, dice.choice((0, 0, 0, 0.2, 0.3, 0.6, 0.9)), dice.choice((0, 500, 4000, 20000)) * 10**6))
        at = until
    return moods


def _rhythm(dice: random.Random, rhythm: str, end: int) -> Iterator[tuple[int, int]]:
    """(start, length) of readings, in microseconds."""
    at = BASE + dice.randrange(0, 60_000) * 1000
    if rhythm in ("10 s", "5 min"):
        at = BASE
    step = {"10 s": 10, "15 s": 15, "60 s": 60, "5 min": 300, "overlapping": 45}[rhythm] * SECOND_US
    while at < end:
        jitter = dice.randrange(-900_000, 900_000) // 1000 * 1000 if rhythm == "15 s" else 0
        advance = step + jitter
        yield at, 60 * SECOND_US if rhythm == "overlapping" else advance
        # now and then a reading is left out, so that the next one begins later
        at += advance * (2 if dice.random() < 0.01 else 1)


def _runs(dice: random.Random, fleet: Fleet, node: str, cards: list[Card], end: int) -> None:
    pooled = [card for card in cards if dice.random() < 0.4]
    for card in cards:
        if card in pooled:
            continue
        for slot in card.slots or (None,):
            if dice.random() < 0.75:
                _exact_runs(dice, fleet, node, card, slot, end)
    for number in range(dice.randint(1, 4) if pooled else 0):
        start, until = _span(dice, end, 3, 200)
        job = f"pool-{node}-{number}"
        count = dice.randint(1, len(pooled) + (dice.random() < 0.3))
        _run(dice, fleet, job, node, start, until, end, gpu_count=count, labels=dice.choice((None, '{"interactive": true}')))
    fleet.add(
        "runs",
        scheduler="slurm",
        job_id=f"never-{node}",
        name="never",
        state="CANCELLED",
        submitted_at=stamp(BASE),
        started_at=None,
        ended_at=stamp(BASE + MINUTE_US),
        gpu_count=4,
        node_list=node,
        observed_at=stamp(BASE + MINUTE_US),
    )


def _exact_runs(dice: random.Random, fleet: Fleet, node: str, card: Card, slot: str | None, end: int) -> None:
    is_shared = dice.random() < 0.3
    at = BASE + round(dice.uniform(0, 40) * 60) * SECOND_US
    number = 0
    while at < end - MINUTE_US:
        length = round(dice.uniform(1, 150) * 60_000) * 1000
        until = min(end, at + length)
        job = f"{card.gpu}-{slot or ''}-{number}"
        share = dice.choice((0.25, 0.25, 0.5, 0.75)) if is_shared else None
        closes = _run(dice, fleet, job, node, at, until, end, gpu_count=1, share_ratio=share)
        fleet.add(
            "run_gpus",
            job_id=job,
            node=node,
            gpu_uuid=card.gpu,
            slot_uuid=slot,
            gpu_count=1,
            started_at=stamp(at),
            ended_at=stamp(until) if closes and dice.random() < 0.8 else None,
        )
        number += 1
        if is_shared:
            at += round(dice.uniform(1, 60) * 60) * SECOND_US
        else:
            # mostly a pause, sometimes at once, sometimes before the one before has ended
            at = until + round(dice.choice((-3, 0, 0.31, 7, 20)) * 60) * SECOND_US if closes else at + length // 2 + SECOND_US


def _run(dice: random.Random, fleet: Fleet, job: str, node: str, start: int, until: int, end: int, **cells: object) -> bool:
    """Add a run; whether the scheduler closed it. The row that told of it while it ran is there as well, now and then."""
    owner = dice.choice((None, "Job", "ReplicaSet", "CronJob"))
    closes = dice.random() < 0.9 and until < end
    suspended = round(dice.uniform(0, 600)) if dice.random() < 0.1 else 0
    common: dict[str, object] = {
        "scheduler": "kubernetes" if owner else "slurm",
        "job_id": job,
        "name": job,
        "namespace": "team",
        "owner_kind": owner,
        "owner_name": job if owner else None,
        "submitted_at": stamp(start - MINUTE_US),
        "started_at": stamp(start),
        "node_list": node,
        "suspended_seconds": suspended,
        "share_ratio": None,
        "labels": None,
    } | cells
    if not closes or dice.random() < 0.3:
        observed = end if not closes else start + (until - start) // 2
        fleet.add("runs", **common, state="RUNNING", ended_at=None, observed_at=stamp(observed))
    if closes:
        fleet.add("runs", **common, state="COMPLETED", ended_at=stamp(until), observed_at=stamp(until + SECOND_US))
    if owner == "ReplicaSet" and dice.random() < 0.5:
        _usage(dice, fleet, job, start, until)
    return closes


def _usage(dice: random.Random, fleet: Fleet, job: str, start: int, until: int) -> None:
    """Inference telemetry of a pod: every minute, with requests waiting now and then."""
    at = start - start % MINUTE_US + MINUTE_US
    waiting = False
    while at < until:
        waiting = waiting if dice.random() < 0.9 else not waiting
        fleet.add(
            "inference_usage",
            server=job,
            job_id=job,
            model="m",
            interval_start_at=stamp(at),
            interval_ms=60_000,
            request_count=dice.randint(0, 50),
            output_tokens=dice.randint(0, 5000),
            waiting_requests=dice.randint(1, 5) if waiting else 0,
        )
        at += MINUTE_US


def _close(dice: random.Random, fleet: Fleet, end: int) -> None:
    """The scheduler was last asked at the end, an hour later, or three hours after the last sample; rows land in any order."""
    later = dice.choice((0, 0, 7, 60, 200)) * MINUTE_US
    fleet.add(
        "runs",
        scheduler="slurm",
        job_id="pending",
        name="pending",
        state="PENDING",
        submitted_at=stamp(end),
        started_at=None,
        ended_at=None,
        gpu_count=2,
        observed_at=stamp(end + later),
    )
    for rows in fleet.first.values():
        columns = dict.fromkeys(name for row in rows for name in row)
        rows[:] = [dict.fromkeys(columns, "") | row for row in rows]
        dice.shuffle(rows)
