"""`python -m collectors import TABLE FILE…` as a user meets it: what is printed, what is left, and the exit code."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.warehouse.landing.test_landings import samples, tree
from warehouse.home import Home
from warehouse.landing.outcomes import current_files, landed_tables

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def stored(home: Path) -> pl.DataFrame:
    raw = Home(home, home / "raw").raw
    return pl.read_parquet([raw / file for _, file in current_files(landed_tables(raw))], hive_partitioning=False)


def test_a_file_lands_once_however_often_and_under_whatever_name_it_comes(run_cli: RunCli, home: Path, tmp_path: Path) -> None:
    samples(30).write_csv(tmp_path / "a.csv")
    samples(30).write_csv(tmp_path / "b.csv")
    first = run_cli("collectors", "import", "gpu_samples", str(tmp_path / "a.csv"))
    before = tree(home)
    second = run_cli("collectors", "import", "gpu_samples", str(tmp_path / "b.csv"))
    assert (first.returncode, second.returncode) == (0, 0)
    assert "landed 30 gpu_samples, 0 quarantined, 2026-11-01T00:00:00Z to 2026-11-01T00:30:00Z" in first.stdout
    assert "already landed 30 gpu_samples" in second.stdout
    assert tree(home) == before


def test_text_json_and_parquet_of_the_same_rows_land_the_same(run_cli: RunCli, home: Path, tmp_path: Path) -> None:
    rows = samples(30)
    rows.write_csv(tmp_path / "a.csv")
    rows.write_ndjson(tmp_path / "a.jsonl")
    rows.write_parquet(tmp_path / "a.parquet")
    seen = []
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        root = home / name
        result = subprocess.run(
            [sys.executable, "-m", "collectors", "import", "gpu_samples", str(tmp_path / name)],
            cwd=PROJECT_ROOT, env=clean_environment(root), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        seen.append(stored(root).drop("collection_run_id", "landed_at", "line_number"))
    assert seen[0].equals(seen[1])
    assert seen[0].equals(seen[2])


def test_bad_rows_go_to_the_quarantine_and_the_exit_code_says_so(run_cli: RunCli, home: Path, tmp_path: Path) -> None:
    text = samples(3).write_csv()
    (tmp_path / "a.csv").write_text(text + "c1,n1\n" + text.splitlines()[1].replace("60000", "soon") + "\n")
    result = run_cli("collectors", "import", "gpu_samples", str(tmp_path / "a.csv"), "--json")
    outcome = json.loads(result.stdout)
    assert result.returncode == 4
    assert (outcome["rows_landed"], outcome["rows_quarantined"], outcome["rejects"]) == (3, 2, {"malformed": 2})
    assert "a.csv:5: malformed: 2 fields where the header names 7" in result.stderr
    quarantined = pl.read_parquet(home / "quarantine/import/*/*.parquet").sort("line")
    assert quarantined["line"].to_list() == [5, 6]
    assert quarantined["detail"][1] == "interval_ms: 'soon' is no whole number"
    assert run_cli("collectors", "import", "gpu_samples", str(tmp_path / "a.csv"), "--strict").returncode == 1


def test_a_file_that_is_none_exits_1_and_leaves_an_outcome_and_no_rows(run_cli: RunCli, home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but nothing else PAR1")
    result = run_cli("collectors", "import", "gpu_samples", str(tmp_path / "a.parquet"))
    assert result.returncode == 1
    assert "write it again" in result.stderr
    assert "Traceback" not in result.stderr
    assert [record.status for record in landed_tables(home / "raw")] == ["failed"]


def test_an_empty_file_with_a_header_is_nothing(run_cli: RunCli, home: Path, tmp_path: Path) -> None:
    samples(0).write_csv(tmp_path / "a.csv")
    result = run_cli("collectors", "import", "gpu_samples", str(tmp_path / "a.csv"))
    assert (result.returncode, result.stdout.startswith("import: nothing 0 rows")) == (0, True)
    assert landed_tables(home / "raw") == []


def test_the_cluster_given_fills_what_a_row_leaves_out(run_cli: RunCli, home: Path, tmp_path: Path) -> None:
    samples(2).drop("cluster").write_csv(tmp_path / "a.csv")
    assert run_cli("collectors", "import", "gpu_samples", str(tmp_path / "a.csv"), "--cluster", "mine").returncode == 0
    assert set(stored(home)["cluster"]) == {"mine"}


@pytest.mark.parametrize("limit", [0, 4096])
def test_a_disk_without_room_exits_1_with_the_remedy_and_leaves_the_old_state(
    run_cli: RunCli, home: Path, tmp_path: Path, limit: int
) -> None:
    """The limit on a file's size stands for the full disk; at 0 not even the failure can be recorded."""
    samples(2).write_csv(tmp_path / "old.csv")
    samples(900, gpu="GPU-2").write_csv(tmp_path / "new.csv")
    run_cli("collectors", "import", "gpu_samples", str(tmp_path / "old.csv"))
    before = stored(home)
    result = subprocess.run(
        [sys.executable, "-m", "collectors", "import", "gpu_samples", str(tmp_path / "new.csv")],
        cwd=PROJECT_ROOT, env=clean_environment(home), capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert result.returncode == 1
    assert "nothing was landed; make room or give access, then land again" in result.stderr
    assert "Traceback" not in result.stderr
    assert stored(home).equals(before)
    assert list((home / "raw" / ".staging").iterdir()) == []
    assert run_cli("collectors", "import", "gpu_samples", str(tmp_path / "new.csv")).returncode == 0
