"""What a parser returns: rows per landing table, and what it could not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from warehouse.conform import Reject

Row = Mapping[str, Any]


@dataclass
class Parsed:
    """Rows by landing table, with the line of the input each came from (`line_number`), and the rejects.

    Values may be texts, numbers, aware or naive-UTC datetimes; `warehouse.conform` types and checks them.
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


def to_frame(rows: list[Row]) -> pl.DataFrame:
    """A frame of rows whose values need not agree in type: a mixed column becomes text."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame([_series(name, [row.get(name) for row in rows]) for name in names])


def _series(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)
    return pl.Series(name, values, strict=False)
