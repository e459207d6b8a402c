"""Open a bill's files: the one module here that touches them."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from collectors.billing.parse import Bill, parse_csv, parse_parquet
from collectors.command import SourceFailed
from collectors.tables.parse import open_text


def read_bill(path: Path) -> Bill:
    """One file of a bill, CSV (plain or gzip) or Parquet; SourceFailed where it is neither or no FOCUS bill."""
    if _head(path) == b"PAR1":
        return parse_parquet(path, path.name)
    with open_text(path) as text:
        return parse_csv(text, path.name)


def content_hash(paths: list[Path]) -> str:
    """What the files hold, packed or not, in whatever order and under whatever name: hex SHA-256."""
    return hashlib.sha256("".join(sorted(_hash(path) for path in paths)).encode()).hexdigest()


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    is_packed = _head(path)[:2] == b"\x1f\x8b"
    try:
        with path.open("rb") as plain, gzip.GzipFile(fileobj=plain) if is_packed else plain as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceFailed(f"{path.name}: the gzip data is broken ({error}); fetch it again") from error
    return digest.hexdigest()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
