"""A command that scrapes: rounds of reading, landed together every few minutes, until its time is over.

    python -m collectors dcgm --url A --url B --for 3600 --interval 30

A landing per address and scrape would be thousands of files an hour, so rounds are landed in batches.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from collectors import command
from collectors.command import SourceFailedError
from collectors.metrics.rounds import Fetch, Round, names_of, rounds
from warehouse.landing.landings import CollectionOutcome, Landing, Window

#: a batch is landed when it reaches over this time, or holds this much text
BATCH_TIME = timedelta(minutes=5)
BATCH_BYTES = 64 << 20

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Batch:
    """Rounds that are landed together, in the order of their times."""

    rounds: tuple[Round, ...]

    @property
    def scrapes(self) -> list[tuple[str, bytes, datetime]]:
        """(address, text, instant) of every answer, by time and then in the order of the addresses."""
        return [(name, text, found.at) for found in self.rounds for name, text in found.texts]

    @property
    def names(self) -> list[str]:
        """The addresses that answered."""
        return list(dict.fromkeys(name for found in self.rounds for name, _ in found.texts))

    def gaps(self) -> dict[str, str]:
        """Address → why it has no reading in some of the rounds, with the last reason told: `2 of 10 rounds: …`."""
        missed = Counter(name for found in self.rounds for name in found.failures)
        reasons = {name: reason for found in self.rounds for name, reason in found.failures.items()}
        return {name: f"{count} of {len(self.rounds)} rounds: {reasons[name]}" for name, count in sorted(missed.items())}


def scraping_options(decorated: Command) -> Command:
    """`--url` (as `urls`), `--for` (as `duration_seconds`) and `--at` (as `times`), for a command that reads FILES or scrapes."""
    for option in (
        click.option(
            "--at",
            "times",
            multiple=True,
            type=command.INSTANT,
            help="When a file was scraped, once per file in their order. Not needed where the lines carry their own time "
            "(which then stands), or the file's name says it: node7-2026-11-01T00-00-00Z.prom. An address is read now.",
        ),
        click.option(
            "--for",
            "duration_seconds",
            type=click.FloatRange(1, 31 * 86_400),
            help="Read the addresses each --interval for so many seconds, at full multiples of it, and land every five "
            "minutes; once without it. A signal to end (SIGTERM) lands what was read.",
        ),
        click.option("--url", "urls", multiple=True, help="An address, http://HOST:PORT/metrics; may be repeated."),
    ):
        decorated = option(decorated)
    return decorated


def check_usage(files: Sequence[Path], urls: Sequence[str], times: Sequence[datetime], duration_seconds: float | None) -> None:
    """A usage error where the options of `scraping_options` and the files contradict each other."""
    if bool(files) == bool(urls):
        raise click.UsageError("give saved scrapes (FILE…) or --url URL")
    if urls and times:
        raise click.UsageError("an address is read now; --at is for files")
    if files and duration_seconds is not None:
        raise click.UsageError("--for is for addresses, which are read again and again")
    if times and len(times) != len(files):
        raise click.UsageError(f"{len(times)} times for {len(files)} files; give --at once for each, in their order")


@dataclass(frozen=True)
class Scraped:
    """What a call landed in all, and the addresses that never gave an answer worth landing, each with its reason."""

    outcome: CollectionOutcome
    silent: Mapping[str, str]


def scrape(
    source: str,
    urls: Sequence[str],
    *,
    cluster: str,
    interval: timedelta,
    duration: timedelta | None,
    fetch: Fetch,
    land: Callable[[Batch], CollectionOutcome],
    landing: Landing,
) -> Scraped:
    """Read the addresses each `interval` for `duration` (once without it) and give every batch to `land`.

    `land` lands one batch and raises SourceFailedError where none of its answers can be read. That, or a batch in which
    no address answered, leaves a failed outcome, and the next batch is tried.
    """
    silent = dict.fromkeys(names_of(urls), "no round was read")
    outcomes: list[CollectionOutcome] = []
    with _until_told_to_end() as ended:
        for batch in batches(rounds(urls, fetch, interval=interval, duration=duration, ended=ended), interval):
            gaps = batch.gaps()
            silent |= {name: reason for name, reason in gaps.items() if name in silent}
            try:
                if not batch.names:
                    raise SourceFailedError(_told(gaps))
                outcome = land(batch)
            except SourceFailedError as error:
                silent |= {name: str(error) for name in batch.names if name in silent}
                if duration is not None:
                    landing.record_failure(source, str(error), cluster=cluster)
                    click.echo(f"{source}: {error}", err=True)
                continue
            silent = {name: reason for name, reason in silent.items() if name not in batch.names}
            outcomes.append(outcome)
            if duration is not None:
                click.echo(outcome.summary(), err=True)
    return Scraped(total(source, cluster, outcomes), silent)


def report(scraped: Scraped, *, as_json: bool, strict: bool) -> None:
    """Report the outcome as `command.report` does; then raise SourceFailedError if an address never answered."""
    if not scraped.silent:
        command.report(scraped.outcome, as_json=as_json, strict=strict)
        return
    if scraped.outcome.status != "nothing":
        with suppress(SystemExit):  # that rows were quarantined weighs less than what follows
            command.report(scraped.outcome, as_json=as_json, strict=strict)
    raise SourceFailedError(_told(scraped.silent))


def _told(reasons: Mapping[str, str], limit: int = 3) -> str:
    more = f" (and {len(reasons) - limit} addresses more)" if len(reasons) > limit else ""
    return "; ".join(f"{name}: {reason.removeprefix(f'{name}: ')}" for name, reason in list(reasons.items())[:limit]) + more


def batches(found: Iterable[Round], interval: timedelta) -> Iterator[Batch]:
    """The rounds in groups: one ends with the round that completes `BATCH_TIME`, or makes it hold `BATCH_BYTES`."""
    held: list[Round] = []
    for one in found:
        held.append(one)
        if one.at + interval - held[0].at >= BATCH_TIME or sum(part.size for part in held) >= BATCH_BYTES:
            yield Batch(tuple(held))
            held = []
    if held:
        yield Batch(tuple(held))


def total(source: str, cluster: str, outcomes: Sequence[CollectionOutcome]) -> CollectionOutcome:
    """The outcomes of several landings as one, for the summary of a call; its id is the last one's."""
    if len(outcomes) == 1:
        return outcomes[0]
    rows: Counter[str] = Counter()
    rejects: Counter[str] = Counter()
    for outcome in outcomes:
        rows.update(outcome.rows)
        rejects.update(outcome.rejects)
    starts = [outcome.window.start_at for outcome in outcomes if outcome.window.start_at]
    ends = [outcome.window.end_at for outcome in outcomes if outcome.window.end_at]
    statuses = [outcome.status for outcome in outcomes]
    last = outcomes[-1] if outcomes else CollectionOutcome(source, cluster, "nothing")
    return replace(
        last,
        status="landed" if "landed" in statuses else last.status,
        rows=dict(rows),
        rows_quarantined=sum(outcome.rows_quarantined for outcome in outcomes),
        rejects=dict(rejects),
        window=Window(min(starts, default=None), max(ends, default=None)),
        rejected_rows=[reject for outcome in outcomes for reject in outcome.rejected_rows],
        notes=list(dict.fromkeys(note for outcome in outcomes for note in outcome.notes)),
    )


@contextmanager
def _until_told_to_end() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set, instead of ending the process before its last batch has landed."""
    ended = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
