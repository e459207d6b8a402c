"""cirrus: a cloud's Kubernetes that serves. Replicas keep their memory at night, MIG instances and time-sliced notebooks.

Services keep a least number of replicas (`min_replicas` of their rule), and their replicas share the load evenly: what
is planted here is idleness, not more replicas than are wanted, and no quiet sibling of a busy one.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.simulate import noise
from collectors.simulate.hardware import CIRRUS, MIG, REPLICAS, SERVING, SHARED, Fleet, Node, Slot
from collectors.simulate.loads import Load, Nothing, Serving, Sessions, Training
from collectors.simulate.plan import (
    BATCH_KIND,
    HOT,
    INFERENCE_KIND,
    INTERACTIVE_KIND,
    Rule,
    Run,
    Service,
    Trouble,
    Use,
)
from collectors.simulate.window import DAY_MINUTES, Window


@dataclass(frozen=True)
class _Kind:
    """A service as it is planned: its part of the cards, cards per replica, activity at the peak and (of it) at night.

    Tokens of a request are those of published traces (Azure LLM inference 2023: 1,155 and 211 in conversations, 2,048 and
    28 for code).
    """

    name: str
    model: str
    part: float
    cards: int
    level: float
    night: float
    memory_ratio: float
    requests: int
    tokens: tuple[int, int, int]
    seconds: float
    hangs: bool = False
    latency_target: float | None = None


KINDS = (
    _Kind("chat", "assistant-32b", 0.4, 1, 0.74, 0.05, 0.88, 24, (1155, 310, 211), 4.5, True, 12.0),
    _Kind("vision", "detector-7b", 0.15, 1, 0.28, 0.3, 0.7, 60, (640, 0, 24), 0.6),
    _Kind("code", "coder-70b", 0.3, 2, 0.66, 0.08, 0.91, 30, (2048, 900, 28), 1.4),
    _Kind("legacy", "assistant-13b", 0.08, 1, 0.0, 0.0, 0.86, 0, (0, 0, 0), 0.0),
)
#: services on MIG instances, by compute slices
SLICED = {
    1: _Kind("embed", "embedder", 0, 1, 0.62, 0.35, 0.66, 300, (420, 0, 0), 0.08),
    2: _Kind("rerank", "reranker", 0, 1, 0.5, 0.03, 0.7, 90, (700, 0, 0), 0.2),
    3: _Kind("classify", "classifier", 0, 1, 0.58, 0.1, 0.72, 120, (350, 0, 2), 0.15),
}
#: of MIG instances so many are handed out
SLICES_HELD = 0.75
TEAM = {"chat": "assistant", "code": "developer-tools", "vision": "shop", "legacy": "assistant", "summarize": "reports"}


@dataclass
class ServingPart:
    runs: list[Run] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)


def plan_serving(fleet: Fleet, window: Window, seed: int) -> ServingPart:
    """Runs, uses, services and troubles of the cluster."""
    part = ServingPart()
    chance = noise.dice(seed, "serving")
    replicas = _replicas(part, fleet, window, seed, chance)
    replicas += _instances(part, fleet, window, seed, chance)
    for (kind, count), service in zip(replicas, part.services, strict=True):
        rule = Rule(
            CIRRUS, "apps", f"^{kind.name}-", kind.name, INFERENCE_KIND, TEAM.get(kind.name, "search"), kind.name,
            service.model, kind.latency_target, count,
        )  # fmt: skip
        part.rules.append(rule)
    part.rules += [
        Rule(CIRRUS, "apps", "^summarize-", "summarize", BATCH_KIND, TEAM["summarize"], "reports"),
        Rule(CIRRUS, "science", "^jupyter-", "notebooks", INTERACTIVE_KIND, "science"),
    ]
    for node in fleet.of(SHARED):
        _notebooks(part, node, window, chance)
    _heat(part, fleet, window, chance)
    return part


def pod_uid(seed: int, *names: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"gpu-net/{seed}/{names}"))


def pod_suffix(chance: random.Random, length: int) -> str:
    return "".join(chance.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(length))


def _replicas(part: ServingPart, fleet: Fleet, window: Window, seed: int, chance: random.Random) -> list[tuple[_Kind, int]]:
    """Deployments on whole cards; what is left over is free, but for a nightly job on some of it."""
    cards = [(node, slot) for node in fleet.of(SERVING) for slot in node.slots]
    total = len(cards)
    found: list[tuple[_Kind, int]] = []
    for kind in KINDS:
        wanted = max(1, int(total * kind.part) // kind.cards)
        slots = [group for _ in range(wanted) if (group := _take(cards, kind.cards))]
        if not slots:
            continue
        service = _service(part, kind, window, seed, slots[0][0].memory_mib, chance)
        template = pod_suffix(chance, 9)
        for group in slots:
            name = f"{kind.name}-{template}-{pod_suffix(chance, 5)}"
            _pod(part, name, "Deployment", kind.name, group, 0, None, service.load, seed, window)
        found.append((kind, len(slots)))
    for node, slot in cards[: max(1, len(cards) // 2)]:
        _nightly(part, node, slot, window, seed, chance)
    return found


def _take(cards: list[tuple[Node, Slot]], count: int) -> list[Slot]:
    """The next so many cards of one node."""
    for first in range(len(cards) - count + 1):
        chosen = cards[first : first + count]
        if len({node.name for node, _ in chosen}) == 1:
            del cards[first : first + count]
            return [slot for _, slot in chosen]
    return []


def _service(part: ServingPart, kind: _Kind, window: Window, seed: int, memory_mib: int, chance: random.Random) -> Service:
    hung = tuple(_hangs(window, chance)) if kind.hangs else ()
    memory = round(memory_mib * kind.memory_ratio)
    key = noise.key_of(seed, kind.name)
    load: Load = (
        Serving(kind.level, memory, window.first_minute_of_week, kind.night, key, hung) if kind.level else Nothing(memory)
    )
    service = Service("apps", kind.name, kind.model, load, kind.requests, *kind.tokens, kind.seconds, hung)
    part.services.append(service)
    return service


def _hangs(window: Window, chance: random.Random) -> Iterator[tuple[int, int]]:
    """On one day of four, and the first, the front end lets nothing through for a while: requests wait, cards idle."""
    length = window.day_length
    for day in range(window.planning_days):
        if day == 0 or chance.random() < 0.25:
            # usage may be told in rows of five minutes
            start = (day * length + round(length * (0.5 + 0.1 * chance.random()))) // 5 * 5
            yield start, min(start + max(5, round(length * 0.03) // 5 * 5), window.minutes)


def _pod(
    part: ServingPart,
    name: str,
    owner_kind: str,
    workload: str,
    slots: list[Slot],
    start: int,
    end: int | None,
    load: Load,
    seed: int,
    window: Window,
) -> None:
    is_batch = owner_kind == "CronJob"
    part.runs.append(
        Run(
            cluster=CIRRUS,
            job_id=pod_uid(seed, name, start),
            name=name,
            namespace="apps",
            workload=workload,
            kind=BATCH_KIND if is_batch else INFERENCE_KIND,
            node=slots[0].node,
            slots=tuple(slot.number for slot in slots),
            start=start,
            end=end,
            state="Running" if end is None else "Succeeded",
            submitted=start,
            owner_kind=owner_kind,
            owner_name=workload,
            labels={"app.kubernetes.io/name": workload},
        )
    )
    part.uses += [Use(slot.number, start, window.minutes if end is None else end, load) for slot in slots]


def _nightly(part: ServingPart, node: Node, slot: Slot, window: Window, seed: int, chance: random.Random) -> None:
    """A CronJob that works through the day's documents in small batches, with a slow start."""
    for day in range(window.planning_days + 1):
        midnight = day * DAY_MINUTES - window.first_minute_of_day
        start = midnight + 30 + chance.randrange(20)
        end = start + 200 + chance.randrange(80)
        if start < 0 or end > window.minutes:
            continue
        load = Training(0.22 + 0.08 * chance.random(), 46_000, startup=chance.randint(4, 15))
        name = f"summarize-{29_000_000 + day * DAY_MINUTES}-{pod_suffix(chance, 5)}"
        _pod(part, name, "CronJob", "summarize", [slot], start, end, load, seed, window)


