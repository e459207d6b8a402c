"""Open a bill's files: the one module here that touches them."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import polars as pl

from collectors.billing.formats import NOTHING, Wish
from collectors.billing.parse import (
    BATCH_ROWS,
    Bill,
    parse_batches,
    parse_csv,
    parse_json_array,
    parse_json_lines,
    wanted_columns,
)
from collectors.command import SourceFailedError
from collectors.files import decode, opened, read_file
from collectors.tables.delimited import UNREADABLE, refuse_endless_lines
from collectors.tables.parse import read_blocks, split_lines

#: raised when the tables of columns begin to make other lines of the same bytes
RULES_VERSION = 3

_ZIP = b"PK\x03\x04"


def read_bill(path: Path, wish: Wish = NOTHING) -> Bill:
    """One file of a bill: CSV or JSON lines, plain or gzip, or Parquet.

    Raises SourceFailedError where it is none of them, cannot be read to its end, or is not of the format wished for.
    """
    head = _head(path)
    if head == b"PAR1":
        return _read_parquet(path, wish)
    if head == _ZIP:
        raise SourceFailedError(f"{path.name}: a ZIP archive; unpack it and give the bill that is in it")
    try:
        blocks = read_blocks(path)
        first = next(blocks, b"")
    except UNREADABLE as error:
        raise SourceFailedError(f"{path.name}: cannot be read to its end ({error}); fetch it again") from error
    begin = first[:4096].lstrip()[:1]
    whole = chain([first], blocks)
    if begin == b"{":
        return parse_json_lines(split_lines(path, whole), path.name, wish)
    if begin == b"[":
        return parse_json_array(decode(read_file(path), path.name, "replace"), path.name, wish)
    return parse_csv(_text_lines(refuse_endless_lines(path, whole)), path.name, wish)


def _read_parquet(path: Path, wish: Wish) -> Bill:
    try:
        scan = pl.scan_parquet(path, hive_partitioning=False)
        names = scan.collect_schema().names()
        columns = wanted_columns(names, path.name, wish)
        batches = scan.select(columns).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        return parse_batches(names, batches, path.name, wish)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise SourceFailedError(f"{path.name}: no readable Parquet file ({error}); write it again") from error


def _text_lines(blocks: Iterator[bytes]) -> Iterator[str]:
    """The lines of UTF-8 text, with their ends; bytes that are none become surrogates, to be refused with their line."""
    rest = b""
    for block in blocks:
        text = rest + block
        cut = text.rfind(b"\n") + 1
        yield from io.StringIO(text[:cut].decode("utf-8", "surrogateescape"), newline="")
        rest = text[cut:]
    yield from io.StringIO(rest.decode("utf-8", "surrogateescape"), newline="")


def content_hash(paths: list[Path], wish: Wish = NOTHING) -> str:
    """What lines the files make, packed or not, in whatever order and under whatever name: hex SHA-256.

    It names their delivery. The same bytes read by other rules, or in another currency, are another delivery, or its lines
    would stand beside those of the first.
    """
    parts = [str(RULES_VERSION), *map("=".join, sorted(wish.given.items())), *sorted(_hash(path) for path in paths)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with opened(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceFailedError(f"{path.name}: the gzip data is broken ({error}); fetch it again") from error
    return digest.hexdigest()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
