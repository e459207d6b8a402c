from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from collectors.command import SourceFailedError
from collectors.metrics.rounds import EPOCH, Round, names_of, rounds

STEP = timedelta(seconds=0.25)


def read(urls: list[str], fetch: object, seconds: float = 1.1, interval: timedelta = STEP) -> list[Round]:
    return list(rounds(urls, fetch, interval=interval, duration=timedelta(seconds=seconds)))  # type: ignore[arg-type]


def say(url: str, seconds: float) -> bytes:
    return url.encode()


def test_rounds_begin_at_full_multiples_of_the_interval_and_none_is_left_out() -> None:
    found = read(["http://a", "http://b"], say)
    assert 4 <= len(found) <= 5
    assert all((one.at - EPOCH) % STEP == timedelta(0) for one in found)
    assert {later.at - earlier.at for earlier, later in pairwise(found)} == {STEP}
    assert all(one.texts == (("http://a", b"http://a"), ("http://b", b"http://b")) and not one.failures for one in found)


def test_without_a_duration_there_is_one_round_at_once() -> None:
    at = datetime(2026, 11, 1, 12, 0, 7)
    assert list(rounds(["http://a"], say, interval=STEP, duration=None, now=lambda: at)) == [
        Round(at, (("http://a", b"http://a"),), {})
    ]


def test_a_duration_below_the_interval_has_one_round() -> None:
    assert len(read(["http://a"], say, seconds=0.01)) == 1


def test_an_address_that_hangs_costs_its_own_readings_only() -> None:
    released = threading.Event()

    def fetch(url: str, seconds: float) -> bytes:
        if "hangs" in url:
            released.wait(10)
        return b"text"

    began = time.monotonic()
    found = read(["http://hangs", "http://a"], fetch)
    released.set()
    assert time.monotonic() - began < 4
    assert {later.at - earlier.at for earlier, later in pairwise(found)} == {STEP}
    assert all(one.texts == (("http://a", b"text"),) for one in found)
    assert found[0].failures == {"http://hangs": "no answer within 0.2 s"}
    assert found[-1].failures == {"http://hangs": "still busy with the round before; is the server hanging?"}


def test_a_late_answer_of_one_round_is_none_of_the_next() -> None:
    calls: list[str] = []

    def fetch(url: str, seconds: float) -> bytes:
        calls.append(url)
        if len(calls) == 1:
            time.sleep(0.35)
            return b"of the first round"
        return b"later"

    texts = [text for one in read(["http://a"], fetch, seconds=1.6) for _, text in one.texts]
    assert set(texts) == {b"later"}


def test_many_slow_addresses_are_read_at_the_same_time() -> None:
    def fetch(url: str, seconds: float) -> bytes:
        time.sleep(0.05)
        return b"text"

    began = time.monotonic()
    found = read([f"http://node{number}" for number in range(100)], fetch, seconds=1, interval=timedelta(seconds=1))
    assert time.monotonic() - began < 4
    assert len(found[0].texts) == 100


def test_a_failure_is_a_gap_with_its_reason_and_the_next_round_asks_again() -> None:
    calls: list[str] = []

    def fetch(url: str, seconds: float) -> bytes:
        calls.append(url)
        if len(calls) == 1:
            raise SourceFailedError("http://a/m: answers 503; is it up?")
        if len(calls) == 2:
            raise RuntimeError("user:password")
        return b"text"

    found = read(["http://me:pw@a/m"], fetch)
    assert found[0].failures == {"http://a/m": "answers 503; is it up?"}
    assert found[1].failures == {"http://a/m": "cannot be read (RuntimeError)"}
    assert found[2].texts == (("http://a/m", b"text"),)


def test_rounds_are_read_on_while_an_earlier_one_is_worked_on() -> None:
    found: list[datetime] = []
    for one in rounds(["http://a"], say, interval=STEP, duration=timedelta(seconds=1.6)):
        if not found:
            time.sleep(0.9)
        found.append(one.at)
    assert {later - earlier for earlier, later in pairwise(found)} == {STEP}
    assert len(found) >= 6


def test_a_call_that_is_told_to_end_ends_with_the_rounds_it_has() -> None:
    ended = threading.Event()
    found = []
    for one in rounds(["http://a"], say, interval=STEP, duration=timedelta(hours=1), ended=ended):
        found.append(one)
        if len(found) == 2:
            ended.set()
    assert 2 <= len(found) <= 3


def test_the_addresses_may_answer_until_a_deadline_below_the_interval() -> None:
    given: list[float] = []

    def fetch(url: str, seconds: float) -> bytes:
        given.append(seconds)
        return b""

    read(["http://a"], fetch, seconds=1, interval=timedelta(seconds=1))
    assert given[0] == pytest.approx(0.8)


def test_names_hold_no_credentials_and_tell_addresses_apart() -> None:
    assert names_of(["http://u:p@a/m?x=1", "http://a/m?x=2", "http://a/m?x=2", "http://b/m"]) == {
        "http://a/m": "http://u:p@a/m?x=1",
        "http://a/m#2": "http://a/m?x=2",
        "http://b/m": "http://b/m",
    }
