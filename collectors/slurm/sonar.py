"""How the NordicHPC collector `sonar` saves sacct: `key=value` CSV cells, JSON of flat texts (v0.13), JSON lines of job objects.

In the last, `time_limit` is value + 2 with 0 for unset and 1 for no limit. It counts seconds, though the format's text says
minutes: the producer multiplies (src/slurmjobs.rs). `requested_memory_per_node` is KiB, and 0 from versions before 0.16.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from typing import Any

from collectors.slurm.json_values import as_text, dig
from collectors.slurm.records import Record, Records
from warehouse.landing.conform import MALFORMED, Reject, redact

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
    "requested_resources": "ReqTRES",
    "allocated_resources": "AllocTRES",
    "suspend_time": "Suspended",
    "reservation": "Reservation",
}
_CSV_START = re.compile(r'(?:^|,)"?JobID(?:Raw)?=')


def is_tagged_csv(first_line: str) -> bool:
    return _CSV_START.search(first_line) is not None


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


def read_jobs(document: Any, file: str, line: int) -> Records:
    """Records of one snapshot, which tells its own time and cluster.

    A later snapshot repeats the jobs that still run with a longer ElapsedRaw; it does not add to the earlier one.
    """
    attributes = dig(document, "data", "attributes")
    producer, version = dig(document, "meta", "producer"), dig(document, "meta", "version")
    result = Records(source_version=f"{producer} {version}" if producer else None)
    result.taken_at = str(attributes["time"]) if "time" in attributes else None
    result.cluster = str(attributes["cluster"]) if attributes.get("cluster") else None
    for job in attributes["slurm_jobs"]:
        if isinstance(job, dict) and "job_id" in job:
            result.records.append(Record(line, _json_fields(job), json.dumps(job)))
        else:
            detail = "an entry of slurm_jobs has no job_id"
            result.rejects.append(Reject(file, line, MALFORMED, detail, redact(json.dumps(job))))
    return result


def read_flat_jobs(document: Mapping[str, Any], file: str) -> Records:
    """Records of the JSON of v0.13 (`{"v": …, "jobs": [{"JobID": "1", …}]}`): sacct's names, every value a text."""
    version = as_text(document.get("v"))
    result = Records(source_version=f"sonar {version}" if version else None)
    for place, job in enumerate(document["jobs"], start=1):
        if isinstance(job, dict) and ("JobID" in job or "JobIDRaw" in job):
            fields = {str(name): as_text(value) for name, value in job.items()}
            result.records.append(Record(place, _completed(fields), json.dumps(job)))
        else:
            detail = "an entry of jobs has no JobID"
            result.rejects.append(Reject(file, place, MALFORMED, detail, redact(json.dumps(job))))
    return result


def _json_fields(job: Mapping[str, Any]) -> dict[str, str]:
    step = job.get("job_step")
    accounting = job.get("sacct") if isinstance(job.get("sacct"), dict) else {}
    fields = {str(name): str(value) for name, value in (accounting or {}).items() if value is not None}
    fields |= {theirs: str(job[ours]) for ours, theirs in _NAMES.items() if job.get(ours) is not None}
    fields["JobIDRaw"] = f"{job['job_id']}{'' if step in (None, '') else f'.{step}'}"
    array, task = job.get("array_job_id"), job.get("array_task_id")
    het, offset = job.get("het_job_id"), job.get("het_job_offset")
    if array:
        fields["JobID"] = f"{array}_{task or 0}"
    elif het:
        fields["JobID"] = f"{het}+{offset or 0}"
    nodes = job.get("nodes")
    if isinstance(nodes, list):
        fields["NodeList"] = ",".join(str(node) for node in nodes)
    limit, memory = job.get("time_limit"), job.get("requested_memory_per_node")
    if isinstance(limit, int) and limit > 1:
        fields["Timelimit"] = str(limit - 2)
    if isinstance(memory, int) and memory:
        fields["ReqMem"] = f"{memory}K"
    if isinstance(job.get("exit_code"), int):
        fields["ExitCode"] = f"{job['exit_code']}:0"
    return _completed(fields)


def _completed(fields: dict[str, str]) -> dict[str, str]:
    """Put back what the format leaves out: no elapsed time is 0 s, no exit code is 0:0."""
    return {"ElapsedRaw": "0", "ExitCode": "0:0"} | fields
