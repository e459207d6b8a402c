"""What a provider's bill calls the columns of `billing_lines`: tables that a reader can check column by column.

A format is a table of `Field`s, one per landing column, with the provider's column names in the order in which they
are asked. Names are matched whatever their case, spaces, slashes or underscores, so that `lineItem/UsageType` and
`line_item_usage_type` are one; of `Maßeinheit (UnitOfMeasure)`, as Azure writes headers in other languages, what
stands in brackets counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.billing.schema import COLUMNS
from collectors.billing.spelling import as_text, cell, json_object, tags_text

_BRACKETED = re.compile(r".*\(\s*(\w+)\s*\)\s*")


def key(name: str) -> str:
    """What of a column's name counts."""
    match = _BRACKETED.fullmatch(name)
    return re.sub(r"[\W_]", "", (match[1] if match else name).lower())


class Row(dict[str, str]):
    """A line of a bill: the values it has, by the names of the format's table; `columns` are all that the bill has."""

    columns: Collection[str] = ()

    def first(self, *names: str) -> str | None:
        """The first value given among `names`."""
        return next((self[name] for name in names if name in self), None)


Line = dict[str, str | None]
Derive = Callable[[Row], str | None]


@dataclass(frozen=True)
class Field:
    """How one landing column is filled: the provider's columns that it is read from, separated by spaces.

    Without `derive` it is the first of them that has a value, spelled by `spell`. With it they are all that it reads.
    """

    column: str
    sources: str = ""
    spell: Callable[[str], str] = str
    derive: Derive | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.sources.split())

    def fill(self, row: Row) -> str | None:
        if self.derive is not None:
            return self.derive(row)
        found = row.first(*self.names)
        return None if found is None else self.spell(found)


def no_tag(name: str) -> str | None:
    """Of a format whose tags are one column: no other column is a tag."""
    return None


def no_split(row: Row, line: Line) -> Iterator[Line]:
    """Of a format whose every line is one charge."""
    return iter(())


@dataclass(frozen=True)
class Format:
    """A kind of bill. `needs` are the columns without which it is none: of each group of names one must be there.

    `tag_of` gives the tag that a column holds, of bills that have a column per tag. `split` gives further lines that
    a line of the bill holds, of bills that put several charges into one.
    """

    name: str
    title: str
    remedy: str
    fields: Sequence[Field]
    needs: Sequence[str]
    tag_of: Callable[[str], str | None] = no_tag
    split: Callable[[Row, Line], Iterator[Line]] = no_split
    #: said once of every bill of this format
    note: Callable[[Collection[str]], str | None] = lambda columns: None
    #: columns that are read besides those that fields name
    also: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(dict.fromkeys([name for field in self.fields for name in field.names] + self.also.split()))

    def known(self, header: Iterable[str]) -> set[str]:
        """The columns of the table that a header has."""
        keys = {key(name) for name in header}
        return {name for name in self.names if key(name) in keys}

    def lacking(self, header: Iterable[str], given: Collection[str] = ()) -> list[str]:
        """The columns that a bill of this format must have and this one has not, by the first of their names.

        `given` are landing columns whose value is known otherwise.
        """
        known = self.known(header)
        known.update(name for field in self.fields if field.column in given for name in field.names)
        return [group.split()[0] for group in self.needs if not known.intersection(group.split())]


@dataclass
class Mapper:
    """Turns the cells of one bill into lines of the landing shape."""

    format: Format
    columns: Collection[str]
    #: landing columns that a person gives where the bill has no value
    given: Mapping[str, str] = field(default_factory=dict)
    unreadable_tags: int = 0
    _names: dict[str, str] = field(default_factory=dict)
    _place_of: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = {key(name): name for name in reversed(self.format.names)}
        unknown = {field.column for field in self.format.fields} - set(COLUMNS)
        assert not unknown, unknown

    def place(self, column: str) -> tuple[str | None, str | None]:
        """What a column of the bill is: a name of the format's table, or else the tag that it holds."""
        if column not in self._place_of:
            name = self._names.get(key(column))
            self._place_of[column] = (name, None if name else self.format.tag_of(column))
        return self._place_of[column]

    def lines(self, items: Iterable[tuple[str, Any]]) -> tuple[Line, Iterator[Line]]:
        """The line that cells (column and value) hold, and the further ones split from it; ValueError where it is none."""
        row = Row()
        row.columns = self.columns
        tags: dict[str, Any] = {}
        for column, value in items:
            name, tag = self.place(column)
            if name is None and tag is None:
                continue
            text = cell(value) if isinstance(value, str) else as_text(value)
            if text is None:
                continue
            if name is not None:
                row.setdefault(name, text)
            elif tag is not None:
                tags[tag] = text
        line = {field.column: field.fill(row) for field in self.format.fields}
        for column, value in self.given.items():
            line[column] = line.get(column) or value
        line["tags"] = self._tags(line.get("tags"), tags)
        return line, self.format.split(row, line)

    def _tags(self, text: str | None, columns: Mapping[str, Any]) -> str | None:
        if text is None:
            return tags_text(columns) if columns else None
        found = json_object(text)
        if found is None:
            self.unreadable_tags += 1
            return tags_text(columns) if columns else None
        return tags_text({**found, **columns})
