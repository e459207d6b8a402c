"""Compare what two databases, built or published, show to readers, whatever order it was landed and built in."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from warehouse.publication.tables import PREFIXES, TABLES

#: when something was landed, built or published, and by which file, is not what the tables are about
NOT_CONTENT = re.compile(r"landed_at|built_at|build_id|published_at|publication_id|collection_run_id|started_by|line_id$")
#: one row per landing
NOT_COMPARED = {"fct_collection_runs"}


def contents(database: Path) -> dict[str, tuple[int, str]]:
    """Table → number of rows and a hash over its sorted rows. Doubles are taken to 9 digits: sums may be added in any order.

    A figure halfway between two of them is moved off by more than that makes, so that it is always rounded the same way.
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        return {
            table: connection.execute(
                f"select count(*), coalesce(md5(string_agg(line, chr(10) order by line)), '') from ({lines(connection, table)})"
            ).fetchall()[0]
            for table in tables(connection)
        }


def differing_rows(one: Path, other: Path, table: str, limit: int = 5) -> list[str]:
    """A few rows that only one of two databases has, for the message of a failed test."""
    with duckdb.connect() as connection:
        found: list[str] = []
        for name, path in (("one", one), ("other", other)):
            connection.execute(f"attach '{path}' as {name} (read_only)")
        rows = {}
        for name in ("one", "other"):
            connection.execute(f"use {name}")
            rows[name] = [row[0] for row in connection.execute(lines(connection, table)).fetchall()]
        for name, mine, theirs in (("one", rows["one"], rows["other"]), ("other", rows["other"], rows["one"])):
            found += [f"only in {name}: {line}" for line in sorted(set(mine) - set(theirs))[:limit]]
        return found


def tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The tables for readers, but those about publications and landings."""
    rows = connection.execute(
        "select table_name from information_schema.tables where table_schema = 'main' order by table_name"
    ).fetchall()
    return [name for (name,) in rows if (name.startswith(PREFIXES) or name in TABLES) and name not in NOT_COMPARED]


def lines(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """A query of one text per row of the table, without what is no content."""
    described = [(row[0], row[1]) for row in connection.execute(f"describe main.{table}").fetchall()]
    cells = [
        f"coalesce(cast({_to_nine_digits(name) if kind in ('DOUBLE', 'FLOAT') else _quoted(name)} as varchar), 'null')"
        for name, kind in sorted(described)
        if not NOT_CONTENT.search(name)
    ]
    return f"select concat_ws('|', {', '.join(cells)}) as line from main.{table}"


def _to_nine_digits(name: str) -> str:
    return f"round({_quoted(name)} * (1 + 1e-12) + 0.0, 9)"


def _quoted(name: str) -> str:
    return f'"{name}"'
