"""Jobs as slurmctld tells them: `scontrol show job -d`, `squeue --json`, `scontrol show job --json`, slurmrestd's `/jobs`.

Unlike the accounting it knows which devices of which node a job holds, and it forgets a job minutes after its end
(MinJobAge). Its fields become those of sacct, so that both are read into rows in one place. What misleads: `end_time` of a
running job is its time limit, `start_time` of a waiting one a forecast, `suspend_time` an instant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.slurm.json_values import as_text, dig, first_text, release, texts
from collectors.slurm.nodelist import expand, expand_in_order
from collectors.slurm.records import Record, Records
from collectors.slurm.scontrol import Block, blocks, pairs, said
from warehouse.landing.conform import MALFORMED, Reject, redact

#: the job's name may hold anything, also what looks like a field; these two come behind it in every version
_NAME = re.compile(r"\AJobId=(\S+)(.*?)\s+JobName=(.*?)\s+(?=UserId=\S+\s+GroupId=)", re.DOTALL)
_DETAIL = re.compile(r"\bNodes=(\S+)\s+CPU_IDs=\S*\s+Mem=\S*\s+GRES(?:_IDX)?=(\S*)")
#: free text begins here, so that no detail is looked for behind it
_END_OF_DETAILS = re.compile(r"\s(?:MinCPUsNode|Features|Command|Comment|WorkDir|AdminComment|SystemComment)=")


@dataclass(frozen=True)
class JobDetail:
    """A job's record and, where the source tells them, the GRES lists of its nodes."""

    record: Record
    gres: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Jobs:
    """What a source tells of jobs; `taken_at` is the instant it names as its own, as text."""

    details: list[JobDetail] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    taken_at: str | None = None
    cluster: str | None = None
    source_version: str | None = None

    def records(self) -> Records:
        result = Records([detail.record for detail in self.details], self.rejects, self.source_version)
        result.taken_at, result.cluster = self.taken_at, self.cluster
        return result


def read_text(text: str, file: str) -> Jobs:
    """Jobs of `scontrol show job`, with `-d` and without, `-o` and without."""
    jobs = Jobs()
    for block in blocks(text, "JobId"):
        try:
            jobs.details.append(_from_text(block))
        except ValueError as error:
            jobs.rejects.append(Reject(file, block.line, MALFORMED, str(error), redact(block.text[:2000])))
    return jobs


def read_document(document: Mapping[str, Any], file: str) -> Jobs:
    """Jobs of a JSON document whose `jobs` have a `job_state`."""
    jobs = Jobs(source_version=release(document), cluster=as_text(dig(document, "meta", "slurm", "cluster")) or None)
    jobs.taken_at = as_text(document.get("last_update")) or None
    for place, job in enumerate(document["jobs"], start=1):
        try:
            jobs.details.append(_from_json(place, job))
        except (ValueError, TypeError, AttributeError) as error:
            detail = f"jobs[{place - 1}] is no job of squeue --json ({error})"
            jobs.rejects.append(Reject(file, place, MALFORMED, detail, redact(json.dumps(job))[:2000]))
    return jobs


def _from_text(block: Block) -> JobDetail:
    named = _NAME.match(block.text)
    if not named:
        raise ValueError("the job has no JobName and UserId: cut off? save scontrol -d show job again")
    head, rest = pairs(f"{named[2]} "), block.text[named.end() :]
    values = pairs(rest)
    state, start = said(values, "JobState"), values.get("StartTime")
    if not state or start is None:
        raise ValueError(f"job {named[1]} has no JobState or StartTime: cut off? save scontrol -d show job again")
    gres = _details(rest)
    fields = {
        "JobIDRaw": named[1],
        "JobID": _printed_id(
            named[1], said(head, "ArrayJobId"), said(head, "ArrayTaskId"), said(head, "HetJobId", "PackJobId"),
            said(head, "HetJobOffset", "PackJobOffset"),
        ),
        "JobName": named[3].strip(),
        "User": re.sub(r"\(\d+\)$", "", said(values, "UserId")),
        "Account": said(values, "Account"),
        "Partition": said(values, "Partition"),
        "QOS": said(values, "QOS"),
        "State": state,
        "ExitCode": said(values, "ExitCode"),
        "Submit": said(values, "SubmitTime"),
        "Eligible": said(values, "EligibleTime"),
        "Start": start,
        "End": said(values, "EndTime"),
        "ElapsedRaw": said(values, "RunTime"),
        "Timelimit": said(values, "TimeLimit"),
        "NNodes": said(values, "NumNodes").partition("-")[0],
        "NCPUS": said(values, "NumCPUs").partition("-")[0],
        "NodeList": said(values, "NodeList"),
        # TRES is one of both in versions before 23.02
        "AllocTRES": said(values, "AllocTRES", *(() if state == "PENDING" else ("TRES",))),
        "ReqTRES": said(values, "ReqTRES", "TRES"),
        "AllocGRES": ",".join(filter(None, gres.values())) or said(values, "JOB_GRES"),
    }  # fmt: skip
    steps = {"1": ("batch",), "0": ("0",)}.get(said(values, "BatchFlag"), ())
    return JobDetail(Record(block.line, {name: value for name, value in fields.items() if value}, block.text[:2000], steps), gres)


