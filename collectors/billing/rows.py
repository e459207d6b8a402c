"""Rows as files hold them: CSV lines, JSON objects, typed columns, each row with its line or the reason why it is none."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import polars as pl

from collectors.billing.spelling import as_text
from warehouse.landing.conform import FIRST_INSTANT, LAST_INSTANT

#: maps of free keys, which are values and no nested columns
_MAPS = ("labels", "system_labels", "tags", "product", "resource_tags", "cost_category", "discount")


@dataclass(frozen=True)
class Broken:
    """A row that none can be read from, and its text for the quarantine."""

    detail: str
    text: str = ""


def csv_rows(reader: Any, skipped: int, width: int) -> Iterator[tuple[int, list[str] | Broken]]:
    """The rows behind a header of `width` names, filled up to it where the bill's writer leaves the last columns out.

    A line that is shorter than the others was cut off, or lost a delimiter; where the first two agree, all are written so.
    """
    rows = _raw_rows(reader, skipped)
    first = list(islice(rows, 2))
    lengths = {len(row) for _, row in first if not isinstance(row, Broken)}
    written = min(lengths) if len(first) == 2 and len(lengths) == 1 and min(lengths) < width else width
    for line, row in chain(first, rows):
        if isinstance(row, Broken):
            yield line, row
        elif len(row) == written < width and written > width // 2:
            yield line, row + [""] * (width - written)
        elif len(row) < width or any(row[width:]):
            yield line, Broken(f"{len(row)} fields where the header names {width}", ",".join(row))
        else:
            yield line, row


def _raw_rows(reader: Any, skipped: int) -> Iterator[tuple[int, list[str] | Broken]]:
    while True:
        line = skipped + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, Broken(f"unreadable line ({error})")
            continue
        text = ",".join(row)
        if "\0" in text or not (text.isascii() or text.encode("utf-8", "ignore").decode() == text):
            yield line, Broken("not UTF-8 text", text)
        elif row:
            yield line, row


def json_rows(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any] | Broken]]:
    """The objects of JSON lines; numbers with a point keep all their digits."""
    for number, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        try:
            item = json.loads(content, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            yield number, Broken(f"no JSON object ({error})")
            continue
        yield number, item if isinstance(item, dict) else Broken("no JSON object")


def flattened(item: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of an object, those of nested ones by names joined with a dot; lists and maps of free keys stay whole."""
    for name, value in item.items():
        if isinstance(value, dict) and name.lower() not in _MAPS and prefix.count(".") < 5:
            yield from flattened(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            # half of a surrogate pair is no text
            yield prefix + name, value.encode("utf-8", "replace").decode()
        else:
            yield prefix + name, value


def texts(series: pl.Series) -> list[str | None]:
    """The values of a typed column as texts; times are UTC where they have no zone."""
    if isinstance(series.dtype, pl.Datetime | pl.Date):
        return _times(series)
    if series.dtype in (pl.Categorical, pl.Enum, pl.Float32):
        series = series.cast(pl.String)
    return [as_text(value) for value in series.to_list()]


def _times(series: pl.Series) -> list[str | None]:
    unit = series.dtype.time_unit if isinstance(series.dtype, pl.Datetime) else None
    factor = {"ns": 1000, "us": 1, "ms": 1 / 1000}.get(unit or "", 1 / 86_400_000_000)
    physical = series.to_physical().cast(pl.Int64)
    # a file may hold times that Python has none for: they stay numbers, to be rejected with their line
    inside = (physical >= FIRST_INSTANT * factor) & (physical <= LAST_INSTANT * factor)
    naive = physical.set(~inside, None).cast(pl.Datetime(unit) if unit else pl.Date)
    written = naive.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    return [text or (None if raw is None else str(raw)) for text, raw in zip(written, physical, strict=True)]
