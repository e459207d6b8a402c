"""The files of one call together: surveyed once, then read again for each table, so that memory holds a piece of one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from collectors.command import SourceFailedError
from collectors.nvidia_smi.fleet import Fleet
from collectors.nvidia_smi.parse import Input
from collectors.nvidia_smi.query import some
from collectors.nvidia_smi.records import GpuReading, OptionMissingError, ProcessSighting
from collectors.nvidia_smi.rows import Row, RowBuilder
from collectors.nvidia_smi.survey import Context, Survey, placed, survey
from collectors.parsed import to_frame
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.landings import Piece

#: rows in one frame: what memory holds of a file, whatever its size
CHUNK_ROWS = 25_000
#: a file of no known time is read last
LATEST = datetime(9999, 1, 1)


@dataclass
class Collection:
    """The files of one call, surveyed, in the order of their readings; `failures` are those that could not be read.

    `samples` is read to its end first: it finds the inventory, and the last of the `notes`.
    """

    cluster: str
    context: Context
    fleet: Fleet
    files: list[Survey]
    failures: list[Reject]
    notes: list[str]
    builder: RowBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.builder = RowBuilder(self.cluster, self.fleet)

    def samples(self) -> Iterator[Piece]:
        """Frames of gpu_samples, with all rejects of the files."""
        builder = self.builder
        rows: list[Row] = []
        rejects: list[Reject] = [*self.failures]
        for found in self.files:
            reading = found.given.reading
            for item, at in placed(found, self.context):
                if isinstance(item, Reject):
                    rejects.append(item)
                elif isinstance(item, GpuReading):
                    gpu, node = self._place(item)
                    try:
                        if gpu is None:
                            raise ValueError("the row names no GPU: its UUID, PCI address and index are missing")
                        for row in builder.add(item, gpu, node, at, found.nominal, reading):
                            (rejects if isinstance(row, Reject) else rows).append(row)  # type: ignore[arg-type]
                    except ValueError as error:
                        rejects.append(reading.reject(item.line, error))
                if len(rows) + len(rejects) >= CHUNK_ROWS:
                    yield to_frame(rows), rejects
                    rows, rejects = [], []
        self.notes += _notes_of(builder)
        yield to_frame(rows), rejects

    def inventory(self) -> Iterator[Piece]:
        """The records that reading the samples found."""
        yield to_frame(self.builder.inventory)

    def processes(self) -> Iterator[Piece]:
        """Frames of gpu_processes: a pass of its own, over the files that hold some."""
        rows: list[Row] = []
        for found in self.files:
            reading = found.given.reading
            tick: dict[tuple[object, ...], Row] = {}
            rejects: list[Reject] = []
            for item, at in placed(found, self.context) if found.has_processes else ():
                if isinstance(item, GpuReading) and item.mig:
                    gpu, _ = self._place(item)
                    self.fleet.instances(gpu or "", item, None)
                if not isinstance(item, ProcessSighting):
                    continue
                gpu, node = self._place(item)
                try:
                    if gpu is None:
                        raise ValueError("the row names no GPU: its UUID and PCI address are missing")
                    row = self.builder.process(item, gpu, node, at)
                except ValueError as error:
                    rejects.append(reading.reject(item.line, error))
                    continue
                if tick and next(iter(tick.values()))["seen_at"] != at:
                    rows += tick.values()
                    tick = {}
                _join(tick, row)
                if len(rows) >= CHUNK_ROWS:
                    yield to_frame(rows), rejects
                    rows, rejects = [], []
            rows += tick.values()
            yield to_frame(rows), rejects
            rows = []

    def _place(self, item: GpuReading | ProcessSighting) -> tuple[str | None, str]:
        node = item.node or self.context.node or ""
        return self.fleet.resolve(node, item.identity, item.tool), node


def survey_files(inputs: Sequence[Input], times: Sequence[datetime | None], *, cluster: str, context: Context) -> Collection:
    """Read every file once; the readings of all of them follow each other in the order in which the files begin."""
    fleet = Fleet()
    found: list[Survey] = []
    failures: list[SourceFailedError] = []
    rejects: list[Reject] = []
    for given, at in zip(inputs, times, strict=True):
        try:
            found.append(survey(given, at, context, fleet))
        except OptionMissingError:
            raise
        except SourceFailedError as error:
            failures.append(error)
            rejects.append(Reject(given.reading.file, None, MALFORMED, str(error)))
    if failures and not found:
        raise failures[0]
    found.sort(key=lambda one: one.first_at or one.at or LATEST)
    return Collection(cluster, context, fleet, found, rejects, _notes(found, context))


def _join(tick: dict[tuple[object, ...], Row], row: Row) -> None:
    """Add a sighting to those of its instant; a process that is listed twice (for compute and graphics) is one."""
    known = tick.setdefault((row["gpu_uuid"], row["slot_uuid"], row["pid"]), row)
    for column in ("memory_used_bytes", "sm_utilization_ratio"):
        if known[column] is None:
            known[column] = row[column]


def _notes(files: Sequence[Survey], context: Context) -> list[str]:
    notes = []
    local = [found for found in files if found.has_local_times and found.given.reading.zone is None]
    if local:
        notes.append("local times were read as UTC; if the host's clock was not, say which zone: --time-zone Europe/Oslo")
    for found in files:
        notes += [f"{found.given.reading.file}: {text}" for text in found.notes]
    return list(dict.fromkeys(notes))


def _notes_of(builder: RowBuilder) -> list[str]:
    notes = []
    by_place = sorted(gpu for gpu in builder.gpus if "/" in gpu and not gpu.startswith("MIG-"))
    if by_place:
        notes.append(f"{_some(by_place)}: known by place only; land `nvidia-smi -L` of the host in the same call for the UUID")
    if builder.split:
        notes.append(
            f"{_some(sorted(builder.split))}: split by MIG, where nvidia-smi measures no utilisation; activity needs DCGM or "
            "GPM (nvml)"
        )
    if builder.undecided:
        notes.append(
            f"{_some(sorted(builder.undecided))}: no inventory record, since nothing tells whether MIG splits it; land "
            "`nvidia-smi -L` in the same call"
        )
    if builder.nameless:
        notes.append(f"{_some(sorted(builder.nameless))}: no text of this call names the model, so there is no inventory record")
    return notes


def _some(names: Sequence[str]) -> str:
    return some(names, 3)
