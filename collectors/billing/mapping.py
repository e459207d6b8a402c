"""What a provider's bill calls the columns of `billing_lines`: tables that a reader can check column by column.

A format is a table of `Field`s, one per landing column, with the provider's column names in the order in which they
are asked. Names are matched whatever their case, spaces, slashes or underscores, so that `lineItem/UsageType` and
`line_item_usage_type` are one; of `Maßeinheit (UnitOfMeasure)`, as Azure writes headers in other languages, what
stands in brackets counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from collectors.billing.schema import COLUMNS
from collectors.billing.spelling import json_object, tags_text

_BRACKETED = re.compile(r".*\(\s*(\w+)\s*\)\s*")


def key(name: str) -> str:
    """What of a column's name counts."""
    match = _BRACKETED.fullmatch(name)
    return re.sub(r"[\W_]", "", (match[1] if match else name).lower())


class Row(dict[str, str]):
    """What a line of a bill has in the columns that a field reads; `columns` are all of the format that the bill has."""

    def __init__(self, items: Iterable[tuple[str, str]], columns: Collection[str]) -> None:
        super().__init__(items)
        self.columns = columns

    def first(self, *names: str) -> str | None:
        """The first value given among `names`."""
        return next((self[name] for name in names if name in self), None)


Line = dict[str, str | None]
Texts = Sequence[str | None]
Derive = Callable[[Row], str | None]


class Field:
    """How one landing column is filled: the provider's columns that it is read from, separated by spaces.

    Without `derive` it is the first of them that has a value, spelled by `spell`. With it they are all that it reads, and
    `how` says in words what becomes of them; ValueError from it refuses the line.
    """

    def __init__(
        self,
        column: str,
        sources: str = "",
        *,
        spell: Callable[[str], str] = str,
        derive: Derive | None = None,
        how: str = "",
    ) -> None:
        self.column, self.sources, self.spell, self.derive = column, sources, spell, derive
        self.names = tuple(dict.fromkeys(sources.split()))
        self.how = how or ("the first that has a value" if len(self.names) > 1 else "as it is")


@dataclass(frozen=True)
class SecondCharge:
    """A charge that a bill gives on the line of another: its amount (None: this line has none), and the line it becomes."""

    amount: Field
    line: Callable[[Line, str], Line]


