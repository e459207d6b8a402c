"""What every reader of a Slurm output returns: records of sacct's own field names, whatever they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from collectors.command import SourceFailedError
from collectors.slurm.slices import MigRules
from warehouse.landing.conform import Reject

__all__ = ["Reading", "Record", "Records", "SourceFailedError"]


@dataclass(frozen=True)
class Record:
    """One row of sacct, a job's or a step's: field name as sacct prints it → text; an absent field is an empty one.

    `line` is the row's line in the file (in JSON: its place among the jobs), `text` what stood there.
    `steps` are the step names that came inside the record (JSON); of delimited output they are records of their own.
    """

    line: int
    fields: Mapping[str, str]
    text: str = ""
    steps: tuple[str, ...] = ()

    def get(self, *names: str) -> str:
        """The first of these fields that is not empty, else an empty text."""
        for name in names:
            value = self.fields.get(name)
            if value and (value := value.strip()):
                return value
        return ""

    @property
    def raw_id(self) -> str:
        return self.get("JobIDRaw", "JobID")

    @property
    def is_step(self) -> bool:
        """`123.batch`, `123.extern`, `123.0`: a part of a job, which repeats the job's TRES."""
        return "." in self.raw_id or "." in self.get("JobID")


@dataclass
class Records:
    """A file's records, what could not be read in it, and who wrote it."""

    records: list[Record] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    source_version: str | None = None
    #: the instant the file itself names as its own (sonar's JSON), as text
    taken_at: str | None = None
    cluster: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reading:
    """How to read a saved output: what its bytes do not say themselves."""

    time_zone: str | None = None
    delimiter: str | None = None
    fields: tuple[str, ...] = ()
    mig: MigRules = field(default_factory=MigRules)

    @property
    def zone(self) -> ZoneInfo | None:
        return ZoneInfo(self.time_zone) if self.time_zone else None
