"""The command against an API in memory: what lands, whatever way the time was cut and the series were scraped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.__main__ import main
from collectors.dcgm import history, parse, rows
from collectors.inference.growth import grow
from collectors.inference.parse import parse_scrape
from collectors.inference.rows import Given, to_rows
from collectors.parsed import to_frame
from tests.unit.collectors.prometheus.fake_api import FakePrometheus, serving
from tests.unit.collectors.prometheus.fleet import START, Fleet, Pod, Scrape, at, epoch, scrapes_of, store
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

#: restarts of the exporters, gaps of Prometheus, and pods of one name one after the other
FLEET = Fleet(
    pods=[
        Pod("uid-1", "serve-0", gpu=0, created=30, scheduled=60, deleted=1500),
        Pod("uid-2", "serve-0", gpu=0, created=1560, scheduled=1580),
        Pod("uid-3", "train-1", gpu=1, created=0, scheduled=100, ended=2000, deleted=3000, owner=("Job", "train")),
    ],
    restarts=(1000,),
    cordoned=(2400, 3000),
)
GAPS = ((700, 740), (3000, 3900))
SECONDS = [second for second in range(0, 4500, 15) if not any(first <= second < last for first, last in GAPS)]
UNTIL = START + timedelta(seconds=4500)
OFFSET_MS = 123


def filled(seconds: tuple[int, ...] = tuple(SECONDS), **options: Any) -> FakePrometheus:
    """An API that holds the scrapes of `FLEET`."""
    return FakePrometheus(_series(seconds, tuple(sorted(options.items()))))


@cache
def _series(seconds: tuple[int, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    api = FakePrometheus()
    store(api, scrapes_of(FLEET, **dict(options)), seconds, OFFSET_MS)
    return api.series


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["prometheus", "--json", *arguments])


def collect(url: str, *arguments: str, cluster: str | None = "c", until: datetime = UNTIL) -> dict[str, Any]:
    named = ["--cluster", cluster] if cluster else []
    span = ["--since", f"{START.isoformat()}Z", "--until", f"{until.isoformat()}Z"]
    result = run("--url", url, *named, *span, *arguments)
    assert result.exit_code == 0, result.stderr[-2000:]
    outcome: dict[str, Any] = json.loads(result.stdout)
    return outcome


def landed(home: Path, table: str) -> pl.DataFrame:
    """The table's rows as the warehouse sees them: of rows with one key the one landed last."""
    files = sorted(home.glob(f"raw/prometheus/{table}/**/*.parquet"))
    if not files:
        return pl.DataFrame()
    frame = pl.concat([pl.read_parquet(file) for file in files]).sort("landed_at", "line_number", maintain_order=True)
    frame = frame.unique(list(TABLES[table].key), keep="last", maintain_order=True)
    return frame.drop("landed_at", "collection_run_id", "line_number").sort(TABLES[table].key)


def conformed(table: str, found: Iterable[Any]) -> pl.DataFrame:
    checked = conform(TABLES[table], to_frame(list(found)), "expected")
    assert not checked.rejects
    return checked.rows.drop("line_number").sort(TABLES[table].key)


def scrape_times(seconds: Iterable[int] = tuple(SECONDS)) -> list[tuple[int, datetime]]:
    return [(second, at(second) + timedelta(milliseconds=OFFSET_MS)) for second in seconds]


@pytest.mark.parametrize("chunk", ["90s", "7m", "20m", "1h", "1d"])
def test_the_rows_are_the_same_however_the_time_is_cut(chunk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(filled()) as url:
        monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "whole"))
        collect(url, "--chunk", "2h")
        monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "cut"))
        outcome = collect(url, "--chunk", chunk)
    assert outcome["rows_quarantined"] == 0
    for table in ("gpu_samples", "gpu_inventory", "runs", "run_gpus", "nodes", "node_states", "inference_usage"):
        whole = landed(tmp_path / "whole", table)
        assert whole.height, table
        assert landed(tmp_path / "cut", table).equals(whole), table


