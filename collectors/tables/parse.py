"""CSV, JSON lines and Parquet files in the landing shape, read in bounded pieces, with the line of every row."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from collectors.command import SourceFailed
from collectors.parsed import to_frame
from warehouse.conform import MALFORMED, Reject, redact
from warehouse.landing_shape import Table

#: rows per frame: bounds memory, whatever the size of the file
CHUNK_ROWS = 500_000
#: a field longer than this is refused; no column of the landing shape holds that much
FIELD_LIMIT = 1_000_000

Piece = tuple[pl.DataFrame, list[Reject]]


def read_pieces(path: Path, table: Table) -> Iterator[Piece]:
    """The file's rows as frames of at most `CHUNK_ROWS`, each with the rejects found while reading it.

    Raises SourceFailed where the file as a whole cannot be read or lacks a required column.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if head == b"PAR1":
        yield from _parquet(path, table)
    elif ".jsonl" in path.suffixes or ".ndjson" in path.suffixes or ".json" in path.suffixes:
        yield from _json_lines(path)
    else:
        yield from _csv(path, table)


def open_text(path: Path) -> io.TextIOBase:
    """The file as text: gzip unpacked, a byte-order mark taken off, bytes that are no UTF-8 kept as surrogates."""
    with path.open("rb") as file:
        head = file.read(4)
    binary: Any = gzip.open(path) if head[:2] == b"\x1f\x8b" else path.open("rb")
    encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    return io.TextIOWrapper(binary, encoding=encoding, errors="surrogateescape", newline="")


def _parquet(path: Path, table: Table) -> Iterator[Piece]:
    try:
        scan = pl.scan_parquet(path)
        names = scan.collect_schema().names()
        _require_columns(path, names, table)
        total = scan.select(pl.len()).collect().item()
        wanted = [column.name for column in table.columns if column.name in names]
        for start in range(0, total, CHUNK_ROWS):
            frame = scan.select(wanted).slice(start, CHUNK_ROWS).collect()
            yield frame.with_columns(line_number=pl.int_range(start + 1, start + frame.height + 1, dtype=pl.Int64)), []
    except pl.exceptions.PolarsError as error:
        raise SourceFailed(f"{path}: no readable Parquet file ({error}); write it again") from error


def _csv(path: Path, table: Table) -> Iterator[Piece]:
    csv.field_size_limit(FIELD_LIMIT)
    with open_text(path) as text:
        reader = csv.reader(text)
        try:
            header = next(reader)
        except StopIteration:
            raise SourceFailed(f"{path}: the file is empty; a CSV file begins with a header of column names") from None
        except (csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise SourceFailed(f"{path}: no readable CSV header ({error})") from error
        header = [name.strip() for name in header]
        _require_columns(path, header, table)
        yield from _chunks(_csv_rows(path, reader, header))


def _csv_rows(path: Path, reader: Any, header: list[str]) -> Iterator[dict[str, Any] | Reject]:
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, EOFError, OSError) as error:
            yield Reject(path.name, line, MALFORMED, f"unreadable line ({error})")
            if not isinstance(error, csv.Error):
                return
            continue
        if not cells:
            continue
        text = ",".join(cells)
        if len(cells) != len(header):
            yield Reject(path.name, line, MALFORMED, f"{len(cells)} fields where the header names {len(header)}", redact(text))
        elif not _is_clean(text):
            yield Reject(path.name, line, MALFORMED, "not UTF-8 text", redact(text.encode("utf-8", "replace").decode()))
        else:
            yield {**dict(zip(header, cells, strict=True)), "line_number": line}


def _json_lines(path: Path) -> Iterator[Piece]:
    yield from _chunks(_json_rows(path))


def _json_rows(path: Path) -> Iterator[dict[str, Any] | Reject]:
    with open_text(path) as text:
        try:
            for line, content in enumerate(text, start=1):
                if not content.strip():
                    continue
                try:
                    row = json.loads(content)
                    if not isinstance(row, dict):
                        raise ValueError("each line must be an object: {…}")
                    if not _is_clean(content):
                        raise ValueError("not UTF-8 text")
                except (ValueError, RecursionError) as error:
                    yield Reject(path.name, line, MALFORMED, f"no JSON object ({error})", redact(_readable(content)))
                    continue
                yield {**row, "line_number": line}
        except (EOFError, OSError) as error:
            yield Reject(path.name, None, MALFORMED, f"the file ends early ({error})")


def _chunks(rows: Iterator[dict[str, Any] | Reject]) -> Iterator[Piece]:
    good: list[Any] = []
    bad: list[Reject] = []
    for row in rows:
        if isinstance(row, Reject):
            bad.append(row)
        else:
            good.append(row)
        if len(good) >= CHUNK_ROWS:
            yield to_frame(good), bad
            good, bad = [], []
    yield to_frame(good), bad


def _require_columns(path: Path, names: list[str], table: Table) -> None:
    lacking = [column.name for column in table.columns if column.required and column.name not in names]
    if lacking:
        raise SourceFailed(f"{path}: no column {', '.join(lacking)}, which {table.name} needs; the file has {', '.join(names)}")


def _is_clean(text: str) -> bool:
    return "\0" not in text and not any("\udc80" <= character <= "\udcff" for character in text)


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
