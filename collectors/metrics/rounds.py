"""Rounds of reading: many addresses at once, again and again, on an exact grid of the wall clock.

A round begins at a multiple of the interval since 1970, so that two calls, or two hosts, read at the same instants, and
its readings carry that instant. An address that does not answer in time costs its own readings of that round: a gap
with its reason.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors.command import SourceFailedError, utc_now
from collectors.http import TIMEOUT_SECONDS, without_credentials

#: the part of the interval in which an address must answer
DEADLINE_SHARE = 0.8
#: rounds that wait while others are landed; more than these are not read at all
WAITING_ROUNDS = 100
EPOCH = datetime(1970, 1, 1)

#: reads an address, in at most so many seconds; raises SourceFailedError
Fetch = Callable[[str, float], bytes]


@dataclass(frozen=True)
class Round:
    """One reading of every address. `at`: its instant of the grid, naive UTC.

    `texts` holds (address without credentials, answer) in the order of the addresses, `failures` address → reason.
    """

    at: datetime
    texts: tuple[tuple[str, bytes], ...]
    failures: Mapping[str, str]

    @property
    def size(self) -> int:
        return sum(len(text) for _, text in self.texts)


def rounds(
    urls: Sequence[str],
    fetch: Fetch,
    *,
    interval: timedelta,
    duration: timedelta | None,
    ended: threading.Event | None = None,
    now: Callable[[], datetime] = utc_now,
) -> Iterator[Round]:
    """A round now, or one at each multiple of `interval` from now on for `duration` (at least one).

    They are read in a thread of their own, so that landing a batch does not hold up the next round; a round that would
    begin late because all are waiting is left out.
    """
    readers = [_Reader(name, url, fetch) for name, url in names_of(urls).items()]
    if duration is None:
        yield _read_round(readers, now(), TIMEOUT_SECONDS)
        return
    ended = ended or threading.Event()
    found: queue.Queue[Round | None] = queue.Queue(WAITING_ROUNDS)

    def read_all() -> None:
        end_at, at = now() + duration, _next_instant(now() - timedelta(microseconds=1), interval)
        while at < end_at or not readers[0].calls:
            if not _sleep_until(at, ended, now):
                break
            found.put(_read_round(readers, at, interval.total_seconds() * DEADLINE_SHARE))
            at = max(_next_instant(now(), interval), at + interval)
        found.put(None)

    threading.Thread(target=read_all, daemon=True).start()
    while (one := found.get()) is not None:
        yield one


def names_of(urls: Iterable[str]) -> dict[str, str]:
    """Name → address, each address once; the name is the address without credentials and query."""
    named: dict[str, str] = {}
    for url in dict.fromkeys(urls):
        shown, number = without_credentials(url), 2
        name = shown
        while name in named:
            name, number = f"{shown}#{number}", number + 1
        named[name] = url
    return named


class _Reader:
    """Reads one address, one call at a time; a call that does not end is left alone until it does."""

    def __init__(self, name: str, url: str, fetch: Fetch) -> None:
        self.name, self.calls = name, 0
        self._url, self._fetch = url, fetch
        self._thread: threading.Thread | None = None

    def start(self, seconds: float, answers: queue.SimpleQueue[tuple[str, bytes | str]]) -> None:
        """Put (name, the text, or the reason why there is none) into `answers` some time."""
        self.calls += 1
        if self._thread and self._thread.is_alive():
            answers.put((self.name, "still busy with the round before; is the server hanging?"))
            return

        def read() -> None:
            try:
                answers.put((self.name, self._fetch(self._url, seconds)))
            except SourceFailedError as error:
                answers.put((self.name, str(error).removeprefix(f"{self.name}: ")))
            except Exception as error:  # a thread that dies in silence would look like a slow server
                answers.put((self.name, f"cannot be read ({type(error).__name__})"))

        # a daemon: a call that hangs in the name lookup must not keep the process from ending
        self._thread = threading.Thread(target=read, daemon=True)
        self._thread.start()


def _read_round(readers: Sequence[_Reader], at: datetime, seconds: float) -> Round:
    """Read every address at once; those that have not answered after `seconds` are failures."""
    answers: queue.SimpleQueue[tuple[str, bytes | str]] = queue.SimpleQueue()
    deadline = time.monotonic() + seconds
    for reader in readers:
        reader.start(seconds, answers)
    got: dict[str, bytes | str] = {}
    while len(got) < len(readers):
        try:
            name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        got[name] = answer
    late = f"no answer within {seconds:g} s"
    answered = [(reader.name, got.get(reader.name, late)) for reader in readers]
    texts = tuple((name, answer) for name, answer in answered if isinstance(answer, bytes))
    return Round(at, texts, {name: answer for name, answer in answered if isinstance(answer, str)})


def _next_instant(at: datetime, interval: timedelta) -> datetime:
    """The first multiple of the interval since 1970 after `at`."""
    return EPOCH + ((at - EPOCH) // interval + 1) * interval


def _sleep_until(at: datetime, ended: threading.Event, now: Callable[[], datetime]) -> bool:
    """Wait until `at`; False if told to end before. In steps, since the clock may be set meanwhile."""
    while (left := (at - now()).total_seconds()) > 0:
        if ended.wait(min(left, 1.0)):
            return False
    return not ended.is_set()
