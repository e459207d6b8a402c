"""What a published table looks like in PostgreSQL: its columns' types, its key, its comments.

The types and comments are those of the published file, and the key is the model's `unique_key`
test, the same that the build has held it to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import duckdb
import yaml

from warehouse.build import DBT_PROJECT
from warehouse.sql import Sql, compose, identifier, identifiers, joined, literal

#: always copied: which version this is, what the gate found, what every column means
ALWAYS = ("publication", "gate_results", "data_dictionary")
DEFAULT_PATTERNS = ("mart_*", "dim_*", "audit_*")
#: DuckDB type → PostgreSQL type; a type that is not here arrives as text
TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "VARCHAR": "text",
}
#: a B-tree entry of PostgreSQL holds at most 2,704 bytes
KEY_BYTES = 2_600


class UnknownTableError(Exception):
    """A pattern that no published table matches."""


@dataclass(frozen=True)
class CopiedTable:
    """A table as it is to stand in PostgreSQL; `columns` maps name to type, in order, `key` is empty where there is none."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    comment: str | None
    column_comments: Mapping[str, str]

    @property
    def select(self) -> Sql:
        """SQL for DuckDB: the rows in the types in which they are sent."""
        columns = joined(", ", (_sent(name, kind) for name, kind in self.columns.items()))
        return compose("select {columns} from {table}", columns=columns, table=identifier("main", self.name))


def read_tables(source: duckdb.DuckDBPyConnection, patterns: Sequence[str]) -> list[CopiedTable]:
    """The published tables that the shell patterns name, and ALWAYS; raises UnknownTableError."""
    rows = source.execute(
        """select table_name, column_name, data_type from duckdb_columns()
        where database_name = current_database() and schema_name = 'main' order by table_name, column_index"""
    ).fetchall()
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        columns.setdefault(table, {})[column] = _type_of(kind)
    idle = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in columns)]
    if idle:
        raise UnknownTableError(f"no published table is called {', '.join(idle)}; there are {', '.join(columns)}")
    wanted = [name for name in columns if name in ALWAYS or any(fnmatchcase(name, pattern) for pattern in patterns)]
    comments = _comments(source)
    keys = declared_keys(wanted)
    return [
        CopiedTable(
            name,
            columns[name],
            _usable_key(source, name, columns[name], keys.get(name, ())),
            comments.get(name, {}).get(None),
            {column: text for column, text in comments.get(name, {}).items() if column in columns[name]},
        )
        for name in wanted
    ]


def _sent(column: str, kind: str) -> Sql:
    # PostgreSQL's text holds every character but U+0000
    text = "replace(cast({name} as varchar), chr(0), '') as {name}"
    return compose(text if kind == "text" else "{name}", name=identifier(column))


def _type_of(kind: str) -> str:
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return f"numeric({decimal[1]}, {decimal[2]})" if decimal else TYPES.get(kind, "text")


def _comments(source: duckdb.DuckDBPyConnection) -> dict[str, dict[str | None, str]]:
    """Table → column (None: the table itself) → what the published file says it is."""
    found: dict[str, dict[str | None, str]] = {}
    for table, column, comment in source.execute(
        """select table_name, null, comment from duckdb_tables() where database_name = current_database()
        union all
        select table_name, column_name, comment from duckdb_columns() where database_name = current_database()"""
    ).fetchall():
        if comment:
            found.setdefault(table, {})[column] = comment
    return found


def declared_keys(tables: Iterable[str], models: Path = DBT_PROJECT / "models") -> dict[str, tuple[str, ...]]:
    """Table → the columns of its model's `unique_key` test."""
    wanted = set(tables)
    found: dict[str, tuple[str, ...]] = {}
    for path in models.rglob("*.yml"):
        if path.stem not in wanted:
            continue
        declared: list[dict[str, Any]] = yaml.safe_load(path.read_text()).get("models", [])
        for test in (test for model in declared if model["name"] == path.stem for test in model.get("data_tests") or []):
            if isinstance(test, dict) and "unique_key" in test:
                found[path.stem] = tuple(test["unique_key"]["arguments"]["columns"])
    return found


def _usable_key(
    source: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], key: tuple[str, ...]
) -> tuple[str, ...]:
    """The key, or () where PostgreSQL would refuse it: a column is absent or null, two rows are one, a text is too long."""
    if not key or not set(key) <= set(columns):
        return ()
    row = source.execute(
        compose(
            """select count(*) = count(distinct ({names})), count(*) filter (where {is_null}) = 0,
                coalesce(max({length}), 0) <= {most}
            from {table}""",
            names=identifiers(key),
            is_null=joined(" or ", (compose("{name} is null", name=identifier(name)) for name in key)),
            length=joined(" + ", (compose("strlen(cast({name} as varchar))", name=identifier(name)) for name in key)),
            most=literal(KEY_BYTES),
            table=identifier("main", table),
        )
    ).fetchone()
    return key if row and all(row) else ()
