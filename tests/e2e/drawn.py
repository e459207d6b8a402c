"""Clusters that hypothesis draws, each with its true answer, and the same clusters told otherwise.

Everything is in whole minutes, a sample is a minute, and activity is either none or plenty: so what each minute is can be said
without any rule of the warehouse. A drawn cluster is told four times: as it is, under another name, with one of its runs told as
two that follow each other, and twice as slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

#: an hour before midnight, so that most clusters have two days
BASE = datetime(2026, 11, 2, 23, tzinfo=UTC)
#: inventory is told more often than a hole of inventory_absent_minutes lets through, also at half the pace
INVENTORY_MINUTES = 7

Row = dict[str, str]
Tables = dict[str, list[Row]]


@dataclass(frozen=True)
class Run:
    """A run on one card in [start, end); `is_open`: nobody told of its end; `told_end`: what was told first, and corrected."""

    start: int
    end: int
    is_open: bool = False
    told_end: int | None = None


@dataclass(frozen=True)
class Card:
    """`work` is one figure per minute: activity, or None where nothing was measured."""

    work: tuple[float | None, ...]
    runs: tuple[Run, ...]
    memory_bytes: int


@dataclass(frozen=True)
class Cluster:
    minutes: int
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Answer:
    """Minutes of GPUs."""

    capacity: int
    held: int
    unobserved: int
    idle: int
    active: int


def answer(cluster: Cluster) -> Answer:
    """What a cluster's minutes are, counted one by one."""
    held = [(card, minute) for card in cluster.cards for run in card.runs for minute in range(run.start, run.end)]
    work = [card.work[minute] for card, minute in held]
    return Answer(
        capacity=cluster.minutes * len(cluster.cards),
        held=len(held),
        unobserved=sum(value is None for value in work),
        idle=sum(value == 0 for value in work),
        active=sum(bool(value) for value in work),
    )


def split(cluster: Cluster) -> Cluster:
    """The longest closed run of each card becomes two, the second beginning where the first ends."""

    def halved(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        closed = [run for run in runs if not run.is_open and run.end - run.start > 1]
        if not closed:
            return runs
        longest = max(closed, key=lambda run: run.end - run.start)
        middle = (longest.start + longest.end) // 2
        halves = (Run(longest.start, middle), Run(middle, longest.end))
        return tuple(part for run in runs for part in (halves if run is longest else (run,)))

    return replace(cluster, cards=tuple(replace(card, runs=halved(card.runs)) for card in cluster.cards))


def tables(cluster: Cluster, name: str, *, pace: int = 1) -> Tables:
    """A cluster in the landing shape; at `pace` 2 each minute takes two."""

    def at(minute: int) -> str:
        return (BASE + timedelta(minutes=minute * pace)).strftime("%Y-%m-%dT%H:%M:%SZ")

    found: Tables = {"gpu_inventory": [], "gpu_samples": [], "runs": [], "run_gpus": []}
    for number, card in enumerate(cluster.cards):
        gpu = {"cluster": name, "node": f"n{number % 2}", "gpu_uuid": f"GPU-{name}-{number}"}
        for minute in sorted({*range(0, cluster.minutes, INVENTORY_MINUTES), cluster.minutes}):
            found["gpu_inventory"].append(
                gpu | {"gpu_model": "H100", "memory_total_bytes": "80000000000", "seen_at": at(minute), "driver_version": "570"}
            )
        for minute, work in enumerate(card.work):
            if work is not None:
                found["gpu_samples"].append(
                    gpu
                    | {
                        "interval_start_at": at(minute),
                        "interval_ms": str(60_000 * pace),
                        "sm_active_ratio": str(work),
                        "memory_used_bytes": str(card.memory_bytes),
                        "power_watts": str(90.1 + (minute * 37 + number) % 101),
                    }
                )
        for place, run in enumerate(card.runs):
            _tell_run(found, gpu, f"{name}-{number}-{place}", run, cluster.minutes, at)
    return found


def _tell_run(found: Tables, gpu: Row, job: str, run: Run, last_minute: int, at: Callable[[int], str]) -> None:
    """What a scheduler tells of a run: while it runs, where it was wrong about the end, and at the last."""
    row = {
        "cluster": gpu["cluster"],
        "scheduler": "slurm",
        "job_id": job,
        "name": "train",
        "namespace": "team",
        "state": "RUNNING",
        "started_at": at(run.start),
        "ended_at": "",
        "gpu_count": "1",
        "node_list": gpu["node"],
        "labels": "{}",
    }
    found["runs"].append(row | {"observed_at": at((run.start + run.end) // 2)})
    if run.told_end is not None:
        found["runs"].append(row | {"state": "FAILED", "ended_at": at(run.told_end), "observed_at": at(run.end)})
    last = {} if run.is_open else {"state": "COMPLETED", "ended_at": at(run.end)}
    found["runs"].append(row | last | {"observed_at": at(last_minute + 1)})
    found["run_gpus"].append(
        {name: gpu[name] for name in ("cluster", "node", "gpu_uuid")}
        | {"job_id": job, "gpu_count": "1", "started_at": at(run.start), "ended_at": ""}
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    minutes = draw(st.integers(75, 170))
    return Cluster(minutes, tuple(draw(_cards(minutes)) for _ in range(draw(st.integers(1, 3)))))


@st.composite
def _cards(draw: st.DrawFn, minutes: int) -> Card:
    work: list[float | None] = []
    while len(work) < minutes:
        work += [draw(st.sampled_from((None, 0.0, 0.0, 0.5, 0.9)))] * draw(st.integers(1, 45))
    runs: list[Run] = []
    begin = draw(st.integers(0, 30))
    while begin < minutes - 2 and len(runs) < 4:
        end = min(minutes, begin + draw(st.integers(1, 90)))
        is_open = end == minutes and draw(st.booleans())
        told_end = draw(st.none() | st.integers(begin + 1, end)) if not is_open else None
        runs.append(Run(begin, end, is_open, told_end))
        begin = end + draw(st.integers(0, 20))
    return Card(tuple(work[:minutes]), tuple(runs), draw(st.sampled_from((0, 20_000_000_000))))


def drawn(strategy: st.SearchStrategy[Cluster], count: int) -> list[Cluster]:
    """The same `count` examples in every process: one build serves them all, so they are drawn before and not shrunk after."""
    found: list[Cluster] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(cluster: Cluster) -> None:
        found.append(cluster)

    draw()
    return found
