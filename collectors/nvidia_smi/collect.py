"""`python -m collectors nvidia-smi FILE…`: land what nvidia-smi, rocm-smi or amd-smi printed to files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.fleet import Fleet
from collectors.nvidia_smi.parse import Input
from collectors.nvidia_smi.query import some
from collectors.nvidia_smi.records import GpuReading, Identity, OptionMissingError, ProcessSighting
from collectors.nvidia_smi.rows import SOURCE, Row, RowBuilder
from collectors.nvidia_smi.survey import Context, Survey, placed, survey
from collectors.parsed import to_frame
from collectors.times import TIME_ZONE, time_in_name
from warehouse.conform import MALFORMED, Reject
from warehouse.content import hash_files
from warehouse.landing import CollectionOutcome, Landing, Piece

#: rows in one frame: what memory holds of a file, whatever its size
CHUNK_ROWS = 25_000
#: a file of no known time is read last
LATEST = datetime(9999, 1, 1)


@dataclass
class Collection:
    """The files of one call, surveyed, in the order of their readings."""

    cluster: str
    context: Context
    fleet: Fleet
    files: list[Survey]
    failures: list[Reject]
    notes: list[str] = field(default_factory=list)

    def samples(self) -> Iterator[Piece]:
        """Frames of gpu_samples with the rejects of the files; afterwards `_builder` holds the inventory."""
        self._builder = builder = RowBuilder(self.cluster, self.fleet)
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
        yield to_frame(self._builder.inventory)

    def processes(self) -> Iterator[Piece]:
        """Frames of gpu_processes: a pass of its own, over the files that hold some."""
        builder = RowBuilder(self.cluster, self.fleet)
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
                    row = builder.process(item, gpu, node, at)
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


def collect(
    inputs: Sequence[Input], times: Sequence[datetime | None], *, cluster: str, context: Context, landing: Landing
) -> CollectionOutcome:
    """Land samples, inventory and processes of the files; `times` says when each was saved, where that is known.

    A file that cannot be read is a reject of the landing; if none can, SourceFailedError. OptionMissingError where an option
    must say what a text leaves out.
    """
    before = [_state(given.path) for given in inputs]
    collection = survey_files(inputs, times, cluster=cluster, context=context)

    def checked(pieces: Iterator[Piece]) -> Iterator[Piece]:
        yield from pieces
        if [_state(given.path) for given in inputs] != before:
            raise SourceFailedError("a file was written to while it was read; land a copy of it, or land it when it is complete")

    settings = [cluster, context.node, repr(context.gpus), str(context.interval), *(str(at) for at in times)]
    for given in inputs:
        settings += [given.reading.file, given.reading.zone.key if given.reading.zone else "", *given.fields]
    return landing.land(
        SOURCE,
        {
            "gpu_samples": checked(collection.samples()),
            "gpu_inventory": collection.inventory(),
            "gpu_processes": checked(collection.processes()),
        },
        cluster=cluster,
        inputs=[str(given.path) for given in inputs],
        content=hash_files([given.path for given in inputs], SOURCE, *settings),
        notes=collection.notes,
    )


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


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@click.command(SOURCE)
@click.argument("files", nargs=-1, required=True, type=command.FILES)
@click.option("--node", help="The node all of it was read on, where the text does not say it (few do: the field hostname).")
@click.option("--time-zone", "zone", type=TIME_ZONE, help="Zone of the host's clock, such as Europe/Oslo [UTC].")
@click.option(
    "--at",
    "times",
    multiple=True,
    type=command.INSTANT,
    help="When a file was saved, once per file in their order. Needed where the text carries no time (-L, rocm-smi, dmon "
    "without -o DT), unless the file's name says it: 2026-11-01T00-00-00Z.txt. Of several readings without a time it is "
    "that of the first one.",
)
@click.option(
    "--interval",
    "interval_seconds",
    type=click.FloatRange(0.001, 86_400),
    help="Seconds between two readings [the median of the file; 60 where it holds one]. A reading stands for the time "
    "since the GPU's reading before, at most 2.5 intervals; the first one for one interval.",
)
@click.option("--fields", help="Fields of CSV rows without a header, as they were asked for: timestamp,uuid,utilization.gpu,…")
@click.option(
    "--gpu", help="The GPU of rows that name none: its UUID or index; of several, all in the order of the rows: 0,1,2,3."
)
@command.collector_options
def nvidia_smi(
    files: tuple[Path, ...],
    node: str | None,
    zone: ZoneInfo | None,
    times: tuple[datetime, ...],
    interval_seconds: float | None,
    fields: str | None,
    gpu: str | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land what nvidia-smi printed to files: --query-gpu and --query-compute-apps CSV, -q and -q -x, -L, dmon, pmon.

    AMD's rocm-smi --json and amd-smi metric --json are read too. Files are told apart by their content; those of one host
    are best given together, since -L tells the UUIDs and MIG layouts that the others leave out.
    """
    cluster = command.require_cluster(cluster)
    if times and len(times) != len(files):
        raise click.UsageError(f"{len(times)} times for {len(files)} files; give --at once for each, in their order")
    asked = tuple(re.split(r"[\s,]+", fields.strip().strip(","))) if fields else ()
    interval = timedelta(seconds=interval_seconds) if interval_seconds else None
    named = [name.strip() for name in (gpu or "").split(",") if name.strip()]
    gpus = tuple(Identity(index=int(name)) if name.isdecimal() and len(name) < 5 else Identity(name) for name in named)
    inputs = [Input(path, Reading(path.name, zone), asked) for path in files]
    instants: list[datetime | None] = list(times) if times else [time_in_name(path.name) for path in files]
    with command.source(SOURCE, cluster=cluster, inputs=files):
        try:
            context = Context(node, gpus, interval)
            outcome = collect(inputs, instants, cluster=cluster, context=context, landing=command.landing())
        except OptionMissingError as error:
            raise click.UsageError(str(error)) from error
        command.report(outcome, as_json=as_json, strict=strict)
