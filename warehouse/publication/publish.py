"""Show the last build to readers, if the gate allows it: a new file in a new folder, then one link.

The file is the previous version's, cloned, with the days whose rows differ replaced; it is written anew where the tables' columns
changed, after a full refresh, and now and then. Either way it is read again before anyone sees it, and holds, table by table and
day by day, the rows of the build, or is not shown.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import duckdb

from warehouse.database import WarehouseLockedError, connect, locked
from warehouse.digest import records
from warehouse.home import Home
from warehouse.publication import parquet_export, publications
from warehouse.publication.comments import write_comments
from warehouse.publication.publications import Contents, Manifest, Version
from warehouse.publication.rollback import forget_unfinished, rollback_in_force
from warehouse.publication.tables import (
    PublishedTable,
    UnpublishableTypeError,
    contents_of,
    copy_anew,
    published_tables,
    replace_buckets,
)
from warehouse.report.write import try_to_write_report
from warehouse.sql import compose, literal
from warehouse.verdict import PUBLISH, Build, Verdict, database_state, last_build, read_verdict

logger = logging.getLogger(__name__)

#: what every reader since DuckDB 1.2 opens; the build's own version would shut out all 1.x readers
STORAGE_VERSION = "v1.2.0"
#: after so many clones the file is written anew, so that what replaced days left behind does not pile up
CLONES_BEFORE_REWRITE = 100
PUBLISHED, UNCHANGED, HELD = "published", "unchanged", "held"


class PublishError(Exception):
    """The new version could not be made, or does not hold what the build holds; readers keep the one they have."""


@dataclass(frozen=True)
class PublishOutcome:
    """`status` is published, unchanged or held; `publication_id` is what readers see now, None before the first."""

    status: str
    publication_id: str | None
    message: str


@dataclass(frozen=True)
class _Wanted:
    """What the build holds and a new version must hold."""

    tables: list[PublishedTable]
    contents: dict[str, Contents]

    @property
    def columns(self) -> dict[str, dict[str, str]]:
        return {table.name: table.columns for table in self.tables}


def publish(home: Home, *, force: bool = False) -> PublishOutcome:
    """Publish the last build. `force` publishes an unchanged one again; it does not overrule the gate.

    After a rollback the build that was taken back is left alone until there is a newer one, or `force`.
    Raises WarehouseLockedError, PublishError, UnpublishableTypeError, duckdb.Error, ValueError for a setting that makes no sense;
    readers keep what they have.
    """
    publications.versions_kept()
    home.create()
    with locked(home):
        swept = publications.sweep(home.published)
        if swept:
            logger.warning("removed what a killed publication left: %s", ", ".join(swept))
        forget_unfinished(home.published)
        current = publications.current_version(home.published)
        shown = current.name if current else None
        if not home.build_database.exists():
            return PublishOutcome(HELD, shown, "nothing is built yet: run `python -m warehouse build`")
        with connect(home.build_database, read_only=True) as connection:
            build = last_build(connection)
        verdict = read_verdict(home)
        held = _why_held(home, build, verdict)
        if held or build is None or verdict is None:
            return PublishOutcome(HELD, shown, held)
        if current and publications.shows(current, build.build_id) and not force:
            return PublishOutcome(UNCHANGED, shown, f"build {build.build_id} is published already, as {shown}")
        rollback = rollback_in_force(home.published)
        if rollback and build.build_id in rollback.builds and not force:
            message = (
                f"build {build.build_id} was rolled back from {rollback.from_version} to {shown} on {rollback.at[:16]} UTC and "
                "is not published again: correct what was wrong and build again, or publish it all the same with --force"
            )
            return PublishOutcome(UNCHANGED, shown, message)
        return _publish(home, build, verdict, current, force=force)


def _why_held(home: Home, build: Build | None, verdict: Verdict | None) -> str:
    """What keeps the build from being published and what to do about it; empty where nothing does."""
    if build is None:
        return "nothing is built yet: run `python -m warehouse build`"
    if not build.is_finished or build.status != "succeeded":
        return "the last build failed or was killed, so that its tables are half old: run `python -m warehouse build` again"
    if verdict is None:
        return f"the gate has not seen build {build.build_id}: run `python -m expectations`"
    if verdict.build_id != build.build_id:
        return f"the verdict is about build {verdict.build_id}, the last build is {build.build_id}: run `python -m expectations`"
    if verdict.verdict != PUBLISH:
        failed = [
            f"{check.table}: {check.check_id}: {check.message}"
            for check in verdict.checks
            if _holds(check.success, check.severity)
        ]
        return f"the gate holds build {build.build_id}:\n  " + "\n  ".join(failed)
    if verdict.database_state != database_state(home):
        return "the build database was written to after the gate looked at it: run `python -m expectations`"
    return ""


def _holds(success: bool, severity: str) -> bool:
    return not success and severity == "critical"


def _publish(home: Home, build: Build, verdict: Verdict, current: Version | None, *, force: bool) -> PublishOutcome:
    previous = current.manifest if current else None
    with _workspace(home) as connection:
        tables = published_tables(connection, "build")
        wanted = _Wanted(tables, {table.name: contents_of(connection, "build", table) for table in tables})
    if current and previous and not force and _is_unchanged(previous, wanted, build):
        publications.note_same(current, build.build_id)
        return PublishOutcome(
            UNCHANGED, previous.publication_id, f"no row differs from {previous.publication_id}: not published again"
        )
    if current and previous and _can_clone(previous, wanted, build):
        try:
            version = _make(home, build, verdict, wanted, base=current, before=current, shown=current)
        except PublishError as error:
            # the previous file is not what its manifest says; readers are better served by a new one than by none
            logger.warning("%s; writing the file anew", error)
            version = _make(home, build, verdict, wanted, base=None, before=None, shown=current)
    else:
        version = _make(home, build, verdict, wanted, base=None, before=current, shown=current)
    publications.release(version)
    expired = publications.expire(home.published, needed=records.versions_in_mails(home))
    if expired:
        logger.info("expired %s", ", ".join(expired))
    rows = sum(count for contents in wanted.contents.values() for count, _ in contents.values())
    return PublishOutcome(PUBLISHED, version.name, f"{version.name}: {len(tables)} tables, {rows:,} rows, build {build.build_id}")


def _is_unchanged(previous: Manifest, wanted: _Wanted, build: Build) -> bool:
    same_rows = previous.contents == wanted.contents and previous.columns == wanted.columns
    return (
        same_rows and previous.duckdb_version == duckdb.__version__ and previous.data_through_at == _text(build.data_through_at)
    )


def _can_clone(previous: Manifest, wanted: _Wanted, build: Build) -> bool:
    """Whether the previous file can become the new one; hashes are comparable within one DuckDB version only."""
    return (
        not build.is_full_refresh
        and previous.columns == wanted.columns
        and previous.duckdb_version == duckdb.__version__
        and previous.copies_since_rewrite < CLONES_BEFORE_REWRITE
    )


def _make(
    home: Home,
    build: Build,
    verdict: Verdict,
    wanted: _Wanted,
    *,
    base: Version | None,
    before: Version | None,
    shown: Version | None,
) -> Version:
    """Make a version, its database from `base` where one is given, its unchanged Parquet files those of `before`.

    `shown` is what readers see until it is released.
    Raises PublishError where it does not hold what the build holds.
    """
    kept = base.manifest if base else None
    manifest = Manifest(
        publication_id=publications.next_name(home.published),
        build_id=build.build_id,
        published_at=datetime.now(UTC).replace(tzinfo=None).isoformat(),
        data_through_at=_text(build.data_through_at),
        duckdb_version=duckdb.__version__,
        copies_since_rewrite=kept.copies_since_rewrite + 1 if kept else 0,
        columns=wanted.columns,
        contents=wanted.contents,
    )
    with publications.new_version(home.published) as folder:
        file = folder / publications.DATABASE
        if base:
            publications.clone(base.database, file)
        with _workspace(home, file) as connection:
            for table in wanted.tables:
                if kept:
                    replace_buckets(connection, table, kept.contents[table.name], wanted.contents[table.name])
                else:
                    copy_anew(connection, table)
            _write_publication(connection, manifest, build, verdict)
            write_comments(connection, "target")
            connection.execute("checkpoint target")
        _verify(file, wanted)
        _export(file, wanted, before)
        # before the report, which compares the version with what readers see until now
        manifest.write(folder)
        try_to_write_report(file, home, shown.database if shown else None)
        return publications.seal(folder, manifest.publication_id)


@contextmanager
def _workspace(home: Home, target: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the build attached as `build`, read-only, and a new version's file as `target`."""
    connection = duckdb.connect()
    try:
        connection.execute("set TimeZone = 'UTC'")
        connection.execute(compose("set temp_directory = {spill}", spill=literal(home.build / "spill")))
        connection.execute(compose("attach {file} as build (read_only)", file=literal(home.build_database)))
        if target:
            attach = "attach {file} as target (storage_version {version})"
            connection.execute(compose(attach, file=literal(target), version=literal(STORAGE_VERSION)))
        yield connection
        if target:
            connection.execute("detach target")
    finally:
        connection.close()


