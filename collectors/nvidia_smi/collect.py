"""`python -m collectors nvidia-smi FILE…`: land what nvidia-smi, rocm-smi or amd-smi printed to files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.collection import survey_files
from collectors.nvidia_smi.parse import Input
from collectors.nvidia_smi.records import Identity, OptionMissingError
from collectors.nvidia_smi.rows import SOURCE
from collectors.nvidia_smi.survey import Context
from collectors.times import TIME_ZONE, time_in_name
from warehouse.landing.content import hash_files
from warehouse.landing.landings import CollectionOutcome, Landing, Piece


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
        settings += [given.reading.zone.key if given.reading.zone else "", *given.fields]
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
