"""What a job's row means: attempts, open ends, suspension, resources, labels; the cases of cases.md that a parser decides."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from collectors.slurm.parse import SlurmOutput, parse_output
from collectors.slurm.records import Reading

START = 1796020000  # 2026-11-30T06:26:40Z
STARTED_AT = datetime(2026, 11, 30, 6, 26, 40)
JOB: dict[str, Any] = {
    "JobIDRaw": "7",
    "JobName": "train",
    "State": "COMPLETED",
    "Start": START,
    "End": START + 7200,
    "ElapsedRaw": 7200,
    "AllocTRES": "cpu=4,gres/gpu=4",
}


def parse(*jobs: dict[str, Any], time_zone: str | None = None, at: datetime | None = None) -> SlurmOutput:
    """The rows of an output whose jobs are `JOB` with these fields instead; a field that is None is not asked for."""
    rows = [{name: value for name, value in (JOB | job).items() if value is not None} for job in jobs]
    fields = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["|".join(fields)] + ["|".join(str(row.get(name, "")) for name in fields) for row in rows]
    return parse_output("\n".join(lines).encode(), "saved.txt", Reading(time_zone=time_zone), at)


def parse_one(**fields: Any) -> dict[str, Any]:
    [row] = parse(fields).rows
    return row


def gpu_seconds(output: SlurmOutput) -> float:
    return sum(
        row["gpu_count"] * ((row["ended_at"] or row["observed_at"]) - row["started_at"]).total_seconds() for row in output.rows
    )


def test_steps_repeat_the_allocation_and_only_the_job_row_counts() -> None:
    steps = [{"JobIDRaw": f"7.{step}", "JobName": step} for step in ("batch", "extern", "0")]

    assert gpu_seconds(parse({}, *steps)) == 8 * 3600  # cases.md B01: naively 32


def test_each_requeue_is_an_attempt_of_its_own() -> None:
    ends = [3889, 4473, 1800]  # cases.md B04: 01:04:49, 01:14:33, 00:30:00
    attempts = [
        {
            "JobIDRaw": "235929",
            "State": state,
            "Start": START + 10000 * number,
            "End": START + 10000 * number + seconds,
            "ElapsedRaw": seconds,
            "AllocTRES": "gres/gpu=2",
        }
        for number, (state, seconds) in enumerate(zip(["REQUEUED", "REQUEUED", "COMPLETED"], ends, strict=True))
    ]
    output = parse(*attempts)

    assert len(output.rows) == 3
    assert {row["job_id"] for row in output.rows} == {"235929"}
    assert gpu_seconds(output) == 20324


def test_a_running_job_is_open_and_the_output_is_dated_by_the_time_it_has_run() -> None:
    output = parse({"State": "RUNNING", "End": "Unknown", "ElapsedRaw": 9000, "AllocTRES": "gres/gpu=2"})

    [row] = output.rows  # cases.md B09
    assert row["ended_at"] is None
    assert row["observed_at"] == datetime(2026, 11, 30, 8, 56, 40)
    assert gpu_seconds(output) == 5.0 * 3600


def test_an_end_of_the_window_is_no_end_of_a_running_job() -> None:
    assert parse_one(State="RUNNING")["ended_at"] is None


def test_an_end_that_is_not_known_is_start_plus_elapsed_where_the_job_is_over() -> None:
    output = parse({"State": "CANCELLED by 1000", "End": "Unknown", "ElapsedRaw": 17, "Suspended": "00:00:03"})

    [row] = output.rows
    assert (row["state"], row["ended_at"]) == ("CANCELLED", datetime(2026, 11, 30, 6, 27, 0))
    assert any("start plus elapsed" in note for note in output.notes)
    assert parse_one(State="FAILED", End="Unknown", ElapsedRaw="")["ended_at"] is None


@pytest.mark.parametrize(
    ("fields", "suspended"),
    [
        ({"ElapsedRaw": 3600}, 3600),  # cases.md B11: elapsed time leaves suspension out
        ({"ElapsedRaw": 3600, "Suspended": "01:00:00"}, 3600),
        ({"ElapsedRaw": None, "Elapsed": "01:00:00"}, 3600),
        ({"Suspended": "00:00:00"}, 0),
        ({"ElapsedRaw": None}, None),
        ({"State": "SUSPENDED", "End": "Unknown", "Suspended": "00:10:00"}, 600),
        ({"State": "RUNNING", "End": "Unknown"}, None),
        ({"Start": "None", "Suspended": "00:00:00"}, None),
    ],
)
def test_suspended_time_is_said_or_what_elapsed_time_lacks(fields: dict[str, Any], suspended: float | None) -> None:
    assert parse_one(**fields)["suspended_seconds"] == suspended


@pytest.mark.parametrize(
    "fields",
    [
        {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "JobID": "4_[1-5%2]"},
        {"State": "PENDING", "Start": START + 99999, "End": "Unknown"},  # an expected start is none
        {"State": "CANCELLED by 0", "Start": "None"},
    ],
)
def test_what_never_started_holds_nothing_and_keeps_its_row(fields: dict[str, Any]) -> None:
    row = parse_one(Submit=START - 60, NodeList="None assigned", **fields)

    assert row["started_at"] is None
    assert (row["node_list"], row["node_count"], row["cpu_seconds"]) == (None, None, None)
    assert row["gpu_count"] == 4


def test_a_submission_dates_an_output_only_where_nothing_has_started() -> None:
    later = START + 86400 * 30

    assert parse({"Submit": later}).observed_at == datetime(2026, 11, 30, 8, 26, 40)
    assert parse({"State": "PENDING", "Start": "Unknown", "End": "Unknown", "Submit": START}).observed_at == STARTED_AT


def test_an_output_that_tells_no_time_needs_one_to_be_given() -> None:
    job = {"State": "PENDING", "Start": "Unknown", "End": "Unknown"}

    assert ["--at" in reject.detail for reject in parse(job).rejects] == [True]
    assert [row["observed_at"] for row in parse(job, at=STARTED_AT).rows] == [STARTED_AT]


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({"AllocTRES": "cpu=64,mem=400G"}, 0),  # the other row shows that GPUs are tracked: a CPU job
        ({"AllocTRES": ""}, None),
        ({"AllocTRES": "", "AllocGRES": "gpu:h100:5"}, 5),  # cases.md B03
        ({"AllocTRES": "cpu=64", "ReqTRES": "cpu=64,gres/gpu=2"}, None),  # asked for, not said to be given
        ({"AllocTRES": "cpu=8,gres/shard=2"}, None),
    ],
)
def test_a_job_without_gpus_has_none_only_where_gpus_are_tracked(resources: dict[str, Any], count: int | None) -> None:
    rows = parse({"JobIDRaw": "8"}, resources).rows

    assert rows[1]["gpu_count"] == count


def test_a_cluster_that_does_not_track_gpus_has_unknown_counts_and_a_note() -> None:
    output = parse({"AllocTRES": "cpu=64,mem=400G", "ReqTRES": "cpu=64"})

    assert [(row["gpu_count"], row["requested_gpu_count"]) for row in output.rows] == [(None, None)]  # cases.md B03
    assert any("AccountingStorageTRES" in note for note in output.notes)


def test_whether_gpus_are_tracked_is_a_matter_of_each_cluster() -> None:
    rows = parse({"Cluster": "a"}, {"Cluster": "b", "AllocTRES": "cpu=4"}, {"Cluster": "a", "AllocTRES": "cpu=4"}).rows

    assert [(row["cluster"], row["gpu_count"]) for row in rows] == [("a", 4), ("b", None), ("a", 0)]  # cases.md B13


def test_what_was_asked_for_is_kept_beside_what_was_given() -> None:
    rows = parse({"ReqTRES": "cpu=1,gres/gpu=2"}, {"ReqTRES": "cpu=1", "AllocTRES": "cpu=1"}, {}).rows

    assert [row["requested_gpu_count"] for row in rows] == [2, 0, None]


@pytest.mark.parametrize(
    ("fields", "column", "value"),
    [
        ({"TimelimitRaw": 1380}, "time_limit_seconds", 82800),
        ({"TimelimitRaw": "UNLIMITED"}, "time_limit_seconds", None),
        ({"TimelimitRaw": 4294967295}, "time_limit_seconds", None),
        ({"Timelimit": "5-00:00:00"}, "time_limit_seconds", 432000),
        ({"Timelimit": "UNLIMITED"}, "time_limit_seconds", None),
        ({"AllocTRES": "cpu=4,mem=384G", "ReqMem": "1G"}, "memory_bytes", 384 * 2**30),
        ({"AllocTRES": "cpu=4,mem=0", "ReqTRES": "mem=8000M"}, "memory_bytes", 8000 * 2**20),
        ({"AllocTRES": "cpu=4,node=2", "ReqMem": "4Gn"}, "memory_bytes", 8 * 2**30),
        ({"AllocTRES": "", "NCPUS": 8, "ReqMem": "2Gc"}, "memory_bytes", 16 * 2**30),
        ({"TotalCPU": "1-02:03:04.500", "CPUTimeRAW": 1}, "cpu_seconds", 93784.5),
        ({"UserCPU": "00:13.030", "SystemCPU": "00:02"}, "cpu_seconds", 15.03),
        ({"CPUTimeRAW": 28800}, "cpu_seconds", None),  # CPUs x time allocated, not used
        ({"State": "RUNNING", "TotalCPU": "00:00:00"}, "cpu_seconds", None),
        ({"NodeList": "gpu-[1-2]"}, "node_list", "gpu-1,gpu-2"),
        ({"NodeList": "gpu-[1-2]"}, "node_count", 2),
        ({"JobName": ""}, "name", "allocation"),
        ({"State": "CANCELLED+"}, "state", "CANCELLED"),
        ({"State": "OUT_OF_MEMORY", "ExitCode": "0:125"}, "exit_code", "0:125"),
    ],
)
def test_a_column_says_what_sacct_says(fields: dict[str, Any], column: str, value: Any) -> None:
    assert parse_one(**fields)[column] == value


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"SubmitLine": "sbatch job.sh"}, {"batch": True}),
        ({"SubmitLine": "/usr/bin/salloc -N1"}, {"interactive": True}),
        ({"SubmitLine": "srun --pty bash"}, {"interactive": True}),
        ({"JobName": "interactive"}, {"interactive": True}),
        ({"JobName": "spawner-jupyterhub", "SubmitLine": "sbatch x"}, {"interactive": True}),
        ({}, None),
        ({"JobID": "4_17", "JobIDRaw": 40}, {"array_job_id": "4", "array_task_id": "17"}),
        ({"JobID": "4_[1-5%2]", "JobIDRaw": 4}, {"array_job_id": "4", "array_task_id": "1-5%2"}),
        ({"JobID": "14+1", "JobIDRaw": 15}, {"het_job_id": "14", "het_offset": "1"}),
        ({"AllocTRES": "cpu=1,gres/shard=2"}, {"shard": "2"}),
        ({"SLUID": "s1VNQ2WJ5G0001"}, {"sluid": "s1VNQ2WJ5G0001"}),
    ],
)
def test_labels_say_how_a_job_was_started_and_what_it_is_part_of(fields: dict[str, Any], labels: dict[str, Any] | None) -> None:
    found = parse_one(**fields)["labels"]

    assert (json.loads(found) if found else None) == labels


def test_a_job_with_steps_but_no_batch_script_is_interactive() -> None:
    rows = parse({}, {"JobIDRaw": "7.extern"}, {"JobIDRaw": "8"}, {"JobIDRaw": "8.batch"}, {"JobIDRaw": "9"}).rows

    assert [row["labels"] for row in rows] == ['{"interactive": true}', '{"batch": true}', None]


def test_a_local_time_in_the_repeated_hour_is_quarantined_and_the_rest_lands() -> None:
    local = {"Start": "2026-11-01T00:00:00", "End": "2026-11-02T00:00:00", "ElapsedRaw": 90000, "AllocTRES": "gres/gpu=1"}
    output = parse(local, local | {"Start": "2026-11-01T01:30:00"}, time_zone="America/New_York")

    assert gpu_seconds(output) == 25 * 3600  # cases.md B07
    [reject] = output.rejects  # cases.md B08
    assert (reject.line, reject.reason) == (3, "ambiguous_local_time")
    assert "TZ=UTC" in reject.detail


def test_an_elapsed_time_that_the_zone_cannot_explain_is_pointed_out() -> None:
    local = {"Start": "2026-11-01T00:00:00", "End": "2026-11-02T00:00:00", "ElapsedRaw": 90000}

    assert any("is --time-zone right" in note for note in parse(local).notes)
    assert not any("is --time-zone right" in note for note in parse(local, time_zone="America/New_York").notes)


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"Start": "yesterday"}, "no time"),
        ({"Start": START + 9000}, "lies before"),
        ({"AllocTRES": "gres/gpu=many"}, "no count"),
        ({"NodeList": "gpu-[1-"}, "no node list"),
        ({"ElapsedRaw": "long"}, "no duration"),
    ],
)
def test_a_row_whose_hours_cannot_be_known_is_quarantined(fields: dict[str, Any], detail: str) -> None:
    output = parse({}, fields)

    assert len(output.rows) == 1
    [reject] = output.rejects
    assert (reject.file, reject.line, reject.reason) == ("saved.txt", 3, "malformed")
    assert detail in reject.detail


@pytest.mark.parametrize(
    "fields", [{"ReqMem": "lots"}, {"TotalCPU": "much"}, {"TimelimitRaw": "soon"}, {"NCPUS": "few", "AllocTRES": ""}]
)
def test_a_value_no_gpu_hour_depends_on_is_left_empty_and_counted(fields: dict[str, Any]) -> None:
    output = parse(fields)

    assert (len(output.rows), output.rejects) == (1, [])
    assert any("1 rows have an unreadable" in note for note in output.notes)


@pytest.mark.parametrize(
    ("comment", "count", "labels"),
    [
        ('{"gpu_mem_max": 12345, "ncpu": 2, "ngpu": 1, "gpu_util": 53.1}', 1, {"gpu_utilization_ratio": 0.531}),
        ('{"ngpu": 2}', 2, {}),
        ('{"ngpu": true, "gpu_util": 9e9}', None, {}),
        ('["ngpu"]', None, {}),
        ('my "ngpu" job', None, {}),
        ("", None, {}),
    ],
)
def test_the_gpus_that_a_site_notes_in_a_comment_count_where_slurm_tracks_none(
    comment: str, count: int | None, labels: dict[str, Any]
) -> None:
    text = f"JobID;State;Start;End;Comment\n7;RUNNING;1796020000;Unknown;\n7.batch;RUNNING;1796020000;Unknown;{comment}\n"
    [row] = parse_output(text.encode(), "saved", Reading()).rows

    assert row["gpu_count"] == count
    assert json.loads(row["labels"]) == {"batch": True, **labels}
