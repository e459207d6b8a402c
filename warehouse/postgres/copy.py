"""Replace the copy in PostgreSQL by the published version, in one transaction.

Rows are deleted and sent anew inside the transaction that readers see nothing of until it commits. PostgreSQL keeps the old
rows for statements that began before, so that a reader sees the old version or the new one, in all tables, and waits for
neither. The tables themselves stay: so do grants, the views that others made of them, and their indexes. Only where a table's
columns or key change, or a table goes, is a lock needed that readers would wait for; it is tried for half a second at a time,
shorter than PostgreSQL takes to call two waiting transactions a deadlock and end one of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from adbc_driver_manager import dbapi as adbc
from adbc_driver_postgresql import dbapi as postgresql

from warehouse.database import connect
from warehouse.postgres.shape import CopiedTable, literal, quoted, read_tables

#: what was copied, when, of which version; a table that is listed here is ours to change and drop
COPIED = "copied_tables"
BATCH_ROWS = 100_000
LOCK_MILLISECONDS = 500
LOCK_PATIENCE_SECONDS = 120.0
#: SQLSTATE of a lock that was not granted in time, and of a deadlock that was ended
_LOCKED = ("55P03", "40P01")


class CopyError(Exception):
    """The copy could not be made; its readers keep the one before. The message says what to do."""


@dataclass(frozen=True)
class Copied:
    """`tables` and `rows` now in PostgreSQL; `is_new` is False where this very version was there already."""

    publication_id: str
    data_through_at: datetime | None
    tables: int
    rows: int
    is_new: bool


@dataclass(frozen=True)
class _There:
    """A table of the copy as PostgreSQL has it: column → (type, comment), the primary key's columns and its name."""

    columns: Mapping[str, tuple[str, str | None]]
    comment: str | None
    key: tuple[str, ...]
    key_name: str | None


def copy(file: Path, url: str, *, schema: str, patterns: Sequence[str], force: bool = False) -> Copied:
    """Make `schema` of the database at `url` (libpq: a URL or key=value words) the published version in `file`.

    Raises CopyError, shape.UnknownTableError, duckdb.Error, adbc_driver_manager.dbapi.Error.
    """
    # one open file is one version, whatever is published meanwhile
    with connect(file, read_only=True) as source:
        tables = read_tables(source, patterns)
        ((publication_id, published_at, data_through_at),) = source.execute(
            "select publication_id, published_at, data_through_at from publication"
        ).fetchall()
        with closing(postgresql.connect(url)) as target:
            rows = None if force else _rows_of_same(target, schema, tables, publication_id, published_at)
            is_new = rows is None
            if rows is None:
                rows = _replace(source, target, schema, tables, publication_id, published_at)
                _vacuum(url, schema, tables)
    return Copied(publication_id, data_through_at, len(tables), rows, is_new)


def _rows_of_same(
    target: adbc.Connection, schema: str, tables: Sequence[CopiedTable], publication_id: str, published_at: datetime
) -> int | None:
    """The rows of the copy where it is this version's already, these tables, else None."""
    if COPIED not in _there(target, schema):
        return None
    listed = _fetch(target, f"select table_name, row_count, publication_id, published_at from {_place(schema, COPIED)}")
    same = {str(name): int(rows) for name, rows, known, at in listed if (known, at) == (publication_id, published_at)}
    return sum(same.values()) if len(same) == len(listed) and same.keys() == {table.name for table in tables} else None


def _replace(
    source: duckdb.DuckDBPyConnection,
    target: adbc.Connection,
    schema: str,
    tables: Sequence[CopiedTable],
    publication_id: str,
    published_at: datetime,
) -> int:
    there = _prepare(target, schema, tables)
    copied_at = datetime.now(UTC).replace(tzinfo=None)
    total = 0
    for table in tables:
        rows = _send(source, target, schema, table)
        _comment(target, schema, table, there.get(table.name))
        values = ", ".join(map(literal, (table.name, str(rows), publication_id, str(published_at), str(copied_at))))
        _run(target, f"insert into {_place(schema, COPIED)} values ({values})")
        total += rows
    for table in tables:
        old = there.get(table.name)
        if table.key and (old is None or old.key != table.key):
            _run(target, f"alter table {_place(schema, table.name)} add primary key ({', '.join(map(quoted, table.key))})")
    target.commit()
    return total


def _prepare(target: adbc.Connection, schema: str, tables: Sequence[CopiedTable]) -> Mapping[str, _There]:
    """Empty tables of the wanted columns, seen by this transaction only; what was there before."""
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            if not _fetch(target, f"select pg_try_advisory_xact_lock(hashtext({literal('gpu_net copy ' + schema)}))")[0][0]:
                raise CopyError(f"another copy to schema {schema} is at work: wait until it has ended, then run this again")
            there = _there(target, schema)
            _shape(target, schema, tables, there)
            return there
        except adbc.Error as error:
            target.rollback()
            if error.sqlstate not in _LOCKED:
                raise
            if time.monotonic() > deadline:
                raise CopyError(
                    f"a table of schema {schema} is to change its columns, and readers have kept one open for "
                    f"{LOCK_PATIENCE_SECONDS:.0f} s: end their transactions (pg_stat_activity lists them), then run this again"
                ) from None
            time.sleep(0.2)


