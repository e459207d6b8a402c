"""`python -m warehouse status`: what is landed, built, held, published, and how old each is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import click
import duckdb
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warehouse.advice import Advice, advise
from warehouse.alerts import records as events
from warehouse.database import WarehouseLockedError, connect, locked
from warehouse.digest import records
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.landing.outcomes import LandedTable, landed_tables
from warehouse.landing.shape import TABLES
from warehouse.publication import publications
from warehouse.publication.rollback import rollback_in_force, withdrawn_versions
from warehouse.verdict import last_build, read_verdict

#: of what a source's error or a check says, so much fits the screen
LONGEST = 600


@dataclass(frozen=True)
class Source:
    """What one source has landed of one cluster. `data_through_at` is the last instant it speaks of.

    A landing of several clusters that does not tell its rows apart stands under all their names.
    """

    source: str
    cluster: str
    landings: int
    rows_landed: int
    rows_quarantined: int
    failures: int
    last_landed_at: datetime | None
    data_through_at: datetime | None


@dataclass(frozen=True)
class Step:
    """How far a step of the pipeline is, and what to do next where it is behind."""

    step: str
    state: str
    at: datetime | None
    remedy: str = ""


@dataclass(frozen=True)
class PublishedVersion:
    """A published version that is kept. `state` is `current`, `rolled back`, or empty; `bytes` is the size of its folder."""

    publication_id: str
    build_id: str
    published_at: datetime
    data_through_at: datetime | None
    bytes: int
    state: str


def read_versions(home: Home) -> list[PublishedVersion]:
    """The versions kept, the newest first."""
    if not home.published.exists():
        return []
    current, withdrawn = publications.current_version(home.published), withdrawn_versions(home.published)
    rows = []
    for version in reversed(publications.versions(home.published)):
        try:
            manifest = version.manifest
        except (OSError, ValueError, KeyError, TypeError):
            # expired since the folder was listed, or no manifest of ours: `rollback` says what is wrong with it
            continue
        through = datetime.fromisoformat(manifest.data_through_at) if manifest.data_through_at else None
        state = "current" if current and version == current else "rolled back" if version.name in withdrawn else ""
        size = sum(path.stat().st_size for path in version.path.rglob("*") if path.is_file())
        published_at = datetime.fromisoformat(manifest.published_at)
        rows.append(PublishedVersion(version.name, manifest.build_id, published_at, through, size, state))
    return rows


def read_sources(landed: Iterable[LandedTable]) -> list[Source]:
    """One row per source and cluster that ever landed or failed."""
    by_place: dict[tuple[str, str], list[LandedTable]] = {}
    for record in landed:
        if record.status in ("landed", "failed"):
            cluster = record.cluster or ", ".join(sorted(record.through)) or "–"
            by_place.setdefault((record.source, cluster), []).append(record)
    return [_source(source, cluster, records) for (source, cluster), records in sorted(by_place.items())]


def _source(source: str, cluster: str, records: list[LandedTable]) -> Source:
    landed = [record for record in records if record.status == "landed"]
    # a price that holds from tomorrow on says nothing of today
    told = [record for record in landed if record.table_name not in TABLES or not TABLES[record.table_name].is_reference]
    instants = [datetime.fromisoformat(instant) for record in told for instant in record.through.values() if instant]
    return Source(
        source,
        cluster,
        len({record.collection_run_id for record in landed}),
        sum(record.rows_landed for record in landed),
        sum(record.rows_quarantined for record in landed),
        len(records) - len(landed),
        max((record.landed_at for record in landed), default=None),
        max(instants, default=None),
    )


def read_steps(home: Home) -> Iterator[Step]:
    """Build, gate and publication, each as it stands."""
    build = None
    if not home.build_database.exists():
        yield Step("build", "nothing built", None, "python -m warehouse build")
    else:
        try:
            with locked(home, wait_seconds=0), connect(home.build_database, read_only=True) as connection:
                build = last_build(connection)
        except (WarehouseLockedError, duckdb.Error):
            yield Step("build", "running", None)
        else:
            if build is None:
                yield Step("build", "nothing built", None, "python -m warehouse build")
            else:
                state = build.build_id if build.is_finished else f"{build.build_id}; a later build did not finish"
                yield Step("build", state, build.finished_at, "" if build.is_finished else "python -m warehouse build")
    verdict = read_verdict(home)
    if verdict is None:
        yield Step("gate", "no verdict", None, "python -m expectations" if build else "")
    else:
        counts = f"{verdict.passed} passed, {verdict.warned} warnings, {verdict.failed} failed"
        is_stale = build is not None and verdict.build_id != build.build_id
        state = f"{verdict.verdict} {verdict.build_id} ({counts})" + (", about an older build" if is_stale else "")
        yield Step("gate", state, verdict.checked_at, "python -m expectations" if is_stale else "")
    current = publications.current_version(home.published)
    if current is None:
        yield Step("publication", "nothing published", None, "python -m warehouse publish" if verdict else "")
    else:
        with connect(home.published_database, read_only=True) as connection:
            row = connection.execute("select publication_id, build_id, published_at from publication").fetchone()
        assert row is not None
        rollback = rollback_in_force(home.published)
        is_rolled_back = rollback is not None and build is not None and build.build_id in rollback.builds
        is_behind = build is not None and not publications.shows(current, build.build_id) and not is_rolled_back
        since = f", rolled back from {rollback.from_version}" if rollback else ""
        remedy = "python -m warehouse publish" if is_behind else ""
        yield Step("publication", f"{row[0]} of build {row[1]}{since}", row[2], remedy)
    yield from _digest_step(home)
    yield from _alerts_step(home)


def _digest_step(home: Home) -> Iterator[Step]:
    """What became of the last day's mails, where any was ever sent."""
    found = records.of_last_day(home)
    if found is None:
        return
    day, mails = found
    said = {records.SENT: "sent", records.REFUSED: "refused", records.SENDING: "left open: they may have arrived"}
    counts = [(words, sum(mail.state == state for mail in mails)) for state, words in said.items()]
    state = f"mails of {day}: " + ", ".join(f"{count} {words}" for words, count in counts if count)
    is_open = any(mail.state != records.SENT for mail in mails)
    at = datetime.fromisoformat(max(mail.at for mail in mails)).replace(tzinfo=None)
    yield Step("digest", state, at, "python -m warehouse digest --send --resend" if is_open else "")


