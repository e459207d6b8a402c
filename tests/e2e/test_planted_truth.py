"""What is published is what was planted: fleets of several seeds and sizes, landed and as native text, to the microsecond.

The answer is worked out on the plan by `collectors.simulate.states`, which asks nothing of the pipeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from demo.planted import Comparison, Sum, compare
from tests.conftest import run_module

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

#: (GPUs, days, seed, seconds between samples, from where on it comes as native text)
FLEETS = ((26, 5, 3, 60, None), (8, 1, 11, 10, "2026-11-04T22:00:00Z"))
UNTIL = "2026-11-05"
#: GPU-hours and money that rounding may leave in a sum over a day
HOURS, MONEY = 1e-6, Decimal("0.01")


@dataclass(frozen=True)
class World:
    published: duckdb.DuckDBPyConnection
    comparison: Comparison

    def planted_by(self, *names: str) -> Mapping[tuple[str, ...], Sum]:
        """The answer, added up."""
        found: dict[tuple[str, ...], Sum] = defaultdict(Sum)
        for key, amount in self.comparison.planted.items():
            place = tuple(getattr(key, name) for name in names)
            found[place] = Sum(found[place].gpu_hours + amount.gpu_hours, found[place].cost + amount.cost)
        return found

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.published.execute(query).fetchall()


@pytest.fixture(scope="module", params=FLEETS, ids=lambda fleet: f"{fleet[0]} GPUs, seed {fleet[2]}")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    gpus, days, seed, interval, native_from = request.param
    home = tmp_path_factory.mktemp("planted")
    options = ("--gpus", str(gpus), "--days", str(days), "--seed", str(seed), "--until", UNTIL)
    _run(home, "collectors", "simulate", *options, "--interval", str(interval), *(("--to", native_from) if native_from else ()))
    if native_from:
        _run(home, "collectors", "simulate", *options, "--as", "native", "--from", native_from)
        _run(home, "collectors", "incoming")
    _run(home, "warehouse", "run")
    database = home / "published" / "current" / "gpu_net.duckdb"
    (answer,) = (home / "simulation").glob("*.csv")
    with duckdb.connect(str(database), read_only=True) as published:
        yield World(published, compare(answer, database))


def _run(home: Path, *arguments: str) -> None:
    done = run_module(home, *arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def test_every_row_of_the_ledger_is_as_planted(world: World) -> None:
    assert len(world.comparison.planted) > 50
    assert world.comparison.differences == [], world.comparison.summary(20)


def test_every_state_that_is_planted_is_found(world: World) -> None:
    assert {key.state for key in world.comparison.planted} == {key.state for key in world.comparison.published}


def test_the_larger_fleet_waits_for_siblings_and_would_fit_slices(world: World) -> None:
    """Without them in it, agreeing on `unbalanced` and `oversized` would be no feat."""
    states = {key[0]: amount.gpu_hours for key, amount in world.planted_by("state").items()}
    if "unobserved" in states:  # the smaller one has none of that either
        assert min(states["unbalanced"], states["oversized"]) > 5
    assert states["oversized"] > 5


def test_the_waterfall_is_as_planted(world: World) -> None:
    names = ("usage_date", "cluster", "gpu_model", "workload_id", "state", "currency")
    planted = world.planted_by(*names)
    rows = world.rows(
        """select cast(usage_date as varchar), cluster, gpu_model, workload_id, state, currency, gpu_hours, coalesce(cost, 0)
        from mart_ghost_capacity_daily"""
    )
    assert {tuple(key) for *key, _, _ in rows} == planted.keys()
    for *key, gpu_hours, cost in rows:
        assert gpu_hours == pytest.approx(planted[tuple(key)].gpu_hours, abs=HOURS), key
        assert abs(cost - planted[tuple(key)].cost) < MONEY, key


def test_gpu_net_is_as_planted(world: World) -> None:
    ghosts = {state for state, is_ghost in world.rows("select state, is_ghost from dim_states") if is_ghost}
    states = {
        "out_of_service_gpu_hours": {"out_of_service"},
        "unallocated_gpu_hours": {"unallocated"},
        "borrowed_gpu_hours": {"borrowed"},
        "unobserved_gpu_hours": {"unobserved"},
        "productive_gpu_hours": {"productive"},
        "ghost_gpu_hours": ghosts,
    }
    planted = _by_day(world, ("usage_date", "cluster", "gpu_model", "currency"))
    rows = world.rows(
        f"""select cast(usage_date as varchar), cluster, gpu_model, currency, capacity_gpu_hours, gpu_net_ratio_low, cost,
            {", ".join(states)} from mart_gpu_net_daily where cluster <> 'unallocated'"""
    )
    assert len(rows) == len([key for key in planted if key[1] != "unallocated"])
    for day, cluster, model, currency, capacity, low, cost, *found in rows:
        mine = planted[day, cluster, model, currency]
        hours = {name: sum(mine[state].gpu_hours for state in wanted if state in mine) for name, wanted in states.items()}
        for name, value in zip(states, found, strict=True):
            assert value == pytest.approx(hours[name], abs=HOURS), (day, cluster, model, name)
        assert capacity == pytest.approx(sum(amount.gpu_hours for amount in mine.values()), abs=HOURS)
        assert low == pytest.approx(hours["productive_gpu_hours"] / (capacity - hours["out_of_service_gpu_hours"]), abs=1e-9)
        assert abs(cost - sum(amount.cost for amount in mine.values())) < MONEY


def test_what_workloads_held_used_and_cost_is_as_planted(world: World) -> None:
    ghosts = {state for state, is_ghost in world.rows("select state, is_ghost from dim_states") if is_ghost}
    idle = {"pipeline_waiting", "reserved_memory", "idle_compute"}
    planted = {key: states for key, states in _by_day(world, ("usage_date", "workload_id")).items() if key[1] != "unallocated"}
    rows = world.rows(
        """select cast(usage_date as varchar), workload_id, held_gpu_hours, productive_gpu_hours, idle_gpu_hours,
            ghost_gpu_hours, unobserved_gpu_hours, priced_gpu_hours, allocation_cost, usage_cost
        from mart_workload_gpu_hours_daily where held_gpu_hours > 0"""
    )
    assert {(day, workload) for day, workload, *_ in rows} == planted.keys()
    for day, workload, held, productive, idle_hours, ghost, unobserved, priced, cost, used in rows:
        states = planted[day, workload]
        hours = {state: amount.gpu_hours for state, amount in states.items()}
        expected = {
            "held": sum(hours.values()),
            "productive": hours.get("productive", 0.0),
            "idle": sum(value for state, value in hours.items() if state in idle),
            "ghost": sum(value for state, value in hours.items() if state in ghosts),
            "unobserved": hours.get("unobserved", 0.0),
            "priced": sum(hours.values()),
        }
        found = dict(zip(expected, (held, productive, idle_hours, ghost, unobserved, priced), strict=True))
        assert found == pytest.approx(expected, abs=HOURS), (day, workload)
        assert abs(cost - sum(amount.cost for amount in states.values())) < MONEY
        assert abs(used - states.get("productive", Sum()).cost) < MONEY


def test_the_last_two_days_of_a_long_plan_are_estimates_at_the_same_price(world: World) -> None:
    sources = world.rows(
        """select cast(usage_date as varchar), list(distinct cost_source) from fct_gpu_ledger_hourly
        where cluster = 'cirrus' group by 1"""
    )
    if len(sources) > 3:
        assert [source for day, source in sorted(sources)][-3:] == [["billing"], ["estimate"], ["estimate"]]
    else:
        assert {tuple(source) for _, source in sources} == {("billing",)}


def _by_day(world: World, names: tuple[str, ...]) -> Mapping[tuple[str, ...], dict[str, Sum]]:
    """Place → state → amount."""
    found: dict[tuple[str, ...], dict[str, Sum]] = defaultdict(dict)
    for key, amount in world.planted_by(*dict.fromkeys((*names, "state"))).items():
        found[key[:-1]][key[-1]] = amount
    return found
