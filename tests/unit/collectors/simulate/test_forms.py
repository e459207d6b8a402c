"""A plan lands in the landing shape, and in the formats of the sources, as the same rows."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from collectors.simulate.native.exporters import scrapes
from collectors.simulate.samples import sample_frames
from tests.unit.collectors.simulate.conftest import plan_of

CLUSTERS = ("alder", "cirrus", "drift")
COMMAND = ("collectors", "simulate", "--gpus", "24", "--days", "3", "--seed", "3", "--until", "2026-11-05")
NATIVE = (*COMMAND, "--as", "native", "--from", "2026-11-04T22:00:00Z")

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def _landed(home: Path, source: str, table: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in (home / "raw" / source / table).rglob("*.parquet")], how="diagonal")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The last two hours as native text, landed by the collectors of the sources."""
    from tests.conftest import run_module

    home = tmp_path_factory.mktemp("native")
    for arguments in (NATIVE, ("collectors", "incoming")):
        done = run_module(home, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return home, done.stdout


def test_both_forms_of_one_window_give_the_same_samples(native: tuple[Path, str]) -> None:
    plan = plan_of(24, 72, 3)
    last = plan.window.minutes
    key = ["cluster", "gpu_uuid", "slot_uuid", "interval_start_at"]
    planned = pl.concat(
        [frame for name in CLUSTERS for frame in sample_frames(plan, plan.fleet.in_cluster(name), last - 120, last, 60)]
    ).sort(key, nulls_last=True)
    landed = _landed(native[0], "dcgm", "gpu_samples").sort(key, nulls_last=True)
    assert planned.height == landed.height > 2000
    for name in planned.columns:
        one, other = planned[name], landed[name]
        if name == "energy_joules":
            # what a counter grew by before its first reading is not known
            one = one.set(other.is_null(), None)
            assert other.null_count() == landed.select(key[:3]).unique().height
        if one.dtype == pl.Float64:
            assert (one.is_null() == other.is_null()).all(), name
            assert (one - other).abs().max() in (None, pytest.approx(0, abs=1e-6)), name
        else:
            assert one.cast(other.dtype).equals(other, null_equal=True), name


def test_the_collectors_leave_nothing_of_the_native_text_out(native: tuple[Path, str]) -> None:
    home, output = native
    for source in ("dcgm", "slurm", "kubernetes", "inference", "requests", "import"):
        assert f"{source}: landed" in output
    assert not list((home / "quarantine").rglob("*.parquet"))
    assert not [path for path in (home / "incoming").rglob("*") if path.is_file() and "done" not in path.parts]


def test_both_forms_tell_of_the_same_runs(native: tuple[Path, str]) -> None:
    home, _ = native
    plan = plan_of(24, 72, 3)
    begin = plan.window.minutes - 120
    told = pl.concat([_landed(home, source, "runs") for source in ("slurm", "kubernetes")], how="diagonal")
    found = {
        (row["cluster"], row["job_id"], row["started_at"], row["ended_at"], row["gpu_count"], row["name"])
        for row in told.filter(pl.col("started_at").is_not_null()).iter_rows(named=True)
    }
    assert found == {
        (
            run.cluster,
            run.job_id,
            plan.window.at(run.start),
            None if run.end is None else plan.window.at(run.end),
            len(run.slots),
            run.name,
        )
        for run in plan.runs
        if run.until(plan.window) > begin
    }
    interactive = told.filter((pl.col("cluster") == "alder") & pl.col("labels").str.contains("interactive").fill_null(False))
    assert set(interactive["name"]) <= {"interactive"}


def test_a_scrape_carries_the_names_of_its_exporter_and_of_who_holds_the_card() -> None:
    plan = plan_of(24, 72, 3)
    _, text = next(scrapes(plan, "cirrus", 1000, 1001))
    assert "# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge" in text
    assert 'GPU_I_PROFILE="' in text
    assert 'pod="chat-' in text


def test_landing_the_same_fleet_again_changes_nothing(run_cli: RunCli, home: Path) -> None:
    first = run_cli(*COMMAND, "--interval", "60", "--to", "2026-11-02T03:00:00Z")
    assert first.returncode == 0, first.stderr
    files = sorted(home.rglob("*.parquet"))
    again = run_cli(*COMMAND, "--interval", "60", "--to", "2026-11-02T03:00:00Z")
    assert again.stdout.count("already landed") == first.stdout.count("landed ") == 4
    assert sorted(home.rglob("*.parquet")) == files


def test_the_answer_is_one_file_for_all_parts_of_a_plan(native: tuple[Path, str]) -> None:
    (path,) = (native[0] / "simulation").glob("*.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert path.name == "gpus-24-hours-72-seed-3-until-2026-11-05T00-00-00Z.csv"
    assert {row["usage_date"] for row in rows} == {"2026-11-02", "2026-11-03", "2026-11-04"}
    hours = sum(int(row["gpu_microseconds"]) for row in rows) / 3.6e9
    assert 24 * 72 * 0.95 < hours <= 24 * 72
    alder = [row for row in rows if row["cluster"] == "alder" and row["usage_date"] == "2026-11-02"]
    for row in alder:
        assert float(row["cost"]) == pytest.approx(float(row["gpu_hours"]) * 0.83, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--until", "2026-11-05T00:30:00Z"), "whole hour"),
        (("--from", "2026-10-01"), "must lie in the plan"),
        (("--gpus", "7"), "8<=x<=10000"),
        (("--as", "native", "--interval", "10"), "a scrape a minute"),
        (("--as", "native", "--gpus", "1000"), "too much text"),
    ],
)
def test_wrong_usage_says_what_is_right(run_cli: RunCli, arguments: tuple[str, ...], message: str) -> None:
    done = run_cli(*COMMAND, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