@pytest.mark.parametrize("left_open", [True, False])
def test_no_sample_is_lost_or_doubled_where_prometheus_2_and_3_take_a_ranges_beginning_differently(
    home: Path, left_open: bool
) -> None:
    """Scrapes exactly on the edges of chunks were read twice from Prometheus 2, or not at all from Prometheus 3."""
    api = FakePrometheus(left_open=left_open)
    seconds = range(0, 1800, 60)
    store(api, scrapes_of(FLEET)[:1], seconds, offset_ms=0)
    with serving(api) as url:
        collect(url, "--chunk", "5m", until=START + timedelta(seconds=1800))
    files = sorted(home.glob("raw/prometheus/gpu_samples/**/*.parquet"))
    rows_read = pl.concat([pl.read_parquet(file) for file in files])
    assert rows_read.height == 2 * len(seconds)
    assert rows_read.select("gpu_uuid", "interval_start_at").is_unique().all()


def test_devices_land_as_the_dcgm_collector_lands_the_same_texts(home: Path) -> None:
    with serving(filled()) as url:
        collect(url, "--chunk", "10m")
    known = history.History()
    expected = []
    for second, instant in scrape_times():
        scrape = parse.parse_scrape(FLEET.dcgm(second).encode(), "node", at=instant)
        found = rows.to_rows(scrape.readings, cluster="c", interval=timedelta(seconds=15), history=known)
        expected += found.tables["gpu_samples"]
    theirs, ours = conformed("gpu_samples", expected), landed(home, "gpu_samples")
    # scrape by scrape the collector cannot know what follows a counter that fell; with what follows it is a restart
    energy = theirs["energy_joules"].is_null() & ours["energy_joules"].is_not_null()
    assert energy.sum() == 2
    assert ours.drop("energy_joules").equals(theirs.drop("energy_joules"))
    assert ours.filter(~energy)["energy_joules"].equals(theirs.filter(~energy)["energy_joules"])


def test_servers_land_as_the_inference_collector_lands_the_same_texts(home: Path) -> None:
    with serving(filled()) as url:
        collect(url, "--chunk", "10m")
    readings = [
        reading
        for second, instant in scrape_times()
        for reading in parse_scrape(FLEET.vllm(second).encode(), "text", "serve-0", instant).readings
    ]
    longest = timedelta(seconds=15 * 2.5)
    grown = grow(readings, is_closed=True, first_within=longest).growth
    expected = [row for growth in grown for row in to_rows(growth, Given("c", namespace="ml"), longest)]
    ours = landed(home, "inference_usage")
    theirs = conformed("inference_usage", expected).drop("node", "job_id").sort("interval_start_at")
    assert theirs.equals(ours.drop("node", "job_id").sort("interval_start_at"))
    by_job = dict(ours.group_by("job_id").agg(pl.len()).iter_rows())
    assert by_job["uid-1"] > 80
    assert by_job["uid-2"] > 80
    assert by_job.get(None, 0) < 5


def test_a_gap_stays_a_gap(home: Path) -> None:
    with serving(filled()) as url:
        collect(url)
    samples = landed(home, "gpu_samples").filter(pl.col("gpu_uuid").str.ends_with("1"))
    covered = samples["interval_ms"].sum() / 1000
    # 15 s before each scrape, after each gap up to 2.5 × 15 s
    assert covered == 15 * len(SECONDS) + 2 * (37.5 - 15)


def test_pods_hold_from_binding_to_the_last_listing(home: Path) -> None:
    with serving(filled()) as url:
        collect(url)
    last = landed(home, "runs").sort("observed_at").unique("job_id", keep="last").sort("job_id")
    first, second, third = last.to_dicts()
    assert (first["name"], first["state"], first["gpu_count"]) == ("serve-0", "Deleted", 1.0)
    assert first["started_at"] == at(60)
    assert at(1485) <= first["ended_at"] <= at(1485) + timedelta(seconds=15, milliseconds=OFFSET_MS)
    assert (first["owner_kind"], first["owner_name"]) == ("Deployment", "serve")
    assert json.loads(first["labels"])["team"] == "search"
    assert (second["job_id"], second["name"], second["ended_at"], second["started_at"]) == ("uid-2", "serve-0", None, at(1580))
    assert (third["state"], third["started_at"], third["ended_at"]) == ("Succeeded", at(100), at(2000))
    assert "uid-nginx" not in last["job_id"]


