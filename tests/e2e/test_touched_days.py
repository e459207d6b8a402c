"""Which days a landing touches: exactly those in which something changed, whatever the age of what it is about (semantics 5).

Only the models that find the days are built, by dbt as a build does it, since what is asked is which days a build would replace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from collectors.tables.collect import collect
from tests.conftest import OWN_VARIABLES
from warehouse import control
from warehouse.build import EVERYTHING, run_dbt
from warehouse.home import Home
from warehouse.landing.landings import Landing
from warehouse.landing.outcomes import landed_tables

pytestmark = pytest.mark.integration

FIRST = datetime(2026, 9, 1, tzinfo=UTC)
NOW = FIRST + timedelta(days=60, hours=10)
PODS = 1000


class Days:
    """A warehouse of which only the days touched are ever built."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.batches = 0

    def land(self, table: str, rows: Sequence[dict[str, object]]) -> None:
        self.batches += 1
        path = self.folder / str(self.batches) / f"{table}.csv"
        path.parent.mkdir(parents=True)
        pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
        outcome = collect(table, (path,), None, Landing(self.home))
        assert not outcome.rows_quarantined, outcome.rejected_rows[:3]

    def touched(self, *, first: bool = False) -> set[date]:
        """The days that a build would replace now; it then counts as built."""
        landed = landed_tables(self.home.raw)
        with control.open_build_database(self.home) as connection:
            fresh = control.not_consumed(connection, landed)
            control.write_inputs(connection, self.home, landed, fresh, EVERYTHING, build_id="days", full_refresh=first)
        run_dbt(self.home, full_refresh=first, select=["+int_days_touched", "--exclude-resource-type", "test"])
        with control.open_build_database(self.home) as connection:
            days = {row[0] for row in connection.execute("select usage_date from int_days_touched").fetchall()}
            for model in control.REMEMBERED:
                connection.execute(f"create or replace table control.{model.removeprefix('int_')}_built as select * from {model}")
            consumed = [record.collection_run_id for record in fresh]
            connection.execute("insert into control.consumed select unnest(?::varchar[])", [consumed])
        return days


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Days]:
    """A thousand pods that were bound sixty days ago and are still there, and a job that ended ten days ago."""
    folder = tmp_path_factory.mktemp("days")
    with _own_home(folder / "home") as home:
        found = Days(home, folder / "landed")
        found.land("runs", [pod(number, NOW) for number in range(PODS)] + [job(NOW, days_ago=10)])
        found.land("run_gpus", [holding(number) for number in range(PODS)])
        found.land(
            "workload_rules",
            [{"priority": 5, "cluster": "c", "name_regex": "^chat-", "workload": "chat", "valid_from": stamp(FIRST)}],
        )
        assert found.touched(first=True) == set(), "a full refresh replaces every day and asks for none"
        assert found.touched() == set(), "nothing has landed since"
        yield found


def test_pods_that_live_for_months_and_are_seen_again_touch_their_newest_part(days: Days) -> None:
    days.land("runs", [pod(number, NOW + timedelta(hours=1)) for number in range(PODS)])
    today = NOW.date()
    assert days.touched() == {today - timedelta(days=1), today, today + timedelta(days=1)}


def test_a_run_told_late_touches_the_days_it_held_and_their_neighbours(days: Days) -> None:
    days.land("runs", [job(NOW, days_ago=30, name="late")])
    start = (NOW - timedelta(days=30)).date()
    assert days.touched() == {start + timedelta(days=offset) for offset in (-1, 0, 1)}


def test_a_rule_that_comes_late_touches_the_days_of_the_runs_it_renames(days: Days) -> None:
    days.land(
        "workload_rules",
        [
            {"priority": 5, "cluster": "c", "name_regex": "^chat-", "workload": "chat", "valid_from": stamp(FIRST)},
            {"priority": 1, "cluster": "c", "name_regex": "^job", "workload": "nightly", "valid_from": stamp(FIRST)},
        ],
    )
    start = (NOW - timedelta(days=10)).date()
    assert days.touched() == {start + timedelta(days=offset) for offset in (-1, 0, 1)}


def test_a_sample_received_days_after_it_was_taken_touches_its_day(days: Days) -> None:
    """Case D15: a sample of 20 days ago is in that day's tables after the next build, however far a look-back would reach."""
    taken = NOW - timedelta(days=20)
    sample = {"cluster": "c", "node": "n1", "gpu_uuid": "GPU-1", "interval_start_at": stamp(taken), "interval_ms": 60_000}
    days.land("gpu_samples", [sample | {"sm_active_ratio": 0.9}])
    assert taken.date() in days.touched()
    assert days.touched() == set()


def test_a_rule_that_is_valid_later_touches_nothing(days: Days) -> None:
    days.land(
        "workload_rules",
        [{"priority": 0, "cluster": "c", "name_regex": "^job", "workload": "other", "valid_from": stamp(NOW)}],
    )
    assert days.touched() == set()


def pod(number: int, seen_at: datetime) -> dict[str, object]:
    return {
        "cluster": "c",
        "scheduler": "kubernetes",
        "job_id": f"pod-{number}",
        "name": f"chat-{number}",
        "namespace": "serving",
        "state": "Running",
        "started_at": stamp(FIRST + timedelta(minutes=number % 60)),
        "ended_at": None,
        "gpu_count": 1,
        "node_list": f"n{number // 8}",
        "observed_at": stamp(seen_at),
    }


def job(seen_at: datetime, *, days_ago: int, name: str = "job") -> dict[str, object]:
    start = seen_at - timedelta(days=days_ago)
    return {
        "cluster": "c",
        "scheduler": "slurm",
        "job_id": f"{name}-{days_ago}",
        "name": name,
        "namespace": "ml",
        "state": "COMPLETED",
        "started_at": stamp(start),
        "ended_at": stamp(start + timedelta(hours=3)),
        "gpu_count": 1,
        "node_list": "n999",
        "observed_at": stamp(seen_at),
    }


def holding(number: int) -> dict[str, object]:
    return {
        "cluster": "c",
        "job_id": f"pod-{number}",
        "node": f"n{number // 8}",
        "gpu_uuid": f"GPU-{number}",
        "gpu_count": 1,
        "started_at": stamp(FIRST + timedelta(minutes=number % 60)),
    }


def stamp(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def _own_home(root: Path) -> Iterator[Home]:
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN_VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("GPU_NET_HOME", str(root))
        yield Home.from_environment().create()