def _instances(part: ServingPart, fleet: Fleet, window: Window, seed: int, chance: random.Random) -> list[tuple[_Kind, int]]:
    """Services on MIG instances."""
    counts: Counter[int] = Counter()
    services: dict[int, Service] = {}
    for node in fleet.of(MIG):
        for position, slot in enumerate(node.slots):
            if position and chance.random() > SLICES_HELD:
                continue
            kind = SLICED[slot.slices]
            if slot.slices not in services:
                services[slot.slices] = _service(part, kind, window, seed, slot.memory_mib, chance)
            counts[slot.slices] += 1
            name = f"{kind.name}-{pod_suffix(chance, 9)}-{pod_suffix(chance, 5)}"
            _pod(part, name, "Deployment", kind.name, [slot], 0, None, services[slot.slices].load, seed, window)
    return [(SLICED[slices], counts[slices]) for slices in services]


def _notebooks(part: ServingPart, node: Node, window: Window, chance: random.Random) -> None:
    """Pods that ask for a quarter of a time-sliced card each. The card does what all of them do together."""
    for slot in node.slots:
        sharers = chance.randint(1, REPLICAS)
        people = [pod_suffix(chance, 6) for _ in range(sharers)]
        kept = chance.choice((680, 9_000, 18_000))
        first = chance.randrange(max(1, window.day_length // 8))
        last = window.minutes
        for person in people:
            start = first + chance.randrange(max(1, window.day_length // 12))
            end = None if chance.random() < 0.6 else start + max(60, (last - start) * 2 // 3)
            end = None if end is not None and end >= window.minutes else end
            name = f"jupyter-{person}"
            part.runs.append(
                Run(
                    cluster=CIRRUS,
                    job_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{slot.gpu_uuid}/{name}")),
                    name=name,
                    namespace="science",
                    workload="notebooks",
                    kind=INTERACTIVE_KIND,
                    node=node.name,
                    slots=(slot.number,),
                    start=start,
                    end=end,
                    state="Running" if end is None else "Succeeded",
                    submitted=start,
                    share=1 / REPLICAS,
                    owner_kind="StatefulSet",
                    owner_name=name,
                    labels={"app.kubernetes.io/name": "jupyterhub"},
                )
            )
        mine = part.runs[-sharers:]
        begins, ends = min(run.start for run in mine), max(run.until(window) for run in mine)
        part.uses.append(Use(slot.number, begins, ends, Sessions(0.95, kept, window.first_minute_of_week, 0.4 + 0.1 * sharers)))


def _heat(part: ServingPart, fleet: Fleet, window: Window, chance: random.Random) -> None:
    """A rack that is warm in the afternoon, on one day of ten and the first."""
    nodes = fleet.of(SERVING)
    length = window.day_length
    for day in range(window.planning_days):
        if day and chance.random() > 0.1 * len(nodes):
            continue
        node = nodes[chance.randrange(len(nodes))]
        start = day * length + round(length * 0.62)
        slots = tuple(slot.number for slot in node.slots[: max(1, len(node.slots) // 2)])
        part.troubles.append(Trouble(HOT, node.name, start, start + round(length * 0.12), "heat", slots, 0.8, 0x40))
