"""Rule 6 of semantics.md: how many replicas a service needed, and which of those it kept were too many.

Readings taken where the page leaves two:

- a server's rate in a minute is its work over the part of the minute that its rows cover, a service's the sum of its servers';
- work is tokens for a service of which any row tells tokens, else requests;
- activity of a service in a minute is that of its held pieces by covered time; KV use is its fullest server's, as requests
  that wait before one server wait: what a replica can do is rather taken too low than too high;
- `extrapolated` is the p95 of what each minute extrapolates to. Mean activity of a minute is its replicas': a p95 of rates
  over a mean of 28 days would tell a service that works for an hour a day that it could do ten times what it ever did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf

from tests.reference.intervals import Span, total, united
from tests.reference.states import HeldMinute
from tests.reference.world import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Request, Run, Usage, World

LOOKBACK_US, BEFORE_US = 28 * DAY_US, 15 * MINUTE_US
TARGET_LOAD = Fraction(8, 10)
SATURATED_KV_USE, SATURATED_ACTIVITY = Fraction(8, 10), Fraction(85, 100)


@dataclass(frozen=True)
class Service:
    """The runs of one inference workload, what they held, and what their servers did."""

    runs: Sequence[Run]
    usage: Sequence[Usage]
    held: Sequence[HeldMinute]
    requests: Sequence[Request] = ()

    @cached_property
    def replicas(self) -> dict[str, str]:
        """Run → its replica, named by the lowest run id in it."""
        groups: dict[str, str] = {}
        for run in sorted(self.runs, key=lambda run: run.run_id):
            groups.setdefault(run.replica_group or run.run_id, run.run_id)
        return {run.run_id: groups[run.replica_group or run.run_id] for run in self.runs}

    @cached_property
    def holding(self) -> dict[int, set[str]]:
        """Minute → the replicas holding in it."""
        result: dict[int, set[str]] = {}
        for part in self.held:
            result.setdefault(part.minute, set()).add(self.replicas[part.run_id])
        return result

    @cached_property
    def rates(self) -> dict[int, Fraction]:
        """Minute → work per second; minutes without usage rows are missing."""
        has_tokens = any(row.tokens is not None for row in self.usage)
        work: dict[tuple[str, int], Fraction] = {}
        covered: dict[tuple[str, int], list[Span]] = {}
        for row in self.usage:
            done = row.tokens if has_tokens else row.requests
            if done is None:
                continue
            for minute, span in _by_minute(row):
                key = row.server, minute
                work[key] = work.get(key, Fraction(0)) + done * (span[1] - span[0]) / (row.end - row.start)
                covered.setdefault(key, []).append(span)
        result: dict[int, Fraction] = {}
        for (server, minute), done in work.items():
            rate = done * SECOND_US / total(united(covered[server, minute]))
            result[minute] = result.get(minute, Fraction(0)) + rate
        return result

    def setting(self, name: str) -> Fraction | int | None:
        """What the service's rule says of it."""
        return next((value for run in self.runs if (value := getattr(run.rule, name, None)) is not None), None)


def services(world: World, held: Sequence[HeldMinute]) -> list[Service]:
    found: list[Service] = []
    for workload in sorted({run.workload for run in world.runs if run.kind == "inference"}):
        runs = [run for run in world.runs if run.workload == workload and run.kind == "inference"]
        names = {run.run_id for run in runs}
        usage = [row for row in world.usage if row.workload == workload]
        requests = [request for request in world.requests if request.workload == workload.split("/", 1)[1]]
        found.append(Service(runs, usage, [part for part in held if part.run_id in names], requests))
    return found


def surplus_minutes(world: World, held: Sequence[HeldMinute]) -> set[tuple[str, int]]:
    """(run, minute) of which rule 6 takes all covered time."""
    result: set[tuple[str, int]] = set()
    for service in services(world, held):
        needed = {hour: needed_replicas(service, hour) for hour in {_hour(minute) for minute in service.holding}}
        order = {hour: _by_activity(service, hour) for hour in needed}
        for minute, replicas in service.holding.items():
            wanted = needed[_hour(minute)]
            if wanted is None or is_target_missed(service, _hour(minute)):
                continue
            # the least active ones go
            taken = [replica for replica in order[_hour(minute)] if replica in replicas][: max(0, len(replicas) - wanted)]
            result |= {(run, minute) for run, replica in service.replicas.items() if replica in taken}
    return result


