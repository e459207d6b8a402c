"""Tell whether two landings hold the same: hashes that do not depend on how the rows were cut into frames."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.landing.conform import pseudonym

#: raised when `conform` or a reader begins to make other rows of the same bytes, so that a file lands again
RULES_VERSION = 2


def hash_files(paths: Sequence[Path], *settings: str | None) -> str:
    """A hash of the files' bytes, in their order, of the settings that decide what rows they become, and of the rules.

    It is known before a row is read, so that files of any size can land in one pass. The key of user names is among
    the settings: with another key the same file makes other rows.
    """
    digest = hashlib.sha256(json.dumps([RULES_VERSION, *settings, pseudonym("the same user")]).encode())
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class RowsHash:
    """The hash of rows given frame by frame: equal for equal rows, whatever the frames were.

    The rows are hashed as JSON lines, whose form is not a matter of a library's version as that of a binary one is.
    """

    def __init__(self) -> None:
        self._tables: dict[str, Any] = {}

    def add(self, table: str, rows: pl.DataFrame) -> None:
        rows.write_ndjson(_HashWriter(self._tables.setdefault(table, hashlib.sha256())))  # type: ignore[call-overload]

    def digests(self) -> Mapping[str, str]:
        return {name: digest.hexdigest() for name, digest in sorted(self._tables.items())}


def hash_landing(
    source: str,
    cluster: str | None,
    content: str | Mapping[str, str],
    window: tuple[datetime | None, datetime | None] | None,
    gaps: Mapping[str, str] | None,
) -> str:
    """The hash that names a landing. The window is part of it: that a later hour held nothing new is news."""
    return hashlib.sha256(json.dumps([source, cluster, content, window, gaps], default=str).encode()).hexdigest()


class _HashWriter:
    """A file to write to that keeps only the hash of what is written."""

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return len(data)

    def flush(self) -> None: ...
