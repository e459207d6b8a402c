"""What rules 6, 7 and 12 and stranded GPUs need to be told apart, added to a random fleet: inference services of several
replicas with their usage, runs with busy and idle siblings, quiet runs with little memory, nodes with CPUs and memory.

A third die is cast, so that a seed stays the fleet it was but for this. These nodes live over midnight, so that the second
day knows what the first one taught.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.reference.world import HOUR_US, MINUTE_US, SECOND_US, stamp

if TYPE_CHECKING:
    from tests.reference.fleet import Fleet

Row = dict[str, str]
GB = 10**9
HALVES = (("3g.40gb", 3), ("3g.40gb", 3))
MODELS = {"H100": 80 * GB, "NVIDIA A100-SXM4-80GB": 85_899_345_920}
BOUNDS = (0.25, 0.5, 1, 2.5, 10)


@dataclass(frozen=True)
class Place:
    """A slot that runs can be given: a whole card, or one of two halves of one."""

    node: str
    gpu: str
    slot: str | None
    model: str


@dataclass
class Work:
    """What a slot does from minute to minute: mean activity, jitter and bytes in use, from `start` on."""

    start: int
    activity: float
    memory: int
    jitter: float = 0.03


def add_services(fleet: Fleet, start: int, end: int, seed: int) -> None:
    dice = random.Random(f"{seed} services")
    until = max(end, start + dice.choice((3, 5, 6, 6)) * HOUR_US)
    _describe_nodes(dice, fleet, start, until)
    places = [place for number in range(dice.randint(2, 3)) for place in _node(dice, fleet, number, start, until)]
    dice.shuffle(places)
    for number in range(dice.randint(1, 2)):
        taken = [places.pop() for _ in range(min(len(places), dice.randint(2, 5)))]
        _service(dice, fleet, f"svc{number}", taken, start, until)
    rest = iter(places)
    for number, place in enumerate(rest):
        if dice.random() < 0.5:
            siblings = [place, *(other for other, _ in zip(rest, range(dice.randint(1, 3)), strict=False))]
            _siblings(dice, fleet, f"gang{number}", siblings, start, until)
        else:
            _quiet(dice, fleet, f"quiet{number}", place, start, until)


def _describe_nodes(dice: random.Random, fleet: Fleet, start: int, until: int) -> None:
    """CPUs and memory of the nodes that are there, and of the runs on them; some jobs without a GPU."""
    sizes: dict[str, tuple[object, ...]] = {}
    for row in fleet.first["runs"]:
        queue = dice.choice((None, "gpu", "gpu", "debug"))
        told = sizes.setdefault(row["job_id"], (queue, dice.choice((None, 4, 8, 8, 16)), dice.choice((None, 32, 32, 100))))
        _tell_size(row, *told)
    for node in sorted({row["node"] for row in fleet.first["gpu_inventory"]}):
        _size_of_node(dice, fleet, node, start, until)


def _tell_size(row: Row, queue: object, cpus: object, gigabytes: object) -> None:
    row["queue"] = str(queue or "")
    row["cpu_count"] = str(cpus or "")
    row["memory_bytes"] = str(gigabytes * GB) if isinstance(gigabytes, int) else ""


def _size_of_node(dice: random.Random, fleet: Fleet, node: str, start: int, until: int) -> None:
    if dice.random() < 0.8:
        fleet.add(
            "nodes",
            node=node,
            cpu_count=dice.choice((None, 16, 24, 32, 64)),
            memory_bytes=dice.choice((None, 128 * GB, 200 * GB, 1000 * GB)),
            gpu_count=8,
            partitions=dice.choice((None, "gpu", "gpu", "gpu,debug")),
            seen_at=stamp(start),
        )
    at = start
    for number in range(dice.randint(0, 3)):
        at += round(dice.uniform(5, 90) * 60) * SECOND_US
        over = min(until, at + round(dice.uniform(10, 120) * 60) * SECOND_US)
        if at < over:
            row = _run(fleet, f"cpu-{node}-{number}", [node], at, over, gpus=0)
            _tell_size(row, "gpu", dice.choice((4, 12, 30)), dice.choice((8, 60, None)))


def _node(dice: random.Random, fleet: Fleet, number: int, start: int, until: int) -> list[Place]:
    """A node `s<n>` of cards of one model, some of them cut in halves, with inventory records every ten minutes."""
    node = f"s{number}"
    model = "H100" if dice.random() < 0.75 else "NVIDIA A100-SXM4-80GB"
    places: list[Place] = []
    for card in range(dice.randint(2, 5)):
        gpu = f"GPU-{fleet.cluster}-{node}-{card}"
        slots = [None] if dice.random() < 0.75 else [f"MIG-{fleet.cluster}-{node}-{card}-{half}" for half in range(2)]
        places += [Place(node, gpu, slot, model) for slot in slots]
        for at in range(start, until + 1, 10 * MINUTE_US):
            for place, slot in enumerate(slots):
                fleet.add(
                    "gpu_inventory",
                    node=node,
                    gpu_uuid=gpu,
                    slot_uuid=slot,
                    mig_profile=HALVES[place][0] if slot else None,
                    compute_slices=HALVES[place][1] if slot else None,
                    card_slices=7 if slot else None,
                    gpu_model=model,
                    memory_total_bytes=MODELS[model] // 2 if slot else MODELS[model],
                    seen_at=stamp(at),
                )
    _size_of_node(dice, fleet, node, start, until)
    return places


def _service(dice: random.Random, fleet: Fleet, name: str, places: Sequence[Place], start: int, until: int) -> None:
    """Replicas of one GPU, some in groups of two, that come and go; a load that rises and falls; what their servers tell."""
    tells_tokens, tells_pool, tells_latency = dice.random() < 0.7, dice.random() < 0.6, dice.random() < 0.6
    # a calm service is never seen at its limit, so that what it can do has to be worked out from what it does
    is_calm = dice.random() < 0.5
    if dice.random() < 0.7:
        fleet.add(
            "workload_rules",
            priority=10,
            name_regex=f"^{name}-",
            workload=name,
            kind=dice.choice((None, "inference")),
            latency_target_p95_seconds=dice.choice((None, 1, 1)),
            min_replicas=dice.choice((None, 1, 2)),
            replica_capacity_per_second=dice.choice((None, None, 25, 60) if tells_tokens else (None, None, 0.4)),
            valid_from="2026-01-01T00:00:00Z",
        )
    load = _load(dice, start, until, (0.02, 0.1, 0.2, 0.35, 0.5) if is_calm else (0.02, 0.1, 0.2, 0.4, 0.85, 0.95))
    slow = {hour for hour in range(start, until, HOUR_US) if dice.random() < 0.4} if tells_latency else set()
    is_even, is_grouped = dice.random() < 0.5, dice.random() < 0.3
    pool = dice.choice((20, 40)) * GB
    for number, place in enumerate(places):
        begin = start if dice.random() < 0.6 else start + round(dice.uniform(1, 100) * 60) * SECOND_US
        over = until if dice.random() < 0.6 else until - round(dice.uniform(1, 100) * 60) * SECOND_US
        job = f"{name}-{number}"
        group = f"{name}-group-{number // 2}" if is_grouped else None
        _run(fleet, job, [place.node], begin, over, owner=name, replica_group=group, uid=f"{fleet.cluster}-{job}")
        _hold(fleet, f"{fleet.cluster}-{job}", place, begin, over)
        part = 1.0 if is_even else (1.0, 0.15, 0.3, 0.05, 0.6)[number % 5]
        memory = (pool + 20 * GB if tells_pool else 30 * GB) if place.slot is None else 30 * GB
        _samples(dice, fleet, place, start, until, [Work(at, min(1, load[at] * part), memory) for at in sorted(load)])
        step = dice.choice((60, 60, 60, 90, 300)) * SECOND_US
        kv_peak = dice.choice((0.1, 0.3, 0.6) if is_calm else (0.1, 0.5, 0.97))
        at = begin - begin % MINUTE_US + MINUTE_US
        while at + step <= over:
            level = load[max(change for change in load if change <= at)] * part
            if dice.random() < 0.97:
                row = _tell_usage(dice, fleet, job, place, at, step, level, kv_peak, pool if tells_pool else None, tells_tokens)
                row["latency_histogram"] = (
                    _latencies(int(row["request_count"]), at - at % HOUR_US in slow) if tells_latency else ""
                )
            at += step


def _load(dice: random.Random, start: int, until: int, levels: Sequence[float]) -> dict[int, float]:
    load: dict[int, float] = {}
    at = start
    while at < until:
        load[at] = dice.choice(levels)
        at += dice.randint(5, 70) * MINUTE_US
    return load


def _tell_usage(
    dice: random.Random,
    fleet: Fleet,
    job: str,
    place: Place,
    at: int,
    step: int,
    level: float,
    kv_peak: float,
    pool: int | None,
    tells_tokens: bool,
) -> Row:
    seconds = step // SECOND_US
    requests = round(dice.uniform(0.8, 1.2) * level * seconds * 0.5)
    prompt = round(dice.uniform(0.8, 1.2) * level * seconds * 90)
    return fleet.add(
        "inference_usage",
        server=f"{job}:8000",
        node=place.node,
        job_id=f"{fleet.cluster}-{job}",
        namespace="team",
        model="m",
        interval_start_at=stamp(at),
        interval_ms=step // 1000,
        request_count=requests,
        prompt_tokens=prompt if tells_tokens else None,
        cached_prompt_tokens=prompt // 3 if tells_tokens and dice.random() < 0.5 else None,
        output_tokens=round(dice.uniform(0.8, 1.2) * level * seconds * 30) if tells_tokens else None,
        waiting_requests=dice.choice((0, 0, 3)) if level > 0.8 else 0,
        kv_cache_usage_ratio=round(kv_peak * dice.uniform(0.3, 1) * min(1, level + 0.3), 5),
        kv_cache_total_bytes=pool,
    )


def _latencies(requests: int, is_slow: bool) -> str:
    """Requests that took up to so many seconds; a p95 of about 0.9, or of about 1.8 seconds."""
    counts = [round(requests * part) for part in (0.5, 0.8, 0.9 if is_slow else 0.97, 0.995, 1)]
    return json.dumps([{"le_seconds": bound, "count": count} for bound, count in zip(BOUNDS, counts, strict=True)])


def _siblings(dice: random.Random, fleet: Fleet, job: str, places: Sequence[Place], start: int, until: int) -> None:
    """A run on several slots of which now one, now another is busy while the rest wait."""
    begin = start + round(dice.uniform(0, 30) * 60) * SECOND_US
    over = until - round(dice.uniform(0, 60) * 60) * SECOND_US
    nodes = sorted({place.node for place in places})
    kind = dice.choice((None, "Job", "Jupyter"))
    row = _run(fleet, job, nodes, begin, over, gpus=len(places), owner=job if kind == "Job" else None, uid=job)
    if kind == "Jupyter":
        row["name"] = f"jupyter-{job}"
    _tell_size(row, "gpu", dice.choice((8, 16)) * len(places), dice.choice((None, 64 * len(places))))
    works: list[list[Work]] = [[] for _ in places]
    at = start
    while at < until:
        busy = dice.randrange(len(places) + 1)
        for number, work in enumerate(works):
            quiet = dice.choice((0, 0.01, 0.1, 0.2, 0.27))
            memory = dice.choice((0, 2, 30)) * GB
            work.append(Work(at, 0.9 if number == busy else quiet, memory, jitter=dice.choice((0, 0.04))))
        at += dice.choice((8, 14, 15, 16, 25, 50)) * MINUTE_US
    for place, work in zip(places, works, strict=True):
        _hold(fleet, job, place, begin, over)
        _samples(dice, fleet, place, start, until, work)


def _quiet(dice: random.Random, fleet: Fleet, job: str, place: Place, start: int, until: int) -> None:
    """A run that does little and uses little memory for hours."""
    begin = start + round(dice.uniform(0, 30) * 60) * SECOND_US
    over = until - round(dice.uniform(0, 60) * 60) * SECOND_US
    owner = job if dice.random() < 0.5 else None
    _tell_size(_run(fleet, job, [place.node], begin, over, owner=owner, uid=job), "debug", dice.choice((2, 8)), 16)
    _hold(fleet, job, place, begin, over)
    level, memory = dice.choice((0, 0.03, 0.08, 0.12, 0.16)), dice.choice((1, 4, 8, 15, 30)) * GB
    works = [Work(at, level + dice.choice((0, 0, 0.03, 0.3)), memory) for at in range(start, until, 20 * MINUTE_US)]
    _samples(dice, fleet, place, start, until, works)


def _run(
    fleet: Fleet,
    job: str,
    nodes: Sequence[str],
    start: int,
    end: int,
    *,
    gpus: int = 1,
    owner: str | None = None,
    replica_group: str | None = None,
    uid: str | None = None,
) -> Row:
    # where only Slurm is told, pods are those that labels name
    has_pods = any(row["scheduler"] == "kubernetes" for row in fleet.first["runs"])
    return fleet.add(
        "runs",
        scheduler="kubernetes" if owner and has_pods else "slurm",
        job_id=uid or job,
        name=job,
        namespace="team",
        owner_kind=None if not owner else "Job" if owner == job else "ReplicaSet",
        owner_name=owner,
        replica_group=replica_group,
        state="COMPLETED",
        submitted_at=stamp(start - MINUTE_US),
        started_at=stamp(start),
        ended_at=stamp(end),
        gpu_count=gpus,
        node_list=",".join(nodes),
        suspended_seconds=0,
        observed_at=stamp(end + SECOND_US),
    )


def _hold(fleet: Fleet, job: str, place: Place, start: int, end: int) -> None:
    fleet.add(
        "run_gpus",
        job_id=job,
        node=place.node,
        gpu_uuid=place.gpu,
        slot_uuid=place.slot,
        gpu_count=1,
        started_at=stamp(start),
        ended_at=stamp(end),
    )


def _samples(dice: random.Random, fleet: Fleet, place: Place, start: int, until: int, works: Sequence[Work]) -> None:
    """A reading a minute; some slots say only that a kernel ran, some fall silent for a while."""
    signal = dice.choice(("sm_active_ratio",) * 5 + ("graphics_engine_active_ratio", "gpu_utilization_ratio"))
    silent = start + dice.randrange(0, 240) * MINUTE_US
    total = MODELS[place.model] // (2 if place.slot else 1)
    for at in range(start, until, MINUTE_US):
        if silent <= at < silent + 7 * MINUTE_US:
            continue
        work = max((work for work in works if work.start <= at), key=lambda work: work.start)
        activity = dice.uniform(work.activity - work.jitter, work.activity + work.jitter)
        fleet.add(
            "gpu_samples",
            node=place.node,
            gpu_uuid=place.gpu,
            slot_uuid=place.slot,
            source="dcgm",
            interval_start_at=stamp(at),
            interval_ms=60_000,
            power_watts=round(dice.uniform(100, 600), 3),
            temperature_celsius=dice.randint(30, 80),
            sm_clock_mhz=dice.choice((1200, 1500)),
            sm_clock_max_mhz=1980,
            sm_clock_application_mhz=1500,
            clock_event_reasons=dice.choice((0, 0, 0, 0x40)),
            memory_used_bytes=min(total, work.memory),
            memory_total_bytes=total,
            **{signal: round(min(1.0, max(0.0, activity)), 5)},
        )
