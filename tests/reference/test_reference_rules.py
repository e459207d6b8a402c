"""The reference's rules 6, 7 and 12 against examples worked by hand."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from tests.reference.fleet import Fleet
from tests.reference.ledger import ledger
from tests.reference.services import Service, needed_replicas, percentile, replica_capacity
from tests.reference.world import DAY_US, HOUR_US, MINUTE_US, Run, Usage, WorkloadRule, instant, make_world, stamp

DAY = instant("2026-11-03T00:00:00Z")
GB = 10**9


def _hold(fleet: Fleet, job: str, gpus: list[str], minutes: int = 60, **cells: object) -> None:
    """A pod that holds cards for the first `minutes` of the day."""
    end = DAY + minutes * MINUTE_US
    fleet.add(
        "runs",
        **{"owner_kind": "ReplicaSet", "owner_name": "chat", "namespace": "team", "name": job} | cells,
        scheduler="kubernetes",
        job_id=job,
        state="Succeeded",
        started_at=stamp(DAY),
        ended_at=stamp(end),
        gpu_count=len(gpus),
        node_list="n",
        observed_at=stamp(end),
    )
    for gpu in gpus:
        fleet.add("run_gpus", job_id=job, node="n", gpu_uuid=gpu, gpu_count=1, started_at=stamp(DAY), ended_at=stamp(end))


def _samples(fleet: Fleet, gpu: str, activities: list[float], memory: int = 0) -> None:
    fleet.add("gpu_inventory", node="n", gpu_uuid=gpu, gpu_model="H100", memory_total_bytes=80 * GB, seen_at=stamp(DAY))
    for minute, activity in enumerate(activities):
        fleet.add(
            "gpu_samples",
            node="n",
            gpu_uuid=gpu,
            interval_start_at=stamp(DAY + minute * MINUTE_US),
            interval_ms=60_000,
            sm_active_ratio=activity,
            memory_used_bytes=memory,
        )


def _serve(fleet: Fleet, job: str, **cells: object) -> None:
    """Half an hour and another half of a server's telemetry."""
    for half in range(2):
        told = {"request_count": 0, "interval_start_at": stamp(DAY + half * HOUR_US // 2), "interval_ms": 1_800_000}
        fleet.add("inference_usage", server=job, job_id=job, model="m", **told | cells)


def _hours(fleet: Fleet) -> dict[str, float]:
    hours: Counter[str] = Counter()
    for row in ledger(make_world(fleet.cluster, fleet.tables())):
        hours[row.state] += row.microseconds
    return {state: round(us / HOUR_US, 6) for state, us in hours.items()}


def test_twenty_replicas_of_which_five_are_needed_are_fifteen_hours_overprovisioned() -> None:
    """27 requests a second at 10 × 0.80 for each replica: ceil(3.375) + 1 = 5."""
    fleet = Fleet("twenty")
    fleet.add("workload_rules", priority=1, name_regex="^r", workload="chat", replica_capacity_per_second=10)
    for number in range(20):
        _hold(fleet, f"r{number}", [f"g{number}"])
        _samples(fleet, f"g{number}", [0.5] * 60)
        _serve(fleet, f"r{number}", request_count=27 * 1800 / 20)
    assert _hours(fleet) == {"overprovisioned": 15.0, "productive": 5.0}


def test_a_missed_latency_target_keeps_every_replica() -> None:
    fleet = Fleet("late")
    rule = {"replica_capacity_per_second": 10, "latency_target_p95_seconds": 1}
    fleet.add("workload_rules", priority=1, name_regex="^r", workload="chat", **rule)
    for number in range(4):
        _hold(fleet, f"r{number}", [f"g{number}"])
        _samples(fleet, f"g{number}", [0.5] * 60)
        buckets = '[{"le_seconds": 1, "count": 90}, {"le_seconds": 2, "count": 100}]'
        _serve(fleet, f"r{number}", request_count=100, latency_histogram=buckets)
    assert _hours(fleet) == {"productive": 4.0}


def _service(rates: dict[int, int], waiting: set[int] = frozenset(), kv_use: str | None = None, rule: object = None) -> Service:  # type: ignore[assignment]
    """A service of two replicas that holds in every minute of which it tells, without samples; rates in requests a second."""
    runs = [
        Run(job, job, "kubernetes", DAY, None, DAY, 1.0, None, None, (), 0, "inference", rule=rule)  # type: ignore[arg-type]
        for job in ("a", "b")
    ]
    usage = [
        Usage(
            "chat",
            "a",
            "a",
            at,
            at + MINUTE_US,
            Fraction(60 * rate),
            None,
            float(at in waiting),
            Fraction(kv_use) if kv_use else None,
            None,
            (),
        )
        for at, rate in rates.items()
    ]
    service = Service(runs, usage, [])
    service.__dict__["holding"] = {at: {"a", "b"} for at in rates}
    return service


def test_capacity_is_what_saturated_minutes_of_the_days_before_did() -> None:
    """Rates of 20 and 40 with requests waiting, by two replicas: p95 of 10 and 20 is 19.5. The day itself teaches nothing."""
    before = DAY - DAY_US
    rates = {before: 20, before + MINUTE_US: 40, before + 2 * MINUTE_US: 90, DAY: 500}
    service = _service(rates, waiting={before, before + MINUTE_US, DAY})
    assert replica_capacity(service, DAY) == (Fraction("19.5"), "saturated")
    assert replica_capacity(service, before) is None


def test_without_saturated_minutes_capacity_is_extrapolated_from_the_load() -> None:
    """A rate of 40 by two replicas at a KV use of 0.4: 20 / 0.4 = 50 each."""
    assert replica_capacity(_service({DAY - HOUR_US: 40}, kv_use="0.4"), DAY) == (Fraction(50), "extrapolated")


@pytest.mark.parametrize(("least", "needed"), [(None, 3), (7, 7)])
def test_needed_replicas_are_rounded_up_and_one_more(least: int | None, needed: int) -> None:
    """16 a second at exactly 2 × 10 × 0.80: two, and one more; minutes more than 15 before the hour do not count."""
    rule = WorkloadRule("chat", None, None, least, Fraction(10))
    service = _service({DAY - 16 * MINUTE_US: 900, DAY - 15 * MINUTE_US: 16, DAY: 16}, rule=rule)
    assert needed_replicas(service, DAY) == needed
    assert needed_replicas(service, DAY + 2 * HOUR_US) is None


def test_a_percentile_lies_between_the_two_nearest() -> None:
    assert percentile([Fraction(1), Fraction(3)], Fraction(1, 4)) == Fraction(3, 2)
    assert percentile([]) is None


@pytest.mark.parametrize(("minutes", "hours"), [(14, 0.0), (15, 0.225)])
def test_a_quiet_card_beside_a_busy_one_is_unbalanced_from_fifteen_minutes_on(minutes: int, hours: float) -> None:
    """15 minutes at 0.1 beside 0.9: 0.9 × 15 / 60."""
    fleet = Fleet("two")
    _hold(fleet, "r", ["g0", "g1"], minutes=minutes, owner_kind="Job")
    _samples(fleet, "g0", [0.9] * minutes)
    _samples(fleet, "g1", [0.1] * minutes)
    found = _hours(fleet)
    assert found.get("unbalanced", 0.0) == hours
    assert sum(found.values()) == pytest.approx(2 * minutes / 60, abs=1e-6)


def test_memory_taken_for_a_cache_that_is_not_used_is_not_needed() -> None:
    """72 GB used, of a pool of 60 at most a tenth: 72 - 54 = 18 GB, 19.8 with the margin: 1g.20gb. 0.1 / 0.8 ≤ 1/7."""
    fleet = Fleet("cache")
    _hold(fleet, "r", ["g0"])
    _samples(fleet, "g0", [0.1] * 60, memory=72 * GB)
    _serve(fleet, "r", kv_cache_usage_ratio=0.1, kv_cache_total_bytes=60 * GB)
    assert _hours(fleet) == {"oversized": round(6 / 7, 6), "productive": round(1 / 7, 6)}


def test_a_server_that_does_not_tell_its_pool_is_not_oversized() -> None:
    fleet = Fleet("no_pool")
    _hold(fleet, "r", ["g0"])
    _samples(fleet, "g0", [0.1] * 60, memory=4 * GB)
    _serve(fleet, "r", kv_cache_usage_ratio=0.1)
    assert _hours(fleet) == {"underfilled": 0.75, "productive": 0.25}