def _alerts_step(home: Home) -> Iterator[Step]:
    """How many alerts fire, and since when the oldest does; where none does, nothing."""
    fires = events.firing(events.read_all(home))
    if fires:
        since = min(datetime.fromisoformat(event.since).replace(tzinfo=None) for event in fires)
        yield Step("alerts", f"{len(fires)} fire", since, "python -m warehouse alerts")


def age(instant: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit that fits; a dash where there is nothing."""
    if instant is None:
        return "–"
    seconds = (now - instant).total_seconds()
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if abs(seconds) >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status_command(as_json: bool) -> None:
    """What is landed, built, held and published, and how old, by source; and what to do next."""
    home = Home.from_environment()
    now = datetime.now(UTC).replace(tzinfo=None)
    landed = landed_tables(home.raw)
    sources, steps, versions = read_sources(landed), list(read_steps(home)), read_versions(home)
    unsent = [Advice(step.state, step.remedy) for step in steps if step.step == "digest" and step.remedy]
    advice = [*advise(home, landed, now), *unsent]
    if as_json:
        record = {
            "home": str(home.root),
            "sources": [asdict(row) for row in sources],
            "steps": [asdict(row) for row in steps],
            "versions": [asdict(row) for row in versions],
            "next": [asdict(row) for row in advice],
        }
        click.echo(json.dumps(record, default=lambda value: f"{value.isoformat()}Z", indent=2, ensure_ascii=False))
        return
    console = Console(width=max(100, Console().width))
    _print(console, home, sources, steps, now)
    _print_versions(console, versions, now)
    click.echo("Next:" if advice else "Nothing to do: what is landed is built and published.")
    for number, item in enumerate(advice, start=1):
        click.echo(f"{number}. {clean(item.what, LONGEST)}\n   → {clean(item.do, LONGEST)}")


def _print(console: Console, home: Home, sources: list[Source], steps: list[Step], now: datetime) -> None:
    columns = ("source", "cluster", "landings", "rows", "quarantined", "failures", "landed", "data through (UTC)")
    landed = Table(*columns, title="Landed", box=SIMPLE_HEAD)
    for row in sources:
        through = f"{row.data_through_at:%Y-%m-%d %H:%M}" if row.data_through_at else "–"
        counts = (str(row.landings), f"{row.rows_landed:,}", str(row.rows_quarantined), str(row.failures))
        ago = f"{age(row.last_landed_at, now)} ago" if row.last_landed_at else "never"
        landed.add_row(row.source, escape(clean(row.cluster)), *counts, ago, through)
    if sources:
        console.print(landed)
    pipeline = Table("step", "state", "age", title=f"Pipeline in {home.root}", box=SIMPLE_HEAD)
    for step in steps:
        pipeline.add_row(step.step, escape(clean(step.state, LONGEST)), age(step.at, now))
    console.print(pipeline)


def _print_versions(console: Console, versions: list[PublishedVersion], now: datetime) -> None:
    columns = ("version", "of build", "published", "data through (UTC)", "MiB", "")
    kept = Table(*columns, title="Published versions kept", box=SIMPLE_HEAD)
    for row in versions:
        through = f"{row.data_through_at:%Y-%m-%d %H:%M}" if row.data_through_at else "–"
        size = f"{row.bytes / 2**20:,.1f}"
        kept.add_row(row.publication_id, row.build_id, f"{age(row.published_at, now)} ago", through, size, row.state)
    if versions:
        console.print(kept)
