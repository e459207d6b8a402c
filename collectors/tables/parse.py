"""CSV, JSON lines and Parquet files in the landing shape, read in bounded pieces, with the line of every row."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from collectors.command import SourceFailedError
from collectors.files import UTF_16, opened, refuse_binary
from collectors.parsed import to_frame
from collectors.tables.delimited import (
    TEXT_CHUNK_ROWS,
    UNREADABLE,
    Piece,
    read_csv,
    refuse_endless_lines,
    require_columns,
)
from warehouse.landing.conform import MALFORMED, Reject, redact
from warehouse.landing.shape import Table

#: rows per frame of a Parquet file: bounds memory whatever the file's size
CHUNK_ROWS = 500_000

#: a reading takes some ten bytes; equal rows without end take none, and fill the memory when they are unpacked
BOMB_ROWS, MOST_ROWS_PER_BYTE = 5_000_000, 20

#: bytes read at a time from text
BLOCK_BYTES = 16 * 2**20


def read_pieces(path: Path, table: Table, given: Collection[str] = ()) -> Iterator[Piece]:
    """The file's rows as frames of bounded size, each with the rejects found while reading it.

    A frame holds the columns of the table that the file has, and `line_number`. Raises SourceFailedError where the file as
    a whole cannot be read or lacks a required column that is not `given` otherwise.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if head == b"PAR1":
        yield from _parquet(path, table, given)
    elif {".jsonl", ".ndjson", ".json"} & set(path.suffixes):
        yield from _json_lines(path, table)
    else:
        yield from read_csv(path, read_blocks(path), table, given)


def read_blocks(path: Path) -> Iterator[bytes]:
    """The file's text in blocks of UTF-8: gzip unpacked, a byte-order mark taken off, UTF-16 converted.

    Bytes that are no UTF-8 stay as they are. Raises what reading raises: EOFError and OSError where gzip ends early.
    """
    with opened(path) as binary:
        blocks = _filled(binary)
        first = next(blocks, b"")
        wide = first[:2] in UTF_16
        if not wide:
            refuse_binary(first, str(path))
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace") if wide else None
        for block in chain([first.removeprefix(codecs.BOM_UTF8)], blocks):
            yield decoder.decode(block).encode() if decoder else block


def _filled(binary: Any) -> Iterator[bytes]:
    """Blocks of `BLOCK_BYTES`; where reading fails, what was read before that comes first."""
    parts: list[bytes] = []
    try:
        while part := binary.read1(BLOCK_BYTES):
            parts.append(part)
            if sum(map(len, parts)) >= BLOCK_BYTES:
                yield b"".join(parts)
                parts = []
    except UNREADABLE:
        yield b"".join(parts)
        raise
    yield b"".join(parts)


def _parquet(path: Path, table: Table, given: Collection[str]) -> Iterator[Piece]:
    try:
        scan = pl.scan_parquet(path, hive_partitioning=False)
        names = scan.collect_schema().names()
        require_columns(path, names, table, given)
        rows, size = scan.select(pl.len()).collect().item(), path.stat().st_size
        if rows > max(BOMB_ROWS, MOST_ROWS_PER_BYTE * size):
            told = f"{rows:,} rows in {size:,} bytes, more than {MOST_ROWS_PER_BYTE} a byte"
            raise SourceFailedError(f"{path}: {told}, which no readings pack to; is it what it should be?")
        wanted = [column.name for column in table.columns if column.name in names]
        line = 1
        for frame in scan.select(wanted).collect_batches(chunk_size=CHUNK_ROWS, maintain_order=True):
            lines = pl.int_range(line, line + frame.height, dtype=pl.Int64, eager=True).alias("line_number")
            line += frame.height
            yield frame.with_columns(lines), []
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise SourceFailedError(f"{path}: no readable Parquet file ({error}); write it again") from error


def _json_lines(path: Path, table: Table) -> Iterator[Piece]:
    wanted = {column.name for column in table.columns}
    rows: list[Any] = []
    rejects: list[Reject] = []
    for item in _json_rows(path):
        if isinstance(item, Reject):
            rejects.append(item)
        else:
            line, row = item
            rows.append({**{name: value for name, value in row.items() if name in wanted}, "line_number": line})
        if len(rows) + len(rejects) >= TEXT_CHUNK_ROWS:
            yield to_frame(rows), rejects
            rows, rejects = [], []
    yield to_frame(rows), rejects


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    line = 0
    try:
        for line, content in enumerate(split_lines(path, read_blocks(path)), start=1):
            if not content.strip():
                continue
            try:
                row = json.loads(content)
                if not isinstance(row, dict):
                    raise ValueError("each line must be an object: {…}")
            except (ValueError, RecursionError) as error:
                yield Reject(path.name, line, MALFORMED, f"no JSON object ({error})", redact(content.decode("utf-8", "replace")))
                continue
            yield line, row
    except UNREADABLE as error:
        yield Reject(path.name, line + 1, MALFORMED, f"the file ends early ({error})")


def split_lines(path: Path, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of the blocks; SourceFailedError at one that is longer than any line is."""
    rest: list[bytes] = []
    for block in refuse_endless_lines(path, blocks):
        first, *lines = block.split(b"\n")
        rest.append(first)
        if lines:
            yield b"".join(rest)
            *whole, last = lines
            yield from whole
            rest = [last]
    if last := b"".join(rest):
        yield last