def _shape(target: adbc.Connection, schema: str, tables: Sequence[CopiedTable], there: Mapping[str, _There]) -> None:
    if not _fetch(target, f"select 1 from pg_namespace where nspname = {literal(schema)}"):
        _run(target, f"create schema {quoted(schema)}")
    place = _place(schema, COPIED)
    if COPIED not in there:
        _run(
            target,
            f"create table {place} (table_name text primary key, row_count bigint, publication_id text, published_at timestamp, "
            "copied_at timestamp)",
        )
        _run(target, f"comment on table {place} is 'Which version each table is of. One row per table that GPU Net copied.'")
    ours = {str(name) for (name,) in _fetch(target, f"select table_name from {place}")} & there.keys()
    foreign = sorted({table.name for table in tables} & there.keys() - ours)
    if foreign:
        raise CopyError(f"schema {schema} has tables that GPU Net did not make: {', '.join(foreign)}; name another --schema")
    _run(target, f"delete from {place}")
    gone = sorted(ours - {table.name for table in tables})
    changed = {table.name: found for table in tables if table.name in ours and (found := _changes(table, there[table.name]))}
    if gone or changed:
        _run(target, f"set local lock_timeout = {LOCK_MILLISECONDS}")
        _run(target, f"lock table {', '.join(_place(schema, name) for name in (*gone, *changed))} in access exclusive mode")
        _run(target, "set local lock_timeout = 0")
    for name in gone:
        _run(target, f"drop table {_place(schema, name)}")
    for table in tables:
        if table.name not in there:
            columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in table.columns.items())
            _run(target, f"create table {_place(schema, table.name)} ({columns})")
            continue
        _run(target, f"delete from {_place(schema, table.name)}")
        if table.name in changed:
            _run(target, f"alter table {_place(schema, table.name)} {', '.join(changed[table.name])}")


def _changes(table: CopiedTable, there: _There) -> list[str]:
    """What `alter table` must do to the emptied table."""
    changes = [f"drop constraint {quoted(there.key_name)}"] if there.key_name and there.key != table.key else []
    changes += [f"drop column {quoted(name)}" for name in there.columns if name not in table.columns]
    for name, kind in table.columns.items():
        if name not in there.columns:
            changes.append(f"add column {quoted(name)} {kind}")
        elif there.columns[name][0] != _spelled(kind):
            changes.append(f"alter column {quoted(name)} type {kind} using null")
        if there.key_name and name in there.key and name not in table.key and name in there.columns:
            changes.append(f"alter column {quoted(name)} drop not null")
    return changes


def _send(source: duckdb.DuckDBPyConnection, target: adbc.Connection, schema: str, table: CopiedTable) -> int:
    """Send a table's rows; how many."""
    reader = source.sql(table.select).to_arrow_reader(BATCH_ROWS)
    with target.cursor() as cursor:
        cursor.adbc_ingest(table.name, reader, mode="append", db_schema_name=schema)
    sent = int(_fetch(target, f"select count(*) from {_place(schema, table.name)}")[0][0])
    expected: int
    ((expected,),) = source.execute(f"select count(*) from main.{quoted(table.name)}").fetchall()
    if sent != expected:
        raise CopyError(f"{table.name}: {sent} of {expected} rows arrived; run this again")
    return sent


def _comment(target: adbc.Connection, schema: str, table: CopiedTable, there: _There | None) -> None:
    place = _place(schema, table.name)
    if table.comment and (there is None or there.comment != table.comment):
        _run(target, f"comment on table {place} is {literal(table.comment)}")
    for column, text in table.column_comments.items():
        if there is None or there.columns.get(column, ("", None))[1] != text:
            _run(target, f"comment on column {place}.{quoted(column)} is {literal(text)}")


def _there(target: adbc.Connection, schema: str) -> dict[str, _There]:
    """Every table of the schema as it is; types spelled as PostgreSQL does."""
    named = f"""from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where nspname = {literal(schema)} and relkind in ('r', 'p', 'v', 'm', 'f')"""
    tables: dict[str, str | None] = dict(
        _fetch(target, f"select relname::text, obj_description(pg_class.oid, 'pg_class') {named}")
    )
    columns: dict[str, dict[str, tuple[str, str | None]]] = {name: {} for name in tables}
    for table, column, kind, comment in _fetch(
        target,
        f"""select relname::text, attname::text, format_type(atttypid, atttypmod), col_description(attrelid, attnum)
        from pg_attribute join (select pg_class.oid, relname {named}) as named on attrelid = named.oid
        where attnum > 0 and not attisdropped order by attrelid, attnum""",
    ):
        columns[table][column] = (kind, comment)
    keys: dict[str, tuple[str, list[str]]] = {}
    for table, constraint, column in _fetch(
        target,
        f"""select relname::text, conname::text, attname::text
        from pg_constraint
        join (select pg_class.oid, relname {named}) as named on conrelid = named.oid
        cross join unnest(conkey) with ordinality as parts (number, place)
        join pg_attribute on attrelid = conrelid and attnum = number
        where contype = 'p' order by conrelid, place""",
    ):
        keys.setdefault(table, (constraint, []))[1].append(column)
    return {
        name: _There(
            columns[name], comment, tuple(keys[name][1]) if name in keys else (), keys[name][0] if name in keys else None
        )
        for name, comment in tables.items()
    }


def _spelled(kind: str) -> str:
    """A type as PostgreSQL's catalogue spells it."""
    return "timestamp without time zone" if kind == "timestamp" else kind.replace(", ", ",")


def _vacuum(url: str, schema: str, tables: Sequence[CopiedTable]) -> None:
    """Make room of the rows that were replaced, and count the new ones for the planner; only tidiness."""
    with closing(postgresql.connect(url, autocommit=True)) as tidying:
        places = ", ".join(_place(schema, table.name) for table in tables)
        _run(tidying, f"vacuum (analyze, skip_locked) {places}")


def _place(schema: str, table: str) -> str:
    return f"{quoted(schema)}.{quoted(table)}"


def _run(target: adbc.Connection, statement: str) -> None:
    with target.cursor() as cursor:
        cursor.execute(statement)


def _fetch(target: adbc.Connection, query: str) -> list[tuple[Any, ...]]:
    with target.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
