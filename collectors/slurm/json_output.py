"""`sacct --json` (openapi/dbv0.0.37 of Slurm 21.08 to v0.0.42 of 24.11) into records.

The layouts differ in three ways, met here: a number may be `{"set": true, "infinite": false, "number": 5}`, a state or a
status may be a list, and the exit code's signal moved. Instants are epoch seconds, the time limit is minutes, memory is MiB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collectors.slurm.records import Record, Records, SourceFailedError
from warehouse.conform import MALFORMED, Reject, redact

#: NO_VAL and INFINITE in 32 and 64 bit: "not set", "no limit"
_NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF})


def read_json(text: str, file: str) -> Records:
    """Records of all jobs; a job that is no object is a reject. SourceFailedError where the document is not sacct's."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceFailedError(
            f"{file}: no whole JSON document ({error}); cut off or mixed with messages, save it again"
        ) from None
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise SourceFailedError(f"{file}: JSON without a list of jobs; save with sacct --json")
    errors = document.get("errors")
    if not jobs and errors:
        raise SourceFailedError(f"{file}: sacct reports errors and no jobs: {redact(json.dumps(errors), 300)}")
    if any(isinstance(job, dict) and "job_state" in job for job in jobs):
        raise SourceFailedError(f"{file}: this is squeue's or scontrol's JSON, which has no accounting; save with sacct --json")
    result = Records(source_version=_version(document.get("meta")))
    for place, job in enumerate(jobs, start=1):
        try:
            result.records.append(_record(place, job))
        except (ValueError, TypeError, AttributeError) as error:
            detail = f"jobs[{place - 1}] is no job of sacct --json ({error})"
            result.rejects.append(Reject(file, place, MALFORMED, detail, redact(json.dumps(job))))
    return result


def _version(meta: Any) -> str | None:
    slurm = _dig(meta, "slurm") or _dig(meta, "Slurm")
    release = _dig(slurm, "release")
    return f"slurm {release}" if release else None


def _record(place: int, job: Mapping[str, Any]) -> Record:
    if "job_id" not in job or "state" not in job:
        raise ValueError("it has no job_id or no state")
    time, tres = job.get("time") or {}, job.get("tres") or {}
    fields = {
        "Cluster": _text(job.get("cluster")) or _text(_dig(job, "association", "cluster")),
        "JobIDRaw": _text(job["job_id"]),
        "JobID": _printed_id(job),
        "JobName": _text(job.get("name")),
        "User": _text(job.get("user")) or _text(_dig(job, "association", "user")),
        "Account": _text(job.get("account")),
        "Partition": _text(job.get("partition")),
        "QOS": _text(job.get("qos")),
        "State": _first(_dig(job, "state", "current")),
        "ExitCode": _exit_code(job.get("exit_code")),
        "Submit": _text(time.get("submission")),
        "Eligible": _text(time.get("eligible")),
        "Start": _text(time.get("start")),
        "End": _text(time.get("end")),
        "ElapsedRaw": _text(time.get("elapsed")),
        "Suspended": _text(time.get("suspended")),
        "TimelimitRaw": _text(time.get("limit")),
        "TotalCPU": _seconds(time.get("total")),
        "NNodes": _text(job.get("allocation_nodes")),
        "NCPUS": _text(_dig(job, "required", "CPUs")),
        "NodeList": _text(job.get("nodes")),
        "AllocTRES": _tres(tres.get("allocated")),
        "ReqTRES": _tres(tres.get("requested")),
        "SubmitLine": _text(job.get("submit_line")),
    }
    steps = tuple(name for step in job.get("steps") or [] if (name := _step_name(step)))
    return Record(place, {name: value for name, value in fields.items() if value}, json.dumps(job), steps)


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    """A scalar as text; empty for null, for a number that is not set and for one without limit."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return ""
        value = value.get("number")
    if value is None or isinstance(value, list | dict | bool) or value in _NO_VALUES:
        return ""
    return str(value)


def _first(value: Any) -> str:
    """A state that is a text, or the first of a list (the others are flags such as REQUEUED or COMPLETING)."""
    return _text(value[0] if isinstance(value, list) and value else value)


def _printed_id(job: Mapping[str, Any]) -> str:
    """The id as sacct prints it: `4_1`, `4_[1-5%2]`, `14+0`."""
    own = _text(job.get("job_id"))
    array, task, tasks = (_text(_dig(job, "array", key)) for key in ("job_id", "task_id", "task"))
    if array not in ("", "0"):
        return f"{array}_[{tasks}]" if tasks else f"{array}_{task}" if task else own
    het, offset = _text(_dig(job, "het", "job_id")), _text(_dig(job, "het", "job_offset"))
    return f"{het}+{offset or 0}" if het not in ("", "0") else own


def _exit_code(value: Any) -> str:
    code = _text(_dig(value, "return_code"))
    signal = _text(_dig(value, "signal", "signal_id")) or _text(_dig(value, "signal", "id"))
    return f"{code or 0}:{signal or 0}" if code or signal else ""


def _seconds(value: Any) -> str:
    seconds, micro = _text(_dig(value, "seconds")), _text(_dig(value, "microseconds"))
    return f"{int(seconds or 0) + int(micro or 0) / 1e6:.6f}" if seconds or micro else ""


def _tres(entries: Any) -> str:
    """The list of objects as sacct prints it: `cpu=1,gres/gpu:h100=1,mem=8000M`; entries without a count left out."""
    parts = []
    for entry in entries or []:
        kind, name, count = _text(entry.get("type")), _text(entry.get("name")), _text(entry.get("count"))
        if kind and count and not count.startswith("-"):
            parts.append(f"{kind}{'/' + name if name else ''}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(parts)


def _step_name(step: Any) -> str:
    identity = _dig(step, "step", "id")
    if isinstance(identity, dict):
        identity = identity.get("step_id")
    return _text(identity).rsplit(".", 1)[-1]
