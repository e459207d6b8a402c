"""`python -m collectors kubernetes FILE…`: what lands, what the command says, and what it exits with."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from click.testing import CliRunner, Result

from collectors.__main__ import main
from tests.unit.collectors.kubernetes.made import a_list, node, pod
from warehouse.landing.outcomes import outcome_frame

T4 = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4-SHARED"}


def kubernetes(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["kubernetes", "--cluster", "c1", *(str(argument) for argument in arguments)])


def landed(home: Path, table: str) -> pl.DataFrame:
    return pl.read_parquet(sorted((home / "raw" / "kubernetes" / table).rglob("*.parquet")))


def files_of(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((home / "raw").rglob("*.parquet"))}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "2026-11-01T12-00-00Z.json"
    path.write_bytes(a_list(pod(), pod("cpu", resources={"cpu": "1"}), node(labels=T4)))
    return path


def test_a_saved_list_lands_and_landing_it_again_changes_nothing(home: Path, saved: Path) -> None:
    result = kubernetes(saved)
    assert result.exit_code == 0, result.output
    assert "landed 1 runs, 1 run_gpus, 1 nodes, 1 node_states" in result.output
    assert "note: 1 pods ask for no GPU" in result.output
    (row,) = landed(home, "runs").to_dicts()
    assert (row["share_ratio"], row["gpu_count"], f"{row['observed_at']}") == (0.25, 1.0, "2026-11-01 12:00:00")
    before = files_of(home)
    assert "already landed" in kubernetes(saved).output
    assert files_of(home) == before


def test_yaml_lands_the_same_rows_as_json(home: Path, saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "2026-11-01T12-00-00Z.yaml"
    other.write_text(yaml.safe_dump(json.loads(saved.read_text())))
    kubernetes(saved)
    first = landed(home, "runs").drop("line_number", "collection_run_id", "landed_at")
    kubernetes(other)
    rows = landed(home, "runs").drop("line_number", "collection_run_id", "landed_at")
    assert rows.unique().equals(first)


def test_the_time_is_the_options_the_names_or_the_latest_in_the_file(home: Path, saved: Path, tmp_path: Path) -> None:
    plain = tmp_path / "pods.json"
    plain.write_bytes(a_list(pod()))
    kubernetes(plain)
    assert f"{landed(home, 'runs')['observed_at'][0]}" == "2026-11-01 10:00:05"
    kubernetes("--at", "2026-11-01T13:00:00Z", saved)
    assert f"{landed(home, 'runs')['observed_at'].max()}" == "2026-11-01 13:00:00"


def test_a_later_file_ends_what_it_lacks_unless_it_is_a_selection(home: Path, saved: Path, tmp_path: Path) -> None:
    later = tmp_path / "2026-11-01T12-10-00Z.json"
    later.write_bytes(a_list(pod("b"), pod("c", metadata={"namespace": "x", "name": "c", "uid": "c"})))
    kubernetes("--partial", later, saved)
    assert landed(home, "runs").filter(pl.col("name") == "train-0")["ended_at"].null_count() == 1
    kubernetes(later, saved)
    ends = landed(home, "runs").filter(pl.col("state") == "Deleted")["ended_at"].to_list()
    assert [f"{end}" for end in ends] == ["2026-11-01 12:05:00"]


def test_a_file_that_cannot_be_read_is_quarantined_beside_those_that_can(home: Path, saved: Path, tmp_path: Path) -> None:
    table = tmp_path / "pods.txt"
    table.write_text("NAME     READY\ntrain-0  1/1\n")
    result = kubernetes(table, saved)
    assert result.exit_code == 4
    assert "quarantined pods.txt" in result.output
    assert landed(home, "runs").height == 1
    assert kubernetes(table).exit_code == 1
    assert outcome_frame(home / "raw").filter(pl.col("status") == "failed").height == 1


def test_objects_that_tell_no_time_need_one(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(json.dumps({"kind": "Node", "metadata": {"name": "n1"}, "status": {}}))
    result = kubernetes(path)
    assert result.exit_code == 1
    assert "--at" in result.output
    assert kubernetes("--at", "2026-11-01T00:00:00Z", path).exit_code == 0


def test_pods_whose_nodes_are_not_there_are_told(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(a_list(pod(), pod("b", resources={"nvidia.com/gpu.shared": "1"})))
    output = kubernetes(path).output
    assert "1 pods are on nodes that are not among the objects" in output
    assert "1 pods hold GPUs, how many is not known: nvidia.com/gpu.shared" in output


def test_an_empty_list_lands_nothing(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_bytes(a_list())
    result = kubernetes(path)
    assert (result.exit_code, "nothing" in result.output) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", "2026-11-01T00:00:00Z"),
        ("--partial",),
        ("--namespace", "x", "FILE"),
        ("--context", "x", "FILE"),
        ("--at", "2026-11-01T00:00:00Z", "--at", "2026-11-02T00:00:00Z", "FILE"),
        ("FILE", "no-such-file"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(home: Path, saved: Path, arguments: tuple[str, ...]) -> None:
    assert kubernetes(*(saved if argument == "FILE" else argument for argument in arguments)).exit_code == 2


def test_users_are_landed_as_keyed_hashes_only(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(a_list(pod(annotations={"user": "jane"})))
    kubernetes(path)
    assert landed(home, "runs")["user"].to_list() == [None]
    monkeypatch.setenv("GPU_NET_USER_KEY", "k")
    kubernetes("--at", "2026-11-01T13:00:00Z", path)
    users = landed(home, "runs").sort("observed_at")["user"].to_list()
    assert users[1].startswith("user-")
