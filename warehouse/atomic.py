"""Files that are there in full or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; on success fsync it and rename it to `path`.

    A reader sees the old file or the new one. A writer that is killed leaves a name that begins with `.tmp-`,
    which no reader looks at and which `sweep` removes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".tmp-{uuid.uuid4().hex}-{path.name}"
    try:
        yield temporary
        fsync(temporary)
        temporary.rename(path)
        fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """Flush a file's or a folder's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
