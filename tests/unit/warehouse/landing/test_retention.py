"""Old days go whole, by an outcome record, and nothing else goes with them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from tests.unit.warehouse.landing.test_landings import read_current, samples
from warehouse.home import Home
from warehouse.landing.conform import Reject
from warehouse.landing.landings import Landing
from warehouse.landing.outcomes import current_files, landed_tables
from warehouse.landing.retention import expire


@pytest.fixture
def landing(home: Path) -> Landing:
    return Landing(Home.from_environment())


def today() -> datetime:
    """Noon of this day: records carry the clock's time, so the days under test are counted from it."""
    return datetime.now(UTC).replace(tzinfo=None, hour=12, minute=0, second=0, microsecond=0)


def land_days(landing: Landing, *ages: int) -> None:
    for age in ages:
        landing.land("test", {"gpu_samples": samples(2, day=f"{today() - timedelta(days=age):%Y-%m-%d}")})


def days_left(home: Home) -> list[int]:
    days = [date.fromisoformat(Path(file).parent.name[3:]) for _, file in current_files(landed_tables(home.raw))]
    return sorted((today().date() - day).days for day in days)


def test_samples_older_than_the_policy_go_and_the_day_at_its_edge_stays(landing: Landing) -> None:
    land_days(landing, 1, 35, 36, 90)
    removed = expire(landing.home, now=today(), settle_days=-1)
    assert [(entry.table_name, (today().date() - entry.day).days, entry.files) for entry in removed] == [
        ("gpu_samples", 90, 1),
        ("gpu_samples", 36, 1),
    ]
    assert days_left(landing.home) == [1, 35]
    assert read_current(landing.home).height == 4
    assert removed[0].bytes > 0
    assert "gpu_samples" in removed[0].summary()


def test_doing_it_again_removes_nothing_and_the_files_go_after_the_grace(landing: Landing) -> None:
    land_days(landing, 1, 40)
    expire(landing.home, now=today(), settle_days=-1)
    files = list(landing.home.raw.glob("test/gpu_samples/dt=*/*.parquet"))
    assert len(files) == 2
    assert expire(landing.home, now=today(), settle_days=-1, grace=timedelta(0)) == []
    assert len(list(landing.home.raw.glob("test/gpu_samples/dt=*"))) == 1
    assert days_left(landing.home) == [1]


def test_an_import_of_old_days_waits_for_a_build_to_see_it(landing: Landing) -> None:
    land_days(landing, 100)
    assert expire(landing.home, now=today()) == []
    assert [entry.files for entry in expire(landing.home, now=today() + timedelta(days=3))] == [1]


def test_an_expired_day_does_not_come_back_when_its_file_lands_again(landing: Landing) -> None:
    land_days(landing, 40)
    expire(landing.home, now=today(), settle_days=-1, grace=timedelta(0))
    land_days(landing, 40)
    assert days_left(landing.home) == []


def test_processes_go_sooner_and_runs_stay_for_ever(landing: Landing) -> None:
    seen_at = f"{today() - timedelta(days=20):%Y-%m-%dT%H:%M:%SZ}"
    old = f"{today() - timedelta(days=900):%Y-%m-%dT%H:%M:%SZ}"
    process = {"cluster": "c1", "node": "n1", "gpu_uuid": "GPU-1", "seen_at": seen_at, "pid": 1}
    run = {"cluster": "c1", "scheduler": "slurm", "job_id": "1", "name": "a", "state": "COMPLETED", "observed_at": old}
    landing.land("test", {"gpu_processes": pl.DataFrame([process]), "runs": pl.DataFrame([run])})
    removed = expire(landing.home, now=today(), settle_days=-1)
    assert [entry.table_name for entry in removed] == ["gpu_processes"]
    assert [table for table, _ in current_files(landed_tables(landing.home.raw))] == ["runs"]


def test_retention_lands_nothing_and_moves_no_horizon(landing: Landing) -> None:
    land_days(landing, 40)
    expire(landing.home, now=today(), settle_days=-1)
    record = landed_tables(landing.home.raw)[-1]
    assert (record.source, record.status, record.rows_landed, record.files, record.through) == ("retention", "expired", 0, (), {})


def test_quarantined_rows_go_after_their_days(landing: Landing) -> None:
    landing.land("test", {"gpu_samples": samples(1)}, rejects=[Reject("a.csv", 2, "malformed", "no")])
    assert expire(landing.home, now=today() + timedelta(days=90), samples_days=10_000) == []
    removed = expire(landing.home, now=today() + timedelta(days=91), samples_days=10_000)
    assert [entry.table_name for entry in removed] == ["quarantine/test"]
    assert list(landing.home.quarantine.glob("*/*/*.parquet")) == []
