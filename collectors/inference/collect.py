"""`python -m collectors inference FILE…` or `--url URL`: land what inference servers did between scrapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.files import read_file
from collectors.inference import kept
from collectors.inference.client import fetch
from collectors.inference.growth import grow
from collectors.inference.names import server_in_name
from collectors.inference.notes import Found, notes
from collectors.inference.parse import OptionMissingError, Reading, Scrape, parse_scrape
from collectors.inference.rows import Given, describe, to_rows, totals
from collectors.inference.schema import TABLE
from collectors.memory import remembering_each
from collectors.metrics import scraping
from collectors.metrics.scraping import Batch
from collectors.parsed import Parsed
from collectors.times import time_in_name
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.landings import CollectionOutcome, Landing, Window

SOURCE = "inference"
#: two readings further apart than so many intervals have a gap between them; what grew is spread evenly over its hours
LONGEST_INTERVALS = 2.5
#: a gap longer than this says nothing of any hour in it
LONGEST_GAP = timedelta(hours=24)
#: the target under which `collectors.memory` keeps what saved scrapes said
FILES = "files"


@dataclass(frozen=True)
class Source:
    """One text: its name, the server it is of, the memory's target, when it was read."""

    name: str
    server: str
    target: str
    data: bytes
    at: datetime | None


@dataclass(frozen=True)
class Reach:
    """How the time between readings is taken. `is_closed`: no reading follows that could explain a counter that fell."""

    interval: timedelta
    is_closed: bool
    started_at: datetime | None = None

    @property
    def longest(self) -> timedelta:
        return self.interval * LONGEST_INTERVALS


def collect(
    sources: Sequence[Source], *, given: Given, reach: Reach, landing: Landing, gaps: dict[str, str] | None = None
) -> CollectionOutcome:
    """Land what the servers in `sources` did since their readings before; one outcome for all of them.

    A text that cannot be read is a reject of the landing; if none can, SourceFailedError.
    """
    scrape, readings = _read(sources, reach)
    parsed = Parsed(rejects=scrape.rejects)
    found = Found()
    with remembering_each(landing.home, SOURCE, given.cluster, [target for target, _ in readings]) as memories:
        undecided: dict[tuple[str, str], datetime] = {}
        for (target, server), new in readings.items():
            joined = kept.join(memories[target], new)
            grown = grow(
                joined.readings,
                # one scrape a call is how a timer brings them: then another one follows
                is_closed=reach.is_closed and len(new) > 1,
                first_within=reach.longest,
                from_zero=reach.started_at is not None,
            )
            if grown.undecided:
                undecided[target, server] = joined.readings[-1].at
            since = joined.landed_at or datetime(1, 1, 1)
            found.add(grown, since)
            for growth in grown.growth:
                if growth.reading.at <= since:
                    continue
                if growth.reading.at - growth.start_at > LONGEST_GAP:
                    parsed.notes.append(
                        f"nothing read for {growth.reading.at - growth.start_at}, left out: {totals(growth, given)}"
                    )
                else:
                    parsed.tables.setdefault(TABLE, []).extend(to_rows(growth, given, reach.longest))
            first = {model: reading for model, reading in grown.first.items() if reading.at >= new[0].at}
            found.first += describe(first, given)

        def remember(run_id: str | None) -> None:
            for (target, server), new in readings.items():
                kept.keep(memories[target], new, run_id, undecided.get((target, server)))
            for memory in memories.values():
                memory.save()

        outcome = landing.land(
            SOURCE,
            parsed.frames(),
            cluster=given.cluster,
            inputs=[source.name for source in sources],
            rejects=parsed.rejects,
            window=_window(parsed),
            gaps=gaps,
            notes=[*found.notes(), *parsed.notes, *notes(scrape, undecided, parsed)],
            before_commit=remember,
        )
        if outcome.status == "nothing":
            remember(None)
        return outcome


def _read(sources: Sequence[Source], reach: Reach) -> tuple[Scrape, dict[tuple[str, str], list[Reading]]]:
    """All texts' readings by target and server, in time order; of several of one instant the last."""
    whole = Scrape()
    failures: list[SourceFailedError] = []
    found: dict[tuple[str, str], dict[datetime, Reading]] = {}
    for source in sources:
        try:
            scrape = parse_scrape(source.data, source.name, source.server, source.at)
        except OptionMissingError:
            raise
        except SourceFailedError as error:
            failures.append(error)
            whole.rejects.append(Reject(source.name, None, MALFORMED, str(error)))
            continue
        whole.rejects += scrape.rejects
        whole.unknown |= scrape.unknown
        whole.notes += [note for note in scrape.notes if note not in whole.notes]
        for reading in scrape.readings:
            starts = [start for start in (reading.started_at, reach.started_at) if start]
            own = replace(reading, started_at=max(starts, default=None))
            found.setdefault((source.target, own.server), {})[own.at] = own
    if failures and len(failures) == len(sources):
        raise failures[0]
    return whole, {key: [readings[at] for at in sorted(readings)] for key, readings in found.items()}


