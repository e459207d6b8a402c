"""The two forms in which sonar saves sacct."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from collectors.slurm.parse import SlurmOutput, parse_output
from collectors.slurm.records import Reading, SourceFailedError

CSV = """\
v=0.1.0,JobID=1639021,JobIDRaw=1639021,User=u,Account=a,State=TIMEOUT,Start=2025-05-02T14:09:52+02:00,\
End=2025-05-03T14:10:05+02:00,ElapsedRaw=86413,"AllocTRES=cpu=1,gres/gpu:a100=1,gres/gpu=1,mem=32G",JobName=EC=training
v=0.1.0,JobID=1639021.batch,JobIDRaw=1639021.batch,State=CANCELLED,Start=2025-05-02T14:09:52+02:00,ExitCode=0:15
"""
JOB = {
    "job_id": 7,
    "job_name": "train",
    "job_state": "RUNNING",
    "user_name": "u",
    "time_limit": 604802,
    "nodes": ["gpu-[8-9]"],
    "submit_time": "2025-05-18T18:38:08+02:00",
    "start_time": "2025-05-03T06:59:11+02:00",
    "sacct": {"AllocTRES": "cpu=48,gres/gpu=4", "ElapsedRaw": 7200},
}


def parse(text: str) -> SlurmOutput:
    return parse_output(text.encode(), "saved", Reading())


def snapshot(*jobs: Any, time: str = "2025-05-03T08:59:11+02:00", cluster: str = "fox") -> str:
    attributes = {"time": time, "cluster": cluster, "slurm_jobs": jobs}
    return json.dumps({"meta": {"producer": "sonar", "version": "0.14.0"}, "data": {"type": "job", "attributes": attributes}})


def test_tagged_cells_are_read_and_fields_left_out_are_zero() -> None:
    output = parse(CSV.replace("\n", "\r\n") + "\r\n")

    [row] = output.rows
    assert (row["name"], row["gpu_count"], row["gpu_model"], row["exit_code"]) == ("EC=training", 1, "a100", "0:0")
    assert row["started_at"] == datetime(2025, 5, 2, 12, 9, 52)
    assert (row["labels"], output.source_version) == ('{"batch": true}', "sonar 0.1.0")


@pytest.mark.parametrize("line", ["JobID", 'v=1,"JobID=7', "v=1,State=FAILED"])
def test_a_line_that_is_none_is_quarantined_and_the_rest_lands(line: str) -> None:
    output = parse(f"{CSV}{line}\n")

    assert len(output.rows) == 1
    assert [(reject.line, reject.reason) for reject in output.rejects] == [(3, "malformed")]


def test_a_snapshot_is_dated_by_its_own_time() -> None:
    output = parse(snapshot(JOB, JOB | {"job_step": "interactive"}) + "\n")

    [row] = output.rows
    assert (row["cluster"], row["observed_at"]) == ("fox", datetime(2025, 5, 3, 6, 59, 11))
    assert (row["gpu_count"], row["node_list"], row["time_limit_seconds"]) == (4, "gpu-8,gpu-9", 604800)
    assert (row["labels"], output.source_version) == ('{"interactive": true}', "sonar 0.14.0")


def test_each_snapshot_of_a_running_job_keeps_its_time() -> None:
    later = JOB | {"sacct": {"AllocTRES": "cpu=48,gres/gpu=4", "ElapsedRaw": 7379}}
    output = parse("\n".join([snapshot(JOB), "", snapshot(later, time="2025-05-03T09:02:10+02:00")]))

    assert [row["observed_at"] for row in output.rows] == [datetime(2025, 5, 3, 6, 59, 11), datetime(2025, 5, 3, 7, 2, 10)]
    assert output.observed_at == datetime(2025, 5, 3, 7, 2, 10)


@pytest.mark.parametrize(
    ("fields", "column", "value"),
    [
        ({"time_limit": 1}, "time_limit_seconds", None),  # 1 is without limit, 0 unset, else seconds + 2
        ({"time_limit": 0}, "time_limit_seconds", None),
        ({"sacct": None}, "gpu_count", None),
        # 0.16 and later: resources beside the sacct object, memory in KiB
        ({"sacct": None, "allocated_resources": "cpu=32,gres/gpu:a100=1,gres/gpu=1"}, "gpu_count", 1),
        ({"requested_resources": "cpu=24,mem=256G,node=1,gres/gpu=3"}, "requested_gpu_count", 3),
        ({"requested_memory_per_node": 134217728}, "memory_bytes", 128 * 2**30),
        ({"requested_memory_per_node": 0}, "memory_bytes", None),
        ({"job_step": ""}, "job_id", "7"),
        ({"nodes": None}, "node_list", None),
        ({"job_state": "FAILED", "exit_code": 1}, "exit_code", "1:0"),
        ({"array_job_id": 4, "array_task_id": 5}, "labels", '{"array_job_id": "4", "array_task_id": "5"}'),
        ({"array_job_id": 4}, "labels", '{"array_job_id": "4", "array_task_id": "0"}'),
        ({"het_job_id": 14, "het_job_offset": 1}, "labels", '{"het_job_id": "14", "het_offset": "1"}'),
        ({"het_job_id": 14}, "labels", '{"het_job_id": "14", "het_offset": "0"}'),
    ],
)
def test_the_json_form_is_read_as_sacct_would_print_it(fields: dict[str, Any], column: str, value: Any) -> None:
    [row] = parse(snapshot(JOB | fields)).rows

    assert row[column] == value


def test_an_entry_that_is_no_job_is_quarantined_and_the_rest_lands() -> None:
    output = parse(snapshot(JOB, {"job_name": "x"}, "job"))

    assert len(output.rows) == 1
    assert [reject.reason for reject in output.rejects] == ["malformed", "malformed"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (snapshot(JOB)[:-9], "no whole JSON document"),
        ('{"data": {"attributes": {"time": "2025-05-03T08:59:11Z", "system": {}}}}', "for the command sonar"),
        (snapshot(JOB, time="now"), "its own time"),
    ],
)
def test_a_snapshot_that_is_cut_off_or_another_record_is_a_failed_source(text: str, message: str) -> None:
    with pytest.raises(SourceFailedError, match=message):
        parse(text)


def test_a_snapshot_without_time_or_producer_is_dated_by_what_is_in_it() -> None:
    output = parse(json.dumps({"data": {"attributes": {"slurm_jobs": [JOB]}}}))

    [row] = output.rows
    assert (row["cluster"], row["observed_at"]) == (None, datetime(2025, 5, 3, 6, 59, 11))
    assert output.source_version is None


def test_the_flat_json_of_0_13_is_read_as_its_csv_is() -> None:
    job = {"JobIDRaw": "7", "JobID": "7", "State": "RUNNING", "Start": "2025-05-02T14:09:52+02:00", "ElapsedRaw": "60",
           "AllocTRES": "cpu=1,gres/gpu=1", "JobName": "train"}  # fmt: skip
    output = parse(json.dumps({"v": "0.13.0", "jobs": [job, 7]}))

    [row] = output.rows
    assert (row["name"], row["gpu_count"], row["observed_at"]) == ("train", 1, datetime(2025, 5, 2, 12, 10, 52))
    assert (output.source_version, len(output.rejects)) == ("sonar 0.13.0", 1)


def test_a_snapshot_cut_off_behind_whole_ones_is_quarantined_and_they_land() -> None:
    output = parse("\n".join([snapshot(JOB), snapshot(JOB, time="2025-05-03T09:02:10+02:00"), snapshot(JOB)[:-20]]))

    assert len(output.rows) == 2
    assert [(reject.line, reject.reason) for reject in output.rejects] == [(3, "malformed")]


def test_documents_one_after_the_other_are_all_read() -> None:
    pretty = json.dumps(json.loads(snapshot(JOB)), indent=1)
    output = parse(f"{pretty}\n{pretty}\n{pretty[:40]}")

    assert len(output.rows) == 2
    assert [reject.line for reject in output.rejects] == [2 * len(pretty.split("\n")) + 1]