def test_a_device_is_held_by_the_pod_that_had_the_name_then(home: Path) -> None:
    with serving(filled()) as url:
        collect(url)
    exact = landed(home, "run_gpus").filter(pl.col("gpu_uuid").is_not_null())
    assert set(exact["job_id"]) == {"uid-1", "uid-2", "uid-3"}
    assert exact.filter(pl.col("job_id") == "uid-1")["started_at"].min() == scrape_times([60])[0][1]


def test_a_cordoned_node_drains_until_its_last_pod_has_gone(home: Path) -> None:
    with serving(filled()) as url:
        collect(url)
    states = landed(home, "node_states").sort("started_at").select("state", "reason", "started_at").rows()
    assert [(state, reason) for state, reason, _ in states] == [
        ("in_service", None),
        ("draining", "cordoned"),
        ("in_service", None),
    ]
    assert [when.replace(microsecond=0) for _, _, when in states] == [at(0), at(2400), at(3900)]


def test_a_gap_of_kube_state_metrics_ends_no_pod(home: Path) -> None:
    """Pods were ended where kube-state-metrics had not been read, not only where it was read without them."""
    api = FakePrometheus()
    dcgm, states, _ = scrapes_of(FLEET)
    store(api, [dcgm], range(0, 1400, 15))
    store(api, [states], [second for second in range(0, 1400, 15) if not 300 <= second < 1200])
    with serving(api) as url:
        collect(url, "--chunk", "5m", until=START + timedelta(seconds=1400))
    assert landed(home, "runs")["ended_at"].null_count() == landed(home, "runs").height


def test_a_pod_that_ended_in_a_gap_ends_with_its_last_listing(home: Path) -> None:
    api = FakePrometheus()
    fleet = Fleet(pods=[Pod("uid-1", "a", 0, 0, 10, deleted=2000), Pod("uid-2", "b", 1, 0, 10)])
    store(api, scrapes_of(fleet)[1:2], [second for second in range(0, 7200, 30) if not 900 <= second < 5400])
    with serving(api) as url:
        collect(url, "--chunk", "10m", until=START + timedelta(seconds=7200))
    last = landed(home, "runs").sort("observed_at").unique("job_id", keep="last").sort("job_id")
    assert at(870) <= last["ended_at"][0] <= at(900) + timedelta(seconds=1)
    assert last["ended_at"][1] is None


def test_a_pair_of_prometheus_servers_counts_once(home: Path) -> None:
    api = FakePrometheus()
    store(api, scrapes_of(FLEET, prometheus_replica="a"), [second for second in SECONDS if not 300 <= second < 600])
    store(api, scrapes_of(FLEET, prometheus_replica="b"), [second + 7 for second in SECONDS])
    with serving(api) as url:
        collect(url)
    samples = landed(home, "gpu_samples").filter(pl.col("gpu_uuid").str.ends_with("1")).sort("interval_start_at")
    starts = samples["interval_start_at"].to_list()
    ends = [start + timedelta(milliseconds=length) for start, length in zip(starts, samples["interval_ms"], strict=True)]
    assert all(later >= end for end, later in zip(ends, starts[1:], strict=False))
    assert samples["interval_ms"].max() == 37_500
    # the hole of the first is filled by the second
    assert sum(at(300) <= end < at(600) for end in ends) >= 18
    assert len(ends) <= len(SECONDS) + 2


