"""What kube-state-metrics told, in the forms of its versions, through restarts, shards and gaps."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from collectors.prometheus.objects import gpu_resources, resource_name
from tests.unit.collectors.prometheus.fake_api import FakePrometheus, serving
from tests.unit.collectors.prometheus.fleet import START, Fleet, Pod, Scrape, at, store
from tests.unit.collectors.prometheus.test_collect import collect, landed

LONG = Pod("uid-long", "long-0", 0, 0, 10)
SHORT = Pod("uid-short", "short-0", 1, 0, 20, deleted=600)


def target(fleet: Fleet, instance: str = "10.0.0.1:8080") -> Scrape:
    return Scrape(fleet.states, {"job": "ksm", "instance": instance})


def last_rows(home: Path) -> dict[str, dict[str, object]]:
    last = landed(home, "runs").sort("observed_at").unique("job_id", keep="last")
    return {row["job_id"]: row for row in last.to_dicts()}


def land(api: FakePrometheus, seconds: int = 3600, chunk: str = "10m") -> None:
    with serving(api) as url:
        collect(url, "--chunk", chunk, until=START + timedelta(seconds=seconds))


def test_version_1_tells_the_same_without_uids_and_with_its_own_names(home: Path) -> None:
    fleet = Fleet(pods=[LONG, SHORT])

    def old(second: int) -> str:
        text = fleet.states(second)
        text = re.sub(r'(?m)^((?!kube_pod_info).*),uid="[^"]*"', r"\1", text)
        return re.sub(
            r'kube_pod_container_resource_requests(\{[^}]*),resource="nvidia_com_gpu",unit="integer"',
            r"kube_pod_container_resource_requests_nvidia_gpu_devices\1",
            text,
        )

    api = FakePrometheus()
    store(api, [Scrape(old, {"job": "ksm", "instance": "10.0.0.1:8080"})], range(0, 1200, 30))
    land(api, 1200)
    rows = last_rows(home)
    assert set(rows) == {"uid-long", "uid-short"}
    assert (rows["uid-long"]["gpu_count"], rows["uid-long"]["started_at"], rows["uid-long"]["state"]) == (1.0, at(10), "Running")
    assert rows["uid-short"]["state"] == "Deleted"


def test_a_shard_that_is_not_read_ends_none_of_its_pods(home: Path) -> None:
    api = FakePrometheus()
    store(api, [target(Fleet(pods=[LONG]))], range(0, 3600, 30))
    store(
        api, [target(Fleet(pods=[Pod("uid-other", "other-0", 1, 0, 20)], node="gpu-node-2"), "10.0.0.2:8080")], range(0, 900, 30)
    )
    land(api)
    assert {job: row["ended_at"] for job, row in last_rows(home).items()} == {"uid-long": None, "uid-other": None}


def test_a_new_kube_state_metrics_at_another_address_takes_over(home: Path) -> None:
    api = FakePrometheus()
    fleet = Fleet(pods=[LONG, SHORT])
    store(api, [target(fleet)], range(0, 570, 30))
    store(api, [target(fleet, "10.0.0.7:8080")], range(690, 3600, 30))
    land(api)
    rows = last_rows(home)
    assert rows["uid-long"]["ended_at"] is None
    # last listed at 540, and gone when the new one was first read
    assert at(540) <= rows["uid-short"]["ended_at"] <= at(571)  # type: ignore[operator]


def test_one_empty_scrape_of_a_starting_kube_state_metrics_ends_no_pod(home: Path) -> None:
    api = FakePrometheus()
    full, empty = Fleet(pods=[LONG]), Fleet()
    store(api, [target(full)], [*range(0, 600, 30), *range(630, 3600, 30)])
    store(api, [target(empty)], [600])
    land(api)
    assert landed(home, "runs")["ended_at"].null_count() == landed(home, "runs").height


def test_a_pod_that_comes_back_after_it_was_gone_is_open_again(home: Path) -> None:
    api = FakePrometheus()
    store(api, [target(Fleet(pods=[LONG]))], [*range(0, 600, 30), *range(900, 3600, 30)])
    store(api, [target(Fleet())], range(600, 900, 30))
    land(api)
    assert last_rows(home)["uid-long"]["ended_at"] is None


def test_a_node_that_is_not_ready_is_down_until_it_is(home: Path) -> None:
    api = FakePrometheus()
    store(api, [target(Fleet(pods=[LONG], down=(600, 1500)))], range(0, 3600, 30))
    land(api)
    states = landed(home, "node_states").sort("started_at").select("state", "started_at").rows()
    assert [(state, when.replace(microsecond=0)) for state, when in states] == [
        ("in_service", at(0)),
        ("down", at(600)),
        ("in_service", at(1500)),
    ]


def test_each_hour_tells_by_itself_what_there_was(home: Path) -> None:
    """Clusters whose pods did not change had no row for hours, and their runs were cut where the last row was."""
    api = FakePrometheus()
    store(api, [target(Fleet(pods=[LONG]))], range(0, 3 * 3600, 60))
    land(api, 3 * 3600, "1h")
    hours = landed(home, "nodes")["seen_at"].dt.truncate("1h").unique()
    assert len(hours) == 3
    assert landed(home, "runs").filter(pl.col("observed_at") >= at(7200)).height == 1


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("nvidia_com_gpu", "nvidia.com/gpu"),
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared"),
        ("nvidia_com_mig_1g_5gb", "nvidia.com/mig-1g.5gb"),
        ("nvidia_com_mig_1g_10gb_me", "nvidia.com/mig-1g.10gb.me"),
        ("amd_com_gpu", "amd.com/gpu"),
        ("cpu", "cpu"),
        ("example_com_dongle", "example_com_dongle"),
    ],
)
def test_the_name_of_a_resource_is_found_again(written: str, name: str) -> None:
    assert resource_name(written) == name


def test_every_gpu_resource_is_asked_for() -> None:
    patterns = gpu_resources()
    for written in ("nvidia_com_gpu", "amd_com_gpu", "nvidia_com_mig_3g_20gb", "nvidia_com_gpu_shared"):
        assert any(re.fullmatch(pattern, written) for pattern in patterns)
