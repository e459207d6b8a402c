"""The agent's readers: processes that call NVML, watched, since a call to a sick GPU may never return.

One reader serves all GPUs. The GPU at which it hangs or dies gets a reader of its own, which is started again and again at
growing distances, and the shared one is started anew without it. A process stuck in the kernel cannot even be killed: it
is left behind, and nothing waits for it.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from collectors.nvml.client import Process

#: loading the library and opening a GPU takes seconds where no persistence daemon holds the driver
OPENING_PATIENCE_SECONDS = 30.0
#: a GPU lost for this long is looked at by a new process, which may find what the old one cannot
LOST_RETRY_SECONDS = 60.0
#: processes that do not die of being killed; with so many no shared reader is started any more
MOST_STUCK = 4

Message = dict[str, Any]


@dataclass
class Pause:
    """When to try again: at once, then at distances that double."""

    first: float
    longest: float
    next_at: float = 0.0
    _length: float = 0.0

    def fail(self, now: float) -> None:
        self._length = min(self.longest, self._length * 2 or self.first)
        self.next_at = now + self._length

    def succeed(self) -> None:
        self._length = self.next_at = 0.0


@dataclass
class Reader:
    """One process. `outstanding` are the GPUs of the request in hand that are not answered, in their order."""

    process: Process
    only: int | None
    skip: frozenset[int]
    progress_at: float
    count: int | None = None
    opened: dict[int, str | None] = field(default_factory=dict)
    is_ready: bool = False
    failure: str | None = None
    request: Message | None = None
    outstanding: list[int] = field(default_factory=list)
    tail: bytes = b""

    @property
    def culprit(self) -> int | None:
        """The GPU at which the process is."""
        if self.only is not None:
            return self.only
        if self.is_ready:
            return self.outstanding[0] if self.outstanding else None
        return next((i for i in range(self.count or 0) if i not in self.skip and i not in self.opened), None)


@dataclass
class Readers:
    """`ask` for readings; `wait` gives what the readers said: answers, the fleet when it was opened, notes."""

    selector: selectors.BaseSelector
    patience: float
    opening_patience: float = OPENING_PATIENCE_SECONDS
    module: str = "collectors.nvml.reader"
    now: Callable[[], float] = time.monotonic
    #: why no driver answers; None while one does
    trouble: str | None = "NVML has not opened yet"
    driver: str | None = None
    _shared: Reader | None = None
    _own: dict[int, Reader] = field(default_factory=dict)
    _lost_since: dict[int, float] = field(default_factory=dict)
    _stuck: list[Reader] = field(default_factory=list)
    _pause: Pause = field(init=False)
    _own_pauses: dict[int, Pause] = field(default_factory=dict)
    _said: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._pause = self._new_pause(30.0)

    def start(self) -> None:
        """Open the GPUs before the first tick: what is measured between two readings has its first one then."""
        self._start_due()

    def ask(self, at: int, *, describe: bool, with_processes: bool) -> None:
        """Ask every reader that is free for a reading of the tick `at`, and start those that are due."""
        self._expire()
        self._stuck = [reader for reader in self._stuck if reader.process.exit_code() is None]
        self._start_due()
        request = {"at": at, "describe": describe, "processes": with_processes}
        for reader in self._all():
            if not reader.outstanding:
                reader.request = request
                if reader.is_ready:
                    self._send(reader)

    def wait(self, seconds: float) -> list[Message]:
        """What was said within that time, as soon as there is any; hanging readers are ended."""
        deadline = self.now() + seconds
        while not self._said:
            expiries = [reader.progress_at + self._patience(reader) for reader in self._waiting()]
            remaining = min([deadline, *expiries]) - self.now()
            ready = self.selector.select(max(0.0, remaining))
            for key, _ in ready:
                if isinstance(key.data, Reader):
                    self._read(key.data)
                else:
                    key.data()
                    return self._take()
            self._expire()
            if not ready and self.now() >= deadline:
                break
        return self._take()

    def pending(self, index: int) -> int | None:
        """The tick of which an answer for a GPU may still come."""
        for reader in self._all():
            if reader.request and (index in reader.outstanding or (not reader.is_ready and reader.only in (None, index))):
                return int(reader.request["at"])
        return None

    @property
    def is_asked(self) -> bool:
        """Whether an answer is still to come."""
        return any(reader.outstanding for reader in self._all())

    @property
    def is_done(self) -> bool:
        """Whether all that can be said now is said; of a GPU that had its time and hangs, nothing is awaited."""
        return not self.is_asked and (self._shared is None or self._shared.is_ready)

    def close(self) -> None:
        """End all readers; none is waited for longer than a moment."""
        for reader in self._all():
            self._drop(reader)
        for reader in self._stuck:
            reader.process.wait(0.5)

    def _all(self) -> list[Reader]:
        return [*([self._shared] if self._shared else []), *self._own.values()]

    def _waiting(self) -> list[Reader]:
        return [reader for reader in self._all() if reader.outstanding or not reader.is_ready]

    def _patience(self, reader: Reader) -> float:
        return self.patience if reader.is_ready else self.opening_patience

    def _take(self) -> list[Message]:
        said, self._said = self._said, []
        return said

    def _start_due(self) -> None:
        now = self.now()
        for index in [i for i, since in self._lost_since.items() if now - since >= LOST_RETRY_SECONDS]:
            self._own_pauses.setdefault(index, Pause(LOST_RETRY_SECONDS, 5 * LOST_RETRY_SECONDS))
        stuck = [reader.only for reader in self._stuck]
        for index, pause in self._own_pauses.items():
            if index not in self._own and index not in stuck and now >= pause.next_at and (self._shared or index in self._hung):
                started = self._start(only=index)
                if started is None:
                    pause.fail(now)
                else:
                    self._own[index] = started
        if self._shared is None and now >= self._pause.next_at and stuck.count(None) < MOST_STUCK:
            self._shared = self._start(skip=frozenset(self._hung))
            if self._shared is None:
                self._pause.fail(now)

    @property
    def _hung(self) -> set[int]:
        """GPUs that the shared reader must not touch."""
        return {index for index in self._own_pauses if index not in self._lost_since}

    def _start(self, *, only: int | None = None, skip: frozenset[int] = frozenset()) -> Reader | None:
        gpus = ["--only", str(only)] if only is not None else ["--skip", ",".join(map(str, sorted(skip)))]
        options = ["--agent", str(os.getpid()), *gpus]
        try:
            process = Process(self.module, options, is_piped=True)
        except OSError as error:  # no memory, no process to be had
            self._said.append({"note": f"a reader cannot be started ({error})"})
            return None
        reader = Reader(process, only, skip, self.now())
        self.selector.register(process.output, selectors.EVENT_READ, reader)
        return reader

    def _send(self, reader: Reader) -> None:
        assert reader.request is not None
        if reader.only is not None:
            indices = [reader.only]
        else:
            own = {index for index, other in self._own.items() if other.is_ready}
            indices = [index for index in range(reader.count or 0) if index not in reader.skip and index not in own]
        reader.outstanding, reader.progress_at = indices, self.now()
        reader.process.say(json.dumps(reader.request | {"gpus": indices}).encode() + b"\n")

    def _read(self, reader: Reader) -> None:
        data = reader.process.heard()
        if data is None:
            return
        if not data:
            self._ended(reader)
            return
        *lines, reader.tail = (reader.tail + data).split(b"\n")
        reader.progress_at = self.now()
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:  # torn by the end of the process
                continue
            self._hear(reader, message)

    def _hear(self, reader: Reader, message: Message) -> None:
        if "status" in message:
            index = message["index"]
            if index in reader.outstanding:
                reader.outstanding.remove(index)
            if message["status"] == "ok":
                self._lost_since.pop(index, None)
                if reader.only is None and index not in self._own:
                    self._own_pauses.pop(index, None)
            else:
                self._lost_since.setdefault(index, self.now())
            self._said.append(message)
        elif "opened" in message:
            reader.opened[message["opened"]] = message.get("uuid")
        elif "count" in message:
            reader.count, self.driver = message["count"], message["driver"]
        elif "failed" in message:
            reader.failure = message["failed"]
        elif "ready" in message:
            reader.is_ready = True
            if reader.only is None:
                self._pause.succeed()
                self.trouble = None
                self._said.append({"fleet": dict(reader.opened), "skipped": sorted(reader.skip)})
            elif reader.opened.get(reader.only):
                self._own_pauses[reader.only].succeed()
            if reader.request:
                self._send(reader)

    def _ended(self, reader: Reader) -> None:
        """A reader's output has ended: it said why, its one GPU is lost, or it crashed where it was."""
        if reader.failure:
            self._drop(reader)
            if reader.only is None:
                self.trouble = reader.failure
                self._said.append({"note": reader.failure})
        elif reader.only is not None and reader.only in reader.opened and not reader.is_ready:
            self._drop(reader)  # its GPU cannot be opened: lost
        else:
            self._trouble_with(reader, "ended without a word")

    def _expire(self) -> None:
        for reader in self._waiting():
            if self.now() - reader.progress_at >= self._patience(reader):
                self._trouble_with(reader, f"did not answer for {self._patience(reader):g} s")

    def _trouble_with(self, reader: Reader, what: str) -> None:
        culprit, request = reader.culprit, reader.request
        self._drop(reader)
        where = f"GPU {culprit}" if culprit is not None else "the driver"
        self._said.append({"note": f"{where}: its reader {what} and is started anew"})
        if reader.only is None:
            if culprit is None:
                self.trouble = f"the driver {what}"
                return
            # from now on in a process of its own; the others go on at once
            self._lost_since.pop(culprit, None)
            self._own_pauses[culprit] = self._new_pause(60.0)
            self._pause.succeed()
        self._start_due()
        for started in self._all():
            if not started.is_ready and started.request is None:
                started.request = request

    def _drop(self, reader: Reader) -> None:
        self.selector.unregister(reader.process.output)
        reader.process.kill()
        self._stuck.append(reader)
        reader.request, reader.outstanding = None, []
        if reader.only is None:
            self._shared = None
            self._pause.fail(self.now())
        else:
            self._own.pop(reader.only, None)
            self._own_pauses.setdefault(reader.only, self._new_pause(60.0)).fail(self.now())

    def _new_pause(self, longest: float) -> Pause:
        return Pause(max(1.0, 2 * self.patience), longest)