def _details(text: str) -> dict[str, str]:
    """Node → its GRES list. Nodes that hold alike stand on one line."""
    end = _END_OF_DETAILS.search(text)
    found: dict[str, str] = {}
    for nodes, gres in _DETAIL.findall(text[: end.start()] if end else text):
        for node in expand(nodes):
            found[node] = ",".join(part for part in (found.get(node), gres.replace("(null)", "")) if part)
    return found


def _from_json(place: int, job: Mapping[str, Any]) -> JobDetail:
    if "job_id" not in job or "job_state" not in job:
        raise ValueError("it has no job_id or no job_state")
    raw_id, state = as_text(job["job_id"]), first_text(job["job_state"])
    gres = dict(_gres_of_nodes(job))
    fields = {
        "Cluster": as_text(job.get("cluster")),
        "JobIDRaw": raw_id,
        "JobID": _printed_id(
            raw_id, *(as_text(job.get(name)) for name in ("array_job_id", "array_task_id", "het_job_id", "het_job_offset"))
        ),
        "JobName": as_text(job.get("name")),
        "User": as_text(job.get("user_name")),
        "Account": as_text(job.get("account")),
        "Partition": as_text(job.get("partition")),
        "QOS": as_text(job.get("qos")),
        "State": state,
        "ExitCode": _exit_code(job.get("exit_code")),
        "Submit": as_text(job.get("submit_time")),
        "Eligible": as_text(job.get("eligible_time")),
        "Start": as_text(job.get("start_time")),
        "End": as_text(job.get("end_time")),
        "TimelimitRaw": as_text(job.get("time_limit")),
        "NNodes": as_text(job.get("node_count")),
        "NCPUS": as_text(job.get("cpus")),
        "NodeList": as_text(job.get("nodes")),
        "AllocTRES": as_text(job.get("tres_alloc_str")),
        "ReqTRES": as_text(job.get("tres_req_str")),
        "AllocGRES": ",".join(text for text in gres.values() if text),
    }
    batch = job.get("batch_flag")
    steps = ("batch",) if batch is True else ("0",) if batch is False else ()
    shown = ("job_id", "job_state", "nodes", "gres_detail", "start_time", "tres_alloc_str")
    text = json.dumps({name: job.get(name) for name in shown})
    return JobDetail(Record(place, {name: value for name, value in fields.items() if value}, text, steps), gres)


def _gres_of_nodes(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(node, its GRES list): `gres_detail` has an entry per node, in the order of the job's nodes."""
    details = job.get("gres_detail")
    if not isinstance(details, list) or not details:
        return
    resources = job.get("job_resources")
    places = dig(resources, "nodes", "allocation") or dig(resources, "allocated_nodes")
    named = [as_text(dig(place, "name") or dig(place, "nodename")) for place in places] if isinstance(places, list) else []
    nodes = named if all(named) and len(named) == len(details) else expand_in_order(as_text(job.get("nodes")))
    if len(nodes) == len(details):
        for node, detail in zip(nodes, details, strict=True):
            yield node, ",".join(texts(detail))


def _printed_id(raw_id: str, array: str, task: str, het: str, offset: str) -> str:
    """The id as sacct prints it: `4_1`, `4_[1-5%2]`, `14+0`."""
    if array not in ("", "0") and task:
        return f"{array}_{task}" if task.isdecimal() else f"{array}_[{task}]"
    return f"{het}+{offset or 0}" if het not in ("", "0") else raw_id


def _exit_code(value: Any) -> str:
    """`1:0` of `{return_code, signal}`, or of the status that wait() gives (versions before 23.02)."""
    code = as_text(dig(value, "return_code"))
    if code:
        signal = as_text(dig(value, "signal", "signal_id")) or as_text(dig(value, "signal", "id"))
        return f"{code}:{signal or 0}"
    status = as_text(value)
    return f"{int(status) >> 8}:{int(status) & 127}" if status.isdecimal() else ""
