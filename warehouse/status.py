"""`python -m warehouse status`: what is landed, built, held, published, and how old each is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import click
import duckdb
from rich.console import Console
from rich.table import Table

from warehouse import publications
from warehouse.database import connect
from warehouse.digest import records
from warehouse.home import Home
from warehouse.outcomes import landed_tables
from warehouse.verdict import last_build, read_verdict


@dataclass(frozen=True)
class Source:
    """What one source has landed. `data_through_at` is the last instant it speaks of, in any cluster."""

    source: str
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


def read_sources(home: Home) -> list[Source]:
    """One row per source that ever landed or failed."""
    by_source: dict[str, list[Source]] = {}
    for record in landed_tables(home.raw):
        if record.status not in ("landed", "failed"):
            continue
        through = max((datetime.fromisoformat(instant) for instant in record.through.values() if instant), default=None)
        landed = record.status == "landed"
        by_source.setdefault(record.source, []).append(
            Source(
                record.source,
                int(landed),
                record.rows_landed,
                record.rows_quarantined,
                int(not landed),
                record.landed_at if landed else None,
                through,
            )
        )
    return [_sum(rows) for _, rows in sorted(by_source.items())]


def _sum(rows: list[Source]) -> Source:
    return Source(
        rows[0].source,
        sum(row.landings for row in rows),
        sum(row.rows_landed for row in rows),
        sum(row.rows_quarantined for row in rows),
        sum(row.failures for row in rows),
        max((row.last_landed_at for row in rows if row.last_landed_at), default=None),
        max((row.data_through_at for row in rows if row.data_through_at), default=None),
    )


def read_steps(home: Home) -> Iterator[Step]:
    """Build, gate and publication, each as it stands."""
    build = None
    if not home.build_database.exists():
        yield Step("build", "nothing built", None, "python -m warehouse build")
    else:
        try:
            with connect(home.build_database, read_only=True) as connection:
                build = last_build(connection)
        except duckdb.Error:
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
        return
    with connect(home.published_database, read_only=True) as connection:
        row = connection.execute("select publication_id, build_id, published_at from publication").fetchone()
    assert row is not None
    is_behind = build is not None and row[1] != build.build_id
    yield Step("publication", f"{row[0]} of build {row[1]}", row[2], "python -m warehouse publish" if is_behind else "")
    yield from _digest_step(home)


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
    """What is landed, built, held and published, and how old, by source."""
    home = Home.from_environment()
    now = datetime.now(UTC).replace(tzinfo=None)
    sources, steps = read_sources(home), list(read_steps(home))
    if as_json:
        record = {"home": str(home.root), "sources": [asdict(row) for row in sources], "steps": [asdict(row) for row in steps]}
        click.echo(json.dumps(record, default=lambda value: f"{value.isoformat()}Z", indent=2))
        return
    console = Console(width=max(100, Console().width))
    landed = Table("source", "landings", "rows", "quarantined", "failures", "landed", "data through (UTC)", title="Landed")
    for row in sources:
        through = f"{row.data_through_at:%Y-%m-%d %H:%M}" if row.data_through_at else "–"
        counts = (str(row.landings), f"{row.rows_landed:,}", str(row.rows_quarantined), str(row.failures))
        landed.add_row(row.source, *counts, f"{age(row.last_landed_at, now)} ago", through)
    if not sources:
        landed.add_row("nothing yet", *[""] * 6)
    console.print(landed)
    pipeline = Table("step", "state", "age", "next", title=f"Pipeline in {home.root}")
    for step in steps:
        pipeline.add_row(step.step, step.state, age(step.at, now), step.remedy)
    console.print(pipeline)
