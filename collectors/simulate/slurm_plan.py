"""alder: a Slurm cluster of one's own. Jobs of 1 to 8 GPUs come by day and week, queue, run, fail, are requeued.

Its accounting names no cards, so the ledger gives a node's working cards to all who held some of it, in proportion
(semantics 3). Every job keeps memory on its cards or has the whole node, so that it is known which cards those are.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from collectors.simulate import noise
from collectors.simulate.hardware import BATCH, INTERACTIVE, Fleet, Node
from collectors.simulate.loads import EMPTY_MIB, Load, Nothing, Sessions, Training
from collectors.simulate.plan import (
    DOWN,
    DRAINED,
    DRAINING,
    FROZEN,
    HOT,
    INTERACTIVE_KIND,
    RESERVED,
    SILENT,
    Run,
    Trouble,
    Use,
    Waiting,
)
from collectors.simulate.slurm_queue import Host, Job, Queue, run_of
from collectors.simulate.window import Window

#: jobs by number of GPUs, and their lengths in minutes as quantiles (NHR@FAU's alex: median 2 h, mean 8 h)
SIZES = ((1, 0.58), (2, 0.14), (4, 0.14), (8, 0.14))
LENGTHS = (6, 20, 45, 90, 150, 240, 420, 780, 1500)
#: of the capacity what is asked for
WANTED = 0.95
ENDS = (("COMPLETED", 0.74), ("FAILED", 0.1), ("TIMEOUT", 0.07), ("CANCELLED", 0.07), ("OUT_OF_MEMORY", 0.02))
#: (account, job name, activity, startup, pause every, pause of it)
TEMPLATES = (
    ("nlp", "train-llm", 0.72, (8, 26), (50, 90), (3, 6)),
    ("vision", "pretrain-vision", 0.66, (4, 15), (40, 70), (2, 4)),
    ("vision", "train-multimodal", 0.58, (12, 27), (20, 24), (7, 11)),
    ("speech", "train-asr", 0.52, (3, 10), (60, 90), (2, 5)),
    ("nlp", "eval-llm", 0.7, (2, 5), (500, 600), (1, 2)),
)
#: jobs that come by themselves at most so many minutes: a card is not planned for longer than this
LONGEST = 1500
#: parts of a planning day in which nodes have something: no two of them overlap, and none is at the day's end
BANDS = {
    "suspended": (0.01, 0.09),
    DOWN: (0.10, 0.26),
    "never_used": (0.30, 0.38),
    DRAINED: (0.40, 0.56),
    SILENT: (0.60, 0.72),
    RESERVED: (0.76, 0.88),
}
#: how much of the nodes' days has one of them
#: jobs that have their node to themselves
BOOKED = ("suspended", "never_used")
LAST_JOB = "last job"
RATES = {"suspended": 0.05, DOWN: 0.03, "never_used": 0.03, DRAINED: 0.03, SILENT: 0.04, RESERVED: 0.03}
REASONS = {DOWN: "Not responding", DRAINED: "kernel update", RESERVED: "course"}


@dataclass
class SlurmPart:
    runs: list[Run] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)


def plan_slurm(fleet: Fleet, window: Window, seed: int) -> SlurmPart:
    """Runs, uses and troubles of the cluster."""
    part = SlurmPart()
    chance = noise.dice(seed, "slurm")
    hosts = [Host(node, [slot.number for slot in node.slots]) for node in fleet.of(BATCH)]
    bookings = _close(hosts, window, chance)
    for host, kind, start, end in bookings:
        _book(part, host, kind, start, end)
    queue = Queue(hosts, _arrivals(hosts, window, chance), window)
    queue.run()
    part.runs += queue.runs
    part.uses += queue.uses
    part.waiting = queue.waiting()
    for host in hosts:
        _note_states(part, host, window)
    for node in fleet.of(INTERACTIVE):
        _sessions(part, node, window, chance)
    _silence(part, hosts, window, chance)
    _freeze(part, fleet, window, chance)
    _heat(part, hosts, window, chance)
    return part


def _close(hosts: Sequence[Host], window: Window, chance: random.Random) -> list[tuple[Host, str, int, int]]:
    """Decide which nodes are closed when, and give back the bookings: jobs that have their node to themselves."""
    bookings = []
    length = window.day_length
    for kind in (*BOOKED, DOWN, DRAINED, RESERVED):
        low, high = BANDS[kind]
        for number, day in _cells(len(hosts), window, RATES[kind], chance):
            first = day * length + round(low * length)
            start = first + chance.randrange(max(1, round((high - low) * 0.25 * length)))
            end = day * length + round(high * length) - chance.randrange(max(1, round((high - low) * 0.2 * length)))
            if start >= end:
                continue
            hosts[number].closed.append((kind, start, end))
            if kind in BOOKED:
                bookings.append((hosts[number], kind, start, end))
            if kind == DRAINED and len(hosts[number].free) > 1:
                # the last job of a node that drains, so that it drains with free cards beside it
                before = max(0, start - round(0.015 * length))
                hosts[number].closed.append((LAST_JOB, before, start))
                bookings.append((hosts[number], LAST_JOB, before, (start + end) // 2))
    return bookings


def _cells(nodes: int, window: Window, rate: float, chance: random.Random) -> Iterable[tuple[int, int]]:
    """Node and day of some of the nodes' days, at least of one."""
    cells = [(number, day) for number in range(nodes) for day in range(window.planning_days)]
    return chance.sample(cells, min(len(cells), max(1, round(rate * len(cells)))))


