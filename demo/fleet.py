"""The made-up fleet: twelve GPUs of two clusters over three days, and what was done with them.

    alder    on premises, Slurm: a01 and a02 with four A100 each. Accounting names no GPU indices, so which card a job
             had is known by evidence of work only. Priced by a rate card.
    cirrus   cloud, Kubernetes: k01 with two H100, one of them partitioned; k02 with two L40S, one of them time-sliced by
             four. Devices are known exactly. Priced by FOCUS bills.

Everything is a function of the time, so that each run of the demo lands the same fleet; jitter comes from a hash.
"""

from __future__ import annotations

import math
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

START_AT = datetime(2026, 11, 2)
END_AT = datetime(2026, 11, 5)
#: from here on the fleet is delivered as native text
NATIVE_FROM = datetime(2026, 11, 4, 22)

ALDER, CIRRUS = "alder", "cirrus"
PROVIDER = "Example Cloud"

HOUR = timedelta(hours=1)


def at(day: int, clock: str = "00:00") -> datetime:
    """An instant of November 2026, UTC; 24:00 is the end of the day."""
    hour, minute = clock.split(":")
    return datetime(2026, 11, day) + timedelta(hours=int(hour), minutes=int(minute))


def jitter(*parts: object) -> float:
    """A number in [-1, 1) that depends on nothing but `parts`."""
    return zlib.crc32(repr(parts).encode()) / 2**31 - 1


@cache
def _gpu_uuid(node: str, index: int) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}.{index}.gpu-net.example')}"


@dataclass(frozen=True)
class Slot:
    """A whole card, or one MIG instance (`instance`, `profile`, `compute_slices` of 7)."""

    node: str
    index: int
    instance: int | None = None
    profile: str | None = None
    compute_slices: int | None = None

    @property
    def gpu_uuid(self) -> str:
        return _gpu_uuid(self.node, self.index)

    @property
    def slot_uuid(self) -> str | None:
        return None if self.instance is None else f"{self.gpu_uuid}/gi{self.instance}"


@dataclass(frozen=True)
class Node:
    """`cards` GPUs of one model; `layout` gives the MIG instances of a partitioned card by its index."""

    cluster: str
    name: str
    gpu_model: str
    memory_gib: int
    clock_mhz: int
    idle_watts: float
    full_watts: float
    cpu_count: int
    instance_type: str
    resource_id: str | None
    cards: int
    layout: tuple[Slot, ...] = ()

    @property
    def slots(self) -> list[Slot]:
        partitioned = {slot.index for slot in self.layout}
        whole = [Slot(self.name, index) for index in range(self.cards) if index not in partitioned]
        return sorted([*whole, *self.layout], key=lambda slot: (slot.index, slot.instance or 0))

    def slot_memory_gib(self, slot: Slot) -> float:
        return {None: self.memory_gib, "1g.10gb": 9.75, "2g.20gb": 19.5}[slot.profile]


# a seventh of the card is left over: nobody can be given it
_LAYOUT = (
    Slot("k01", 1, 7, "1g.10gb", 1),
    Slot("k01", 1, 8, "1g.10gb", 1),
    Slot("k01", 1, 3, "2g.20gb", 2),
    Slot("k01", 1, 4, "2g.20gb", 2),
)
_A100 = ("NVIDIA A100-SXM4-80GB", 80, 1410, 62.0, 400.0)

NODES = (
    Node(ALDER, "a01", *_A100, 128, "HGX A100", None, 4),
    Node(ALDER, "a02", *_A100, 128, "HGX A100", None, 4),
    Node(CIRRUS, "k01", "NVIDIA H100 80GB HBM3", 80, 1980, 72.0, 700.0, 104, "gpu-h100-2", "i-0c1d2e3f4a5b60001", 2, _LAYOUT),
    Node(CIRRUS, "k02", "NVIDIA L40S", 48, 2520, 38.0, 350.0, 64, "gpu-l40s-2", "i-0c1d2e3f4a5b60002", 2),
)


@dataclass(frozen=True)
class NodeState:
    node: str
    state: str
    reason: str
    start_at: datetime
    end_at: datetime


NODE_STATES = (
    NodeState("a02", "down", "power supply replaced", at(3, "02:00"), at(3, "08:00")),
    NodeState("a02", "reserved", "course that nobody came to", at(4, "12:00"), at(4, "18:00")),
    NodeState("a02", "draining", "kernel update", at(4, "18:00"), at(4, "24:00")),
)

#: telemetry that failed: an exporter that was silent, and one that repeated its last values
SILENT = (("a02", at(2, "18:00"), at(2, "21:00")),)
FROZEN = (("a01", 1, at(4, "13:00"), at(4, "13:50")),)
#: a fan that failed: clocks held down by heat (0x40)
HOT = (("a01", 0, at(2, "13:00"), at(2, "18:00"), 1005),)

#: activity of a minute, given the minutes since the load began and the instant
Activity = Callable[[int, datetime], float]


@dataclass(frozen=True)
class Load:
    """What one slot did: activity by minute, memory in use."""

    node: str
    index: int
    start_at: datetime
    end_at: datetime
    activity: Activity
    memory_gib: float
    instance: int | None = None


def steady(level: float) -> Activity:
    return lambda minute, _: level


def training(level: float, startup: int, every: int, pause: int) -> Activity:
    """Nothing for `startup` minutes, then work that pauses for `pause` of each `every` minutes."""
    return lambda minute, _: 0.0 if minute < startup or (minute - startup) % every >= every - pause else level


def office_hours(level: float, night: float) -> Activity:
    """A wave between 07:00 and 21:00 UTC, `night` outside of it."""

    def activity(_: int, now: datetime) -> float:
        hour = now.hour + now.minute / 60
        return level * (0.75 + 0.25 * math.sin((hour - 7) / 14 * math.pi)) if 7 <= hour < 21 else night

    return activity


