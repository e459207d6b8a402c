from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from collectors import memory as memory_module
from collectors.command import SourceFailedError
from collectors.memory import FORGOTTEN_AFTER, KEPT, Memory, Remembered, remembering, remembering_each
from warehouse.home import Home
from warehouse.landing import landings as landing_module
from warehouse.landing.landings import Landing
from warehouse.landing.outcomes import landed_tables

NOON = datetime(2026, 11, 1, 12)
MINUTE = timedelta(minutes=1)
SOURCE, TARGET = "dcgm", "http://node7:9400/metrics"


def row(minute: int) -> pl.DataFrame:
    at = NOON + minute * MINUTE
    return pl.DataFrame([{"cluster": "c", "node": "n", "gpu_uuid": "g", "interval_start_at": at, "interval_ms": 60_000}])


def land(home: Path, *minutes: int, before_commit: Callable[[str], None] = lambda run_id: None) -> None:
    """Land a reading of each minute and remember them; `before_commit` runs between the two."""
    places = Home(home, home / "raw")
    with remembering(places, SOURCE, "c", TARGET) as memory:

        def save(run_id: str) -> None:
            memory.note("g", [Remembered(NOON + minute * MINUTE, {"energy": float(minute)}, run_id) for minute in minutes])
            memory.save()
            before_commit(run_id)

        Landing(places).land(SOURCE, {"gpu_samples": pl.concat(map(row, minutes))}, cluster="c", inputs=["a"], before_commit=save)


def known(home: Path, minute: int = 99) -> list[float]:
    """What counts as read before the minute."""
    with remembering(Home(home, home / "raw"), SOURCE, "c", TARGET) as memory:
        return [reading.values["energy"] for reading in memory.before("g", NOON + minute * MINUTE)]


def test_a_reading_that_landed_is_there_for_the_next_call_and_not_for_an_earlier_one(home: Path) -> None:
    assert known(home) == []
    land(home, 1)
    land(home, 3)
    assert known(home) == [1.0, 3.0]
    assert known(home, minute=3) == [1.0]
    assert known(home, minute=1) == []


class KilledError(BaseException): ...


def killed(run_id: str) -> None:
    raise KilledError


def test_a_call_that_ends_between_memory_and_commit_changes_nothing(home: Path) -> None:
    """Four readings of it pushed the four that count out of the file: the next call began as if nothing had been read."""
    land(home, 1)
    land(home, 2, 3, 4)
    before = known(home)
    for _ in range(3):
        with pytest.raises(KilledError):
            land(home, 5, 6, 7, 8, 9, before_commit=killed)
        assert known(home) == before == [1.0, 2.0, 3.0, 4.0]
    land(home, 5, 6)
    assert known(home) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_reading_landed_again_with_others_stays_known_if_that_call_is_killed(home: Path) -> None:
    land(home, 1)
    with pytest.raises(KilledError):
        land(home, 1, 2, before_commit=killed)
    assert known(home) == [1.0]