@dataclass(frozen=True)
class Format:
    """A kind of bill. `needs` are the columns without which it is none: of each group of names one must be there.

    `tag_of` gives the tag that a column holds, of bills that have a column per tag. `note` is said once of a bill, from
    the columns that it has.
    """

    name: str
    title: str
    remedy: str
    fields: Sequence[Field]
    needs: Sequence[str]
    tag_of: Callable[[str], str | None] = lambda column: None
    second: SecondCharge | None = None
    note: Callable[[Collection[str]], str | None] = lambda columns: None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read."""
        fields = [*self.fields, self.second.amount] if self.second else self.fields
        return tuple(dict.fromkeys(name for field in fields for name in field.names))

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


@dataclass(frozen=True)
class Mapped:
    """Lines of the landing shape, which rows of the bill are none and why, and the second charges of its lines."""

    frame: pl.DataFrame
    refused: Mapping[int, str]
    second: Sequence[Line]


class Mapper:
    """Turns the columns of one bill into those of the landing shape, a batch of rows at a time.

    Work is done column by column, and what a field derives once per distinct value of what it reads: a bill has a
    hundred thousand lines of few types, services and days.
    """

    def __init__(self, format: Format, header: Sequence[str], given: Mapping[str, str] | None = None) -> None:
        self.format, self.given = format, given or {}
        #: the columns of the format that the bill has
        self.columns = format.known(header)
        self.unreadable_tags = 0
        self._names = {key(name): name for name in reversed(format.names)}
        self._places: dict[str, tuple[str | None, str | None]] = {}

    def place(self, column: str) -> tuple[str | None, str | None]:
        """What a column of the bill is: a name of the format's table, or else the tag that it holds."""
        if column not in self._places:
            name = self._names.get(key(column))
            self._places[column] = (name, None if name else self.format.tag_of(column))
        return self._places[column]

    def is_read(self, column: str) -> bool:
        return self.place(column) != (None, None)

    def map(self, numbers: Sequence[int], cells: Mapping[str, Texts]) -> Mapped:
        """The rows that `cells` hold by the bill's column names; `numbers` are their lines."""
        sources: dict[str, Texts] = {}
        tags: dict[str, Texts] = {}
        for column, texts in cells.items():
            name, tag = self.place(column)
            if name is not None:
                sources.setdefault(name, texts)
            elif tag is not None:
                tags.setdefault(tag, texts)
        refused: dict[int, str] = {}
        lines = {field.column: self._filled(field, sources, len(numbers), refused) for field in self.format.fields}
        lines["tags"] = self._tags(lines.get("tags"), tags, len(numbers))
        for column, value in self.given.items():
            lines[column] = [text or value for text in lines[column]]
        second = self._second(lines, sources, len(numbers), refused)
        columns = [pl.Series("line_number", numbers, dtype=pl.Int64)]
        columns += [pl.Series(name, lines[name], dtype=pl.String) for name in COLUMNS if name in lines]
        frame = pl.DataFrame(columns)
        if refused:
            keep = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True).scatter(sorted(refused), False)
            frame = frame.filter(keep)
        return Mapped(frame, refused, second)

    def _filled(self, field: Field, sources: Mapping[str, Texts], height: int, refused: dict[int, str]) -> Texts:
        names = [name for name in field.names if name in sources]
        columns = [sources[name] for name in names]
        if field.derive is not None:
            return self._derived(field.derive, names, columns, height, refused)
        if not columns:
            return [None] * height
        first = columns[0]
        for further in columns[1:]:
            first = [text if text is not None else other for text, other in zip(first, further, strict=True)]
        if field.spell is str:
            return first
        spelled = {text: field.spell(text) for text in set(first) if text is not None}
        return [None if text is None else spelled[text] for text in first]

    def _derived(
        self, derive: Derive, names: Sequence[str], columns: Sequence[Texts], height: int, refused: dict[int, str]
    ) -> Texts:
        if not columns:
            return [derive(Row((), self.columns))] * height
        known: dict[tuple[str | None, ...], str | ValueError | None] = {}
        values: list[str | None] = []
        for row, texts in enumerate(zip(*columns, strict=True)):
            if texts not in known:
                known[texts] = self._derive(derive, names, texts)
            value = known[texts]
            if isinstance(value, ValueError):
                refused.setdefault(row, str(value))
                value = None
            values.append(value)
        return values

    def _derive(self, derive: Derive, names: Sequence[str], texts: Texts) -> str | ValueError | None:
        try:
            given = ((name, text) for name, text in zip(names, texts, strict=True) if text is not None)
            return derive(Row(given, self.columns))
        except ValueError as error:
            return error

    def _second(
        self, lines: Mapping[str, Texts], sources: Mapping[str, Texts], height: int, refused: dict[int, str]
    ) -> list[Line]:
        if self.format.second is None:
            return []
        amounts = self._filled(self.format.second.amount, sources, height, refused)
        return [
            self.format.second.line({column: texts[row] for column, texts in lines.items()}, amount)
            for row, amount in enumerate(amounts)
            if amount is not None and row not in refused
        ]

    def _tags(self, texts: Texts | None, columns: Mapping[str, Texts], height: int) -> Texts:
        if texts is None and not columns:
            return [None] * height
        known: dict[tuple[str | None, ...], tuple[str | None, bool]] = {}
        values: list[str | None] = []
        for row in zip(texts or [None] * height, *columns.values(), strict=True):
            if row not in known:
                found = json_object(row[0])
                of_columns = {tag: text for tag, text in zip(columns, row[1:], strict=True) if text is not None}
                is_unreadable = row[0] is not None and found is None
                known[row] = (tags_text({**(found or {}), **of_columns}), is_unreadable)
            self.unreadable_tags += known[row][1]
            values.append(known[row][0])
        return values
