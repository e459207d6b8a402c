"""ClusterCockpit's jobs of NHR@FAU's Alex in the landing shape: the figures of the file, and that none is lost on the way."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from collectors.parsed import Row
from tests.real.adapters.clustercockpit import Job, read_cards, read_jobs, to_rows

pytestmark = pytest.mark.real

MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(real_data: Path) -> Path:
    return real_data / "fau-alex-jobs"


@pytest.fixture(scope="module")
def jobs(folder: Path) -> list[Job]:
    return read_jobs(folder / "jobs_alex.csv")


@pytest.fixture(scope="module")
def tables(folder: Path, jobs: list[Job]) -> dict[str, list[Row]]:
    return to_rows(jobs, read_cards(folder / "cluster_alex.json"), "fau").tables


def raw(folder: Path) -> list[dict[str, Any]]:
    with (folder / "jobs_alex.csv").open(newline="") as text:
        return list(csv.DictReader(text))


def test_the_file_holds_3980_gpu_hours_of_which_2860_worked(folder: Path) -> None:
    """Σ duration × num_acc, and the same weighted by acc_utilization_avg, in exact fractions of the text."""
    rows = raw(folder)
    held = sum(int(row["duration"]) * int(row["num_acc"]) for row in rows)
    worked = sum(
        int(row["duration"]) * int(row["num_acc"]) * Fraction(str(json.loads(row["footprint"])["acc_utilization_avg"])) / 100
        for row in rows
    )
    assert (len(rows), held) == (303, 14_328_134)
    assert round(held / 3600, 2) == 3980.04
    assert round(worked * 1_000_000) == 10_295_573_717_820
    assert round(float(worked) / 3600, 2) == 2859.88


def test_108_jobs_average_under_five_percent(folder: Path) -> None:
    idle = [row for row in raw(folder) if json.loads(row["footprint"])["acc_utilization_avg"] < 5]
    assert len(idle) == 108
    assert 14_328_134 - sum(int(row["duration"]) * int(row["num_acc"]) for row in idle) == 14_044_423


def test_every_second_of_every_card_is_held_and_read_once(tables: dict[str, list[Row]]) -> None:
    held = sum((row["ended_at"] - row["started_at"]).total_seconds() * row["gpu_count"] for row in tables["run_gpus"])
    assert (len(tables["runs"]), held) == (303, 14_328_134)
    read = sum(row["interval_ms"] for row in tables["gpu_samples"])
    assert read == (14_328_134 - 2) * 1000, "all but the job whose card is not told"
    worked = sum(row["interval_ms"] * row["gpu_utilization_ratio"] for row in tables["gpu_samples"])
    assert worked / 1000 == pytest.approx(10_295_573.71782, abs=0.01)


def test_a_reading_ends_at_midnight_and_the_next_begins_there(tables: dict[str, list[Row]]) -> None:
    by_card: dict[str, list[Row]] = defaultdict(list)
    for row in tables["gpu_samples"]:
        by_card[row["gpu_uuid"]].append(row)
    longest = max(row["interval_ms"] for row in tables["gpu_samples"])
    assert longest == 86_400_000
    for rows in by_card.values():
        rows.sort(key=lambda row: row["interval_start_at"])
        ends = [row["interval_start_at"] + timedelta(milliseconds=row["interval_ms"]) for row in rows]
        assert all(end <= following["interval_start_at"] for end, following in zip(ends, rows[1:], strict=False))
        for row, end in zip(rows, ends, strict=True):
            assert end.date() == row["interval_start_at"].date() or end.time() == datetime.min.time()


def test_a_blank_address_is_a_card_held_and_not_known(tables: dict[str, list[Row]], jobs: list[Job]) -> None:
    (job,) = [job for job in jobs if any(not pci for _, pci in job.cards)]
    assert (job.job_id, job.duration_seconds, job.utilization_percent, job.memory_mib) == ("679766", 2, 0.0, 0.0)
    (hold,) = [row for row in tables["run_gpus"] if row["job_id"] == job.job_id]
    assert (hold["node"], hold["gpu_uuid"], hold["gpu_count"]) == ("a0932", None, 1)


def test_a_card_is_known_by_its_node_and_address_and_its_model_by_the_sub_cluster(
    tables: dict[str, list[Row]], jobs: list[Job]
) -> None:
    inventory = {row["gpu_uuid"]: row for row in tables["gpu_inventory"]}
    nodes = {node for job in jobs for node in job.nodes}
    assert (len(nodes), len(inventory)) == (35, 280)
    assert {row["gpu_uuid"] for row in tables["gpu_samples"]} <= inventory.keys()
    assert inventory["a0128/00000000:E1:00.0"]["gpu_model"] == "NVIDIA A40"
    by_model = Counter(inventory[row["gpu_uuid"]]["gpu_model"] for row in tables["gpu_samples"])
    assert set(by_model) == {"NVIDIA A40", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"}


def test_memory_of_several_cards_is_a_sum_and_of_several_nodes_a_mean(jobs: list[Job]) -> None:
    """An idle A100 holds some 590 MiB: 4721 MiB for eight of them on each of three nodes."""
    wide = [job for job in jobs if len(job.nodes) == 3]
    assert {(job.gpu_count, job.memory_mib, job.memory_bytes_per_card) for job in wide} == {(24, 4721.0, round(4721 / 8 * MIB))}
    sizes = {"a40": 48 * 1024, "a100": 80 * 1024}
    assert all(job.memory_bytes_per_card <= sizes[job.partition] * MIB for job in jobs if job.partition in sizes)
