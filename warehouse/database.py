"""Open DuckDB files, and keep two writers apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from filelock import FileLock, Timeout

from warehouse.home import Home


class WarehouseLockedError(Exception):
    """Another build, gate or publication holds the build database; the message says so."""


@contextmanager
def connect(path: Path, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the file at `path`, in UTC whatever the session's zone; closed at the end.

    Raises duckdb.IOException where the file is missing (read-only) or another process writes to it.
    """
    connection = duckdb.connect(str(path), read_only=read_only)
    try:
        connection.execute("set TimeZone = 'UTC'")
        yield connection
    finally:
        connection.close()


#: longer than a reader of ours holds the lock, who must not make a build that starts fail
LOCK_WAIT_SECONDS = 2.0


@contextmanager
def locked(home: Home, *, wait_seconds: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """Hold the warehouse's one lock, which builds, the gate and publications share; raises WarehouseLockedError.

    A reader of the build database would make a build that starts fail, so that readers of ours take the lock as well. The
    kernel lets go of it when its holder ends, however it ends.
    """
    try:
        with FileLock(home.build / ".lock", timeout=wait_seconds):
            yield
    except Timeout:
        raise WarehouseLockedError(
            "another build, gate or publication is running on this warehouse; wait for it to end and try again"
        ) from None
