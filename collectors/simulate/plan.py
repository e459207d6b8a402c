"""What a plan is made of: who held what and when, what the cards did, what was wrong with them. Times are minutes."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from collectors.simulate.hardware import Fleet, Node, Slot
from collectors.simulate.loads import Load
from collectors.simulate.window import Window

Key = TypeVar("Key")
Value = TypeVar("Value")

INTERACTIVE_KIND, TRAINING_KIND, BATCH_KIND, INFERENCE_KIND = "interactive", "training", "batch", "inference"
#: kinds whose idle time may be the pipeline's (semantics 5, rule 8)
PIPELINED = (TRAINING_KIND, BATCH_KIND)

#: what is wrong with a node or a card in a stretch of time
DOWN, DRAINING, DRAINED, RESERVED, LOST = "down", "draining", "drained", "reserved", "lost"
SILENT, FROZEN, HOT, ABSENT = "silent", "frozen", "hot", "absent"


@dataclass(frozen=True)
class Run:
    """An attempt of a job, or a pod. `slots` are the numbers of those it used, whether or not the scheduler tells which.

    `end` None: it runs on when the plan ends. `share` None: it has its slots to itself.
    """

    cluster: str
    job_id: str
    name: str
    namespace: str
    workload: str
    kind: str
    node: str
    slots: tuple[int, ...]
    start: int
    end: int | None
    state: str
    submitted: int
    share: float | None = None
    suspended: int = 0
    owner_kind: str | None = None
    owner_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def workload_id(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.workload}"

    def until(self, window: Window) -> int:
        return window.minutes if self.end is None else self.end


@dataclass(frozen=True)
class Waiting:
    """A job that never started: it waits (`state` PENDING) or was given up at `until`."""

    job_id: str
    name: str
    namespace: str
    gpu_count: int
    submitted: int
    until: int
    state: str


@dataclass(frozen=True)
class Use:
    """What a slot does in `[start, end)`."""

    slot: int
    start: int
    end: int
    load: Load


@dataclass(frozen=True)
class Trouble:
    """A stretch in which a node, or of it only `slots`, is not as it should be; `kind` is one of the names above.

    Of `HOT` cards the clock is `clock_ratio` of its most, for the clock event reasons `bits`.
    """

    kind: str
    node: str
    start: int
    end: int
    reason: str = ""
    slots: tuple[int, ...] | None = None
    clock_ratio: float = 1.0
    bits: int = 0

    def concerns(self, slot: Slot) -> bool:
        return self.slots is None or slot.number in self.slots


@dataclass(frozen=True)
class Service:
    """What serves requests: tokens of a request, its seconds, and how many a replica takes per minute at its peak."""

    namespace: str
    name: str
    model: str
    load: Load
    peak_requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    seconds: float
    waiting: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A row of `workload_rules`."""

    cluster: str
    namespace: str
    name_regex: str
    workload: str
    kind: str
    team: str
    application: str | None = None
    model: str | None = None
    latency_target_p95_seconds: float | None = None
    min_replicas: int | None = None


@dataclass(frozen=True)
class Price:
    """What a GPU-hour costs in `[start, end)`, in USD; changes lie on midnights."""

    amount: Decimal
    start: int
    end: int


@dataclass(frozen=True)
class Plan:
    """A fleet's time. `prices` are by node; `commitment_unused` is the price of an hour that nobody used."""

    window: Window
    seed: int
    fleet: Fleet
    runs: Sequence[Run]
    uses: Sequence[Use]
    troubles: Sequence[Trouble]
    waiting: Sequence[Waiting]
    services: Sequence[Service]
    rules: Sequence[Rule]
    checkpoints: Sequence[tuple[str, int]]
    prices: Mapping[str, Sequence[Price]]
    billed_until: int

    @cached_property
    def runs_by_node(self) -> Mapping[str, list[Run]]:
        return _grouped((run.node, run) for run in self.runs)

    @cached_property
    def troubles_by_node(self) -> Mapping[str, list[Trouble]]:
        return _grouped((trouble.node, trouble) for trouble in self.troubles)

    @cached_property
    def services_by_name(self) -> Mapping[tuple[str, str], Service]:
        return {(service.namespace, service.name): service for service in self.services}

    @cached_property
    def _uses_by_slot(self) -> Mapping[int, list[Use]]:
        return _grouped((use.slot, use) for use in sorted(self.uses, key=lambda use: use.start))

    def uses_within(self, slot: int, first: int, last: int) -> Iterator[Use]:
        """The uses of a slot that touch `[first, last)`; a slot's uses follow each other."""
        uses = self._uses_by_slot.get(slot, [])
        place = bisect.bisect_right(uses, first, key=lambda use: use.start)
        for use in uses[max(0, place - 1) :]:
            if use.start >= last:
                return
            if use.end > first:
                yield use

    def presence(self, node: Node) -> list[tuple[int, int]]:
        """When the node was there."""
        present: list[tuple[int, int]] = []
        first = 0
        for hole in sorted((t.start, t.end) for t in self.troubles_by_node.get(node.name, []) if t.kind == ABSENT):
            present.append((first, hole[0]))
            first = hole[1]
        present.append((first, self.window.minutes))
        return [(start, end) for start, end in present if start < end]


def _grouped(pairs: Iterator[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    groups: dict[Key, list[Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
