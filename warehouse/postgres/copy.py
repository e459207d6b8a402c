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
from warehouse.postgres.shape import CopiedTable, read_tables
from warehouse.sql import Sql, compose, identifier, identifiers, joined, literal, type_name

#: what was copied, when, of which version; a table that is listed here is ours to change and drop
COPIED = "copied_tables"
_COPIED = """create table {place} (
    table_name text primary key, row_count bigint, publication_id text, published_at timestamp, copied_at timestamp)"""
_COPIED_MEANS = "Which version each table is of. One row per table that GPU Net copied."
#: what a schema has, from PostgreSQL's catalogue
_TABLES = """(
    select pg_class.oid, cast(relname as text) as relname, obj_description(pg_class.oid, 'pg_class') as comment
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where nspname = {schema} and relkind in ('r', 'p', 'v', 'm', 'f')) as named"""
_COLUMNS = """select relname, cast(attname as text), format_type(atttypid, atttypmod), col_description(attrelid, attnum)
    from pg_attribute join {named} on attrelid = named.oid
    where attnum > 0 and not attisdropped order by attrelid, attnum"""
_KEYS = """select relname, cast(conname as text), cast(attname as text)
    from pg_constraint join {named} on conrelid = named.oid
    cross join unnest(conkey) with ordinality as parts (number, place)
    join pg_attribute on attrelid = conrelid and attnum = number
    where contype = 'p' order by conrelid, place"""
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
    listed = _fetch(
        target,
        compose("select table_name, row_count, publication_id, published_at from {place}", place=identifier(schema, COPIED)),
    )
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
        row: list[str | int | datetime] = [table.name, rows, publication_id, published_at, copied_at]
        values = joined(", ", map(literal, row))
        _run(target, compose("insert into {place} values ({values})", place=identifier(schema, COPIED), values=values))
        total += rows
    for table in tables:
        old = there.get(table.name)
        if table.key and (old is None or old.key != table.key):
            place, key = identifier(schema, table.name), identifiers(table.key)
            _run(target, compose("alter table {place} add primary key ({key})", place=place, key=key))
    target.commit()
    return total


def _prepare(target: adbc.Connection, schema: str, tables: Sequence[CopiedTable]) -> Mapping[str, _There]:
    """Empty tables of the wanted columns, seen by this transaction only; what was there before."""
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            turn = compose("select pg_try_advisory_xact_lock(hashtext({name}))", name=literal(f"gpu_net copy {schema}"))
            if not _fetch(target, turn)[0][0]:
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
    if not _fetch(target, compose("select 1 from pg_namespace where nspname = {schema}", schema=literal(schema))):
        _run(target, compose("create schema {schema}", schema=identifier(schema)))
    copied = identifier(schema, COPIED)
    if COPIED not in there:
        _run(target, compose(_COPIED, place=copied))
        _run(target, compose("comment on table {place} is {text}", place=copied, text=literal(_COPIED_MEANS)))
    ours = {str(name) for (name,) in _fetch(target, compose("select table_name from {place}", place=copied))} & there.keys()
    foreign = sorted({table.name for table in tables} & there.keys() - ours)
    if foreign:
        raise CopyError(f"schema {schema} has tables that GPU Net did not make: {', '.join(foreign)}; name another --schema")
    _run(target, compose("delete from {place}", place=copied))
    gone = sorted(ours - {table.name for table in tables})
    changed = {table.name: found for table in tables if table.name in ours and (found := _changes(table, there[table.name]))}
    if gone or changed:
        _run(target, compose("set local lock_timeout = {most}", most=literal(LOCK_MILLISECONDS)))
        places = joined(", ", (identifier(schema, name) for name in (*gone, *changed)))
        _run(target, compose("lock table {places} in access exclusive mode", places=places))
        _run(target, compose("set local lock_timeout = 0"))
    for name in gone:
        _run(target, compose("drop table {place}", place=identifier(schema, name)))
    for table in tables:
        place = identifier(schema, table.name)
        if table.name not in there:
            columns = joined(
                ", ",
                (compose("{name} {kind}", name=identifier(name), kind=type_name(kind)) for name, kind in table.columns.items()),
            )
            _run(target, compose("create table {place} ({columns})", place=place, columns=columns))
            continue
        _run(target, compose("delete from {place}", place=place))
        if table.name in changed:
            changes = joined(", ", changed[table.name])
            _run(target, compose("alter table {place} {changes}", place=place, changes=changes))