def test_a_scrape_that_puts_its_targets_labels_first_tells_the_same(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With honor_labels false the pods of kube-state-metrics and dcgm-exporter are in `exported_pod`."""
    with serving(filled()) as url:
        collect(url)
    monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "renamed"))
    with serving(filled(honors_labels=False)) as url:
        collect(url)
    for table in ("gpu_samples", "runs", "run_gpus", "nodes", "node_states"):
        assert landed(tmp_path / "renamed", table).equals(landed(home, table)), table


def test_a_federated_copy_of_a_scrape_counts_once(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = range(0, 600, 15)
    api = FakePrometheus()
    store(api, scrapes_of(FLEET)[:1], seconds)
    with serving(api) as url:
        collect(url, until=at(600))
    store(api, [Scrape(FLEET.dcgm, {"job": "federate", "instance": "prom-edge:9090", "exported_job": "dcgm"})], seconds)
    monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "both"))
    with serving(api) as url:
        collect(url, until=at(600))
    assert landed(tmp_path / "both", "gpu_samples").equals(landed(home, "gpu_samples"))


def test_the_node_of_an_exporter_that_names_its_own_pod_is_its_pods(home: Path) -> None:
    def states(second: int) -> str:
        own = 'namespace="gpu",pod="nvidia-dcgm-exporter-tl46n",uid="uid-exporter",node="gpu-node-1",created_by_kind="DaemonSet"'
        return f"{FLEET.states(second)}kube_pod_info{{{own}}} 1\n"

    exporter = replace(FLEET, node="nvidia-dcgm-exporter-tl46n")
    api = FakePrometheus()
    dcgm, ksm, _ = scrapes_of(FLEET)
    store(api, [replace(dcgm, text=exporter.dcgm), replace(ksm, text=states)], range(0, 600, 15))
    with serving(api) as url:
        collect(url, until=at(600))
    assert set(landed(home, "gpu_samples")["node"]) == {"gpu-node-1"}
    assert "uid-exporter" not in landed(home, "runs")["job_id"]


def test_clusters_of_one_server_land_apart(home: Path) -> None:
    api = FakePrometheus(dict(filled(cluster="east").series))
    other = Fleet(pods=[Pod("uid-9", "x", 0, 0, 10)], node="gpu-node-9")
    store(
        api, [Scrape(scrape.text, {**scrape.labels, "cluster": "west"}) for scrape in scrapes_of(other)[1:2]], range(0, 600, 15)
    )
    with serving(api) as url:
        collect(url, "--cluster-label", "cluster", cluster=None)
    runs = landed(home, "runs")
    assert set(runs.filter(pl.col("cluster") == "west")["job_id"]) == {"uid-9"}
    assert set(runs.filter(pl.col("cluster") == "east")["job_id"]) == {"uid-1", "uid-2", "uid-3"}
    outcomes = pl.read_parquet(sorted(home.glob("raw/prometheus/collection_runs/**/*.parquet")))
    assert set(outcomes["cluster"]) == {"east", "west"}


def test_reading_the_same_window_again_changes_nothing(home: Path) -> None:
    with serving(filled()) as url:
        first = collect(url, "--chunk", "20m")
        files = sorted(path.relative_to(home) for path in home.rglob("*.parquet"))
        again = collect(url, "--chunk", "20m")
    assert (first["status"], again["status"]) == ("landed", "already_landed")
    assert sorted(path.relative_to(home) for path in home.rglob("*.parquet")) == files


def test_what_was_read_before_a_failure_has_landed_and_the_next_call_goes_on_there(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = filled()
    broken_after = round(epoch(2400) * 1000)

    def fail(path: str, fields: Any) -> tuple[int, bytes, str] | None:
        if path.endswith("/query") and float(fields["time"]) * 1000 > broken_after and "DCGM" in fields["query"]:
            return 500, b'{"status":"error","errorType":"internal","error":"block is corrupt"}', "application/json"
        return None

    def probe_first(path: str, fields: Any) -> tuple[int, bytes, str] | None:
        return None if len(api.asked) < 12 else fail(path, fields)

    api.answer = probe_first
    span = ["--since", f"{START.isoformat()}Z", "--until", f"{UNTIL.isoformat()}Z", "--chunk", "10m", "--cluster", "c"]
    with serving(api) as url:
        result = run("--url", url, *span)
        assert result.exit_code == 1
        assert "block is corrupt" in result.stderr
        assert "landed through 2026-03-02T10:" in result.stderr
        api.answer = lambda path, fields: None
        result = run("--url", url, "--until", f"{UNTIL.isoformat()}Z", "--chunk", "10m", "--cluster", "c")
        assert result.exit_code == 0
        monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "whole"))
        collect(url, "--chunk", "10m")
    for table in ("gpu_samples", "inference_usage"):
        assert landed(home, table).equals(landed(tmp_path / "whole", table)), table


def test_calls_one_after_the_other_land_what_one_call_lands(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call begins anew, and finds what it needs of the time before it in the server."""
    with serving(filled()) as url:
        collect(url, until=at(1000))
        for second in (1990, 3300, 4500):
            result = run("--url", url, "--cluster", "c", "--until", f"{at(second).isoformat()}Z")
            assert result.exit_code == 0, result.stderr[-2000:]
        monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "whole"))
        collect(url)
    for table in ("gpu_samples", "inference_usage"):
        assert landed(home, table).equals(landed(tmp_path / "whole", table)), table
    parts, whole = (
        landed(where, "runs").sort("observed_at").unique("job_id", keep="last").sort("job_id").select("job_id", "ended_at")
        for where in (home, tmp_path / "whole")
    )
    assert parts.equals(whole)


