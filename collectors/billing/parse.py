"""FOCUS bills → frames in the landing shape. Values stay as delivered; only their spelling is put right."""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from collectors.billing.schema import ALLOWED, COLUMNS, INSTANTS, Header, focus_name, read_header
from collectors.command import SourceFailedError
from warehouse.conform import MALFORMED, Reject, parse_instant, redact

#: a tag cell may be long; more than this is no cell
FIELD_LIMIT = 1_000_000
#: rows held as Python lists at a time
BATCH_ROWS = 100_000
_NO_OFFSET = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?")


@dataclass
class Bill:
    """One file of a bill: its lines as frames (column `line_number` from 1 is the file's line, or the Parquet row)."""

    file: str
    frame: pl.DataFrame
    rejects: list[Reject] = field(default_factory=list)
    extra: Sequence[str] = ()
    ignored: Sequence[str] = ()
    unreadable_tags: int = 0

    @property
    def last_line(self) -> int:
        """The highest line number in it, of rows and rejects; 0 where there is neither."""
        lines = [reject.line for reject in self.rejects if reject.line] + self.frame["line_number"].tail(1).to_list()
        return max(lines, default=0)


def parse_csv(text: Iterable[str], file: str) -> Bill:
    """A FOCUS CSV. Raises SourceFailedError where the header lacks columns that FOCUS requires, or the text ends early.

    A part of a bill would replace all of an earlier delivery, so a file that cannot be read to its end is not landed.
    """
    csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(text)
    try:
        names = next(reader)
        header = read_header(names)
        _require(header, file)
        rejects: list[Reject] = []
        pieces = [_piece(header, rows) for rows in _batches(_rows(reader, names, header, file, rejects))]
    except StopIteration:
        raise SourceFailedError(f"{file}: the file is empty; a FOCUS bill begins with a header of column names") from None
    except csv.Error as error:
        raise SourceFailedError(f"{file}: no readable CSV header ({error})") from error
    except (OSError, EOFError, zlib.error, UnicodeError) as error:
        raise SourceFailedError(f"{file}: cannot be read to its end ({error}); fetch it again") from error
    return _finish(Bill(file, pl.concat(pieces or [_piece(header, [])]), rejects), header)


def parse_parquet(path: Path, file: str) -> Bill:
    """A FOCUS Parquet file; typed values are kept, texts read as in CSV."""
    try:
        header = read_header(list(pl.read_parquet_schema(path)))
        _require(header, file)
        whole = pl.read_parquet(path, columns=sorted(header.positions.values()))
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise SourceFailedError(f"{file}: no readable Parquet file ({error}); write it again") from error
    order = sorted(header.positions, key=lambda column: header.positions[column])
    frame = pl.DataFrame([_plain(whole.to_series(number).rename(column)) for number, column in enumerate(order)])
    return _finish(Bill(file, frame.with_row_index("line_number", offset=1)), header)


def _require(header: Header, file: str) -> None:
    if header.lacking:
        names = ", ".join(focus_name(column) for column in header.lacking)
        known = f"it has {len(header.positions)} FOCUS columns" if header.positions else "no column of it is FOCUS's"
        raise SourceFailedError(
            f"{file}: not a FOCUS bill: it lacks {names} ({known}); export it as FOCUS 1.0 or later, "
            "or map it to the landing shape and use `python -m collectors import billing_lines`"
        )


Rows = list[tuple[int, list[str]]]


def _rows(reader: Any, names: list[str], header: Header, file: str, rejects: list[Reject]) -> Iterator[tuple[int, list[str]]]:
    # cells of a broken line cannot be told apart, and a column that does not land may hold a person's name
    shows_text = len(header.positions) == len(names)

    def refuse(line: int, detail: str, text: str) -> None:
        readable = redact(text.encode("utf-8", "replace").decode()) if shows_text else ""
        rejects.append(Reject(file, line, MALFORMED, detail, readable))

    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            refuse(line, f"unreadable line ({error})", "")
            continue
        if not row:
            continue
        text = ",".join(row)
        if "\0" in text or not (text.isascii() or text.encode("utf-8", "ignore").decode() == text):
            refuse(line, "not UTF-8 text", text)
        elif len(row) < len(names) or any(row[len(names) :]):
            refuse(line, f"{len(row)} fields where the header names {len(names)}", text)
        else:
            yield line, row


