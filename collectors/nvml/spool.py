"""Rows that have not landed yet, as JSON lines on this host's disk, so that an agent killed at any moment loses nothing.

    $GPU_NET_HOME/state/nvml/<cluster>-<node>-<hash>/lock               held by the agent
                                                     /devices.json      the GPUs, and until when each slot has been told
                                                     /<number>-<from>.jsonl     the spools; the newest is being written

A line is `[kind, object]`: a landing table and a row of it, or `begin`, `end`, `hole`, `note`. Rows leave out what all of
them share (cluster, node, source). Every tick is handed to the system at once, which survives a killed agent, and flushed
to the disk now and then, which survives a power cut.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from warehouse.atomic import replaced
from warehouse.home import Home

Line = tuple[str, dict[str, Any]]

FLUSH_SECONDS = 30.0
#: rows held in memory while the disk takes none: an hour of eight GPUs at 10 s twice over
MOST_HELD = 6_000
#: bytes of spools kept while nothing can be landed; beyond, the oldest goes
SPOOL_LIMIT = 2 << 30


def folder_of(home: Home, cluster: str, node: str) -> Path:
    """The agent's own folder, made for this user only."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{cluster}-{node}")[:80]
    folder = home.create().state / "nvml" / f"{name}-{hashlib.sha256(f'{cluster}/{node}'.encode()).hexdigest()[:8]}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def lock(folder: Path) -> int | None:
    """Hold the folder until this process ends; None where another agent holds it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class Spool:
    """The spool being written. A disk that takes nothing is told by `trouble`; the lines wait, the oldest go first."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        # numbered, since names by the clock would not tell which is older after it was set back
        number = 1 + max((_number(path) for path in spools(folder)), default=0)
        self.path = folder / f"{number:06d}-{header['from'].replace(':', '').replace('.', '')}.jsonl"
        self.trouble: str | None = None
        self.dropped = 0
        self._file: int | None = None
        self._size = 0
        self._held: deque[bytes] = deque()
        self._flushed_at = time.monotonic()
        self.write([("begin", header)])

    def write(self, lines: Iterable[Line]) -> None:
        """Append whole lines, or none of them."""
        self._held.extend(_encode(line) for line in lines)
        if not self._held:
            return
        data = b"".join(self._held)
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError("no room for all of it")
        except OSError as error:
            self.trouble = str(error)
            if self._file is not None:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._size)
            while len(self._held) > MOST_HELD:
                del self._held[1]  # the first line says what the rows belong to
                self.dropped += 1
            return
        self.trouble = None
        self._size += len(data)
        self._held.clear()
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Bring it to the disk."""
        self._flushed_at = time.monotonic()
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fdatasync(self._file)

    def close(self, until: str) -> bool:
        """Say until when it knows everything; whether it is all on the disk."""
        if self.dropped:
            self.write([("note", {"text": f"{self.dropped} rows were dropped while the spool could not be written"})])
        self.write([("end", {"until": until})])
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return not self._held


def read(path: Path) -> Iterator[Line | int]:
    """The lines of a spool; for one that cannot be read its number. A last line without an end was never finished."""
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            if not data.endswith(b"\n"):
                return
            try:
                kind, content = json.loads(data)
                yield str(kind), dict(content)
            except (ValueError, TypeError):
                yield number


def spools(folder: Path, current: Path | None = None) -> list[Path]:
    """The spools that wait to be landed, oldest first."""
    return sorted((path for path in folder.glob("*.jsonl") if path != current), key=_number)


def make_room(folder: Path, current: Path | None, limit: int = SPOOL_LIMIT) -> list[str]:
    """Remove the oldest spools beyond the limit; what was lost by it, in words."""
    lost = []
    waiting = spools(folder, current)
    sizes = {path: path.stat().st_size for path in waiting}
    while waiting and sum(sizes[path] for path in waiting) > limit:
        oldest = waiting.pop(0)
        oldest.unlink(missing_ok=True)
        lost.append(f"{oldest.name} was removed unlanded: more than {limit >> 20} MiB wait and nothing can be landed")
    return lost


def save(folder: Path, document: dict[str, Any]) -> None:
    """Keep what the next agent must know; a disk that takes nothing costs only that."""
    with contextlib.suppress(OSError), replaced(folder / "devices.json") as temporary:
        temporary.write_text(json.dumps(document))


def load(folder: Path) -> dict[str, Any]:
    """What the last agent kept; empty where there is nothing to read."""
    try:
        document = json.loads((folder / "devices.json").read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _number(path: Path) -> int:
    number, _, _ = path.name.partition("-")
    return int(number) if number.isdecimal() else 0


def _encode(line: Line) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