def test_without_since_the_first_call_looks_a_day_back(home: Path) -> None:
    with serving(filled()) as url:
        result = run("--url", url, "--cluster", "c", "--until", f"{(START + timedelta(hours=20)).isoformat()}Z", "--chunk", "1d")
        assert result.exit_code == 0, result.stderr
        assert landed(home, "gpu_samples").height == 2 * len(SECONDS)
        again = run("--url", url, "--cluster", "c", "--until", f"{(START + timedelta(hours=20)).isoformat()}Z")
    assert (again.exit_code, json.loads(again.stdout)["status"]) == (0, "nothing")


def test_what_is_missing_is_told_with_its_remedy(home: Path) -> None:
    api = FakePrometheus(warnings=["store gateway unavailable"])
    lone = Scrape(lambda second: 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="T4",Hostname="n1"} 5\n', {"job": "d"})
    store(api, [lone], range(0, 600, 30))
    with serving(api) as url:
        notes = " ".join(collect(url)["notes"])
    assert "no DCGM_FI_PROF_" in notes
    assert "kube-state-metrics" in notes
    assert "the server warned: store gateway unavailable" in notes


def test_an_address_in_the_environment_and_a_token_are_used_and_never_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = filled(tuple(range(0, 300, 15)))
    with serving(api) as url:
        monkeypatch.setenv("GPU_NET_PROMETHEUS_URL", url.replace("//", "//user:hunter2@"))
        monkeypatch.setenv("GPU_NET_PROMETHEUS_TOKEN", "s3cret-token")
        span = ["--since", f"{START.isoformat()}Z", "--until", f"{UNTIL.isoformat()}Z", "--cluster", "c", "--tenant", "team-a"]
        result = run(*span)
    assert result.exit_code == 0, result.stderr
    headers = api.asked[-1][3]
    assert (headers["Authorization"], headers["X-Scope-OrgID"]) == ("Bearer s3cret-token", "team-a")
    assert "hunter2" not in result.output + result.stderr
    for path in home.rglob("*.parquet"):
        assert b"hunter2" not in path.read_bytes()
        assert b"s3cret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster", "c"], "--url"),
        (["--url", "http://x", "--cluster", "c", "--since", "2026-01-02", "--until", "2026-01-01"], "nothing lies between"),
        (["--url", "http://x"], "--cluster"),
        (["--url", "http://x", "--cluster", "c", "--chunk", "never"], "no duration"),
    ],
)
def test_wrong_usage_is_told(home: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_server_without_anything_to_read_is_a_failure(home: Path) -> None:
    api = FakePrometheus()
    api.add("up", {"job": "x"}, [(round(epoch(0) * 1000), 1.0)])
    with serving(api) as url:
        result = run("--url", url, "--cluster", "c", "--since", f"{START.isoformat()}Z", "--until", f"{UNTIL.isoformat()}Z")
    assert result.exit_code == 1
    assert "are they scraped" in result.stderr
