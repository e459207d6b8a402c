"""The two shapes in which the NordicHPC collector `sonar` saves sacct: `key=value` CSV cells, and JSON lines of job objects."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from typing import Any

from collectors.slurm.records import Record, Records, SourceFailedError
from warehouse.conform import MALFORMED, Reject, redact

#: the JSON form's names → sacct's
_NAMES = {
    "job_name": "JobName",
    "job_state": "State",
    "user_name": "User",
    "account": "Account",
    "submit_time": "Submit",
    "start_time": "Start",
    "end_time": "End",
    "partition": "Partition",
    "requested_cpus": "ReqCPUS",
    "requested_node_count": "ReqNodes",
    "requested_memory_per_node": "ReqMem",
    "suspend_time": "Suspended",
}
_CSV_START = re.compile(r'(?:^|,)"?JobID(?:Raw)?=')


def is_tagged_csv(first_line: str) -> bool:
    return _CSV_START.search(first_line) is not None


def is_json_line(first_line: str) -> bool:
    return first_line.lstrip().startswith("{") and '"slurm_jobs"' in first_line


def read_tagged_csv(text: str, file: str) -> Records:
    """Records of `JobID=1,State=RUNNING,"AllocTRES=cpu=1,gres/gpu=1"` lines; fields that are zero or empty are left out there."""
    result = Records()
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line], strict=True))
            fields = dict(cell.split("=", 1) for cell in cells)
            if "JobIDRaw" not in fields and "JobID" not in fields:
                raise ValueError("no JobID")
        except (csv.Error, ValueError) as error:
            detail = f"no line of name=value cells ({error}); a cell that holds a comma stands in quotes"
            result.rejects.append(Reject(file, number, MALFORMED, detail, redact(line)))
            continue
        version = fields.pop("v", None)
        result.source_version = result.source_version or (f"sonar {version}" if version else None)
        result.records.append(Record(number, _completed(fields), line))
    return result


def read_json_lines(text: str, file: str) -> list[Records]:
    """Records of each snapshot: one JSON object per line, each with its own time and cluster.

    A later snapshot repeats the jobs that still run with a longer ElapsedRaw; it does not add to the earlier one.
    Raises SourceFailedError where a line is cut off.
    """
    snapshots = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SourceFailedError(f"{file}: line {number} is no whole JSON document ({error}); save it again") from None
        attributes = _dig(document, "data", "attributes")
        jobs = _dig(attributes, "slurm_jobs")
        if not isinstance(jobs, list):
            raise SourceFailedError(f"{file}: line {number} has no list slurm_jobs; is it a job record of sonar?")
        producer, version = _dig(document, "meta", "producer"), _dig(document, "meta", "version")
        result = Records(source_version=f"{producer} {version}" if producer else None)
        result.taken_at = str(attributes["time"]) if "time" in attributes else None
        result.cluster = str(attributes["cluster"]) if attributes.get("cluster") else None
        for job in jobs:
            if isinstance(job, dict) and "job_id" in job:
                result.records.append(Record(number, _json_fields(job), json.dumps(job)))
            else:
                result.rejects.append(
                    Reject(file, number, MALFORMED, "an entry of slurm_jobs has no job_id", redact(json.dumps(job)))
                )
        snapshots.append(result)
    return snapshots


def _json_fields(job: Mapping[str, Any]) -> dict[str, str]:
    step = job.get("job_step")
    accounting = job.get("sacct") if isinstance(job.get("sacct"), dict) else {}
    fields = {str(name): str(value) for name, value in (accounting or {}).items() if value is not None}
    fields |= {theirs: str(job[ours]) for ours, theirs in _NAMES.items() if job.get(ours) is not None}
    fields["JobIDRaw"] = f"{job['job_id']}{'' if step is None else f'.{step}'}"
    array, task = job.get("array_job_id"), job.get("array_task_id")
    het, offset = job.get("het_job_id"), job.get("het_job_offset")
    if array:
        fields["JobID"] = f"{array}_{task or 0}"
    elif het:
        fields["JobID"] = f"{het}+{offset or 0}"
    nodes = job.get("nodes")
    if isinstance(nodes, list):
        fields["NodeList"] = ",".join(str(node) for node in nodes)
    limit = job.get("time_limit")
    if isinstance(limit, int) and limit > 1:  # 0 is unset, 1 without limit, else seconds + 2
        fields["Timelimit"] = str(limit - 2)
    if isinstance(job.get("exit_code"), int):
        fields["ExitCode"] = f"{job['exit_code']}:0"
    return _completed(fields)


def _completed(fields: dict[str, str]) -> dict[str, str]:
    """Put back what the format leaves out: no elapsed time is 0 s, no exit code is 0:0."""
    return {"ElapsedRaw": "0", "ExitCode": "0:0"} | fields


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
