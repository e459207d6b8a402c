"""`python -m collectors dcgm FILE…` or `--url URL`: land scrapes of dcgm-exporter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.dcgm.client import fetch
from collectors.dcgm.parse import OptionMissingError, Scrapes, nodes_in_doubt, parse_scrape
from collectors.dcgm.rows import SOURCE, blank_reason, fields_without_column, to_rows
from collectors.dcgm.schema import ACTIVITY_FIELDS, FIELDS
from collectors.files import read_file
from collectors.http import without_credentials
from collectors.parsed import Parsed
from warehouse.conform import MALFORMED, Reject
from warehouse.landing import CollectionOutcome, Landing

_TIME_IN_NAME = re.compile(r"(\d{4}-?\d{2}-?\d{2})[T_](\d{2})[-:]?(\d{2})[-:]?(\d{2})(\.\d{1,6})?Z")


def collect(
    scrapes: Sequence[tuple[str, bytes, datetime | None]],
    *,
    cluster: str,
    node: str | None,
    interval: timedelta,
    landing: Landing,
) -> CollectionOutcome:
    """Land samples, inventory and run evidence of `scrapes` (name, text, time read); one outcome for all of them.

    One scrape that cannot be read is a reject of the landing; if none can, SourceFailedError.
    """
    read = Scrapes()
    failures: list[SourceFailedError] = []
    for name, data, at in scrapes:
        try:
            read.extend(parse_scrape(data, name, at=at, node=node))
        except OptionMissingError:
            raise
        except SourceFailedError as error:
            failures.append(error)
            read.rejects.append(Reject(name, None, MALFORMED, str(error)))
    if failures and len(failures) == len(scrapes):
        raise failures[0]
    parsed = to_rows(read.readings, cluster=cluster, interval=interval)
    blanks = blank_fields(read)
    return landing.land(
        SOURCE,
        parsed.frames(),
        cluster=cluster,
        inputs=[name for name, _, _ in scrapes],
        rejects=read.rejects + parsed.rejects,
        gaps=blanks,
        notes=notes(read, parsed, blanks),
    )


def time_in_name(path: Path) -> datetime | None:
    """The UTC instant in a file's name (`2026-11-01T00-00-00Z.prom`, `node7-20261101T000000Z.prom.gz`), if it has one."""
    match = _TIME_IN_NAME.search(path.name)
    if match is None:
        return None
    day, hour, minute, second, fraction = match.groups()
    try:
        instant = datetime.fromisoformat(f"{day.replace('-', '')}T{hour}{minute}{second}{fraction or ''}+00:00")
    except ValueError:
        return None
    return instant.astimezone(UTC).replace(tzinfo=None)


def blank_fields(read: Scrapes) -> dict[str, str]:
    """Fields that every slot exports and no slot has a value for → why: what the exporter lost (a version change)."""
    blank: dict[str, str] = {}
    for name in sorted(read.fields & set(FIELDS)):
        values = [reading.values[name] for reading in read.readings if name in reading.values]
        reasons = [blank_reason(value, is_narrow=not FIELDS[name].per_second) for value in values]
        if reasons and all(reasons):
            blank[name] = str(reasons[0])
    return blank


def notes(read: Scrapes, parsed: Parsed, blanks: dict[str, str]) -> list[str]:
    """What a person should know about these scrapes that is no reject."""
    found: list[str] = []
    doubtful = nodes_in_doubt(read.readings)
    if doubtful:
        found.append(f"{_some(doubtful)} looks like an exporter's pod or container, not a node; give the node with --node NAME")
    slots, signals = {reading.slot for reading in read.readings}, set(ACTIVITY_FIELDS) - set(blanks)
    silent = slots - {reading.slot for reading in read.readings if signals & set(reading.values)}
    if silent:
        found.append(
            f"no activity for {len(silent)} of {len(slots)} slots, so their time is unobserved; "
            "add DCGM_FI_PROF_SM_ACTIVE or DCGM_FI_PROF_GR_ENGINE_ACTIVE to the exporter's fields"
        )
    if blanks:
        found.append(f"blank in every reading: {', '.join(blanks)}")
    names = sorted({f"{h.namespace or '?'}/{h.pod}" for r in read.readings for h in r.holders if h.pod and not h.job_id})
    if names:
        found.append(
            f"pods known by name only: {_some(names)}; names are used again, so they are no evidence of who held a GPU; "
            "let the exporter add the label pod_uid"
        )
    if read.repeated:
        found.append(f"{read.repeated} series repeat a device's reading with other labels (a shared GPU); counted once")
    without = {row["gpu_uuid"] for row in parsed.tables.get("gpu_samples", [])}
    without -= {row["gpu_uuid"] for row in parsed.tables.get("gpu_inventory", [])}
    if without:
        found.append(f"no label names the model of {_some(sorted(without))}; samples landed, no inventory record")
    split = [row for row in parsed.tables.get("gpu_inventory", []) if row["slot_uuid"]]
    unknown = sorted({row["gpu_model"] for row in split if row["card_slices"] is None and row["mig_profile"]})
    if unknown:
        found.append(f"how many compute slices a {_some(unknown)} has is not known here; card_slices is left empty")
    unread = fields_without_column(read.fields)
    if unread:
        found.append(f"fields without a column, left out: {', '.join(unread)}")
    return found


def _some(names: Sequence[str], limit: int = 3) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


@click.command(SOURCE)
@click.argument("files", nargs=-1, type=command.FILES)
@click.option("--url", "urls", multiple=True, help="An exporter's address, http://HOST:9400/metrics; may be repeated.")
@click.option(
    "--at",
    "times",
    multiple=True,
    type=command.INSTANT,
    help="When a file was scraped, once per file in their order. Not needed where the lines carry their own time (which "
    "then stands), or the file's name says it: 2026-11-01T00-00-00Z.prom. An address is read now.",
)
@click.option(
    "--interval",
    "interval_seconds",
    type=click.FloatRange(0.001, 86_400),
    default=60,
    show_default=True,
    help="Seconds between two scrapes. A reading stands for the time before it: since the slot's reading before in the "
    "same call, at most 2.5 intervals; the first one for one interval.",
)
@click.option("--node", help="The node all of it was read on, where the labels do not say it or name the exporter's pod.")
@command.collector_options
def dcgm(
    files: tuple[Path, ...],
    urls: tuple[str, ...],
    times: tuple[datetime, ...],
    interval_seconds: float,
    node: str | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land dcgm-exporter's metrics text: samples and inventory per GPU or MIG instance.

    Scrapes given in one call are read in the order of their times, and counters become what they grew by between them.
    """
    cluster = command.require_cluster(cluster)
    if bool(files) == bool(urls):
        raise click.UsageError("give saved scrapes (FILE…) or --url URL")
    if times and len(times) != len(files or urls):
        raise click.UsageError(f"{len(times)} times for {len(files or urls)} scrapes; give --at once for each, in their order")
    with command.source(SOURCE, cluster=cluster, inputs=files):
        scrapes: list[tuple[str, bytes, datetime | None]] = []
        for position, path in enumerate(files):
            scrapes.append((path.name, read_file(path), times[position] if times else time_in_name(path)))
        for position, url in enumerate(urls):
            data = fetch(url)
            scrapes.append((without_credentials(url), data, times[position] if times else command.utc_now()))
        try:
            interval = timedelta(seconds=interval_seconds)
            outcome = collect(scrapes, cluster=cluster, node=node, interval=interval, landing=command.landing())
        except OptionMissingError as error:
            raise click.UsageError(str(error)) from error
        command.report(outcome, as_json=as_json, strict=strict)
