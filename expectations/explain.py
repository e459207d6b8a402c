"""`python -m expectations explain CHECK`: the rows of the build that break a rule, with their keys, and what it means.

The rows are asked for anew, in the build as it stands; the verdict only says which tables a rule failed in.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from expectations import suites
from expectations.gate import NothingBuiltError, tables_of
from expectations.rules import Table
from warehouse.database import connect, locked
from warehouse.home import Home
from warehouse.sql import compose, identifier, literals
from warehouse.verdict import Check, read_verdict

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

    from warehouse.sql import Sql

#: checks of the build as a whole, which have no rows
BUILD = "build"


class UnknownCheckError(Exception):
    """No table has a rule of that name; the message names the nearest."""


@dataclass(frozen=True)
class Offenders:
    """A rule of a table and the rows that break it: `columns` and the first `rows`, of `count` in all."""

    table: str
    check_id: str
    severity: str
    message: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    count: int
    #: what the gate last said of it, where it did
    observed: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def explain(
    home: Home, check_id: str, table_name: str | None = None, limit: int = 20, *, whole_rows: bool = False
) -> list[Offenders]:
    """The offending rows of a rule, in each table where the last verdict has it failed, else in each that has it.

    Raises UnknownCheckError, NothingBuiltError, WarehouseLockedError, duckdb.Error.
    """
    if not home.build_database.exists():
        raise NothingBuiltError("nothing is built yet: run `python -m warehouse build`")
    where, _, name = check_id.rpartition(".")
    table_name = table_name or where or None
    verdict = read_verdict(home)
    said = {(check.table, check.check_id): check for check in (verdict.checks if verdict else ())}
    with locked(home), connect(home.build_database, read_only=True) as connection:
        rules = _rules(tables_of(connection), name, table_name)
        told = [check for check in said.values() if check.check_id == name and table_name in (None, check.table)]
        if not rules and not told:
            raise UnknownCheckError(_unknown(name, table_name, said.values()))
        failed = {check.table for check in told if not check.success}
        chosen = [(table, rule) for table, rule in rules if table.name in failed] or rules
        ruled = {table.name for table, _ in rules}
        found = [_offenders(connection, table, rule, limit, whole_rows, said.get((table.name, name))) for table, rule in chosen]
        # what the gate checks beside the suites: the build itself, a table that is missing
        return found + [_without_rows(check) for check in told if check.table not in ruled]


def _rules(tables: Sequence[Table], name: str, table_name: str | None) -> list[tuple[Table, Expectation]]:
    from expectations.engine import check_id

    return [
        (table, rule)
        for table in tables
        if table_name in (None, table.name)
        for rule in suites.suite_of(table) or []
        if check_id(rule) == name
    ]


def _unknown(name: str, table_name: str | None, checks: Any) -> str:
    known = sorted({check.check_id for check in checks if table_name in (None, check.table)})
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.4)
    place = f" of {table_name}" if table_name else ""
    hint = (
        f"; did you mean {', '.join(near)}?" if near else "; `python -m expectations` lists what failed, gate_results all checks"
    )
    return f"there is no check {name!r}{place}{hint}"


def _offenders(
    connection: duckdb.DuckDBPyConnection, table: Table, rule: Expectation, limit: int, whole_rows: bool, said: Check | None
) -> Offenders:
    query, mentioned = _query(table, rule)
    counted = connection.execute(compose("select count(*) from ({query}) as broken", query=query)).fetchall()
    found = connection.execute(compose("select * from ({query}) as broken limit ?", query=query), [limit])
    columns = tuple(column[0] for column in found.description or ())
    rows = found.fetchall()
    shown = list(range(len(columns)))
    if not whole_rows and set(columns) >= table.columns.keys():
        wanted = _columns(table, mentioned)
        shown = [columns.index(column) for column in wanted]
    return Offenders(
        table=table.name,
        check_id=str((rule.meta or {})["check_id"]),
        severity=str(getattr(rule.severity, "value", rule.severity)),
        message=str(rule.notes),
        columns=tuple(columns[index] for index in shown),
        rows=tuple(tuple(row[index] for index in shown) for row in rows),
        count=int(counted[0][0]),
        observed=said.observed if said else "",
    )


def _query(table: Table, rule: Expectation) -> tuple[Sql, str]:
    """The rows that break a rule, and the rule's text, which names the columns it is about."""
    from expectations.engine import ExpectColumnValuesToBeInSet, ExpectNoRows, ExpectTableColumnsToMatchSet

    batch = identifier("main", table.name)
    if isinstance(rule, ExpectNoRows):
        text = str(rule.unexpected_rows_query)
        # the same table twice in a query: GX names the first, here the table's own name does
        return compose(text, batch=batch), text
    if isinstance(rule, ExpectColumnValuesToBeInSet):
        column, values = str(rule.column), [str(value) for value in rule.value_set or ()]
        template = "select * from {batch} where {column} not in ({values})"
        return compose(template, batch=batch, column=identifier(column), values=literals(values)), column
    if isinstance(rule, ExpectTableColumnsToMatchSet):
        missing = [column for column in rule.column_set or () if column not in table.columns]
        return compose("select unnest([{names}]::varchar[]) as missing_column", names=literals(missing)), ""
    # a count of rows has none to show
    return compose("select * from {batch} limit 0", batch=batch), ""


def _columns(table: Table, mentioned: str) -> list[str]:
    """The key of a table first, then the columns that the rule speaks of."""
    key = next(
        (list(rule.meta["key"]) for rule in suites.suite_of(table) or [] if rule.meta and rule.meta.get("key")),
        [],
    )
    words = set(re.findall(r"\w+", mentioned))
    wanted = [column for column in dict.fromkeys((*key, *table.columns)) if column in key or column in words]
    return wanted or list(table.columns)


def _without_rows(check: Check) -> Offenders:
    return Offenders(check.table, check.check_id, check.severity, check.message, (), (), check.unexpected_count, check.observed)
