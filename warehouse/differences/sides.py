"""The two files of a comparison: found by the version's name or by path, opened together, read-only."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

import duckdb

from warehouse.differences.records import VersionRecord
from warehouse.home import Home
from warehouse.publication import publications
from warehouse.publication.publications import Contents, Manifest, Version
from warehouse.publication.rollback import withdrawn_versions
from warehouse.publication.tables import NO_DAY, WHOLE, PublishedTable, contents_of, published_tables
from warehouse.sql import Sql, compose, identifier, literal


class NoVersionError(Exception):
    """There is no such published version; the message says which there are."""


def find_file(home: Home, name: str) -> Path:
    """The database of a version's name (`v000012`, `12`, `current`), or a path to one; raises NoVersionError."""
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / publications.DATABASE
    if path.is_file():
        return path.resolve()
    every = publications.versions(home.published) if home.published.exists() else []
    version = publications.find(home.published, name) if every else None
    if version:
        return version.database
    current = publications.current_version(home.published) if every else None
    if name == publications.CURRENT and current:
        return current.database
    known = ", ".join(version.name for version in every) or "none: nothing is published yet"
    raise NoVersionError(f"there is no published version or file {name!r}; versions in {home.published}: {known}")


def previous_and_current(home: Home) -> tuple[Version, Version]:
    """The version readers see and the one they saw before it; raises NoVersionError where there are not two.

    A version that was rolled back is none that they saw before.
    """
    every = publications.versions(home.published) if home.published.exists() else []
    current = publications.current_version(home.published) if every else None
    if current is None:
        raise NoVersionError("nothing is published yet: run `python -m warehouse run`")
    withdrawn = withdrawn_versions(home.published)
    older = [version for version in every if version.number < current.number and version.name not in withdrawn]
    if not older:
        raise NoVersionError(f"{current.name} is the only version kept, there is none before it to compare with")
    return older[-1], current


@dataclass(frozen=True)
class Side:
    """One of the two files, attached to `connection` as `catalog`."""

    connection: duckdb.DuckDBPyConnection
    catalog: str
    file: Path

    @cached_property
    def record(self) -> VersionRecord:
        query = "select publication_id, build_id, published_at, data_through_at, version from {table}"
        row = self.connection.execute(compose(query, table=self.table("publication"))).fetchone()
        if row is None:
            raise NoVersionError(f"{self.file} is no published database: its table `publication` is empty")
        return VersionRecord(*row)

    @cached_property
    def tables(self) -> dict[str, PublishedTable]:
        return {table.name: table for table in published_tables(self.connection, self.catalog)}

    @cached_property
    def manifest(self) -> Manifest | None:
        """None beside a file that was copied without it."""
        try:
            return Manifest.read(self.file.parent)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def contents(self, table: str, *, from_manifest: bool) -> Contents:
        """Row count and hash per day of a table: from the manifest without reading a row, else from the rows."""
        if table not in self.tables:
            return {}
        if from_manifest and self.manifest and table in self.manifest.contents:
            return self.manifest.contents[table]
        return contents_of(self.connection, self.catalog, self.tables[table])

    def table(self, name: str) -> Sql:
        """A table's full name."""
        return identifier(self.catalog, "main", name)

    def has(self, table: str, columns: Sequence[str]) -> bool:
        return table in self.tables and set(columns) <= self.tables[table].columns.keys()


@contextmanager
def opened(before: Path, after: Path) -> Iterator[tuple[Side, Side]]:
    """Both files attached to one connection in UTC, read-only; raises NoVersionError, duckdb.Error.

    The same file twice is attached once, since DuckDB refuses the second.
    """
    connection = duckdb.connect()
    with tempfile.TemporaryDirectory(prefix="gpu-net-diff-") as spill:
        try:
            connection.execute("set TimeZone = 'UTC'")
            connection.execute(compose("set temp_directory = {spill}", spill=literal(spill)))
            older = Side(connection, "older", before)
            connection.execute(compose("attach {file} as older (read_only)", file=literal(before)))
            newer = older
            if before.resolve() != after.resolve():
                newer = Side(connection, "newer", after)
                connection.execute(compose("attach {file} as newer (read_only)", file=literal(after)))
            for side in (older, newer):
                _check_is_published(side)
            yield older, newer
        finally:
            connection.close()


def _check_is_published(side: Side) -> None:
    found = side.connection.execute(
        "select 1 from duckdb_tables() where database_name = ? and table_name = 'publication'", [side.catalog]
    ).fetchone()
    if not found:
        raise NoVersionError(f"{side.file} is no published database: it has no table `publication`")


def changed_days(before: Contents, after: Contents) -> tuple[date, ...]:
    """The days whose content differs; a table without days, or rows without one, have none."""
    buckets = sorted(bucket for bucket in before.keys() | after.keys() if before.get(bucket) != after.get(bucket))
    return tuple(date.fromisoformat(bucket) for bucket in buckets if bucket not in (WHOLE, NO_DAY))
