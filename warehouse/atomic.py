"""Files that are there in full or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

#: where unfinished files lie below a root; no reader looks there
STAGING = ".staging"
#: what was left behind by a writer of another machine is removed when it is this old
STALE_SECONDS = 24 * 3600


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; on success fsync it and rename it to `path`.

    A reader sees the old file or the new one. A writer that is killed leaves a name that begins with `.tmp-`,
    which no reader looks at and which compaction sweeps.
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


@dataclass
class Staging:
    """A private folder below `root` for files that are renamed into place together, after the last of them is written.

    Used as a context manager. While it is open its lock file is locked, so that `sweep` can tell a writer at work
    from one that was killed. Leaving it removes what was not published.
    """

    root: Path
    folder: Path = field(init=False)
    _lock: int = field(init=False, default=-1)
    _files: list[tuple[Path, Path]] = field(init=False, default_factory=list)

    def __enter__(self) -> Staging:
        parent = self.root / STAGING
        parent.mkdir(parents=True, exist_ok=True)
        self.folder = parent / f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"
        self._lock = _hold(_lock_of(self.folder))
        self.folder.mkdir()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        _lock_of(self.folder).unlink(missing_ok=True)
        os.close(self._lock)

    def path_for(self, final: Path) -> Path:
        """Where to write what `publish` will rename to `final`."""
        staged = self.folder / f"{len(self._files):06d}-{final.name}"
        self._files.append((staged, final))
        return staged

    def publish(self) -> None:
        """Flush every staged file and rename it to its final name; a killed one leaves some of them there."""
        for staged, _ in self._files:
            fsync(staged)
        for staged, final in self._files:
            _move(staged, final)
        for folder in {final.parent for _, final in self._files}:
            fsync(folder)
            fsync(folder.parent)


def _move(staged: Path, final: Path) -> None:
    for attempt in range(3):
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            staged.rename(final)
            return
        except FileNotFoundError:
            # retention may have removed the empty folder between the two lines
            if attempt == 2:
                raise


def sweep(root: Path) -> int:
    """Remove the staging folders whose writer is dead (or, of another machine, a day old); return how many."""
    removed = 0
    # a writer killed between its lock and its folder leaves the lock alone
    names = {path.name.removesuffix(".lock") for path in (root / STAGING).glob("*-*-*")}
    for folder in sorted(root / STAGING / name for name in names):
        try:
            if folder.name.startswith(f"{socket.gethostname()}-"):
                descriptor = _try_hold(_lock_of(folder))
                if descriptor is None:
                    continue
                os.close(descriptor)
            elif time.time() - (folder if folder.exists() else _lock_of(folder)).stat().st_mtime < STALE_SECONDS:
                continue
        except FileNotFoundError:
            continue
        removed += folder.exists()
        shutil.rmtree(folder, ignore_errors=True)
        _lock_of(folder).unlink(missing_ok=True)
    return removed


class BusyError(OSError):
    """Another process does what only one may do at a time."""


@contextmanager
def alone(root: Path, name: str) -> Iterator[None]:
    """Hold the lock `name` below `root`; BusyError where another process holds it. Ends with the process, even a killed one."""
    path = root / STAGING / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _try_hold(path)
    if descriptor is None:
        raise BusyError(f"another process holds {path}; wait until it has ended, then run this again")
    try:
        yield
    finally:
        os.close(descriptor)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".lock")


def _hold(path: Path) -> int:
    descriptor = _try_hold(path)
    if descriptor is None:
        raise BusyError(f"{path} is held by another process")
    return descriptor


def _try_hold(path: Path) -> int | None:
    """Lock a lock file; None where another process has it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        try:
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        # a sweep removed the file between the open and the lock
        os.close(descriptor)
