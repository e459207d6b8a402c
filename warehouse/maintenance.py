"""`python -m warehouse compact` and `retention`: keep the landing small without any reader noticing."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import click

from warehouse import control
from warehouse.database import WarehouseLockedError, locked
from warehouse.digest import records
from warehouse.home import Home
from warehouse.landing import compaction, retention
from warehouse.landing.outcomes import landed_tables
from warehouse.publication import publications


@click.command("compact")
@click.option("--older-than-hours", type=float, default=1.0, show_default=True, help="Leave files alone that landed since.")
@click.option("--delete-now", is_flag=True, help="Delete merged files at once: only where nothing reads meanwhile.")
def compact_command(older_than_hours: float, delete_now: bool) -> None:
    """Merge the many small files of a day into few, sorted by device and time."""
    try:
        outcome = compaction.compact(
            Home.from_environment().create(),
            older_than=timedelta(hours=older_than_hours),
            delete_now=delete_now,
            progress=lambda merge: click.echo(f"  {merge}", err=True),
        )
    except (OSError, RuntimeError) as error:
        click.echo(f"compact: {error}", err=True)
        sys.exit(1)
    click.echo(outcome.summary())


@click.command("retention")
@click.option("--samples-days", type=int, default=35, show_default=True, help="Days that samples are kept.")
@click.option("--processes-days", type=int, default=14, show_default=True, help="Days that processes are kept.")
@click.option("--minutes-days", type=int, default=35, show_default=True, help="Days that minutes are kept in the build.")
@click.option("--quarantine-days", type=int, default=90, show_default=True, help="Days that quarantined rows are kept.")
@click.option(
    "--publications",
    "kept",
    type=click.IntRange(min=publications.VERSIONS_KEPT),
    help=f"Versions kept [{publications.VERSIONS_KEPT_VARIABLE}, else {publications.VERSIONS_KEPT}].",
)
def retention_command(samples_days: int, processes_days: int, minutes_days: int, quarantine_days: int, kept: int | None) -> None:
    """Expire raw partitions and old publications by policy; month ends stay."""
    home = Home.from_environment().create()
    try:
        kept = publications.versions_kept() if kept is None else kept
        with locked(home):
            expired = retention.expire(
                home, samples_days=samples_days, processes_days=processes_days, quarantine_days=quarantine_days
            )
            minutes = expire_minutes(home, minutes_days)
            versions = publications.expire(home.published, kept, records.versions_in_mails(home))
    except (OSError, RuntimeError, ValueError, WarehouseLockedError) as error:
        click.echo(f"retention: {error}", err=True)
        sys.exit(1)
    for day in expired:
        click.echo(day.summary())
    for version in versions:
        click.echo(f"publication {version}")
    click.echo(f"retention: {len(expired)} days, {minutes:,} minutes and {len(versions)} publications let go")


def expire_minutes(home: Home, minutes_days: int) -> int:
    """Delete the minutes of sealed days that ended more than `minutes_days` days ago; how many there were.

    Minutes whose samples are still there stay, since a late row may want them.
    """
    if not home.build_database.exists():
        return 0
    oldest = datetime.now(UTC).date() - timedelta(days=minutes_days)
    with control.open_build_database(home) as connection:
        tables = {
            row[0] for row in connection.execute("select table_name from duckdb_tables() where schema_name = 'main'").fetchall()
        }
        if "int_gpu_minutes_rolled_up" not in tables:
            return 0
        return int(
            connection.execute(
                """delete from int_gpu_minutes_rolled_up
                where usage_date < ? and usage_date in (select unnest(?::date[]))""",
                [oldest, list(control.sealed_days(landed_tables(home.raw)))],
            ).fetchall()[0][0]
        )
