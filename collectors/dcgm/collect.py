"""`python -m collectors dcgm FILE…` or `--url URL`: land scrapes of dcgm-exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import click
import polars as pl

from collectors import command
from collectors.command import SourceFailedError
from collectors.dcgm.client import fetch
from collectors.dcgm.history import History
from collectors.dcgm.labels import Nodes
from collectors.dcgm.notes import Findings
from collectors.dcgm.parse import OptionMissingError, Reading, Scrapes, parse_scrape
from collectors.dcgm.rows import SOURCE, to_rows
from collectors.dcgm.scale import in_dcgms_scale, judge
from collectors.files import read_file
from collectors.memory import remembering_each
from collectors.metrics import scraping
from collectors.times import time_in_name
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.content import hash_files
from warehouse.landing.landings import CollectionOutcome, Landing

#: scrapes are turned into rows in groups of so many bytes of text
CHUNK_BYTES = 32 << 20
#: the memory of saved scrapes, whichever files they lie in
FILES = "files"


@dataclass(frozen=True)
class Scrape:
    """An exporter's text, what it was read from, and when; `at` None: its lines must carry their time."""

    name: str
    data: bytes
    at: datetime | None


def collect(
    scrapes: Iterable[Scrape],
    *,
    cluster: str,
    nodes: Nodes,
    interval: timedelta,
    landing: Landing,
    targets: Mapping[str, str],
    gaps: Mapping[str, str] | None = None,
    content: str | None = None,
) -> CollectionOutcome:
    """Land samples, inventory and run evidence of `scrapes`, in the order of their times; one outcome for all of them.

    `targets` maps a scrape's name to the target in whose memory its counters are kept. One scrape that cannot be read is
    a reject of the landing; if none can, SourceFailedError.
    """
    found, findings = Scrapes(), Findings()
    failures: list[SourceFailedError] = []
    names: list[str] = []
    frames: dict[str, list[pl.DataFrame]] = {}
    with remembering_each(landing.home, SOURCE, cluster, targets.values()) as memories:
        history = History(memories)
        for group in _groups(scrapes):
            read = Scrapes()
            for scrape in group:
                names.append(scrape.name)
                try:
                    read.extend(parse_scrape(scrape.data, scrape.name, at=scrape.at, nodes=nodes))
                except SourceFailedError as error:
                    failures.append(error)
                    found.rejects.append(Reject(scrape.name, None, MALFORMED, str(error)))
            findings.add_scrapes(read)
            readings = _in_one_scale(read.readings, history, targets, findings)
            parsed = to_rows(
                readings,
                cluster=cluster,
                interval=interval,
                history=history,
                target=lambda reading: targets[reading.file],
            )
            findings.add_rows(parsed)
            found.rejects += read.rejects + parsed.rejects
            for table, frame in parsed.frames().items():
                frames.setdefault(table, []).append(frame)
        if failures and len(failures) == len(names):
            raise failures[0]
        if content is not None:
            # whoever saved the files can say it; of an address the next reading may
            for failure in failures:
                if isinstance(failure, OptionMissingError):
                    raise failure
        return landing.land(
            SOURCE,
            frames,
            cluster=cluster,
            inputs=list(dict.fromkeys(names)),
            rejects=found.rejects,
            gaps={**findings.blank_fields(), **(gaps or {})},
            notes=findings.notes(),
            content=content,
            before_commit=history.save,
        )


def nodes_from(options: Sequence[str]) -> Nodes:
    """`NAME` for everything, or `EXPORTER=NAME` for each; a usage error where they contradict each other."""
    named = dict(option.split("=", 1) for option in options if "=" in option)
    everywhere = [option for option in options if "=" not in option]
    if len(everywhere) > 1 or (everywhere and named):
        raise click.UsageError("give one --node NAME for everything, or --node EXPORTER=NAME for each exporter")
    if not all(name.strip() and node.strip() for name, node in named.items()):
        raise click.UsageError("write --node EXPORTER=NAME: the exporter's host name or address, then the node")
    return Nodes(everywhere[0] if everywhere else None, named)