def _changes(table: CopiedTable, there: _There) -> list[Sql]:
    """What `alter table` must do to the emptied table."""
    changes = []
    if there.key_name and there.key != table.key:
        changes.append(compose("drop constraint {name}", name=identifier(there.key_name)))
    for old in there.columns.keys() - table.columns.keys():
        changes.append(compose("drop column {name}", name=identifier(old)))
    for column, kind in table.columns.items():
        name, wanted = identifier(column), type_name(kind)
        if column not in there.columns:
            changes.append(compose("add column {name} {kind}", name=name, kind=wanted))
            continue
        if there.columns[column][0] != _spelled(kind):
            changes.append(compose("alter column {name} type {kind} using null", name=name, kind=wanted))
        if column in there.key and column not in table.key:
            changes.append(compose("alter column {name} drop not null", name=name))
    return changes


def _send(source: duckdb.DuckDBPyConnection, target: adbc.Connection, schema: str, table: CopiedTable) -> int:
    """Send a table's rows; how many."""
    reader = source.sql(table.select).to_arrow_reader(BATCH_ROWS)
    with target.cursor() as cursor:
        cursor.adbc_ingest(table.name, reader, mode="append", db_schema_name=schema)
    count = "select count(*) from {table}"
    sent = int(_fetch(target, compose(count, table=identifier(schema, table.name)))[0][0])
    expected: int
    ((expected,),) = source.execute(compose(count, table=identifier("main", table.name))).fetchall()
    if sent != expected:
        raise CopyError(f"{table.name}: {sent} of {expected} rows arrived; run this again")
    return sent


def _comment(target: adbc.Connection, schema: str, table: CopiedTable, there: _There | None) -> None:
    if table.comment and (there is None or there.comment != table.comment):
        place = identifier(schema, table.name)
        _run(target, compose("comment on table {place} is {text}", place=place, text=literal(table.comment)))
    for column, text in table.column_comments.items():
        if there is None or there.columns.get(column, ("", None))[1] != text:
            place = identifier(schema, table.name, column)
            _run(target, compose("comment on column {place} is {text}", place=place, text=literal(text)))


def _there(target: adbc.Connection, schema: str) -> dict[str, _There]:
    """Every table of the schema as it is; types spelled as PostgreSQL does."""
    named = compose(_TABLES, schema=literal(schema))
    tables: dict[str, str | None] = dict(_fetch(target, compose("select relname, comment from {named}", named=named)))
    columns: dict[str, dict[str, tuple[str, str | None]]] = {name: {} for name in tables}
    for table, column, kind, comment in _fetch(target, compose(_COLUMNS, named=named)):
        columns[table][column] = (kind, comment)
    keys: dict[str, tuple[str, list[str]]] = {}
    for table, constraint, column in _fetch(target, compose(_KEYS, named=named)):
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
        places = joined(", ", (identifier(schema, table.name) for table in tables))
        _run(tidying, compose("vacuum (analyze, skip_locked) {places}", places=places))


def _run(target: adbc.Connection, statement: Sql) -> None:
    with target.cursor() as cursor:
        # the driver takes no subclass of str
        cursor.execute(str(statement))


def _fetch(target: adbc.Connection, query: Sql) -> list[tuple[Any, ...]]:
    with target.cursor() as cursor:
        cursor.execute(str(query))
        return list(cursor.fetchall())
