"""The published tables as Parquet beside the database, for readers that have no DuckDB: made with the version, verified with it.

published/v000123/parquet/<table>.parquet                      one file per table
published/v000123/parquet/<table>/dt=2026-11-01/data.parquet   tables of hour grain: one file per UTC day

A file whose rows are those of the version before is a hard link to its file (a copy where the file system has no links), so
that an export costs what changed. Written files are read again and hold, by count and hash, the rows of the build. Files of a
version never change, so a reader of several follows `published/current` once (`realpath`) and reads below what it leads to: one
that goes through the link for each file could meet two versions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from warehouse.database import connect
from warehouse.publication.publications import Contents, Manifest
from warehouse.publication.tables import PublishedTable, contents_of_relation
from warehouse.sql import Sql, compose, identifier, literal

FOLDER = "parquet"
#: tables of hour grain grow by a day's rows a day: only the days that changed are written
BY_DAY_SUFFIX = "_hourly"
#: tables that a version has beside those of the build: small, and other in each
OWN_TABLES = ("publication", "gate_results")


class ExportError(Exception):
    """A Parquet file does not hold the rows it was made of."""


@dataclass(frozen=True)
class Export:
    """How many files were written and how many are those of the version before."""

    written: int
    linked: int


def is_by_day(table: PublishedTable) -> bool:
    return table.name.endswith(BY_DAY_SUFFIX) and table.day_column is not None


def export(
    database: Path,
    folder: Path,
    tables: Mapping[str, PublishedTable],
    contents: Mapping[str, Contents],
    before: tuple[Path, Manifest] | None,
) -> Export:
    """Write the tables of a published `database` below `folder`; `before` is the folder of the version before and its manifest.

    Raises ExportError, OSError, duckdb.Error.
    """
    written = linked = 0
    folder.mkdir()
    with connect(database, read_only=True) as connection:
        catalog = str(connection.execute("select current_database()").fetchall()[0][0])
        for table in tables.values():
            for name, buckets in _files(table, contents[table.name]).items():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if before and _is_same(table, buckets, before) and _link(before[0] / name, target):
                    linked += 1
                    continue
                _write(connection, catalog, table, buckets, target)
                written += 1
        for name in OWN_TABLES:
            relation = identifier(catalog, "main", name)
            _copy(connection, compose("select * from {relation}", relation=relation), folder / f"{name}.parquet")
            written += 1
    return Export(written, linked)


def _files(table: PublishedTable, contents: Contents) -> dict[str, Contents]:
    """Name of a file below the folder → what it is to hold. A table without rows is a file without rows."""
    if is_by_day(table) and contents:
        return {f"{table.name}/dt={bucket}/data.parquet": {bucket: contents[bucket]} for bucket in sorted(contents)}
    return {f"{table.name}.parquet": contents}


def _is_same(table: PublishedTable, buckets: Contents, before: tuple[Path, Manifest]) -> bool:
    """Whether the version before held the same rows in these buckets; hashes are comparable within one DuckDB version only."""
    manifest = before[1]
    if manifest.duckdb_version != duckdb.__version__ or manifest.columns.get(table.name) != table.columns:
        return False
    old = manifest.contents[table.name]
    return (
        all(old.get(bucket) == content for bucket, content in buckets.items()) if is_by_day(table) and buckets else old == buckets
    )


def _link(source: Path, target: Path) -> bool:
    """Let `target` be the file `source`; false where that is not there."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        return False
    except OSError:
        # no links on this file system, or too many of this file
        shutil.copyfile(source, target)
    return True


def _write(connection: duckdb.DuckDBPyConnection, catalog: str, table: PublishedTable, buckets: Contents, target: Path) -> None:
    within = table.within(list(buckets)) if is_by_day(table) and buckets else literal(True)
    query = compose(
        "select {columns} from {relation} where {within}",
        columns=table.select,
        relation=identifier(catalog, "main", table.name),
        within=within,
    )
    _copy(connection, query, target)
    if (
        contents_of_relation(connection, compose("read_parquet({file}, hive_partitioning = false)", file=literal(target)), table)
        != buckets
    ):
        raise ExportError(f"{target.name} of {table.name} does not hold the rows of the build")


def _copy(connection: duckdb.DuckDBPyConnection, query: Sql, target: Path) -> None:
    statement = "copy ({query}) to {file} (format parquet, compression zstd)"
    connection.execute(compose(statement, query=query, file=literal(target)))
