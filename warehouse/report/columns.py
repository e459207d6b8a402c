"""Rows as columns of whole numbers, which compress well, and the lists of names that they point into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from warehouse.digest import words

#: how finely hours and money are kept: as the published columns hold them, or where workloads are told apart
MICRO, TENTHOUSANDTH = 1_000_000, 10_000

#: the same names come with every row
clean = lru_cache(maxsize=65536)(words.clean)


class Members:
    """Names of one kind by place in their list, in the order in which they came."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Any, int] = {}

    def place(self, key: Any, value: Any = None) -> int:
        """The place of `key`, which is listed as `value` (or itself) when it comes first."""
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(key if value is None else value)
        return self._places[key]


class Lists:
    """The lists that columns point into; a currency of -1 is time without a price."""

    def __init__(self) -> None:
        self.clusters, self.teams, self.currencies = Members(), Members(), Members()

    def cluster(self, name: str) -> int:
        return self.clusters.place(name, clean(name))

    def team(self, name: str) -> int:
        return self.teams.place(name, clean(name))

    def currency(self, name: str | None) -> int:
        return -1 if name is None else self.currencies.place(name, clean(name, 12))


def to_whole(amount: float | Decimal | None, scale: int) -> int:
    """So many parts of `scale`; nothing is 0."""
    return 0 if amount is None else round(amount * scale)


def to_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as a column each, ordered so that neighbours are alike."""
    ordered = sorted(rows, key=lambda row: tuple((value is None, value) for value in row))
    return {name: [row[place] for row in ordered] for place, name in enumerate(names)}
