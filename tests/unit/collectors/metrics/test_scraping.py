from __future__ import annotations

import signal
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from collectors.command import SourceFailedError
from collectors.metrics import scraping
from collectors.metrics.rounds import Round
from collectors.metrics.scraping import Batch, Scraped, batches, report, scrape, total
from warehouse.home import Home
from warehouse.landing.conform import Reject
from warehouse.landing.landings import CollectionOutcome, Landing, Window

NOON = datetime(2026, 11, 1, 12)
MINUTE = timedelta(minutes=1)


def round_at(minute: float, *texts: bytes, **failures: str) -> Round:
    named = tuple((f"http://{number}", text) for number, text in enumerate(texts))
    return Round(NOON + minute * MINUTE, named, failures)


def minutes(found: list[Batch]) -> list[list[float]]:
    return [[(one.at - NOON) / MINUTE for one in batch.rounds] for batch in found]


def test_a_batch_holds_the_rounds_of_five_minutes_and_the_last_one_what_is_left() -> None:
    each_minute = list(batches((round_at(number, b"a") for number in range(12)), MINUTE))
    assert minutes(each_minute) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    twice_a_minute = list(batches((round_at(number / 2, b"a") for number in range(20)), MINUTE / 2))
    assert [len(batch.rounds) for batch in twice_a_minute] == [10, 10]
    assert minutes(list(batches((round_at(number * 10, b"a") for number in range(3)), 10 * MINUTE))) == [[0], [10], [20]]


def test_a_batch_ends_before_its_texts_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "BATCH_BYTES", 80)
    assert minutes(list(batches((round_at(number, b"x" * 40) for number in range(4)), MINUTE))) == [[0, 1], [2, 3]]


def test_a_batch_names_what_answered_and_counts_what_did_not() -> None:
    batch = Batch((round_at(0, b"a", b"b"), round_at(1, b"a", n7="503"), round_at(2, b"c", n7="no answer")))
    assert batch.names == ["http://0", "http://1"]
    assert batch.gaps() == {"n7": "2 of 3 rounds: no answer"}
    assert [(name, text, at) for name, text, at in batch.scrapes][-1] == ("http://0", b"c", NOON + 2 * MINUTE)


def test_outcomes_of_several_landings_add_up() -> None:
    reject = Reject("a", 1, "malformed", "x")
    first = CollectionOutcome(
        "dcgm", "c", "landed", "r1", {"gpu_samples": 2}, 1, {"malformed": 1}, Window(NOON, NOON + MINUTE), None, [reject], ["n"]
    )
    second = CollectionOutcome("dcgm", "c", "already_landed", "r2", {"gpu_samples": 3, "run_gpus": 1}, notes=["n", "m"])
    both = total("dcgm", "c", [first, second])
    assert (both.status, both.rows, both.rows_quarantined) == ("landed", {"gpu_samples": 5, "run_gpus": 1}, 1)
    assert (both.window, both.notes, both.rejected_rows) == (Window(NOON, NOON + MINUTE), ["n", "m"], [reject])
    assert total("dcgm", "c", []).status == "nothing"
    assert total("dcgm", "c", [first]) is first


def test_an_address_that_never_answered_fails_the_call_after_the_others_have_been_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = CollectionOutcome("dcgm", "c", "landed", "r1", {"gpu_samples": 2}, rows_quarantined=1)
    with pytest.raises(SourceFailedError, match="http://n7: 5 of 5 rounds: no answer"):
        report(Scraped(outcome, {"http://n7": "5 of 5 rounds: no answer"}), as_json=False, strict=False)
    assert "landed 2 gpu_samples" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        report(Scraped(outcome, {}), as_json=False, strict=False)
    assert ended.value.code == 4


def run(home: Path, fetch: object, land: object, urls: list[str], seconds: float | None = 0.5) -> Scraped:
    return scrape(
        "dcgm",
        urls,
        cluster="c",
        interval=timedelta(seconds=0.1),
        duration=None if seconds is None else timedelta(seconds=seconds),
        fetch=fetch,  # type: ignore[arg-type]
        land=land,  # type: ignore[arg-type]
        landing=Landing(Home(home, home / "raw")),
    )


def accept(batch: Batch) -> CollectionOutcome:
    return CollectionOutcome("dcgm", "c", "landed", "r", {"gpu_samples": len(batch.scrapes)})


def test_an_address_is_silent_only_if_it_never_answered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "BATCH_TIME", timedelta(seconds=0.2))
    calls: list[str] = []

    def fetch(url: str, seconds: float) -> bytes:
        calls.append(url)
        if url == "http://never" or (url == "http://late" and calls.count(url) < 4):
            raise SourceFailedError(f"{url}: cannot be read")
        return b"text"

    scraped = run(home, fetch, accept, ["http://never", "http://late", "http://always"], seconds=0.7)
    assert set(scraped.silent) == {"http://never"}
    assert "cannot be read" in scraped.silent["http://never"]
    assert scraped.outcome.rows["gpu_samples"] >= 5


def test_a_batch_without_an_answer_leaves_a_failed_outcome_and_the_next_one_is_tried(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "BATCH_TIME", timedelta(seconds=0.1))
    calls: list[str] = []

    def fetch(url: str, seconds: float) -> bytes:
        calls.append(url)
        if len(calls) == 1:
            raise SourceFailedError(f"{url}: cannot be read")
        return f"text {len(calls)}".encode()

    def land(batch: Batch) -> CollectionOutcome:
        if batch.scrapes[0][1] == b"text 2":
            raise SourceFailedError("http://a: no metrics text")
        return accept(batch)

    scraped = run(home, fetch, land, ["http://a"])
    assert not scraped.silent
    assert scraped.outcome.rows["gpu_samples"] >= 2
    errors = pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet")["error"].to_list()
    assert sorted(errors) == ["http://a: 1 of 1 rounds: cannot be read", "http://a: no metrics text"]


def test_one_round_of_which_nothing_can_be_read_leaves_its_record_to_the_command(home: Path) -> None:
    def land(batch: Batch) -> CollectionOutcome:
        raise SourceFailedError("http://a: no DCGM field in it")

    scraped = run(home, lambda url, seconds: b"<html>", land, ["http://a"], seconds=None)
    assert scraped.silent == {"http://a": "http://a: no DCGM field in it"}
    assert not (home / "raw/dcgm").exists()
    with pytest.raises(SourceFailedError, match=r"^http://a: no DCGM field in it$"):
        report(scraped, as_json=False, strict=False)


def test_a_signal_to_end_lands_what_was_read(home: Path) -> None:
    """Airflow ends a task with SIGTERM; up to five minutes of readings of every node were lost with it."""
    threading.Timer(0.35, signal.raise_signal, [signal.SIGTERM]).start()
    before = signal.getsignal(signal.SIGTERM)
    began = time.monotonic()
    scraped = run(home, lambda url, seconds: b"text", accept, ["http://a"], seconds=3600)
    assert time.monotonic() - began < 5
    assert scraped.outcome.rows["gpu_samples"] >= 2
    assert signal.getsignal(signal.SIGTERM) is before
