"""`python -m warehouse export-postgres`: the published tables in a schema of a PostgreSQL database."""

from __future__ import annotations

import re
import sys
import time
from typing import NoReturn
from urllib.parse import unquote

import click
import duckdb

from warehouse.home import Home
from warehouse.postgres.shape import DEFAULT_PATTERNS, UnknownTableError

URL_VARIABLE = "GPU_NET_POSTGRES_URL"
_WELL_FORMED = re.compile(r"postgres(ql)?://([^:@/?#]*(:[^:@/?#]*)?@)?[^@]*")


@click.command("export-postgres")
@click.option(
    "--url",
    envvar=URL_VARIABLE,
    help=f"postgresql://USER:PASSWORD@HOST/DATABASE, best given as {URL_VARIABLE}: others can read a command line.",
)
@click.option("--schema", envvar="GPU_NET_POSTGRES_SCHEMA", default="gpu_net", show_default=True, help="Made if it is absent.")
@click.option(
    "--tables",
    multiple=True,
    envvar="GPU_NET_POSTGRES_TABLES",
    default=DEFAULT_PATTERNS,
    show_default=True,
    help="Tables by name or pattern ('fct_gpu_ledger_hourly', 'fct_*'), again for each; what is not named leaves the copy.",
)
@click.option("--force", is_flag=True, help="Copy a version again that is there already.")
def export_postgres_command(url: str | None, schema: str, tables: tuple[str, ...], force: bool) -> None:
    """Copy the published tables to PostgreSQL, for Metabase, Grafana and whatever else cannot open a DuckDB file.

    In one transaction: readers of the copy see the version before or this one. Types, comments and keys come along; grants
    and views on the copy stay.
    """
    if not url:
        _fail(f"name the database: export {URL_VARIABLE}=postgresql://USER:PASSWORD@HOST/DATABASE", code=2)
    if "://" in url and not _WELL_FORMED.fullmatch(url):
        # libpq would take the password apart and show a part of it as a host or a port
        _fail(f"{URL_VARIABLE}: write @ : / ? # and % of a user name or password as %40 %3A %2F %3F %23 %25", code=2)
    file = Home.from_environment().published_database
    if not file.exists():
        _fail("nothing is published yet: land a source, then `python -m warehouse run`")
    try:
        from adbc_driver_manager import dbapi as adbc

        from warehouse.postgres.copy import CopyError, copy
    except ImportError:
        _fail("the PostgreSQL driver is not installed: pip install 'gpu-net[postgres]'")
    started = time.monotonic()
    try:
        copied = copy(file, url, schema=schema, patterns=tables, force=force)
    except (CopyError, UnknownTableError, duckdb.Error, adbc.Error) as error:
        _fail(f"export-postgres failed, its readers keep what they have: {without_password(str(error), url)}")
    through = f", data through {copied.data_through_at:%Y-%m-%d %H:%M} UTC" if copied.data_through_at else ""
    what = f"{copied.tables} tables, {copied.rows:,} rows in schema {schema}"
    if copied.is_new:
        click.echo(f"copied {copied.publication_id}{through}: {what}, {time.monotonic() - started:.1f} s")
    else:
        click.echo(f"unchanged: {copied.publication_id}{through} is there already: {what}")


def without_password(message: str, url: str) -> str:
    """The message, with the password of the URL (or of key=value words) taken out."""
    found = set(re.findall(r"password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)", url, re.IGNORECASE))
    found |= set(re.findall(r"://[^:@]*:([^@]*)@", url))
    for secret in sorted({*found, *map(unquote, found)} - {""}, key=len, reverse=True):
        message = message.replace(secret, "***")
    return message


def _fail(message: str, code: int = 1) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)