#: the front end of the chat service hung: requests waited while the card idled
HUNG = (at(4, "09:00"), at(4, "09:45"))


def chat(minute: int, now: datetime) -> float:
    return 0.0 if HUNG[0] <= now < HUNG[1] else office_hours(0.72, 0.03)(minute, now)


def notebook(_: int, now: datetime) -> float:
    """Two hours of work before noon; the rest of the day nothing."""
    return 0.9 if 10 <= now.hour < 12 else 0.0


_TRAINING = training(0.82, startup=18, every=60, pause=4)
_DATA_BOUND = training(0.66, startup=25, every=20, pause=9)

LOADS = (
    *(Load("a01", card, at(2, "06:00"), at(3, "01:00"), _TRAINING, 71.0) for card in range(4)),
    *(Load("a02", card, at(2, "10:00"), at(3, "02:00"), steady(0.74), 58.0) for card in range(2)),
    *(Load("a02", card, at(3, "08:30"), at(4, "10:00"), training(0.74, 6, 90, 2), 58.0) for card in range(2)),
    *(Load("a02", 2, at(2, clock), at(2, clock) + 2 * HOUR, steady(0.17), 6.0) for clock in ("05:00", "11:00", "15:00")),
    *(Load("a02", 2, at(3, clock), at(3, clock) + 2 * HOUR, steady(0.17), 6.0) for clock in ("09:00", "12:00", "15:00")),
    *(Load("a01", card, at(3, "10:00"), at(3, "16:00"), steady(0.55), 40.0) for card in (2, 3)),
    *(Load("a01", card, at(4, "06:00"), at(4, "24:00"), _DATA_BOUND, 66.0) for card in (1, 2)),
    Load("a01", 3, at(4, "22:10"), at(4, "24:00"), steady(0.88), 30.0),
    Load("k01", 0, at(2), at(4, "24:00"), chat, 71.0),
    Load("k01", 1, at(2), at(4, "24:00"), office_hours(0.62, 0.3), 4.0, instance=7),
    Load("k01", 1, at(2), at(4, "24:00"), steady(0.0), 4.0, instance=8),
    Load("k01", 1, at(2), at(4, "24:00"), office_hours(0.24, 0.02), 9.0, instance=3),
    *(Load("k02", 0, at(day, "00:30"), at(day, "04:30"), steady(0.19), 20.0) for day in (2, 3, 4)),
    Load("k02", 0, at(3, "09:00"), at(3, "19:00"), training(0.86, startup=24, every=45, pause=3), 41.0),
    Load("k02", 1, at(2, "08:00"), at(4, "24:00"), notebook, 0.6),
)


@dataclass(frozen=True)
class Job:
    """An attempt of a Slurm job; `end_at` None: still running at the end."""

    job_id: int
    name: str
    account: str
    node: str
    gpu_count: int
    start_at: datetime
    end_at: datetime | None
    state: str = "COMPLETED"
    suspended: timedelta = timedelta()
    is_interactive: bool = False


JOBS = (
    Job(4101, "train-llm", "nlp", "a01", 4, at(2, "06:00"), at(3, "01:00")),
    Job(4102, "pretrain-vision", "vision", "a02", 2, at(2, "10:00"), at(3, "02:00"), "NODE_FAIL"),
    Job(4102, "pretrain-vision", "vision", "a02", 2, at(3, "08:30"), at(4, "10:00")),
    *(
        Job(4110 + number, f"sweep-{17 + number:04d}", "vision", "a02", 1, start, start + 2 * HOUR)
        for number, start in enumerate(
            at(day, clock) for day, clock in ((2, "05:00"), (2, "11:00"), (2, "15:00"), (3, "09:00"), (3, "12:00"), (3, "15:00"))
        )
    ),
    Job(4103, "interactive", "nlp", "a01", 1, at(3, "09:00"), at(4, "22:45"), "TIMEOUT", is_interactive=True),
    Job(4104, "train-asr", "speech", "a01", 2, at(3, "10:00"), at(3, "16:00"), suspended=2 * HOUR),
    Job(4105, "train-multimodal", "vision", "a01", 2, at(4, "06:00"), None, "RUNNING"),
    Job(4106, "eval-llm", "nlp", "a01", 1, at(4, "22:10"), at(4, "24:00")),
)


@dataclass(frozen=True)
class Pod:
    """A pod on one slot; `share` of the time-sliced card, None where it has the slot to itself."""

    name: str
    namespace: str
    owner_kind: str
    owner_name: str
    node: str
    index: int
    start_at: datetime
    end_at: datetime | None
    instance: int | None = None
    share: float | None = None

    @property
    def uid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.namespace}.{self.name}"))


PODS = (
    Pod("chat-6f7b9-x2x7q", "apps", "Deployment", "chat", "k01", 0, at(2), None),
    Pod("embed-58c4d-9k2mv", "apps", "Deployment", "embed", "k01", 1, at(2), None, instance=7),
    Pod("embed-58c4d-tt8zl", "apps", "Deployment", "embed", "k01", 1, at(2), None, instance=8),
    Pod("rerank-7d9fb-w4hnc", "apps", "Deployment", "rerank", "k01", 1, at(2), None, instance=3),
    *(Pod(f"summarize-{day}", "apps", "CronJob", "summarize", "k02", 0, at(day, "00:30"), at(day, "04:30")) for day in (2, 3, 4)),
    Pod("finetune-assistant-0", "science", "Job", "finetune-assistant", "k02", 0, at(3, "09:00"), at(3, "19:00")),
    Pod("jupyter-ana", "science", "StatefulSet", "jupyter-ana", "k02", 1, at(2, "08:00"), None, share=0.25),
)
