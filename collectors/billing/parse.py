"""Bills of any known format → frames in the landing shape. Values stay as delivered; only their spelling is put right."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any, TypeVar

import polars as pl

from collectors.billing.formats import NOTHING, Wish, recognise
from collectors.billing.mapping import Format, Line, Mapper
from collectors.billing.rows import Broken, csv_rows, flattened, json_rows, texts
from collectors.billing.spelling import as_text, cell
from collectors.command import SourceFailedError
from warehouse.landing.conform import MALFORMED, Reject, parse_instant, redact

#: a tag cell may be long; more than this is no cell
FIELD_LIMIT = 1_000_000
#: rows held as Python lists at a time
BATCH_ROWS = 20_000
#: JSON lines leave out what is null: so many tell which columns a bill has
FIRST_OBJECTS = 1_000
_DELIMITERS = ",;\t|"

T = TypeVar("T")


@dataclass
class Bill:
    """One file of a bill: its lines as frames (column `line_number` from 1 is the file's line, or the Parquet row).

    Lines that were split from a line of the file have the numbers behind its last one.
    """

    file: str
    format: Format
    frame: pl.DataFrame
    rejects: list[Reject] = field(default_factory=list)
    extra: Sequence[str] = ()
    ignored: Sequence[str] = ()
    unreadable_tags: int = 0
    split_lines: int = 0
    note: str | None = None

    @property
    def last_line(self) -> int:
        """The highest line number in it, of rows and rejects; 0 where there is neither."""
        lines = [reject.line for reject in self.rejects if reject.line] + self.frame["line_number"].tail(1).to_list()
        return max(lines, default=0)


def parse_csv(text: Iterable[str], file: str, wish: Wish = NOTHING) -> Bill:
    """A bill as CSV. Raises SourceFailedError where the header is of no known format, or the text ends early.

    A part of a bill would replace all of an earlier delivery, so a file that cannot be read to its end is not landed.
    """
    csv.field_size_limit(FIELD_LIMIT)
    try:
        lines = iter(text)
        skipped, first = next((number, line) for number, line in enumerate(lines) if line.strip())
        # Excel writes semicolons where the comma is the decimal point
        reader = csv.reader(chain([first], lines), delimiter=max(_DELIMITERS, key=first.count))
        names = [name.strip() for name in next(reader)]
        draft = _Draft(recognise(names, file, wish), names, file, wish)
        positions = {name: position for position, name in reversed(list(enumerate(names))) if draft.mapper.is_read(name)}
        # cells of a broken line cannot be told apart, and a column that does not land may hold a person's name
        shows_text = len(positions) == len(names)
        for batch in _batches(csv_rows(reader, skipped, len(names))):
            rows = draft.whole(batch, shows_text)
            cells = {name: [cell(row[position]) for _, row in rows] for name, position in positions.items()}
            draft.add([line for line, _ in rows], cells)
    except StopIteration:
        raise SourceFailedError(f"{file}: the file is empty; a bill begins with a header of column names") from None
    except csv.Error as error:
        raise SourceFailedError(f"{file}: no readable CSV header ({error})") from error
    except (OSError, EOFError, zlib.error, UnicodeError) as error:
        raise SourceFailedError(f"{file}: cannot be read to its end ({error}); fetch it again") from error
    return draft.finish()


def parse_json_lines(lines: Iterable[bytes], file: str, wish: Wish = NOTHING) -> Bill:
    """A bill as JSON, one object a line, as BigQuery exports tables; names of nested fields are joined with a dot."""
    return _parse_objects(json_rows(lines), file, wish)


def parse_json_array(text: str, file: str, wish: Wish = NOTHING) -> Bill:
    """A bill as one JSON array of objects; rows are numbered from 1."""
    try:
        items = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise SourceFailedError(f"{file}: no readable JSON ({error}); give JSON lines, one object a line") from error
    rows = (
        (number, item if isinstance(item, dict) else Broken("no JSON object", as_text(item) or ""))
        for number, item in enumerate(items, start=1)
    )
    return _parse_objects(rows, file, wish)


def parse_batches(names: Sequence[str], batches: Iterable[pl.DataFrame], file: str, wish: Wish = NOTHING) -> Bill:
    """A bill as typed frames (Parquet), of which `batches` hold the columns that `wanted_columns` names."""
    draft = _Draft(recognise(names, file, wish), names, file, wish)
    last = 0
    for frame in batches:
        numbers = list(range(last + 1, last + frame.height + 1))
        draft.add(numbers, {series.name: texts(series) for series in frame.get_columns()})
        last += frame.height
    return draft.finish()


def wanted_columns(names: Sequence[str], file: str, wish: Wish = NOTHING) -> list[str]:
    """The columns of a bill that are read. Raises SourceFailedError where they are of no known format."""
    mapper = Mapper(recognise(names, file, wish), names)
    return [name for name in names if mapper.is_read(name)]


class _Draft:
    """The lines of a bill while it is read, a frame per batch."""

    def __init__(self, format: Format, names: Sequence[str], file: str, wish: Wish) -> None:
        self.file, self.names = file, dict.fromkeys(names)
        self.mapper = Mapper(format, names, wish.given)
        self._rejects: list[Reject] = []
        self._frames: list[pl.DataFrame] = []
        self._second: list[Line] = []
        self._last = 0

    def whole(self, batch: Iterable[tuple[int, T | Broken]], shows_text: bool) -> list[tuple[int, T]]:
        """The rows that are whole; the broken ones become rejects."""
        rows: list[tuple[int, T]] = []
        for number, item in batch:
            self._last = number
            if isinstance(item, Broken):
                self._reject(number, item.detail, item.text if shows_text else "")
            else:
                rows.append((number, item))
        return rows

    def add(self, numbers: Sequence[int], cells: Mapping[str, Sequence[str | None]]) -> None:
        mapped = self.mapper.map(numbers, cells)
        for row, detail in mapped.refused.items():
            self._reject(numbers[row], detail)
        self._frames.append(mapped.frame)
        self._second += mapped.second
        self._last = max(self._last, *numbers[-1:], 0)

    def _reject(self, number: int, detail: str, text: str = "") -> None:
        readable = redact(text.encode("utf-8", "replace").decode())
        self._rejects.append(Reject(self.file, number, MALFORMED, detail[:300], readable))

    def finish(self) -> Bill:
        format = self.mapper.format
        if not self._frames:
            self.add([], {})
        if self._second:
            reach = newest_usage_end(pl.concat(self._frames))
            lines = [_until(line, reach) for line in self._second]
            numbers = range(self._last + 1, self._last + len(lines) + 1)
            schema = self._frames[0].schema
            self._frames.append(
                pl.DataFrame([{**line, "line_number": at} for line, at in zip(lines, numbers, strict=True)], schema)
            )
        unplaced = [name for name in self.names if name and self.mapper.place(name) == (None, None)]
        return Bill(
            file=self.file,
            format=format,
            frame=pl.concat(self._frames),
            rejects=sorted(self._rejects, key=lambda reject: reject.line or 0),
            extra=[name for name in unplaced if not name.lower().startswith("x_")],
            ignored=[name for name in unplaced if name.lower().startswith("x_")],
            unreadable_tags=self.mapper.unreadable_tags,
            split_lines=len(self._second),
            note=format.note(self.mapper.columns),
        )


def _until(line: Line, reach: datetime | None) -> Line:
    """The line, ending no later than the usage that the bill has: a commitment's month is not over when its fee is billed."""
    start, end = (_instants(pl.Series([line[column]])) for column in ("charge_period_start", "charge_period_end"))
    if reach is None or not start or not end or not start[0] < reach < end[0]:
        return line
    return {**line, "charge_period_end": f"{reach.isoformat()}Z"}


def _parse_objects(rows: Iterable[tuple[int, dict[str, Any] | Broken]], file: str, wish: Wish) -> Bill:
    try:
        flat = ((number, item if isinstance(item, Broken) else dict(flattened(item))) for number, item in rows)
        first = list(islice(flat, FIRST_OBJECTS))
        names = list(dict.fromkeys(name for _, item in first if isinstance(item, dict) for name in item))
        if not names:
            raise SourceFailedError(f"{file}: no JSON object with a charge in it; is the bill empty?")
        draft = _Draft(recognise(names, file, wish), names, file, wish)
        for batch in _batches(chain(first, flat)):
            whole = draft.whole(batch, shows_text=False)
            # an object leaves out what is null, so that each batch may name others
            here = dict.fromkeys(name for _, item in whole for name in item)
            draft.names.update(here)
            cells = {name: [as_text(item.get(name)) for _, item in whole] for name in here if draft.mapper.is_read(name)}
            draft.add([number for number, _ in whole], cells)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceFailedError(f"{file}: cannot be read to its end ({error}); fetch it again") from error
    return draft.finish()


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def newest_usage_end(frame: pl.DataFrame) -> datetime | None:
    """The latest end of a charge period of usage (of any charge, where there is no usage): how far the bill reaches.

    Purchases and recurring fees are charged to the end of a period that is still running, so they say nothing.
    """
    if not frame.height:
        return None
    usage = frame.filter(pl.col("charge_category") == "Usage")
    return max(_instants((usage if usage.height else frame)["charge_period_end"]), default=None)


def _instants(series: pl.Series) -> list[datetime]:
    found: list[datetime] = []
    for value in set(series.drop_nulls().to_list()):
        try:
            instant = parse_instant(value)
        except (ValueError, OverflowError):
            continue
        found.append(instant.astimezone(UTC).replace(tzinfo=None) if instant.tzinfo else instant)
    return found
