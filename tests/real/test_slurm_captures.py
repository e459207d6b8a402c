"""Slurm outputs of a university's cluster, and the one this project recorded, through the slurm collector.

The GPU-hours are GPUs × (end − start) of the job rows; a run without an end counts up to the instant the output was taken,
which the outputs tell themselves (start + elapsed time is one and the same instant for all running jobs).
"""

from __future__ import annotations

import csv
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.slurm.collect import slurm
from collectors.slurm.fields import DEFAULT_FIELDS
from collectors.slurm.parse import SlurmOutput, parse_output
from collectors.slurm.records import Reading

pytestmark = pytest.mark.real


@pytest.fixture
def fox(real_data: Path) -> Path:
    return real_data / "fox-slurm"


def parse(path: Path) -> SlurmOutput:
    return parse_output(path.read_bytes(), path.name, Reading(time_zone="Europe/Oslo"))


def gpu_seconds(rows: list[dict[str, Any]]) -> float:
    return sum(
        row["gpu_count"] * ((row["ended_at"] or row["observed_at"]) - row["started_at"]).total_seconds()
        for row in rows
        if row["gpu_count"] and row["started_at"]
    )


def counted_by_hand(tres: str) -> int:
    """GPUs of a resource list without the collector's help: these outputs always carry the untyped count."""
    found = re.search(r"gres/gpu=(\d+)", tres)
    return int(found[1]) if found else 0


def test_a_day_of_84_gpu_jobs_is_39_gpu_hours_and_not_its_252_rows(fox: Path) -> None:
    path = fox / "sacct-sonar-csv-2025-05-03.csv"
    output = parse(path)
    gpu_jobs = [row for row in output.rows if row["gpu_count"]]

    # again, from sacct's own elapsed time, which does not need the times of day
    with path.open(newline="") as file:
        cells = [dict(cell.split("=", 1) for cell in line) for line in csv.reader(file)]
    with_gpus = [row for row in cells if counted_by_hand(row.get("AllocTRES", ""))]
    jobs = [row for row in with_gpus if "." not in row["JobIDRaw"]]
    elapsed = sum(counted_by_hand(row["AllocTRES"]) * int(row["ElapsedRaw"]) for row in jobs)

    assert (len(with_gpus), len(jobs), elapsed) == (252, 84, 140_399)
    assert (len(output.rows), len(gpu_jobs), output.rejects) == (294, 84, [])
    assert gpu_seconds(gpu_jobs) == 140_399
    assert round(140_399 / 3600, 1) == 39.0
    # all 84 have ended: the figure needs no instant up to which a running job counts
    assert all(row["ended_at"] for row in gpu_jobs)


def test_running_jobs_count_up_to_the_instant_the_output_was_taken(fox: Path) -> None:
    path = fox / "sacct-parsable-2025-09-26.txt"
    output = parse(path)
    gpu_jobs = [row for row in output.rows if row["gpu_count"]]

    lines = [dict(zip(DEFAULT_FIELDS, line.split("|"), strict=True)) for line in path.read_text().splitlines()]
    jobs = [row for row in lines if "." not in row["JobIDRaw"] and counted_by_hand(row["AllocTRES"])]
    elapsed = sum(counted_by_hand(row["AllocTRES"]) * int(row["ElapsedRaw"]) for row in jobs)
    taken_at = {
        datetime.fromisoformat(row["Start"]) + timedelta(seconds=int(row["ElapsedRaw"]))
        for row in lines
        if row["End"] == "Unknown" and row["Start"] != "Unknown" and "." not in row["JobIDRaw"]
    }

    assert taken_at == {datetime(2025, 9, 26, 9, 19, 11)}  # Oslo, two hours ahead
    assert output.observed_at == datetime(2025, 9, 26, 7, 19, 11)
    assert (len(output.rows), len(jobs), len(gpu_jobs), output.rejects) == (122, 65, 65, [])
    assert gpu_seconds(gpu_jobs) == elapsed == 3_360_033
    assert round(elapsed / 3600) == 933


def test_pending_and_cancelled_jobs_keep_their_rows_and_hold_nothing(fox: Path) -> None:
    waiting = [row for row in parse(fox / "sacct-parsable-2025-09-26.txt").rows if row["state"] == "PENDING"]

    assert len(waiting) == 31
    assert {(row["started_at"], row["ended_at"], row["node_list"], row["gpu_count"]) for row in waiting} == {(None,) * 4}


@pytest.mark.parametrize(
    ("name", "attempts", "gpu_jobs"),
    [("sacct-parsable-2024-11-13.txt", 29, 16), ("slurm-jobs-newfmt-2025-05-02.json", 505 + 507, 157)],
)
def test_the_other_outputs_of_that_cluster_are_read_without_a_reject(fox: Path, name: str, attempts: int, gpu_jobs: int) -> None:
    output = parse(fox / name)

    assert output.rejects == []
    assert (len(output.rows), sum(bool(row["gpu_count"]) for row in output.rows)) == (attempts, gpu_jobs)


def test_a_submission_in_the_future_does_not_move_the_time_of_a_snapshot(fox: Path) -> None:
    output = parse(fox / "slurm-jobs-newfmt-2025-05-02.json")
    late = [row for row in output.rows if row["submitted_at"] > row["observed_at"]]

    assert {row["job_id"] for row in late} == {"1621683"}
    assert {row["observed_at"] for row in output.rows} == {datetime(2025, 5, 3, 6, 59, 11), datetime(2025, 5, 3, 7, 2, 10)}


def test_the_live_recording_has_the_gpu_seconds_worked_by_hand(real_data: Path, home: Path) -> None:
    path = real_data / "slurm-22.05-live" / "sacct_parsable_all_steps.txt"
    result = CliRunner().invoke(slurm, ["--sacct-file", str(path)])

    assert result.exit_code == 0, result.output
    runs = pl.read_parquet(home / "raw/slurm/runs/**/*.parquet")
    held = (pl.col("ended_at") - pl.col("started_at")).dt.total_seconds()
    by_job = runs.group_by("job_id").agg((held * pl.col("gpu_count")).sum().cast(pl.Int64).alias("gpu_s"))
    assert dict(by_job.sort("job_id").iter_rows()) == {
        "1": 10, "2": 10, "3": 28, "4": 4, "5": 3, "6": 6, "7": 132, "8": 57, "9": 10, "11": 0, "12": 99, "13": 0, "14": 0,
        "15": 0, "16": 4, "17": 4, "18": 4, "19": 4,
    }  # fmt: skip
    assert "train|llama `70b`" in runs["name"].to_list()


@pytest.mark.parametrize("name", ["test-data1.csv", "test-data2.csv"])
def test_an_old_output_with_a_header_in_another_order_is_read(real_data: Path, name: str) -> None:
    output = parse(real_data / "slurm2sql" / name)

    assert output.rejects == []
    by_job = {row["job_id"]: row["gpu_count"] for row in output.rows}
    assert by_job == {"43974388": None, "43977780": 1}, "no gres/gpu anywhere: unknown, not 0, unless a comment counts them"
