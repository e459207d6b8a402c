"""The one place where a value or a name becomes a part of SQL text.

Values are bound (`?`, `$name`) wherever DuckDB takes a parameter. Where it takes none (file names of ATTACH and of views, names
of tables and columns) `literal` and `identifier` quote them, and `compose` puts them into a template that stands in the code.
`tests/project/test_sql_text.py` refuses every other text that is put together on its way to `execute`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

__all__ = ["Sql", "compose", "identifier", "identifiers", "joined", "literal", "literals", "parameters", "type_name"]


_TYPE = re.compile(r'[A-Za-z][\w (),"\[\]]*')


class Sql(str):
    """Text that is SQL: written in the code, or quoted here. Nothing else makes one."""

    __slots__ = ()


def literal(value: str | Path | date | datetime | Decimal | int | float | bool | None) -> Sql:
    """A value as SQL writes it; TypeError for a kind of value that has no such form here."""
    if value is None:
        return Sql("null")
    if isinstance(value, bool):
        return Sql(str(value).lower())
    if isinstance(value, int | Decimal):
        return Sql(value)
    if isinstance(value, float):
        return Sql(f"cast({_quoted(repr(value))} as double)")
    if isinstance(value, datetime):
        return Sql(f"timestamp {_quoted(value.isoformat(' '))}")
    if isinstance(value, date):
        return Sql(f"date {_quoted(value.isoformat())}")
    if isinstance(value, str | Path):
        return Sql(_quoted(str(value)))
    raise TypeError(f"{type(value).__name__} has no SQL literal here")


def literals(values: Iterable[str | Path | date]) -> Sql:
    """Several literals with commas between; empty for none."""
    return joined(", ", map(literal, values))


def identifier(*names: str) -> Sql:
    """A name of a table or column in double quotes; several are joined by dots (`catalog.schema.table`)."""
    return joined(".", (Sql('"' + _without_null(name).replace('"', '""') + '"') for name in names))


def identifiers(names: Iterable[str]) -> Sql:
    """Several names with commas between."""
    return joined(", ", map(identifier, names))


def type_name(kind: str) -> Sql:
    """The name of a type as DuckDB or the landing shape says it; ValueError where it is none."""
    if not _TYPE.fullmatch(kind):
        raise ValueError(f"{kind!r} names no type of a column")
    return Sql(kind)


def parameters(count: int) -> Sql:
    """So many places for bound values."""
    return Sql(", ".join("?" * count))


def joined(separator: str, parts: Iterable[Sql]) -> Sql:
    """Parts of SQL with a separator between; TypeError where one of them is plain text."""
    return Sql(separator.join(_checked(part) for part in parts))


def compose(template: str, **parts: Sql) -> Sql:
    """The template with `{name}` replaced by a part; TypeError where a part is plain text, so that no value slips in unquoted."""
    return Sql(_Formatter().vformat(template, (), {name: _checked(part) for name, part in parts.items()}))


class _Formatter(string.Formatter):
    """Only whole names: no attribute, index, conversion or format of a part."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        return kwargs[field_name], field_name


def _checked(part: Sql) -> Sql:
    if not isinstance(part, Sql):
        raise TypeError(f"{part!r} is no SQL; bind it, or quote it by literal() or identifier()")
    return part


def _quoted(text: str) -> str:
    return "'" + _without_null(text).replace("'", "''") + "'"


def _without_null(text: str) -> str:
    # C libraries end a text at NUL: what follows it would be left out in silence
    if "\0" in text:
        raise ValueError("a NUL character cannot stand in SQL")
    return text