def _groups(scrapes: Iterable[Scrape]) -> Iterator[list[Scrape]]:
    """The scrapes a few at a time, so that hundreds of them need no more memory than some."""
    group: list[Scrape] = []
    size = 0
    for scrape in scrapes:
        group.append(scrape)
        size += len(scrape.data)
        if size >= CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _in_one_scale(readings: Sequence[Reading], history: History, targets: Mapping[str, str], findings: Findings) -> list[Reading]:
    by_node: dict[str, list[Reading]] = {}
    for reading in readings:
        by_node.setdefault(reading.node, []).append(reading)
    scaled: list[Reading] = []
    for node, found in by_node.items():
        known = history.scale(node, targets[found[0].file], found[0].at)
        scale = history.scales[node] = findings.scales[node] = judge(found, known)
        scaled += in_dcgms_scale(found, scale)
    return scaled


@click.command(SOURCE)
@click.argument("files", nargs=-1, type=command.FILES)
@scraping.scraping_options
@click.option(
    "--interval",
    "interval_seconds",
    type=click.FloatRange(0.1, 86_400),
    default=60,
    show_default=True,
    help="Seconds between two scrapes. A reading stands for the time since the slot's reading before, at most 2.5 "
    "intervals; the first one for one interval.",
)
@click.option(
    "--node",
    "node_options",
    multiple=True,
    metavar="[EXPORTER=]NAME",
    help="The node it was all read on; or, repeated, the node of an exporter's host name or address. Needed where the "
    "labels name the exporter's pod (old releases on Kubernetes) and the address names no host.",
)
@command.collector_options
def dcgm(
    files: tuple[Path, ...],
    urls: tuple[str, ...],
    duration_seconds: float | None,
    times: tuple[datetime, ...],
    interval_seconds: float,
    node_options: tuple[str, ...],
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land dcgm-exporter's metrics text: samples and inventory per GPU or MIG instance, and who the labels say held it.

    What counters grew by since the scrape before is known from call to call.
    """
    cluster = command.require_cluster(cluster)
    scraping.check_usage(files, urls, times, duration_seconds)
    nodes, interval = nodes_from(node_options), timedelta(seconds=interval_seconds)
    with command.source(SOURCE, cluster=cluster, inputs=files):
        try:
            if files:
                outcome = _collect_files(files, times, node_options, cluster=cluster, nodes=nodes, interval=interval)
                command.report(outcome, as_json=as_json, strict=strict)
                return
            landing = command.landing()
            scraped = scraping.scrape(
                SOURCE,
                urls,
                cluster=cluster,
                interval=interval,
                duration=None if duration_seconds is None else timedelta(seconds=duration_seconds),
                fetch=fetch,
                land=lambda batch: collect(
                    (Scrape(*scrape) for scrape in batch.scrapes),
                    cluster=cluster,
                    nodes=nodes,
                    interval=interval,
                    landing=landing,
                    targets={name: name for name in batch.names},
                    gaps=batch.gaps(),
                ),
                landing=landing,
            )
        except OptionMissingError as error:
            raise click.UsageError(str(error)) from error
        scraping.report(scraped, as_json=as_json, strict=strict)


def _collect_files(
    files: Sequence[Path],
    times: Sequence[datetime],
    node_options: Sequence[str],
    *,
    cluster: str,
    nodes: Nodes,
    interval: timedelta,
) -> CollectionOutcome:
    """Land saved scrapes; the same files with the same options are the same landing, whatever was landed between."""
    known = [times[position] if times else time_in_name(path.name) for position, path in enumerate(files)]
    order = sorted(range(len(files)), key=lambda position: str(known[position]))
    settings = [SOURCE, str(interval), *node_options, *(str(known[position]) for position in order)]
    return collect(
        (Scrape(files[position].name, read_file(files[position]), known[position]) for position in order),
        cluster=cluster,
        nodes=nodes,
        interval=interval,
        landing=command.landing(),
        targets={path.name: FILES for path in files},
        content=hash_files([files[position] for position in order], *settings),
    )