def _book(part: SlurmPart, host: Host, kind: str, start: int, end: int) -> None:
    node = host.node
    whole = [slot.number for slot in node.slots]
    job_id = str(900_000 + len(part.runs))
    name, state, slots, held = "train-diffusion", "COMPLETED", whole[: max(1, len(whole) // 2)], 0
    load: Load = Training(0.6, 52_000, startup=4)
    if kind == "never_used":
        name, state, slots, load = "train-hpo", "CANCELLED", whole, Nothing(EMPTY_MIB)
    elif kind == "suspended":
        held, offset = max(1, (end - start) // 4), (end - start) // 3
        load = Training(0.6, 52_000, startup=min(6, offset), still=(offset, offset + held))
    job = Job(job_id, name, "vision", len(slots), end - start, max(0, start - 3), load, state)
    part.runs.append(replace(run_of(node, job, slots, start, end), suspended=held))
    part.uses += [Use(slot, start, end, load) for slot in slots]


def _arrivals(hosts: Sequence[Host], window: Window, chance: random.Random) -> list[Job]:
    """Jobs by the time they are submitted: many at the start, then by day and week, until what is wanted is asked for."""
    capacity = sum(len(host.free) for host in hosts)
    largest = max(len(host.free) for host in hosts)
    budget = WANTED * capacity * window.minutes
    jobs: list[Job] = []
    asked = 0
    while asked < budget:
        count = min(chance.choices([size for size, _ in SIZES], [weight for _, weight in SIZES])[0], largest)
        place = chance.random() * (len(LENGTHS) - 1)
        low, high = LENGTHS[int(place)], LENGTHS[int(place) + 1]
        length = min(round(low + (high - low) * (place - int(place))), max(5, window.minutes // 2), LONGEST)
        submitted = 0 if asked < 0.5 * capacity * min(window.minutes, 360) else _moment(window, chance)
        jobs.append(_job(str(100_000 + len(jobs)), count, length, submitted, chance))
        asked += count * length
    return sorted(jobs, key=lambda job: (job.submitted, job.job_id))


def _moment(window: Window, chance: random.Random) -> int:
    """A minute of the plan, three times as likely by day as by night and at weekends."""
    while True:
        minute = chance.randrange(window.minutes)
        hour = (window.first_minute_of_day + minute) // 60 % 24
        is_weekend = (window.first_minute_of_week + minute) // 1440 % 7 >= 5
        if chance.random() < (1.0 if 8 <= hour < 20 and not is_weekend else 0.35):
            return minute


def _job(job_id: str, count: int, length: int, submitted: int, chance: random.Random) -> Job:
    state = chance.choices([name for name, _ in ENDS], [weight for _, weight in ENDS])[0]
    if count == 1 and chance.random() < 0.3:
        load: Load = Training(0.12 + 0.22 * chance.random(), 44_000 + 1_000 * chance.randrange(12), startup=chance.randrange(4))
        return Job(job_id, f"sweep-{chance.randrange(10_000):04d}", "vision", 1, min(length, 200), submitted, load, state)
    account, name, level, startup, every, pause = TEMPLATES[chance.randrange(len(TEMPLATES))]
    load = Training(
        level + 0.06 * (chance.random() - 0.5),
        38_000 + 1_000 * chance.randrange(36),
        chance.randint(*startup),
        chance.randint(*every),
        chance.randint(*pause),
    )
    return Job(job_id, name, account, count, length, submitted, load, state)


def _note_states(part: SlurmPart, host: Host, window: Window) -> None:
    """Rows of node states: a node that is drained with jobs on it drains until the last of them ends."""
    for kind, start, end in host.closed:
        if kind in (DOWN, RESERVED):
            part.troubles.append(Trouble(kind, host.node.name, start, end, REASONS[kind]))
        if kind == DRAINED:
            held = [
                run.until(window)
                for run in part.runs
                if run.node == host.node.name and run.start < end and run.until(window) > start
            ]
            empty = max((min(until, end) for until in held), default=start)
            if empty > start:
                part.troubles.append(Trouble(DRAINING, host.node.name, start, empty, REASONS[DRAINED]))
            if empty < end:
                part.troubles.append(Trouble(DRAINED, host.node.name, empty, end, REASONS[DRAINED]))


def _sessions(part: SlurmPart, node: Node, window: Window, chance: random.Random) -> None:
    """Interactive sessions on single cards: some keep memory, some never load anything, some are used."""
    for slot in node.slots:
        now = chance.randrange(max(1, window.day_length // 12))
        while now < window.minutes:
            length = min(chance.choice((90, 180, 360, 600)), window.minutes // 2)
            end = now + length
            load: Load = chance.choice(
                (Nothing(EMPTY_MIB), Nothing(EMPTY_MIB), Nothing(22_000), Sessions(0.7, 42_000, window.first_minute_of_week))
            )
            state = "TIMEOUT" if chance.random() < 0.5 else "COMPLETED"
            job = Job(
                str(500_000 + len(part.runs)),
                "interactive",
                chance.choice(("nlp", "vision")),
                1,
                length,
                max(0, now - 1),
                load,
                state,
            )
            run = run_of(node, job, [slot.number], now, end if end <= window.minutes else None)
            part.runs.append(replace(run, kind=INTERACTIVE_KIND, labels={"interactive": "true"}))
            part.uses.append(Use(slot.number, now, min(end, window.minutes), load))
            now = end + chance.randrange(5, max(6, window.day_length // 6))


def _silence(part: SlurmPart, hosts: Sequence[Host], window: Window, chance: random.Random) -> None:
    """Exporters that told nothing for a while."""
    length = window.day_length
    low, high = BANDS[SILENT]
    for number, day in _cells(len(hosts), window, RATES[SILENT], chance):
        start = day * length + round(low * length)
        end = start + max(1, round((high - low) * length * (0.5 + 0.5 * chance.random())))
        part.troubles.append(Trouble(SILENT, hosts[number].node.name, start, end, "exporter"))


def _freeze(part: SlurmPart, fleet: Fleet, window: Window, chance: random.Random) -> None:
    """Exporters that repeat themselves for one card: only of cards that were held all the time, and not silent."""
    batch = {node.name for node in fleet.of(BATCH)}
    silent = defaultdict(list)
    for trouble in part.troubles:
        silent[trouble.node].append(trouble)
    long_ones = [
        run
        for run in part.runs
        if run.node in batch
        and run.until(window) - run.start >= 75
        and run.until(window) < window.minutes - 130
        and run.name not in ("train-hpo", "train-diffusion")
        and not any(trouble.start < run.until(window) and trouble.end > run.start for trouble in silent[run.node])
    ]
    wanted = max(1, round(0.02 * len(batch) * window.planning_days))
    for run in chance.sample(long_ones, min(len(long_ones), wanted)):
        start = run.start + 32
        end = min(start + chance.randrange(20, 51), run.until(window) - 5)
        part.troubles.append(Trouble(FROZEN, run.node, start, end, "stale", slots=(run.slots[0],)))


def _heat(part: SlurmPart, hosts: Sequence[Host], window: Window, chance: random.Random) -> None:
    """Clocks held down in the afternoon by heat and by a power brake, and by a power cap, which is no throttling."""
    length = window.day_length
    for kind, (ratio, bits, share) in {
        "heat": (0.7, 0x40, 0.05),
        "software heat": (0.8, 0x20, 0.03),
        "power brake": (0.8, 0x80, 0.02),
        "power cap": (0.9, 0x4, 0.05),
    }.items():
        for number, day in _cells(len(hosts), window, share, chance):
            node = hosts[number].node
            start = day * length + round(length * (0.45 + 0.05 * chance.random()))
            end = start + max(1, round(length * 0.2))
            slots = tuple(slot.number for slot in node.slots[: max(1, len(node.slots) // 2)])
            part.troubles.append(Trouble(HOT, node.name, start, min(end, window.minutes), kind, slots, ratio, bits))