def _write_publication(connection: duckdb.DuckDBPyConnection, manifest: Manifest, build: Build, verdict: Verdict) -> None:
    """The one-row table `publication`, and `gate_results`: the rules as they stood when this version was let through."""
    connection.execute(
        """create or replace table target.main.publication as select
            cast(? as varchar) as publication_id, cast(? as varchar) as build_id, cast(? as timestamp) as published_at,
            cast(? as timestamp) as data_through_at, cast(? as bigint) as checks_passed, cast(? as bigint) as checks_warned,
            cast(? as varchar) as version""",
        [
            *(manifest.publication_id, manifest.build_id, manifest.published_at, manifest.data_through_at),
            *(verdict.passed, verdict.warned, build.version),
        ],
    )
    connection.execute(
        """create or replace table target.main.gate_results (
            check_id varchar, table_name varchar, severity varchar, success boolean, observed varchar, unexpected_count bigint,
            message varchar, checked_at timestamp)"""
    )
    rows = [
        (c.check_id, c.table, c.severity, c.success, c.observed, c.unexpected_count, c.message, verdict.checked_at)
        for c in verdict.checks
    ]
    connection.executemany("insert into target.main.gate_results values (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _verify(file: Path, wanted: _Wanted) -> None:
    """Read a new version as a reader would; raises PublishError where it is not the build's rows, all of them, once."""
    if file.with_name(file.name + ".wal").exists():
        raise PublishError(f"{file.name} was left with a write-ahead log")
    with connect(file, read_only=True) as connection:
        catalog = connection.execute("select current_database()").fetchall()[0][0]
        for table in wanted.tables:
            if contents_of(connection, catalog, table) != wanted.contents[table.name]:
                raise PublishError(f"table {table.name} of the new version does not hold the rows of the build")
        if connection.execute("select count(*) from publication").fetchall() != [(1,)]:
            raise PublishError("the new version does not have one row in `publication`")


def _export(file: Path, wanted: _Wanted, before: Version | None) -> None:
    """Write the Parquet files beside a verified file."""
    kept = (before.path / parquet_export.FOLDER, before.manifest) if before else None
    tables = {table.name: table for table in wanted.tables}
    try:
        done = parquet_export.export(file, file.parent / parquet_export.FOLDER, tables, wanted.contents, kept)
    except parquet_export.ExportError as error:
        raise PublishError(str(error)) from error
    logger.info("Parquet: %s files written, %s as in the version before", done.written, done.linked)


def _text(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


@click.command("publish")
@click.option("--force", is_flag=True, help="Publish an unchanged build again; a build that is held stays held.")
def publish_command(force: bool) -> None:
    """Publish the last build if its verdict allows; exit 3 if it is held."""
    home = Home.from_environment()
    try:
        outcome = publish(home, force=force)
    except (WarehouseLockedError, PublishError, UnpublishableTypeError, duckdb.Error, OSError, ValueError) as error:
        click.echo(f"publish failed, readers keep what they have: {error}", err=True)
        sys.exit(1)
    if outcome.status == HELD:
        click.echo(f"readers keep {outcome.publication_id or 'nothing: nothing was published yet'}", err=True)
        # last, so that a log ends with what is wrong
        click.echo(f"held: {outcome.message}", err=True)
        sys.exit(3)
    click.echo(f"{outcome.status}: {outcome.message}")
    click.echo(str(home.published_database))
    click.echo(str(home.published / publications.REPORT))
