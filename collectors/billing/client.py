"""Open a bill's files: the one module here that touches them."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collectors.billing.parse import Bill, parse_csv, parse_parquet
from collectors.command import SourceFailedError


def read_bill(path: Path) -> Bill:
    """One file of a bill, CSV (plain or gzip) or Parquet; SourceFailedError where it is neither or no FOCUS bill."""
    if _head(path) == b"PAR1":
        return parse_parquet(path, path.name)
    with _open(path) as binary, io.TextIOWrapper(binary, _encoding(path), errors="surrogateescape", newline="") as text:
        return parse_csv(text, path.name)


def content_hash(paths: list[Path]) -> str:
    """What the files hold, packed or not, in whatever order and under whatever name: hex SHA-256."""
    return hashlib.sha256("".join(sorted(_hash(path) for path in paths)).encode()).hexdigest()


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with _open(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceFailedError(f"{path.name}: the gzip data is broken ({error}); fetch it again") from error
    return digest.hexdigest()


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """The file's bytes, unpacked if they are gzip."""
    with path.open("rb") as plain:
        if _head(path)[:2] != b"\x1f\x8b":
            yield plain
            return
        with gzip.GzipFile(fileobj=plain) as unpacked:
            yield unpacked


def _encoding(path: Path) -> str:
    """UTF-16 where a byte-order mark says so (Excel's "Unicode text"), else UTF-8 with or without one."""
    try:
        with _open(path) as file:
            head = file.read(2)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        head = b""
    return "utf-16" if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
