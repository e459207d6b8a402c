"""`python -m collectors requests FILE…`: land the requests in logs of gateways and servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import polars as pl

from collectors import command
from collectors.command import SourceFailedError
from collectors.requests.parse import Given, OptionMissingError, Reader
from collectors.requests.records import read_records, unknown_format
from collectors.requests.schema import FORMATS, Format
from collectors.tables.delimited import TEXT_CHUNK_ROWS
from collectors.times import TIME_ZONE
from warehouse.landing.conform import Reject
from warehouse.landing.content import hash_files
from warehouse.landing.landings import CollectionOutcome, Landing, Piece
from warehouse.landing.shape import TABLES

SOURCE = "requests"
TABLE = "inference_requests"
_COLUMNS = {column.name: column.polars_type for column in TABLES[TABLE].columns} | {"line_number": pl.Int64}


def collect(files: Sequence[Path], *, given: Given, form: Format | None, landing: Landing) -> CollectionOutcome:
    """Land the requests in `files`, frame by frame, whatever their size.

    Raises SourceFailedError where a file as a whole is no log of requests, or changes while it is read.
    """
    # the readers count what they leave out while the frames are taken, and their notes come with the last of them
    readers = [Reader(path.name, given, form) for path in files]
    notes: list[str] = []
    return landing.land(
        SOURCE,
        {TABLE: _pieces(files, readers, notes)},
        cluster=given.cluster,
        inputs=[str(path) for path in files],
        content=hash_files(files, SOURCE, *_settings(given, form)),
        notes=notes,
    )


def _settings(given: Given, form: Format | None) -> list[str | None]:
    told = (given.cluster, given.model, given.workload, given.application, given.team, given.started_at, given.zone)
    # named only where given, so that what landed before these options were there keeps its name
    places = [f"{name}={value}" for name, value in (("job_id", given.job_id), ("node", given.node)) if value]
    return [form.name if form else None, *(None if setting is None else str(setting) for setting in told), *places]


def _pieces(files: Sequence[Path], readers: Sequence[Reader], notes: list[str]) -> Iterator[Piece]:
    for path, reader in zip(files, readers, strict=True):
        before = _state(path)
        rows: list[dict[str, object]] = []
        rejects: list[Reject] = []
        landed = 0
        names: list[str] = []
        for record in read_records(path, reader.form):
            item = record if isinstance(record, Reject) else reader.read(record)
            if item is None:
                continue
            if isinstance(item, Reject):
                rejects.append(item)
                names = names or ([] if isinstance(record, Reject) else [str(name) for name in record.values])
            else:
                rows.append(item)
            if len(rows) + len(rejects) >= TEXT_CHUNK_ROWS:
                landed += len(rows)
                yield _frame(rows), rejects
                rows, rejects = [], []
        landed += len(rows)
        if not landed and reader.unknown and not reader.formats:
            raise SourceFailedError(f"{path}: {unknown_format(names)}")
        yield _frame(rows), rejects
        if _state(path) != before:
            raise SourceFailedError(f"{path} changed while it was read; land it again when it is complete")
    notes += _notes(readers)


def _frame(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in _COLUMNS} for row in rows], schema=_COLUMNS)


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _notes(readers: Sequence[Reader]) -> list[str]:
    """What a person should know about these logs that is no reject."""
    notes = []
    formats = sorted({name for reader in readers for name in reader.formats})
    if formats:
        notes.append(f"read as {', '.join(formats)}")
    without = sum(reader.without_model for reader in readers)
    if without:
        notes.append(f"{without} requests without a model, landed as `unknown`; give it with --model NAME")
    cached = sum(reader.from_cache for reader in readers)
    if cached:
        notes.append(f"{cached} requests answered from the gateway's cache, which no model served; left out")
    other = sum(reader.no_inference for reader in readers)
    if other:
        notes.append(f"{other} calls that no model answers (files, batches, tools); left out")
    turned = sum(reader.turned for reader in readers)
    if turned:
        notes.append(f"{turned} requests that end before they begin; landed without latency")
    strange: Counter[str] = sum((reader.no_names for reader in readers), Counter())
    if strange:
        notes.append(
            f"values that are no names, left out: {', '.join(f'{count} {name}' for name, count in sorted(strange.items()))}"
        )
    return notes


@click.command(SOURCE)
@click.argument("files", nargs=-1, required=True, type=command.FILES)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="litellm: spend logs (rows of LiteLLM_SpendLogs as CSV or JSON, /spend/logs, callbacks). openai: answers of an "
    "OpenAI-style or Anthropic API as JSON lines. azure, mooncake, burstgpt: the public traces. gateway: flat lines with time, "
    "model and tokens (Envoy AI Gateway, OpenTelemetry). [told from each record's fields]",
)
@click.option(
    "--started-at", type=command.INSTANT, help="When a trace began whose times count from its start (mooncake, burstgpt)."
)
@click.option("--time-zone", "zone", type=TIME_ZONE, help="Zone of times without offset, such as Europe/Oslo [UTC].")
@click.option("--model", help="The model of requests that name none [unknown].")
@click.option("--workload", help="The workload that served requests that name none.")
@click.option("--job-id", help="The scheduler's id of the job that answered requests that name none (an offline job's own log).")
@click.option("--node", help="The node that answered requests that name none.")
@click.option("--application", help="The application of requests that name none.")
@click.option("--team", help="The team of requests that name none.")
@command.collector_options
def requests(
    files: tuple[Path, ...],
    form: str | None,
    started_at: datetime | None,
    zone: ZoneInfo | None,
    model: str | None,
    workload: str | None,
    job_id: str | None,
    node: str | None,
    application: str | None,
    team: str | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land requests from logs of gateways and servers: when, which model, how many tokens, how long, for which team.

    Only the fields named in collectors/requests/schema.py are read: no prompt, answer, key, user or address is.
    """
    cluster = command.require_cluster(cluster)
    given = Given(cluster, model, workload, job_id, node, application, team, started_at, zone)
    with command.source(SOURCE, cluster=cluster, inputs=files):
        try:
            outcome = collect(files, given=given, form=FORMATS[form] if form else None, landing=command.landing())
        except OptionMissingError as error:
            raise click.UsageError(str(error)) from error
        command.report(outcome, as_json=as_json, strict=strict)
