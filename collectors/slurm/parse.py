"""A saved sacct output, in any of the forms sacct and its wrappers leave, into rows. Pure: bytes in, rows out.

| form | told by |
|---|---|
| `sacct --json` | begins with `{` |
| sonar's JSON lines | begins with `{`, holds `"slurm_jobs"` |
| sonar's `key=value` CSV | `JobID=` in the first line |
| `sacct -P`, `-p`, `--delimiter` | all else, with a header or without |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from collectors.files import decode
from collectors.slurm import sonar
from collectors.slurm.delimited import read_delimited
from collectors.slurm.json_output import read_json
from collectors.slurm.records import Reading, Records, SourceFailedError
from collectors.slurm.runs import notes, to_attempts
from collectors.slurm.times import parse_time
from warehouse.conform import MALFORMED, Reject

UNDATED = "nothing in the file tells when it was taken; name the time: --at 2026-11-01T00:00:00Z"


@dataclass
class SacctOutput:
    """Rows of `runs`, `cluster` null where the output names none; `observed_at` is the latest of its snapshots."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    observed_at: datetime | None = None
    source_version: str | None = None


def parse_sacct(data: bytes, file: str, reading: Reading, at: datetime | None = None) -> SacctOutput:
    """The job attempts of one output.

    `observed_at` of the rows is `at`, else the time the file names as its own, else the latest instant in it
    (`runs.to_attempts`): never the clock, so that landing a file again changes nothing.
    Raises SourceFailedError where the file as a whole cannot be read.
    """
    zone = ZoneInfo(reading.time_zone) if reading.time_zone else None
    output = SacctOutput()
    for records in _read(decode(data, file, "replace").replace("\0", "\ufffd"), file, reading):
        attempts = to_attempts(records.records, file, zone)
        observed_at = at or _taken_at(records, file) or attempts.through
        output.rejects += [*records.rejects, *attempts.rejects]
        output.notes += [note for note in notes(attempts) if note not in output.notes]
        output.source_version = output.source_version or records.source_version
        for row in attempts.rows:
            if observed_at is None:
                output.rejects.append(Reject(file, row["line_number"], MALFORMED, UNDATED))
            else:
                output.rows.append({**row, "cluster": row["cluster"] or records.cluster, "observed_at": observed_at})
        output.observed_at = max((moment for moment in (output.observed_at, observed_at) if moment), default=None)
    return output


def _read(text: str, file: str, reading: Reading) -> list[Records]:
    first = next((line for line in text.split("\n") if line.strip()), "")
    if sonar.is_json_line(first):
        return sonar.read_json_lines(text, file)
    if first.lstrip().startswith("{"):
        return [read_json(text, file)]
    if sonar.is_tagged_csv(first):
        return [sonar.read_tagged_csv(text, file)]
    return [read_delimited(text, file, reading)]


def _taken_at(records: Records, file: str) -> datetime | None:
    try:
        return parse_time(records.taken_at, None) if records.taken_at else None
    except ValueError as error:
        raise SourceFailedError(f"{file}: its own time cannot be read: {error}") from None
