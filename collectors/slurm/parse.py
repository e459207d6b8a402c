"""A saved output of Slurm, in any of the forms its commands and their wrappers leave, into rows. Pure: bytes in, rows out.

| form | told by | tells of |
|---|---|---|
| `sacct --json`, slurmrestd `/slurmdb/…/jobs` | `jobs` with a `state` | jobs |
| `squeue --json`, `scontrol show job --json`, slurmrestd `/jobs` | `jobs` with a `job_state` | jobs, their devices |
| slurmrestd `/nodes`, `/partitions`, `sinfo --json` | `nodes`, `partitions`, `sinfo` | nodes |
| sonar's JSON | `data.attributes` with `slurm_jobs`, `partitions` or `cards` | jobs, nodes, cards |
| sonar's `key=value` CSV | `JobID=` in the first line | jobs |
| `sacctmgr show event` | a header with NodeName and TimeStart | node states of the past |
| `scontrol show job`, `node`, `partition` | lines that begin `JobId=`, `NodeName=`, `PartitionName=` | jobs, devices, nodes |
| `sinfo` | its headers, or sonar's two lists without | nodes |
| `sacct -P`, `-p`, `--delimiter` | all else, with a header or without | jobs |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from collectors.files import decode
from collectors.parsed import Parsed
from collectors.slurm import controller, documents, events, node_json, nodes, sinfo, sonar
from collectors.slurm.delimited import has_header, read_delimited
from collectors.slurm.holds import UNFINISHED, to_run_gpus
from collectors.slurm.json_output import read_json
from collectors.slurm.json_values import as_text, dig, release
from collectors.slurm.nodes import Node
from collectors.slurm.records import Reading, Records, SourceFailedError
from collectors.slurm.runs import notes, to_attempts
from collectors.slurm.times import parse_time
from collectors.times import time_in_name
from warehouse.landing.conform import MALFORMED, Reject, redact

UNDATED = (
    "nothing in the file tells when it was taken; name the time: --at 2026-11-01T00:00:00Z, "
    "or name the file by it: sinfo-2026-11-01T00-00-00Z.txt"
)
UNKNOWN_JSON = "{}: JSON of none of Slurm's or sonar's forms; save with sacct --json, squeue --json or scontrol show node --json"

_BLOCK = re.compile(r"(?m)^(?:JobId|NodeName|PartitionName)=\S")
_NOTHING = re.compile(r"\s*(?:No (?:jobs|nodes|partitions) in the system|slurm_load_\w+ error: .*)\s*", re.IGNORECASE)


@dataclass
class SlurmOutput:
    """Rows of `runs` and `run_gpus`, and what was said of nodes; `cluster` is null where the output names none.

    `nodes` are as they were at the instant beside them. `tables` are rows that need nothing more. `observed_at` is the latest
    of the output's snapshots.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    run_gpus: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[tuple[datetime, list[Node]]] = field(default_factory=list)
    tables: Parsed = field(default_factory=Parsed)
    rejects: list[Reject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    observed_at: datetime | None = None
    source_version: str | None = None

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def seen(self, at: datetime | None) -> None:
        self.observed_at = max((moment for moment in (self.observed_at, at) if moment), default=None)


def parse_output(data: bytes, file: str, reading: Reading, at: datetime | None = None) -> SlurmOutput:
    """What one saved output tells.

    `observed_at` of the rows is `at`, else the time the file names as its own (inside or in its name), else the latest instant
    in it (`runs.to_attempts`): never the clock, so that landing a file again changes nothing. Nodes need one of the first.
    Raises SourceFailedError where the file as a whole cannot be read.
    """
    text = decode(data, file, "replace").replace("\0", "\ufffd")
    at = at or time_in_name(file)
    output = SlurmOutput()
    if text.lstrip()[:1] in ("{", "["):
        found, output.rejects = documents.read(text, file)
        failures = []
        for line, document in found:
            try:
                _add_document(output, document, file, line, reading, at)
            except SourceFailedError as error:
                failures.append(error)
                output.rejects.append(Reject(file, line, MALFORMED, str(error)))
        if len(failures) == len(found):
            raise failures[0]
    else:
        _add_text(output, text, file, reading, at)
    return output


def _add_text(output: SlurmOutput, text: str, file: str, reading: Reading, at: datetime | None) -> None:
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    first = lines[0] if lines else ""
    names_jobs = any(name.lower().startswith("jobid") for name in reading.fields)
    if sonar.is_tagged_csv(first):
        add_jobs(output, sonar.read_tagged_csv(text, file), file, reading, at)
    elif any(events.is_events(line) for line in lines[:3]):
        _add_events(output, text, file, reading)
    elif names_jobs or has_header(first):
        add_jobs(output, read_delimited(text, file, reading), file, reading, at)
    elif _BLOCK.search(text):
        _add_blocks(output, text, file, reading, at)
    elif lines and all(_NOTHING.fullmatch(line) for line in lines):
        output.note(f"{file}: {first.strip()[:200]}")
    elif sinfo.is_sinfo(lines, reading.fields):
        read = sinfo.read(text, file, reading.zone, reading.fields, reading.delimiter)
        output.rejects += read.rejects
        add_nodes(output, read.nodes, at or read.taken_at, file)
    else:
        add_jobs(output, read_delimited(text, file, reading), file, reading, at)


def _add_blocks(output: SlurmOutput, text: str, file: str, reading: Reading, at: datetime | None) -> None:
    jobs = controller.read_text(text, file)
    if jobs.details or jobs.rejects:
        add_controller_jobs(output, jobs, file, reading, at)
    found, rejects = nodes.read_scontrol(text, file, reading.zone)
    more, more_rejects = nodes.read_partitions(text, file)
    output.rejects += rejects + more_rejects
    add_nodes(output, found + more, at, file)


def _add_document(output: SlurmOutput, document: Any, file: str, line: int, reading: Reading, at: datetime | None) -> None:
    if isinstance(document, list):  # what a web interface passes on of slurmrestd's answer
        document = _answer(document)
    attributes = dig(document, "data", "attributes")
    if isinstance(attributes, dict):
        _add_sonar(output, document, attributes, file, line, reading, at)
        return
    if not isinstance(document, dict) or not any(isinstance(document.get(name), list) for name in _LISTS):
        errors = dig(document, "errors")
        detail = f": it reports errors and nothing else: {redact(json.dumps(errors), 300)}" if errors else ""
        raise SourceFailedError(UNKNOWN_JSON.format(file) + detail)
    jobs = document.get("jobs")
    if isinstance(jobs, list):
        if any(isinstance(job, dict) and "job_state" in job for job in jobs):
            add_controller_jobs(output, controller.read_document(document, file), file, reading, at)
        elif any(isinstance(job, dict) and ("JobID" in job or "JobIDRaw" in job) for job in jobs):
            add_jobs(output, sonar.read_flat_jobs(document, file), file, reading, at)
        else:
            add_jobs(output, read_json(document, file), file, reading, at)
    found: list[Node] = []
    for name, read in _NODE_LISTS.items():
        more, rejects = read(document.get(name), file)
        found += more
        output.rejects += rejects
    output.source_version = output.source_version or release(document)
    own = as_text(document.get("last_update"))
    add_nodes(output, found, at or _instant(own, file), file, as_text(dig(document, "meta", "slurm", "cluster")) or None)


_NODE_LISTS = {
    "nodes": node_json.read_nodes, "partitions": node_json.read_partitions, "sinfo": node_json.read_sinfo,
}  # fmt: skip
_LISTS = ("jobs", *_NODE_LISTS)


def _answer(items: list[Any]) -> dict[str, Any]:
    """A bare list as the document it was taken from."""
    first = next((item for item in items if isinstance(item, dict)), {})
    if "job_id" in first or "JobID" in first:
        return {"jobs": items}
    return {"nodes": items} if "state" in first and "name" in first else {}


def _add_sonar(
    output: SlurmOutput, document: Any, attributes: Mapping[str, Any], file: str, line: int, reading: Reading, at: datetime | None
) -> None:
    if isinstance(attributes.get("slurm_jobs"), list):
        add_jobs(output, sonar.read_jobs(document, file, line), file, reading, at)
        return
    if "partitions" not in attributes and "nodes" not in attributes:
        raise SourceFailedError(
            f"{file}: line {line} has no list slurm_jobs, partitions or nodes; samples are for the command sonar"
        )
    found, rejects = node_json.read_sonar(attributes, file)
    output.rejects += rejects
    version = as_text(dig(document, "meta", "version"))
    output.source_version = output.source_version or (f"sonar {version}" if version else None)
    add_nodes(
        output, found, at or _instant(as_text(attributes.get("time")), file), file, as_text(attributes.get("cluster")) or None
    )


def _add_events(output: SlurmOutput, text: str, file: str, reading: Reading) -> None:
    parsed = events.read(text, file, reading.zone)
    output.rejects += parsed.rejects
    for note in parsed.notes:
        output.note(note)
    output.tables.extend(Parsed(parsed.tables))
    output.seen(events.through(parsed))


def add_jobs(output: SlurmOutput, records: Records, file: str, reading: Reading, at: datetime | None) -> list[dict[str, Any]]:
    """Add the attempts of `records`; their rows."""
    attempts = to_attempts(records.records, file, reading.zone, reading.mig)
    observed_at = at or (_instant(records.taken_at, file) if records.taken_at else None) or attempts.through
    output.rejects += [*records.rejects, *attempts.rejects]
    for note in notes(attempts):
        output.note(note)
    output.source_version = output.source_version or records.source_version
    rows = []
    for row in attempts.rows:
        if observed_at is None:
            output.rejects.append(Reject(file, row["line_number"], MALFORMED, UNDATED))
        else:
            rows.append({**row, "cluster": row["cluster"] or records.cluster, "observed_at": observed_at})
    output.rows += rows
    output.run_gpus += [{**row, "cluster": row["cluster"] or records.cluster} for row in attempts.run_gpus] if rows else []
    output.seen(observed_at)
    return rows


def add_controller_jobs(output: SlurmOutput, jobs: controller.Jobs, file: str, reading: Reading, at: datetime | None) -> None:
    """Add the jobs and the devices they hold, which replace what their counts alone would say."""
    rows = add_jobs(output, jobs.records(), file, reading, at)
    held, unfinished = to_run_gpus(jobs.details, rows, reading.mig)
    if unfinished:
        output.note(f"{unfinished} {UNFINISHED}")
    output.run_gpus = with_devices(output.run_gpus, held)


def with_devices(counted: list[dict[str, Any]], held: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What jobs hold by device, and of the others by count: one attempt's GPUs are told in one way."""
    told = {(row["job_id"], row["started_at"]) for row in held}
    return [row for row in counted if (row["job_id"], row["started_at"]) not in told] + held


def add_nodes(output: SlurmOutput, found: list[Node], seen_at: datetime | None, file: str, cluster: str | None = None) -> None:
    """Add what was said of nodes. Raises SourceFailedError where nothing tells when that was."""
    if not found:
        return
    if seen_at is None:
        raise SourceFailedError(f"{file}: {UNDATED}")
    output.nodes.append((seen_at, [node.of_cluster(cluster) for node in found]))
    output.seen(seen_at)


def _instant(text: str | None, file: str) -> datetime | None:
    try:
        return parse_time(text, None) if text else None
    except ValueError as error:
        raise SourceFailedError(f"{file}: its own time cannot be read: {error}") from None
