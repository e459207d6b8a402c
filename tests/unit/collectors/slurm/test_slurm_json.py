"""`sacct --json` as Slurm 21.08 to 24.11 write it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from collectors.slurm.parse import SlurmOutput, parse_output
from collectors.slurm.records import Reading, SourceFailedError

START, END = 1796020000, 1796027200


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
INFINITE = {"set": True, "infinite": True, "number": 0}
TRES = [
    {"type": "cpu", "name": None, "id": 1, "count": 4},
    {"type": "mem", "name": None, "id": 2, "count": 8000},
    {"type": "energy", "name": None, "id": 3, "count": None},
    {"type": "node", "name": "", "id": 4, "count": 1},
    {"type": "gres", "name": "gpu", "id": 1001, "count": 4},
    {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 4},
    {"type": "fs", "name": "disk", "id": 6, "count": -2},
]
#: Slurm 21.08, 22.05: plain numbers, null or NO_VAL where nothing is set
PLAIN = {
    "account": "lab",
    "allocation_nodes": 1,
    "array": {"job_id": 0, "task": None, "task_id": None},
    "association": {"account": "lab", "cluster": "c1", "partition": None, "user": "u"},
    "exit_code": {"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 9, "name": "KILL"}},
    "het": {"job_id": 0, "job_offset": None},
    "job_id": 7,
    "name": "train",
    "nodes": "gpu-1",
    "partition": "gpu",
    "qos": "normal",
    "required": {"CPUs": 4, "memory": 8000},
    "state": {"current": "FAILED", "reason": "None"},
    "steps": [{"step": {"job_id": 7, "id": "batch", "name": "batch"}}, {"step": {"job_id": 7, "id": 0, "name": "x"}}],
    "time": {
        "elapsed": 7194,
        "eligible": START,
        "end": END,
        "start": START,
        "submission": START,
        "suspended": 6,
        "limit": 120,
        "total": {"seconds": 12, "microseconds": 500000},
    },
    "tres": {"allocated": TRES, "requested": TRES},
    "user": "u",
}
#: Slurm 23.02 to 24.11: numbers are objects, states and statuses lists
NESTED = PLAIN | {
    "cluster": "c1",
    "array": {"job_id": 0, "task": "", "task_id": UNSET},
    "exit_code": {"status": ["SIGNALED"], "return_code": number(0), "signal": {"id": number(9), "name": "KILL"}},
    "het": {"job_id": 0, "job_offset": UNSET},
    "state": {"current": ["FAILED", "COMPLETING"], "reason": "None"},
    "steps": [{"step": {"id": "7.batch", "name": "batch"}}, {"step": {"id": {"job_id": 7, "step_id": "0"}}}],
    "submit_line": "sbatch job.sh",
    "time": PLAIN["time"] | {"limit": number(120), "planned": number(0)},  # type: ignore[operator]
}


def parse(*jobs: Any, **document: Any) -> SlurmOutput:
    return parse_output(json.dumps({"jobs": jobs} | document).encode(), "saved.json", Reading())


@pytest.mark.parametrize("job", [PLAIN, NESTED], ids=["21.08", "23.11"])
def test_every_layout_says_the_same(job: dict[str, Any]) -> None:
    [row] = parse(job).rows

    expected = {
        "cluster": "c1", "job_id": "7", "name": "train", "state": "FAILED", "exit_code": "0:9", "namespace": "lab", "user": "u",
        "gpu_count": 4, "gpu_model": "h100", "requested_gpu_count": 4, "cpu_count": 4, "memory_bytes": 8000 * 2**20,
        "node_list": "gpu-1", "node_count": 1, "time_limit_seconds": 7200, "suspended_seconds": 6, "cpu_seconds": 12.5,
        "labels": '{"batch": true}',
        "started_at": datetime(2026, 11, 30, 6, 26, 40), "ended_at": datetime(2026, 11, 30, 8, 26, 40),
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize("limit", [None, UNSET, INFINITE, 4294967295, 4294967294])
def test_a_limit_that_is_not_set_is_none(limit: Any) -> None:
    [row] = parse(NESTED | {"time": PLAIN["time"] | {"limit": limit}}).rows  # type: ignore[operator]

    assert row["time_limit_seconds"] is None


def test_a_running_job_has_no_end_and_a_pending_one_no_start() -> None:
    time = {"start": START, "end": 0, "elapsed": 600, "submission": START, "suspended": 0}
    running, pending = parse(
        NESTED | {"state": {"current": ["RUNNING"]}, "time": time},
        NESTED | {"state": {"current": ["PENDING"]}, "time": time | {"start": 0, "elapsed": 0}, "nodes": "None assigned"},
    ).rows

    assert (running["started_at"], running["ended_at"]) == (datetime(2026, 11, 30, 6, 26, 40), None)
    assert running["observed_at"] == datetime(2026, 11, 30, 6, 36, 40)
    assert (pending["started_at"], pending["node_list"]) == (None, None)


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"array": {"job_id": 4, "task_id": number(5), "task": ""}}, {"array_job_id": "4", "array_task_id": "5"}),
        ({"array": {"job_id": 7, "task_id": UNSET, "task": "1-5%2"}}, {"array_job_id": "7", "array_task_id": "1-5%2"}),
        ({"array": {"job_id": 7, "task_id": None, "task": None}}, {}),
        ({"het": {"job_id": 14, "job_offset": number(1)}}, {"het_job_id": "14", "het_offset": "1"}),
        ({"het": {"job_id": 14, "job_offset": None}}, {"het_job_id": "14", "het_offset": "0"}),
    ],
)
def test_arrays_and_heterogeneous_jobs_keep_their_ids(fields: dict[str, Any], labels: dict[str, str]) -> None:
    [row] = parse(PLAIN | fields).rows

    assert json.loads(row["labels"]) == labels | {"batch": True}
    assert row["job_id"] == "7"


def test_what_a_job_leaves_out_is_null() -> None:
    [row] = parse({"job_id": 7, "state": {"current": "COMPLETED"}, "time": {"start": START, "end": END, "total": {}}}).rows

    assert {row[name] for name in ("cluster", "exit_code", "gpu_count", "cpu_count", "cpu_seconds", "labels", "node_list")} == {
        None
    }


@pytest.mark.parametrize(
    ("meta", "version"),
    [
        ({"slurm": {"version": {"major": "23"}, "release": "23.11.4"}}, "slurm 23.11.4"),
        ({"Slurm": {"release": "22.05.8"}}, "slurm 22.05.8"),
        ({"slurm": "old"}, None),
        (None, None),
    ],
)
def test_the_version_of_slurm_is_kept(meta: Any, version: str | None) -> None:
    assert parse(PLAIN, meta=meta).source_version == version


@pytest.mark.parametrize("job", [None, 7, "job", {"job_id": 7}, PLAIN | {"time": "now"}, PLAIN | {"tres": {"allocated": [1]}}])
def test_a_job_that_is_none_is_quarantined_and_the_rest_lands(job: Any) -> None:
    output = parse(PLAIN, job)

    assert len(output.rows) == 1
    [reject] = output.rejects
    assert (reject.line, reject.reason) == (2, "malformed")
    assert "jobs[1]" in reject.detail


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps({"jobs": [PLAIN]})[:-40], "no whole JSON document.*save it again"),
        ("{" * 100_000, "no whole JSON document"),
        ('{"users": []}', "none of Slurm's or sonar's forms.*sacct --json"),
        ('{"errors": ["no such user"]}', "errors and nothing else.*no such user"),
        ("7", "no whole JSON|none of Slurm's|no header"),
        ('{"jobs": [], "errors": [{"error": "slurmdbd is down"}]}', "errors and no jobs.*slurmdbd is down"),
    ],
)
def test_a_document_that_is_not_saccts_or_not_whole_is_a_failed_source(text: str, message: str) -> None:
    with pytest.raises(SourceFailedError, match=message):
        parse_output(text.encode(), "saved.json", Reading())


def test_an_hour_without_jobs_is_no_failure() -> None:
    assert parse(errors=[]).rows == []