def _by_activity(service: Service, hour: int) -> list[str]:
    """The replicas by mean activity over the hour, those never sampled last, ties by run id."""
    covered: dict[str, list[tuple[Fraction, Fraction]]] = {}
    for part in service.held:
        if _hour(part.minute) == hour:
            found = covered.setdefault(service.replicas[part.run_id], [])
            if part.covered_us:
                found.append((part.rolled.mean_activity, part.covered_us))
    return sorted(covered, key=lambda replica: (not covered[replica], _mean(covered[replica]) or 0, replica))


def needed_replicas(service: Service, hour: int) -> int | None:
    """`max(min_replicas, ceil(demand / (capacity × 0.80)) + 1)`, not yet capped by the number kept."""
    capacity = replica_capacity(service, hour - hour % DAY_US)
    demand = percentile([rate for at, rate in service.rates.items() if hour - BEFORE_US <= at < hour + HOUR_US])
    if not capacity or demand is None:
        return None
    return max(int(service.setting("min_replicas") or 0), ceil(round(demand / (capacity[0] * TARGET_LOAD), 9)) + 1)


def replica_capacity(service: Service, day: int) -> tuple[Fraction, str] | None:
    """Work per second that one replica can do, and how that is known; learned from the 28 days before `day`."""
    configured = service.setting("capacity")
    if configured:
        return Fraction(configured), "configured"
    begin = day - LOOKBACK_US
    use = _kv_use(service, begin, day)
    activity = _activity(service, begin, day)
    waiting = {minute for row in service.usage if row.waiting > 0 for minute, _ in _by_minute(row)}
    saturated: list[Fraction] = []
    extrapolated: list[Fraction] = []
    for minute, rate in service.rates.items():
        if begin <= minute < day and minute in service.holding:
            of_replica = rate / len(service.holding[minute])
            used, active = use.get(minute, Fraction(0)), activity.get(minute, Fraction(0))
            if minute in waiting or used >= SATURATED_KV_USE or active >= SATURATED_ACTIVITY:
                saturated.append(of_replica)
            if used or active:
                extrapolated.append(of_replica / max(used, active))
    if capacity := percentile(saturated):
        return capacity, "saturated"
    highest = percentile(extrapolated)
    return (highest, "extrapolated") if highest else None


def _activity(service: Service, begin: int, end: int) -> dict[int, Fraction]:
    parts: dict[int, list[tuple[Fraction, Fraction]]] = {}
    for part in service.held:
        if begin <= part.minute < end:
            parts.setdefault(part.minute, []).append((part.rolled.mean_activity, part.covered_us))
    return {minute: mean for minute, found in parts.items() if (mean := _mean(found)) is not None}


def _kv_use(service: Service, begin: int, end: int) -> dict[int, Fraction]:
    result: dict[int, Fraction] = {}
    for row in service.usage:
        for minute, _ in _by_minute(row):
            if row.kv_use is not None and begin <= minute < end:
                result[minute] = max(result.get(minute, Fraction(0)), row.kv_use)
    return result


def is_target_missed(service: Service, hour: int) -> bool:
    """Whether the p95 of the requests of the hour's rows is above the target; in the last, open bucket it is.

    Where no row of the hour has a histogram, that of the gateway's requests is.
    """
    target = service.setting("latency_target")
    counts: dict[float, float] = {}
    for row in service.usage:
        if _hour(row.start) == hour:
            for bound, count in row.latencies:
                counts[bound] = counts.get(bound, 0) + count
    requests = max(counts.values(), default=0)
    if target is None:
        return False
    if not requests:
        logged = percentile(request.seconds for request in service.requests if _hour(request.at) == hour)
        return logged is not None and logged > target
    rank, lower, before = 0.95 * requests, 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= rank:
            return bound == inf or lower + (bound - lower) * (rank - before) / (count - before) > target
        lower, before = bound, count
    return True


def percentile(values: Iterable[Fraction], part: Fraction = Fraction(95, 100)) -> Fraction | None:
    """`percentile_cont`: linear between the two nearest."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = part * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _mean(weighted: Iterable[tuple[Fraction, Fraction]]) -> Fraction | None:
    pairs = list(weighted)
    weight = sum((us for _, us in pairs), Fraction(0))
    return sum((value * us for value, us in pairs), Fraction(0)) / weight if weight else None


def _by_minute(row: Usage) -> Iterable[tuple[int, Span]]:
    for minute in range(row.start - row.start % MINUTE_US, row.end, MINUTE_US):
        yield minute, (max(row.start, minute), min(row.end, minute + MINUTE_US))


def _hour(at: int) -> int:
    return at - at % HOUR_US


def scopes(world: World) -> Mapping[str, str]:
    """Run → what rules 7 and 12 look at together: the service of a run of kind inference, else the run alone."""
    return {run.run_id: f"service {run.workload}" if run.kind == "inference" else run.run_id for run in world.runs}