def _window(parsed: Parsed) -> Window | None:
    rows = parsed.tables.get(TABLE)
    if not rows:
        return None
    ends = [row["interval_start_at"] + timedelta(milliseconds=row["interval_ms"]) for row in rows]
    return Window(min(row["interval_start_at"] for row in rows), max(ends))


def _server_of(url: str) -> str:
    """host:port of an address."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or url


@click.command(SOURCE)
@click.argument("files", nargs=-1, type=command.FILES)
@scraping.scraping_options
@click.option(
    "--interval",
    "interval_seconds",
    type=click.FloatRange(0.001, 86_400),
    default=60,
    show_default=True,
    help="Seconds between two scrapes. What grew between two readings more than 2.5 intervals apart is spread evenly over "
    "the hours between them; more than 24 hours apart it is left out.",
)
@click.option(
    "--started-at",
    type=command.INSTANT,
    help="When the servers started: their first reading counts from 0 then. Without it, it does so only if the text says "
    "that the server started no more than 2.5 intervals before; else the first reading is what the next one is compared with.",
)
@click.option("--server", help="What to call the server [host:port of the address; the file's name without its time].")
@click.option("--model", help="The model, where no label names it [unknown].")
@click.option("--node", help="The node it runs on.")
@click.option("--workload", help="The workload it serves.")
@click.option("--namespace", help="The workload's namespace [the label `namespace`, if there is one].")
@click.option("--job-id", help="The Slurm job or the pod's uid that it runs as.")
@click.option(
    "--kv-bytes-per-token",
    type=click.FloatRange(0, min_open=True),
    help="Bytes of KV cache per token on all its GPUs (2 × layers × KV heads × head size × bytes of a value): servers tell the "
    "size of their pool in tokens only, and without this it is left out.",
)
@command.collector_options
def inference(
    files: tuple[Path, ...],
    urls: tuple[str, ...],
    duration_seconds: float | None,
    times: tuple[datetime, ...],
    interval_seconds: float,
    started_at: datetime | None,
    server: str | None,
    model: str | None,
    node: str | None,
    workload: str | None,
    namespace: str | None,
    job_id: str | None,
    kv_bytes_per_token: float | None,
    cluster: str | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Land what vLLM, SGLang, TGI, Triton, TensorRT-LLM, NIM, llama.cpp and TEI servers did between scrapes of their metrics.

    Counters become what they grew by since the reading before, of this call or an earlier one, across restarts.
    """
    cluster = command.require_cluster(cluster)
    scraping.check_usage(files, urls, times, duration_seconds)
    if server and len(urls) > 1:
        raise click.UsageError("--server names one server; leave it out for several addresses, or read them one by one")
    given = Given(cluster, node, workload, namespace, model, job_id, kv_bytes_per_token)
    reach = Reach(timedelta(seconds=interval_seconds), is_closed=bool(files), started_at=started_at)
    with command.source(SOURCE, cluster=cluster, inputs=files):
        if files:
            instants: Sequence[datetime | None] = times or [time_in_name(path.name) for path in files]
            sources = [
                Source(path.name, server or server_in_name(path), FILES, read_file(path), at)
                for path, at in zip(files, instants, strict=True)
            ]
            try:
                outcome = collect(sources, given=given, reach=reach, landing=command.landing())
            except OptionMissingError as error:
                raise click.UsageError(str(error)) from error
            command.report(outcome, as_json=as_json, strict=strict)
            return
        landing = command.landing()

        def land(batch: Batch) -> CollectionOutcome:
            sources = [Source(name, server or _server_of(name), name, data, at) for name, data, at in batch.scrapes]
            return collect(sources, given=given, reach=reach, landing=landing, gaps=batch.gaps())

        scraped = scraping.scrape(
            SOURCE,
            urls,
            cluster=cluster,
            interval=reach.interval,
            duration=None if duration_seconds is None else timedelta(seconds=duration_seconds),
            fetch=fetch,
            land=land,
            landing=landing,
        )
        scraping.report(scraped, as_json=as_json, strict=strict)
