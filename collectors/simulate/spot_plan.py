"""drift: spot nodes that are taken away and come back, and training on them that starts again each time.

The first node is on demand and stays. A node that was away comes back with its cards, or its provider gives another.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import pairwise

from collectors.simulate import noise
from collectors.simulate.hardware import DRIFT, SPOT, Fleet, Node
from collectors.simulate.loads import Training
from collectors.simulate.plan import ABSENT, LOST, TRAINING_KIND, Run, Trouble, Use
from collectors.simulate.serving_plan import pod_suffix, pod_uid
from collectors.simulate.window import Window

#: (job, activity, memory in MiB, startup, pause every, pause of it): checkpoints, or a data loader that does not keep up
JOBS = (
    ("pretrain-moe", 0.86, 60_000, (10, 25), (58, 75), (4, 7)),
    ("finetune-assistant", 0.78, 60_000, (4, 12), (40, 60), (2, 4)),
    ("pretrain-video", 0.64, 60_000, (15, 28), (18, 24), (7, 10)),
    # small enough for two slices of seven
    ("finetune-adapter", 0.15, 6_000, (3, 9), (50, 70), (2, 4)),
)
#: how often each is taken up
ODDS = (4, 3, 3, 2)
TEAMS = {
    "pretrain-moe": "foundation",
    "finetune-assistant": "assistant",
    "pretrain-video": "foundation",
    "finetune-adapter": "assistant",
}
#: of a job on several cards the last has experts that little is routed to: it waits for the others
UNEVEN, UNEVEN_LEVEL = "pretrain-moe", 0.14
#: a hole shorter than this would count as a silent collector's, were the others silent too (semantics 2)
SHORTEST_HOLE = 30


@dataclass
class SpotPart:
    runs: list[Run] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    checkpoints: list[tuple[str, int]] = field(default_factory=list)


def plan_spot(fleet: Fleet, window: Window, seed: int) -> SpotPart:
    """Runs, uses, holes and lost cards of the cluster."""
    part = SpotPart()
    chance = noise.dice(seed, "spot")
    for number, node in enumerate(fleet.of(SPOT)):
        stays = [(0, window.minutes)] if number == 0 else _stays(window, chance)
        for (_, end), (start, _) in pairwise(stays):
            part.troubles.append(Trouble(ABSENT, node.name, end, start, "reclaimed"))
        if stays[0][0] > 0:
            part.troubles.append(Trouble(ABSENT, node.name, 0, stays[0][0], "not rented yet"))
        if stays[-1][1] < window.minutes:
            part.troubles.append(Trouble(ABSENT, node.name, stays[-1][1], window.minutes, "reclaimed"))
        lost = _losses(part, node, window, chance) if number == 0 or chance.random() < 0.03 * window.planning_days else []
        for start, end in stays:
            _train(part, node, start, end, lost, window, seed, chance)
    return part


def _stays(window: Window, chance: random.Random) -> list[tuple[int, int]]:
    """When a spot node is there: hours to a day, with holes between."""
    stays: list[tuple[int, int]] = []
    length = window.day_length
    now = chance.choice((0, 0, round(length * 0.05)))
    while now < window.minutes:
        end = now + max(60, round(length * (0.3 + 0.7 * chance.random())))
        hole = max(SHORTEST_HOLE, round(length * (0.04 + 0.15 * chance.random())))
        # no stay of less than an hour at the end
        if end + hole + 60 > window.minutes:
            end = window.minutes
        stays.append((now, end))
        now = end + hole
    return stays


def _losses(part: SpotPart, node: Node, window: Window, chance: random.Random) -> list[Trouble]:
    """A card that falls off the bus (XID 79), and is back some hours later."""
    length = window.day_length
    start = chance.randrange(window.planning_days) * length + round(length * (0.35 + 0.1 * chance.random()))
    slot = node.slots[chance.randrange(len(node.slots))]
    loss = Trouble(LOST, node.name, start, start + max(20, round(length * 0.15)), "XID 79", (slot.number,))
    if any(t.node == node.name and t.kind == ABSENT and t.start < loss.end and t.end > loss.start for t in part.troubles):
        return []
    part.troubles.append(loss)
    return [loss]


def _train(
    part: SpotPart, node: Node, start: int, end: int, losses: list[Trouble], window: Window, seed: int, chance: random.Random
) -> None:
    """Jobs of one pod that take what cards the node has, until they are done, a card is lost or the node is taken away."""
    (job,) = chance.choices(JOBS, ODDS)
    now = start + chance.randint(2, 9)
    while now < end - 5:
        broken = [loss for loss in losses if loss.start <= now < loss.end]
        coming = min((loss.start for loss in losses if loss.start > now), default=end)
        slots = [slot for slot in node.slots if not any(loss.concerns(slot) for loss in broken)]
        if not slots:
            now = max(loss.end for loss in broken) + 3
            continue
        if chance.random() < 0.3:
            (job,) = chance.choices(JOBS, ODDS)
        name, level, memory_mib, startup, every, pause = job
        until = min(now + chance.randint(180, 900), end, coming)
        load = Training(
            level, memory_mib + 1_000 * chance.randrange(12),
            chance.randint(*startup), chance.randint(*every), chance.randint(*pause),
            # one of four hangs for longer than a stall may last
            still=(120, 165) if chance.random() < 0.25 else (0, 0),
        )  # fmt: skip
        is_over = until < window.minutes
        pod = f"{name}-{pod_suffix(chance, 5)}-worker-0"
        state = "Failed" if until in (end, coming) else "Succeeded"
        uid = pod_uid(seed, pod, now)
        part.runs.append(
            Run(
                cluster=DRIFT,
                job_id=uid,
                name=pod,
                namespace="research",
                workload=name,
                kind=TRAINING_KIND,
                node=node.name,
                slots=tuple(slot.number for slot in slots),
                start=now,
                end=until if is_over else None,
                state=state if is_over else "Running",
                submitted=max(0, now - 2),
                owner_kind="PyTorchJob",
                owner_name=name,
                labels={"team": TEAMS[name], "application": name.split("-", 1)[1]},
            )
        )
        last = replace(load, level=UNEVEN_LEVEL) if name == UNEVEN and len(slots) > 1 else load
        part.uses += [Use(slot.number, now, min(until, window.minutes), last if slot is slots[-1] else load) for slot in slots]
        step = now + load.startup + load.every
        while step < min(until, window.minutes):
            part.checkpoints.append((uid, step))
            step += load.every
        now = until + chance.randint(3, 40)
