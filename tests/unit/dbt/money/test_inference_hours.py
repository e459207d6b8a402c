"""What inference services did, hour by hour, and from which source it is known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.dbt.money.world import DAY, UNIT_COST_MODELS, World

MODELS = UNIT_COST_MODELS[1 : UNIT_COST_MODELS.index("fct_inference_hourly") + 1]


def hours(world: World) -> list[dict[str, Any]]:
    world.build(*MODELS)
    return world.rows("select * from fct_inference_hourly order by hour_start_at, workload_id, model")


def add_request(world: World, number: int, minute: float = 0, **request: Any) -> None:
    defaults = {"cluster": "a", "workload": "chat", "model": "m", "request_id": f"r{number}"}
    world.add("stg_landing__inference_requests", **(defaults | {"started_at": DAY + timedelta(minutes=minute)} | request))


def test_cached_tokens_are_inside_the_prompt_count_of_some_sources_and_beside_it_in_others(world: World) -> None:
    """Case E01: 17,903 of which 17,817 cached are 86 computed, never 35,720."""
    world.add_service(jobs=["j1"])
    world.add_usage(job_id="j1", prompt_tokens=17_903, cached_prompt_tokens=17_817)
    world.add_usage(minute=60, job_id="j1", prompt_tokens=86, cached_prompt_tokens=17_817, prompt_includes_cached=False)
    inside, beside = hours(world)
    assert (inside["prompt_tokens"], inside["cached_prompt_tokens"], inside["uncached_prompt_tokens"]) == (17_903, 17_817, 86)
    assert (beside["prompt_tokens"], beside["cached_prompt_tokens"], beside["uncached_prompt_tokens"]) == (86, 17_817, 86)


def test_an_interval_counts_in_the_hour_of_its_start(world: World) -> None:
    world.add_service()
    world.add_usage(minute=59, lasts=2, job_id="j1", output_tokens=5)
    (row,) = hours(world)
    assert row["hour_start_at"] == DAY


def test_gauges_are_weighted_by_their_intervals(world: World) -> None:
    world.add_service()
    world.add_usage(minute=0, lasts=45, job_id="j1", running_requests=2.0, waiting_requests=0.0, kv_cache_usage_ratio=0.2)
    world.add_usage(minute=45, lasts=15, job_id="j1", running_requests=6.0, waiting_requests=4.0, kv_cache_usage_ratio=0.9)
    world.add_usage(minute=50, lasts=10, job_id="j1", server="t:8000")
    (row,) = hours(world)
    assert (row["running_requests_mean"], row["waiting_requests_mean"], row["waiting_requests_max"]) == (3.0, 1.0, 4.0)
    assert (row["kv_cache_usage_max"], row["replica_count"]) == (0.9, 2)


def test_a_row_belongs_to_its_job_before_its_name_and_to_its_name_before_its_server(world: World) -> None:
    world.add_service("by-job", jobs=["j1"])
    world.add_service("by-name", jobs=["j2"])
    world.add_service("by-server", jobs=["pod-3"])
    world.add_usage(job_id="j1", workload="by-name", server="pod-3:8000", output_tokens=1)
    world.add_usage(workload="by-name", server="pod-3:8000", output_tokens=2)
    world.add_usage(server="pod-3:8000", output_tokens=4)
    assert {row["workload_id"]: row["output_tokens"] for row in hours(world)} == {
        "a/-/by-job": 1,
        "a/-/by-name": 2,
        "a/-/by-server": 4,
    }


def test_a_request_whose_log_names_no_workload_is_traced_by_its_job_its_name_its_node_or_its_model(world: World) -> None:
    """Two offline jobs and a service on three nodes; each request names something else of what answered it."""
    for number, (workload, model) in enumerate([("nightly-#", "m"), ("weekly-#", "n"), ("chat", "o")]):
        run = f"{workload.rstrip('#')}{number}" if "#" in workload else workload
        world.add_service(workload, hours=2, jobs=[run], model=model)
        world.connection.execute("update int_runs set model = ? where job_id = ?", [model, run])
        world.add(
            "int_runs_named", run_id=f"a/{run}", cluster="a", scheduler="slurm", job_id=run, namespace="-", name=run, labels="{}"
        )
        world.add(
            "int_holds_claimed",
            run_id=f"a/{run}",
            cluster="a",
            node=f"n{number}",
            started_at=DAY,
            ended_at=DAY + timedelta(hours=2),
        )
    told: list[dict[str, Any]] = [
        {"job_id": "weekly-1", "workload": "chat"},  # the job says it more exactly than the name
        {"workload": "nightly-0", "node": "n1"},  # no workload: a job of that name
        {"server": "weekly-1:8000"},
        {"node": "n0"},
        {"model": "n"},  # the only workload of that model with GPUs
        {"node": "n9", "model": "x"},
        {"node": "n0", "minute": 180},  # nothing ran there any more
    ]
    for number, request in enumerate(told):
        add_request(world, number, output_tokens=10**number, **({"workload": None, "model": "m9"} | request))
    assert {row["workload_id"]: 0 for row in hours(world)}.keys() == {"a/-/nightly-#", "a/-/weekly-#", "unknown"}
    found: dict[str, int] = {}
    for row in hours(world):
        found[row["workload_id"]] = found.get(row["workload_id"], 0) + row["output_tokens"]
    assert found == {"a/-/weekly-#": 10101, "a/-/nightly-#": 1010, "unknown": 1100000}


def test_an_id_used_again_names_the_attempt_of_its_time_and_a_node_of_two_workloads_nobody(world: World) -> None:
    for run, workload, first in (("a/7-1", "old", 0), ("a/7-2", "new", 10), ("a/8", "other", 10)):
        world.add_service(workload, jobs=[])
        span = {"held_from_at": DAY + timedelta(hours=first), "held_until_at": DAY + timedelta(hours=first + 2)}
        world.add("int_runs", run_id=run, cluster="a", workload_id=f"a/-/{workload}", workload=workload, name=run, **span)
        job = run.split("/")[1].split("-")[0]
        world.add("int_runs_named", run_id=run, cluster="a", scheduler="slurm", job_id=job, name=run, labels="{}")
        world.add(
            "int_holds_claimed",
            run_id=run,
            cluster="a",
            node="n1",
            started_at=span["held_from_at"],
            ended_at=span["held_until_at"],
        )
    nobody: dict[str, Any] = {"workload": None}
    add_request(world, 1, minute=30, job_id="7", output_tokens=1, **nobody)
    add_request(world, 2, minute=12 * 60 + 30, job_id="7", output_tokens=2, **nobody)  # written half an hour after its end
    add_request(world, 3, minute=11 * 60, node="n1", output_tokens=4, **nobody)
    assert {row["workload_id"]: row["output_tokens"] for row in hours(world)} == {"a/-/old": 1, "a/-/new": 2, "unknown": 4}


def test_counters_that_cover_the_served_time_speak_and_the_gateway_does_not_add_to_them(world: World) -> None:
    world.add_service(hours=1)
    world.add_usage(lasts=57, job_id="j1", request_count=10, output_tokens=1000)
    add_request(world, 1, output_tokens=980)
    (row,) = hours(world)
    assert (row["token_source"], row["output_tokens"], row["request_count"]) == ("server", 1000, 10)
    assert row["server_covered_ratio"] == pytest.approx(0.95)
    assert row["token_difference_ratio"] == pytest.approx(0.02)


def test_where_counters_cover_less_the_gateway_speaks(world: World) -> None:
    world.add_service(hours=1)
    world.add_usage(lasts=56, job_id="j1", request_count=10, output_tokens=1000, running_requests=3.0)
    add_request(world, 1, output_tokens=1100, prompt_tokens=7)
    (row,) = hours(world)
    assert (row["token_source"], row["output_tokens"], row["prompt_tokens"], row["request_count"]) == ("gateway", 1100, 7, 1)
    assert row["running_requests_mean"] == 3.0


def test_one_silent_replica_of_two_is_half_the_served_time(world: World) -> None:
    world.add_service(hours=1, jobs=["j1", "j2"])
    world.add_usage(job_id="j1", output_tokens=1000)
    add_request(world, 1, output_tokens=2000)
    (row,) = hours(world)
    assert (row["token_source"], row["server_covered_ratio"]) == ("gateway", 0.5)


def test_without_a_gateway_counters_speak_however_little_they_cover(world: World) -> None:
    world.add_service(hours=1)
    world.add_usage(lasts=5, job_id="j1", output_tokens=1000)
    (row,) = hours(world)
    assert (row["token_source"], row["output_tokens"]) == ("server", 1000)


@pytest.mark.parametrize(
    ("status", "is_failed"),
    [
        (None, False),
        ("success", False),
        ("200", False),
        ("stop", False),
        ("failure", True),
        ("Error", True),
        ("429", True),
        ("500", True),
    ],
)
def test_failed_requests_count_among_all_tokens_and_not_among_the_useful(
    world: World, status: str | None, is_failed: bool
) -> None:
    world.add_service(jobs=[])
    add_request(world, 1, prompt_tokens=10, output_tokens=5, status=status)
    add_request(world, 2, prompt_tokens=1, output_tokens=1, status="success")
    (row,) = hours(world)
    assert row["tokens_all"] == 17
    assert row["tokens_useful"] == (2 if is_failed else 17)
    assert (row["request_count"], row["failed_request_count"]) == (2, int(is_failed))


def test_a_request_without_a_workload_belongs_to_the_only_one_that_serves_its_model(world: World) -> None:
    world.add_service(hours=2)
    world.add_usage(minute=60, job_id="j1", model="m", output_tokens=1)
    add_request(world, 1, workload=None, output_tokens=3)
    add_request(world, 2, workload=None, model="nobody's", output_tokens=5)
    rows = {(row["workload_id"], row["model"]): row["output_tokens"] for row in hours(world) if row["hour_start_at"] == DAY}
    assert rows == {("a/-/chat", "m"): 3, ("unknown", "nobody's"): 5}
