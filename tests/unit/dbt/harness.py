"""Run single dbt models on hand-made inputs, without dbt: rendered with a small jinja environment, executed by DuckDB.

A model's `ref`s and `source`s are tables of the names `name` and `source__name`; macros are the project's own, in their
DuckDB dialect. What needs dbt itself (contracts, the graph, materialisation) is tested by building.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any
from unittest import mock

import duckdb
import jinja2
import yaml

DBT_PROJECT = Path(__file__).resolve().parents[3] / "dbt_project"

Row = Mapping[str, Any]

#: columns of an input with their types, in order; those a row does not name are null
Shape = Mapping[str, str]


class _Returned(Exception):  # noqa: N818 - a signal, not an error
    def __init__(self, value: Any) -> None:
        self.value = value


class Harness:
    """A DuckDB database with a session zone that is not UTC, as on a laptop, and the models of the project."""

    def __init__(self, *, session_zone: str = "America/New_York") -> None:
        self.connection = duckdb.connect()
        self.connection.execute(f"set TimeZone = '{session_zone}'")
        self.connection.execute("set threads = 1")
        self.variables: dict[str, Any] = yaml.safe_load((DBT_PROJECT / "dbt_project.yml").read_text())["vars"]
        self._environment = _environment(self.variables)

    def give(self, name: str, shape: Shape, rows: Sequence[Row]) -> None:
        """Create an input table; a column that the shape lacks is an error, so that a typo cannot pass."""
        columns = ", ".join(f"{column} {kind}" for column, kind in shape.items())
        self.connection.execute(f"create or replace table {name} ({columns})")
        for row in rows:
            names = ", ".join(row)
            marks = ", ".join("?" for _ in row)
            self.connection.execute(f"insert into {name} ({names}) values ({marks})", list(row.values()))

    def give_seed(self, name: str) -> None:
        """Load a seed with the types its YAML declares."""
        types = yaml.safe_load((DBT_PROJECT / "seeds" / f"{name}.yml").read_text())["seeds"][0]["config"]["column_types"]
        declared = ", ".join(f"'{column}': '{kind}'" for column, kind in types.items())
        path = DBT_PROJECT / "seeds" / f"{name}.csv"
        self.connection.execute(
            f"create or replace table {name} as select * from read_csv('{path}', header = true, columns = {{{declared}}})"
        )

    def run(self, name: str) -> list[dict[str, Any]]:
        """Build a model as a table of its name and return its rows, ordered by all columns."""
        self.connection.execute(f"create or replace table {name} as {self.render(name)}")
        return self.rows(f"select * from {name} order by all nulls last")

    def rows(self, query: str) -> list[dict[str, Any]]:
        cursor = self.connection.execute(query)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def render(self, name: str, **context: Any) -> str:
        """The SQL of a model; `context` is what dbt would know besides, such as its `graph`."""
        (path,) = (DBT_PROJECT / "models").rglob(f"{name}.sql")
        return self.render_text(path.read_text(), **context)

    def render_text(self, text: str, **context: Any) -> str:
        """Text that calls the project's macros, as SQL."""
        template = jinja2.Template.from_code(self._environment, _compile(text), self._environment.make_globals(None))
        with mock.patch.object(jinja2.runtime.Macro, "_invoke", _invoke):
            return template.render(context)


def _environment(variables: Mapping[str, Any]) -> jinja2.Environment:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined)
    environment.globals |= {
        "ref": lambda name: name,
        "source": lambda source, name: f"{source}__{name}",
        "var": lambda name: variables[name],
        "config": lambda **_: "",
        "is_incremental": lambda: False,
        "execute": True,
        "flags": SimpleNamespace(FULL_REFRESH=True),
        "return": _return,
        "dbt": SimpleNamespace(type_string=lambda: "varchar"),
        "adapter": SimpleNamespace(dispatch=_dispatch),
    }
    return environment


@cache
def _compile(text: str) -> CodeType:
    """A text after all macros: one template, so that macros see each other whatever file they are in. Compiling takes longest."""
    return _environment({}).compile(_macros() + text)


@cache
def _macros() -> str:
    """The project's macros; dbt's own tags are none of jinja's."""
    text = "".join(path.read_text() for path in sorted((DBT_PROJECT / "macros").glob("*.sql")))
    return re.sub(r"{%-?\s*(materialization|test)\b.*?{%-?\s*end\1\s*-?%}", "", text, flags=re.DOTALL)


@jinja2.pass_context
def _dispatch(context: jinja2.runtime.Context, name: str, _package: str | None = None) -> Any:
    return context.vars.get(f"duckdb__{name}") or context.vars[f"default__{name}"]


def _return(value: Any) -> None:
    raise _Returned(value)


_invoke_macro = jinja2.runtime.Macro._invoke


def _invoke(self: jinja2.runtime.Macro, arguments: list[Any], autoescape: bool) -> Any:
    """A macro's value is what it `return`s, as in dbt, else its text."""
    try:
        return _invoke_macro(self, arguments, autoescape)
    except _Returned as returned:
        return returned.value
