"""The processes that the agent starts, readers and landings: the one module of the agent that starts any."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence


class Process:
    """`python -m <module> <options>`. OSError where the machine gives no process.

    A piped one is written to and read from without waiting; nothing waits for one that was killed, since a process that
    is stuck in the kernel does not die of it.
    """

    def __init__(self, module: str, options: Sequence[str], *, is_piped: bool = False) -> None:
        pipe = subprocess.PIPE if is_piped else None
        self._process = subprocess.Popen([sys.executable, "-m", module, *options], stdin=pipe, stdout=pipe, bufsize=0)
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def output(self) -> int:
        """The descriptor that is ready when the process has said something."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def say(self, line: bytes) -> None:
        """Write to its stdin; one that has died is told by the end of its output."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line)

    def heard(self) -> bytes | None:
        """What it has said since, empty at the end of its output, None where there is nothing now."""
        try:
            return os.read(self.output, 1 << 20)
        except BlockingIOError:
            return None

    def kill(self) -> None:
        """Close its pipes and kill it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.kill()

    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Its exit code if it ends within that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None
