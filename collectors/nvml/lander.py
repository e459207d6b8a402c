"""When the agent lands what it has spooled, and the processes that do it."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from collectors.nvml import spool
from collectors.nvml.client import Process
from collectors.nvml.readers import Pause

#: all hosts of a fleet end an hour at once; their landings are spread over this long
LONGEST_SPREAD_SECONDS = 300.0


@dataclass
class Lander:
    """Lands the spools of a folder, by one process at a time; what fails is tried again at growing distances."""

    folder: Path
    node: str
    land_ms: int
    as_json: bool
    _process: Process | None = None
    _due_at: float | None = None
    _pause: Pause = field(default_factory=lambda: Pause(60.0, 900.0))

    def plan(self, *, now: bool = False) -> None:
        """A spool waits: land it at this host's own moment, or at once."""
        spread = min(LONGEST_SPREAD_SECONDS, self.land_ms / 12_000) * (zlib.crc32(self.node.encode()) % 1000) / 1000
        self._due_at = time.monotonic() + (0 if now else spread)

    def watch(self, current: Path | None) -> list[str]:
        """Start what is due, look after what runs; what a person should know of it. `current` is still being written."""
        notes: list[str] = []
        now = time.monotonic()
        if self._process is not None:
            code = self._process.exit_code()
            if code is None:
                return []
            self._process = None
            if code:
                notes.append(self._fail("landing failed", now))
            else:
                self._pause.succeed()
            notes += spool.make_room(self.folder, current)
        if self._due_at is not None and now >= self._due_at:
            self._due_at = None
            try:
                self._process = self._start(current)
            except OSError as error:  # no memory, no process to be had
                notes.append(self._fail(f"landing cannot be started ({error})", now))
        return notes

    def finish(self, seconds: float) -> bool:
        """Land everything within about that time; whether that is done."""
        deadline = time.monotonic() + seconds
        try:
            if self._process is not None:
                self._process.wait(seconds)
            last = self._start(None)
            return last is None or last.wait(max(1.0, deadline - time.monotonic())) == 0
        except OSError:
            return False

    def _fail(self, what: str, now: float) -> str:
        self._pause.fail(now)
        self._due_at = self._pause.next_at
        return f"{what} and is tried again in {self._pause.next_at - now:g} s; the rows are kept in {self.folder}"

    def _start(self, current: Path | None) -> Process | None:
        waiting = spool.spools(self.folder, current)
        if not waiting:
            return None
        options = ["--json"] if self.as_json else []
        return Process("collectors.nvml.land", [*options, *map(str, waiting)])
