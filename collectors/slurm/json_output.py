"""`sacct --json` (openapi/dbv0.0.37 of Slurm 21.08 to v0.0.42 of 24.11) into records.

What of the layouts differs from version to version is met in `json_values`; the exit code's signal moved. Instants are epoch
seconds, the time limit is minutes, memory is MiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collectors.slurm.json_values import as_text, dig, first_text, release
from collectors.slurm.records import Record, Records, SourceFailedError
from warehouse.landing.conform import MALFORMED, Reject, redact


def read_json(document: Mapping[str, Any], file: str) -> Records:
    """Records of all jobs; a job that is no object is a reject. SourceFailedError where there is nothing but errors."""
    jobs, errors = document["jobs"], document.get("errors")
    if not jobs and errors:
        raise SourceFailedError(f"{file}: sacct reports errors and no jobs: {redact(json.dumps(errors), 300)}")
    result = Records(source_version=release(document))
    for place, job in enumerate(jobs, start=1):
        try:
            result.records.append(_record(place, job))
        except (ValueError, TypeError, AttributeError) as error:
            detail = f"jobs[{place - 1}] is no job of sacct --json ({error})"
            result.rejects.append(Reject(file, place, MALFORMED, detail, redact(json.dumps(job))))
    return result


def _record(place: int, job: Mapping[str, Any]) -> Record:
    if "job_id" not in job or "state" not in job:
        raise ValueError("it has no job_id or no state")
    time, tres = job.get("time") or {}, job.get("tres") or {}
    fields = {
        "Cluster": as_text(job.get("cluster")) or as_text(dig(job, "association", "cluster")),
        "JobIDRaw": as_text(job["job_id"]),
        "JobID": _printed_id(job),
        "SLUID": as_text(job.get("sluid")),
        "JobName": as_text(job.get("name")),
        "User": as_text(job.get("user")) or as_text(dig(job, "association", "user")),
        "Account": as_text(job.get("account")),
        "Partition": as_text(job.get("partition")),
        "QOS": as_text(job.get("qos")),
        "State": first_text(dig(job, "state", "current")),
        "ExitCode": _exit_code(job.get("exit_code")),
        "Submit": as_text(time.get("submission")),
        "Eligible": as_text(time.get("eligible")),
        "Start": as_text(time.get("start")),
        "End": as_text(time.get("end")),
        "ElapsedRaw": as_text(time.get("elapsed")),
        "Suspended": as_text(time.get("suspended")),
        "TimelimitRaw": as_text(time.get("limit")),
        "TotalCPU": _seconds(time.get("total")),
        "NNodes": as_text(job.get("allocation_nodes")),
        "NCPUS": as_text(dig(job, "required", "CPUs")),
        "NodeList": as_text(job.get("nodes")),
        "AllocTRES": _tres(tres.get("allocated")),
        "ReqTRES": _tres(tres.get("requested")),
        "SubmitLine": as_text(job.get("submit_line")),
    }
    steps = tuple(name for step in job.get("steps") or [] if (name := _step_name(step)))
    return Record(place, {name: value for name, value in fields.items() if value}, json.dumps(job), steps)


def _printed_id(job: Mapping[str, Any]) -> str:
    """The id as sacct prints it: `4_1`, `4_[1-5%2]`, `14+0`."""
    own = as_text(job.get("job_id"))
    array, task, tasks = (as_text(dig(job, "array", key)) for key in ("job_id", "task_id", "task"))
    if array not in ("", "0"):
        return f"{array}_[{tasks}]" if tasks else f"{array}_{task}" if task else own
    het, offset = as_text(dig(job, "het", "job_id")), as_text(dig(job, "het", "job_offset"))
    return f"{het}+{offset or 0}" if het not in ("", "0") else own


def _exit_code(value: Any) -> str:
    code = as_text(dig(value, "return_code"))
    signal = as_text(dig(value, "signal", "signal_id")) or as_text(dig(value, "signal", "id"))
    return f"{code or 0}:{signal or 0}" if code or signal else ""


def _seconds(value: Any) -> str:
    seconds, micro = as_text(dig(value, "seconds")), as_text(dig(value, "microseconds"))
    return f"{int(seconds or 0) + int(micro or 0) / 1e6:.6f}" if seconds or micro else ""


def _tres(entries: Any) -> str:
    """The list of objects as sacct prints it: `cpu=1,gres/gpu:h100=1,mem=8000M`; entries without a count left out."""
    parts = []
    for entry in entries or []:
        kind, name, count = as_text(entry.get("type")), as_text(entry.get("name")), as_text(entry.get("count"))
        if kind and count and not count.startswith("-"):
            parts.append(f"{kind}{'/' + name if name else ''}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(parts)


def _step_name(step: Any) -> str:
    identity = dig(step, "step", "id")
    if isinstance(identity, dict):
        identity = identity.get("step_id")
    return as_text(identity).rsplit(".", 1)[-1]
