"""A scheduler as simple as may be: jobs wait, first come, first served, with backfill, and get the node that they fill best."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from collectors.simulate.hardware import ALDER, Node
from collectors.simulate.loads import Load
from collectors.simulate.plan import DOWN, DRAINED, TRAINING_KIND, Run, Use, Waiting
from collectors.simulate.window import Window

#: how many waiting jobs the scheduler looks at before it gives up for now
BACKFILL = 48
#: of the jobs that never started one in so many was given up, after so many minutes
GIVEN_UP, PATIENCE = 5, 30


@dataclass(frozen=True)
class Job:
    """`length` in minutes; `state` is how it ends if nothing happens to its node."""

    job_id: str
    name: str
    account: str
    gpu_count: int
    length: int
    submitted: int
    load: Load
    state: str


@dataclass
class Host:
    """A node while jobs are placed: its free slots, and `closed` stretches as (kind, start, end)."""

    node: Node
    free: list[int]
    closed: list[tuple[str, int, int]] = field(default_factory=list)

    def takes(self, count: int, now: int, end: int) -> bool:
        """Whether a job of so many cards may begin now that will end then."""
        if len(self.free) < count:
            return False
        for kind, first, last in self.closed:
            if first <= now < last:
                return False
            # a broken node is foreseen by nobody; a drained one lets jobs end; of the others the scheduler knows
            if kind == DRAINED and now < first and end > first + (last - first) // 2:
                return False
            if kind not in (DOWN, DRAINED) and now < last and end > first:
                return False
        return True

    def broken_at(self, now: int, end: int) -> int:
        """When the node breaks down in that time; its end where it does not."""
        return min((first for kind, first, _ in self.closed if kind == DOWN and now < first < end), default=end)


class Queue:
    """Places jobs on hosts; `runs` and `uses` are what came of it."""

    def __init__(self, hosts: Sequence[Host], jobs: Sequence[Job], window: Window) -> None:
        """`jobs` by the time they are submitted."""
        self._hosts, self._window = hosts, window
        self._coming = list(reversed(jobs))
        self._waiting: list[Job] = []
        self._ends: list[tuple[int, int]] = []
        self._running: dict[int, tuple[Host, Sequence[int]]] = {}
        self._moments = sorted({job.submitted for job in jobs} | {last for host in hosts for _, _, last in host.closed})
        self.runs: list[Run] = []
        self.uses: list[Use] = []

    def run(self) -> None:
        """Go from moment to moment in which something changes, to the end of the window."""
        while self._moments:
            now = heapq.heappop(self._moments)
            if now >= self._window.minutes:
                return
            while self._ends and self._ends[0][0] <= now:
                host, slots = self._running.pop(heapq.heappop(self._ends)[1])
                host.free = sorted([*host.free, *slots])
            while self._coming and self._coming[-1].submitted <= now:
                self._waiting.append(self._coming.pop())
            self._schedule(now)

    def waiting(self) -> list[Waiting]:
        """The jobs that never started; some were given up."""
        found = []
        for number, job in enumerate(self._waiting):
            is_given_up = number % GIVEN_UP == 0 and job.submitted + PATIENCE < self._window.minutes
            until = job.submitted + PATIENCE if is_given_up else self._window.minutes
            state = "CANCELLED" if is_given_up else "PENDING"
            found.append(Waiting(job.job_id, job.name, job.account, job.gpu_count, job.submitted, until, state))
        return found

    def _schedule(self, now: int) -> None:
        left: list[Job] = []
        for position, job in enumerate(self._waiting):
            available = [host for host in self._hosts if host.free]
            if position >= BACKFILL or not available:
                left += self._waiting[position:]
                break
            fitting = [host for host in available if host.takes(job.gpu_count, now, now + job.length)]
            if fitting:
                self._start(job, min(fitting, key=lambda host: len(host.free)), now)
            else:
                left.append(job)
        self._waiting = left

    def _start(self, job: Job, host: Host, now: int) -> None:
        slots = host.free[: job.gpu_count]
        del host.free[: job.gpu_count]
        end = host.broken_at(now, now + job.length)
        if end < now + job.length:
            self._requeue(replace(job, submitted=end + 1))
            job = replace(job, state="NODE_FAIL")
        self.runs.append(run_of(host.node, job, slots, now, end if end <= self._window.minutes else None))
        self.uses += [Use(slot, now, min(end, self._window.minutes), job.load) for slot in slots]
        self._running[len(self.runs)] = (host, slots)
        heapq.heappush(self._ends, (end, len(self.runs)))
        heapq.heappush(self._moments, end)

    def _requeue(self, job: Job) -> None:
        """The same job id once more: an attempt of its own."""
        self._coming.append(job)
        self._coming.sort(key=lambda coming: (-coming.submitted, coming.job_id))
        heapq.heappush(self._moments, job.submitted)


def run_of(node: Node, job: Job, slots: Sequence[int], start: int, end: int | None) -> Run:
    """The attempt of a job that held these slots; without an end it runs on."""
    return Run(
        cluster=ALDER,
        job_id=job.job_id,
        name=job.name,
        namespace=job.account,
        # runs of digits are masked, by which the parts of a sweep are one workload (semantics 3)
        workload=re.sub(r"\d+", "#", job.name),
        kind=TRAINING_KIND,
        node=node.name,
        slots=tuple(slots),
        start=start,
        end=end,
        state=job.state if end is not None else "RUNNING",
        submitted=job.submitted,
    )