def test_a_process_killed_at_any_of_its_writes_leaves_the_old_state_or_the_new_one(home: Path) -> None:
    land(home, 1)
    program = """
import os, signal, sys
from pathlib import Path
from tests.unit.collectors.test_memory import land
left = int(sys.argv[2])
real = os.fsync
def counted(descriptor):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(descriptor)
os.fsync = counted
land(Path(sys.argv[1]), 2)
"""
    root = Path(__file__).parents[3]
    seen: list[list[float]] = []
    for writes in range(40):
        done = subprocess.run(
            [sys.executable, "-c", program, str(home), str(writes)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            check=False,
        )
        landed = len(landed_tables(home / "raw", SOURCE))
        seen.append(known(home))
        assert seen[-1] == ([1.0, 2.0] if landed == 2 else [1.0])
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert seen[0] == [1.0]
    assert seen[-1] == [1.0, 2.0]


def test_landing_the_same_again_remembers_the_same(home: Path) -> None:
    land(home, 1, 2)
    path = next((home / "state/dcgm").glob("*.json"))
    before = json.loads(path.read_text())
    land(home, 1, 2)
    assert json.loads(path.read_text()) == before


def test_a_call_that_was_killed_after_its_commit_is_found_landed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_and_die(*arguments: object) -> None:
        real(*arguments)  # type: ignore[arg-type]
        raise KilledError

    real = landing_module.write_outcome
    monkeypatch.setattr(landing_module, "write_outcome", write_and_die)
    with pytest.raises(KilledError):
        land(home, 1)
    assert known(home) == [1.0]


def test_a_few_readings_are_kept_and_a_series_without_any_for_weeks_is_forgotten(home: Path) -> None:
    for minute in range(20):
        land(home, minute)
    assert known(home)[-KEPT:] == [16.0, 17.0, 18.0, 19.0]
    assert len(known(home)) <= 2 * KEPT
    with remembering(Home(home, home / "raw"), SOURCE, "c", TARGET) as memory:
        memory.note("other", [Remembered(NOON + FORGOTTEN_AFTER + 30 * MINUTE, {}, None)])
        memory.save()
    with remembering(Home(home, home / "raw"), SOURCE, "c", TARGET) as memory:
        assert set(memory.series) == {"other"}


def test_a_reading_kept_back_counts_at_once_and_is_replaced_when_it_lands(home: Path) -> None:
    with remembering(Home(home, home / "raw"), SOURCE, "c", TARGET) as memory:
        memory.note("g", [Remembered(NOON + MINUTE, {"energy": 7.0}, None)])
        memory.save()
    assert known(home) == [7.0]
    land(home, 1)
    assert known(home) == [1.0]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"g": 5}', '{"g": [{"at": "x", "values": {}, "run": null}]}', "\x00"]
)
def test_a_file_that_cannot_be_read_is_as_none(home: Path, content: str) -> None:
    land(home, 1)
    next((home / "state/dcgm").glob("*.json")).write_text(content)
    assert known(home) == []
    land(home, 2)
    assert known(home) == [2.0]


def test_targets_and_clusters_have_each_their_own_memory_whatever_their_names(home: Path) -> None:
    places = Home(home, home / "raw")
    targets = [("a/b", "c"), ("a", "b/c"), ("a_b", "c"), ("../../x", "y"), ("ä" * 300, "http://h?" + "q" * 3000)]
    for number, (cluster, target) in enumerate(targets):
        with remembering(places, SOURCE, cluster, target) as memory:
            memory.note("g", [Remembered(NOON, {"energy": float(number)}, None)])
            memory.save()
    for number, (cluster, target) in enumerate(targets):
        with remembering(places, SOURCE, cluster, target) as memory:
            assert [reading.values["energy"] for reading in memory.before("g", NOON + MINUTE)] == [float(number)]
    assert {path.parent for path in home.rglob("*.json")} == {home / "state/dcgm"}


def test_a_second_call_on_the_same_target_waits_and_then_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "WAIT_SECONDS", 0.05)
    places = Home(home, home / "raw")
    with remembering(places, SOURCE, "c", TARGET):
        with pytest.raises(SourceFailedError, match="another call reads http://node7:9400/metrics and does not end"):
            known(home)
        with remembering(places, SOURCE, "c", "another"):
            pass


def test_two_calls_on_the_same_targets_in_other_orders_do_not_wait_for_each_other_for_ever(home: Path) -> None:
    places = Home(home, home / "raw")
    held: list[set[str]] = []

    def hold(targets: list[str]) -> None:
        for _ in range(20):
            with remembering_each(places, SOURCE, "c", targets) as memories:
                held.append(set(memories))

    threads = [threading.Thread(target=hold, args=(targets,)) for targets in (["a", "b", "c", "a"], ["c", "b", "a"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert held == [{"a", "b", "c"}] * 40


def test_notes_of_one_call_do_not_count_before_it_has_committed(home: Path) -> None:
    memory = Memory(Home(home, home / "raw"), SOURCE, home / "x.json")
    memory.note("g", [Remembered(NOON, {"energy": 1.0}, "dcgm-not-there")])
    assert memory.before("g", NOON + MINUTE) == []
