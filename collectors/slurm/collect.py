"""`python -m collectors slurm`: what the scheduler says of jobs and nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from collectors import command
from collectors.parsed import Parsed
from collectors.slurm.client import SlurmClient
from collectors.slurm.nodes import parse_nodes
from collectors.slurm.parse import SacctOutput, parse_sacct
from collectors.slurm.records import Reading, SourceFailedError
from warehouse.landing import CollectionOutcome, Landing, Window

#: without --since: a daily collection that comes late still meets the one before
DEFAULT_LOOKBACK = timedelta(days=1)

KEPT_APART = "the output names several clusters ({}); each job stays in its own, --cluster is not applied"


def collect_files(
    files: Sequence[Path], reading: Reading, cluster: str | None, at: datetime | None, landing: Landing
) -> CollectionOutcome:
    """Land the attempts in saved sacct outputs; they tell what happened up to the latest instant in them (or `at`)."""
    outputs = [parse_sacct(path.read_bytes(), path.name, reading, at) for path in files]
    parsed, own = _joined(outputs, cluster)
    starts = [row["started_at"] or row["submitted_at"] or row["observed_at"] for row in parsed.tables.get("runs", [])]
    through = [output.observed_at for output in outputs if output.observed_at]
    return landing.land(
        "slurm",
        parsed.frames(),
        cluster=own,
        inputs=[str(path) for path in files],
        rejects=parsed.rejects,
        window=Window(min(starts), max(through)) if starts else None,
        source_version=next((output.source_version for output in outputs if output.source_version), None),
        notes=parsed.notes,
    )


def collect_live(
    client: SlurmClient, since: datetime, until: datetime, cluster: str | None, now: datetime, landing: Landing
) -> CollectionOutcome:
    """Land the attempts active in `[since, until)` as sacct tells them now, and the nodes as they are now.

    Nodes that cannot be read are a gap with its reason; the jobs land all the same.
    """
    output = parse_sacct(client.sacct(since, until), "sacct", Reading(), at=now)
    parsed, own = _joined([output], cluster or client.cluster_name())
    gaps = {}
    try:
        parsed.extend(parse_nodes(client.nodes(), cluster=command.require_cluster(cluster or own), seen_at=now))
    except SourceFailedError as error:
        gaps["nodes"] = str(error)
        parsed.notes.append(f"no nodes and no node states: {error}")
    return landing.land(
        "slurm",
        parsed.frames(),
        cluster=own,
        inputs=["sacct", "scontrol show node"],
        rejects=parsed.rejects,
        window=Window(since, until),
        gaps=gaps,
        source_version=client.version(),
        notes=parsed.notes,
    )


def _joined(outputs: Sequence[SacctOutput], cluster: str | None) -> tuple[Parsed, str | None]:
    """All rows with their cluster, and its name if there is one for all.

    The given name stands for the one the output gives, unless that gives several: two clusters' job 42 are two jobs.
    """
    parsed = Parsed()
    for output in outputs:
        parsed.extend(Parsed({"runs": list(output.rows)} if output.rows else {}, list(output.rejects), list(output.notes)))
    rows: list[dict[str, Any]] = [dict(row) for row in parsed.tables.get("runs", [])]
    named = sorted({row["cluster"] for row in rows if row["cluster"]})
    if len(named) > 1:
        if cluster:
            parsed.notes.append(KEPT_APART.format(", ".join(named)))
        rows = [{**row, "cluster": row["cluster"] or cluster} for row in rows]
    else:
        own = cluster or next(iter(named), None)
        rows = [{**row, "cluster": command.require_cluster(own)} for row in rows]
    if rows:
        parsed.tables["runs"] = list(rows)
    return parsed, cluster if len(named) < 2 and cluster else named[0] if len(named) == 1 else None


@click.command("slurm")
@click.option(
    "--sacct-file",
    "files",
    type=command.FILES,
    multiple=True,
    help="A saved sacct output (more may follow).",
)
@click.argument("more_files", nargs=-1, type=command.FILES, metavar="[FILE]...")
@click.option("--since", type=command.INSTANT, help="Live: jobs active from here [a day before --until].")
@click.option("--until", type=command.INSTANT, help="Live: … to here [now].")
@click.option("--time-zone", help="Zone of times without offset in a saved output, such as Europe/Oslo [UTC].")
@click.option("--delimiter", help=r"Delimiter of a saved output, such as \x1f or ; [found from the header, else |].")
@click.option("--fields", help="Fields of a saved output without header, in order: JobIDRaw,State,Start,…")
@click.option("--at", type=command.INSTANT, help="When the output was taken [saved: its latest instant; live: now].")
@command.collector_options
def slurm(
    files: tuple[Path, ...],
    more_files: tuple[Path, ...],
    since: datetime | None,
    until: datetime | None,
    time_zone: str | None,
    delimiter: str | None,
    fields: str | None,
    at: datetime | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land jobs from sacct (run here, or a saved parsable or JSON output) and node states from scontrol."""
    if more_files and not files:
        raise click.UsageError("say what the files are: --sacct-file FILE…")
    reading = Reading(_zone(time_zone), _delimiter(delimiter), tuple((fields or "").replace(",", " ").split()))
    with command.source("slurm", cluster=cluster, inputs=files + more_files):
        if files:
            if since or until:
                raise click.UsageError("--since and --until are for the live command; a saved output is read whole")
            outcome = collect_files(files + more_files, reading, cluster, at, command.landing())
        else:
            now = (at or command.utc_now()).replace(microsecond=0)
            until = min(until or now, now)
            since = since or until - DEFAULT_LOOKBACK
            if since >= until:
                raise click.UsageError("--since must lie before --until, and before now")
            outcome = collect_live(SlurmClient(), since, until, cluster, now, command.landing())
        command.report(outcome, as_json=as_json, strict=strict)


def _zone(name: str | None) -> str | None:
    try:
        return ZoneInfo(name).key if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise click.UsageError(f"--time-zone {name!r} is no zone; write Europe/Oslo, America/New_York or UTC") from None


def _delimiter(text: str | None) -> str | None:
    r"""The delimiter, with `\t` and `\x1f` understood as shells without $'…' pass them."""
    if text == "":
        raise click.UsageError("--delimiter is empty")
    if text is None or not re.fullmatch(r"\\(t|x[0-9a-fA-F]{2})", text):
        return text
    return "\t" if text == r"\t" else chr(int(text[2:], 16))
