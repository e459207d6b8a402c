"""What a parser returns: rows per landing table, and what it could not read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from warehouse.landing.conform import Reject

Row = Mapping[str, Any]


@dataclass
class Parsed:
    """Rows by landing table, with the line of the input each came from (`line_number`), and the rejects.

    Values may be texts, numbers, aware or naive-UTC datetimes; `warehouse.landing.conform` types and checks them.
    """

    tables: dict[str, list[Row]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, table: str, row: Row) -> None:
        self.tables.setdefault(table, []).append(row)

    def extend(self, other: Parsed) -> None:
        """Take in what another file held."""
        for table, rows in other.tables.items():
            self.tables.setdefault(table, []).extend(rows)
        self.rejects += other.rejects
        self.notes += [note for note in other.notes if note not in self.notes]

    def frames(self) -> dict[str, pl.DataFrame]:
        """The rows as frames, a column per key that any row has."""
        return {table: to_frame(rows) for table, rows in self.tables.items()}


def to_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """A frame of rows whose values need not agree in type.

    A mixed column becomes text, and so do maps and lists (as JSON), decimals, and integers beyond 64 bits, none of
    which a column could hold without changing them. Times are naive UTC.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame([_series(name, [row.get(name) for row in rows]) for name in names])


def _series(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {datetime}:
        return pl.Series(name, [_naive_utc(value) for value in values], dtype=pl.Datetime("us"))
    # beyond 2^53 a double would change an integer
    is_uniform = len(kinds) <= 1 or (kinds == {int, float} and all(abs(v) <= 2**53 for v in values if type(v) is int))
    if is_uniform and kinds <= {int, float, bool, str, date}:
        try:
            return pl.Series(name, values, strict=kinds != {int, float})
        except (OverflowError, UnicodeEncodeError, TypeError):
            pass  # an integer beyond 64 bits, half of a surrogate pair
    return pl.Series(name, [_text(value) for value in values], dtype=pl.String)


def _naive_utc(value: datetime | None) -> datetime | None:
    return value.astimezone(UTC).replace(tzinfo=None) if value is not None and value.tzinfo else value


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        instant = _naive_utc(value)
        return f"{instant.isoformat()}Z" if instant else None
    text = json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list | tuple) else str(value)
    return text.encode("utf-8", "replace").decode()