def _batches(rows: Iterator[tuple[int, list[str]]]) -> Iterator[Rows]:
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def _piece(header: Header, rows: Rows) -> pl.DataFrame:
    columns = [pl.Series("line_number", [line for line, _ in rows], dtype=pl.Int64)]
    for column, position in header.positions.items():
        columns.append(pl.Series(column, [_cell(row[position]) for _, row in rows], dtype=pl.String))
    return pl.DataFrame(columns)


def _cell(text: str) -> str | None:
    """The text NULL is null (FOCUS writes it so in CSV), and so is an empty cell."""
    text = text.strip()
    return None if not text or text.upper() == "NULL" else text


def _plain(series: pl.Series) -> pl.Series:
    """A Parquet column as conform takes it: maps as JSON objects, texts without NULL."""
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        return pl.Series(series.name, [None if text is None else _cell(text) for text in series], dtype=pl.String)
    if series.dtype == pl.Binary:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in series]
        return _plain(pl.Series(series.name, texts, dtype=pl.String))
    if isinstance(series.dtype, pl.List | pl.Struct | pl.Array):
        return pl.Series(series.name, [_object(value) for value in series.to_list()], dtype=pl.String)
    return series


def _object(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(item, dict) and set(item) == {"key", "value"} for item in value):
        value = {str(item["key"]): item["value"] for item in value}
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _finish(bill: Bill, header: Header) -> Bill:
    frame = bill.frame
    for column in INSTANTS:
        frame = _spelled(frame, column, _instant)
    for column, allowed in ALLOWED.items():
        frame = _spelled(frame, column, partial(_allowed_word, {word.lower(): word for word in allowed}))
    frame = _spelled(frame, "billing_currency", str.upper)
    tags = frame["tags"] if "tags" in frame.columns else pl.Series("tags", [], dtype=pl.String)
    frame = _spelled(frame, "tags", _json_text)
    if tags.len() and tags.dtype == pl.String:
        bill.unreadable_tags = int((tags.is_not_null() & frame["tags"].is_null()).sum())
    bill.frame = frame.select("line_number", *(column for column in COLUMNS if column in frame.columns))
    bill.extra, bill.ignored = header.extra, header.ignored
    return bill


def _spelled(frame: pl.DataFrame, column: str, spell: Callable[[str], Any]) -> pl.DataFrame:
    """The column with each distinct text put right; other types are left as they are."""
    if column not in frame.columns or frame[column].dtype != pl.String:
        return frame
    values = frame[column].to_list()
    spelled = {text: spell(text) for text in set(values) if text is not None}
    return frame.with_columns(pl.Series(column, [None if text is None else spelled[text] for text in values], dtype=pl.String))


def _allowed_word(words: Mapping[str, str], text: str) -> str:
    return words.get(text.lower(), text)


def _instant(text: str) -> str:
    """FOCUS times are UTC: one without an offset gets its Z. What is no ISO 8601 stays, to be rejected with its line."""
    return text + "Z" if _NO_OFFSET.fullmatch(text) else text


def _json_text(text: str) -> str | None:
    """Tags as a JSON object, also where the provider left the braces out; None where they are no JSON at all."""
    for candidate in (text, "{" + text + "}"):
        try:
            if isinstance(json.loads(candidate), dict):
                return candidate
        except (ValueError, RecursionError):
            continue
    return None


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
            instant = value if isinstance(value, datetime) else parse_instant(str(value))
        except (ValueError, OverflowError):
            continue
        found.append(instant.astimezone(UTC).replace(tzinfo=None) if instant.tzinfo else instant)
    return found


def rounded_providers(frame: pl.DataFrame) -> list[tuple[str, int, float, float]]:
    """Providers whose effective costs are all whole numbers while billed costs are not: (name, lines, billed, effective)."""
    if not frame.height:
        return []
    costs = frame.select(
        pl.col("provider_name").cast(pl.String),
        pl.col("billed_cost").cast(pl.Float64, strict=False).alias("billed"),
        pl.col("effective_cost").cast(pl.Float64, strict=False).alias("effective"),
    ).drop_nulls()
    summed = costs.group_by("provider_name").agg(
        pl.len().alias("lines"),
        pl.col("billed").sum(),
        pl.col("effective").sum(),
        ((pl.col("effective") % 1) == 0).all().alias("is_whole"),
        ((pl.col("billed") % 1) != 0).any().alias("has_fractions"),
    )
    rows = summed.filter("is_whole", "has_fractions").sort("provider_name")
    return [(row["provider_name"], row["lines"], row["billed"], row["effective"]) for row in rows.iter_rows(named=True)]
