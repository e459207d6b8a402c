"""A landing is there whole or not at all, and landing the same twice changes nothing."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from warehouse import atomic, control
from warehouse.atomic import BusyError, Staging, alone, sweep
from warehouse.home import Home
from warehouse.landing import writer as landing_writer
from warehouse.landing.conform import Reject
from warehouse.landing.content import hash_files
from warehouse.landing.landings import Landing, LandingError, Window
from warehouse.landing.outcomes import current_files, landed_tables


@pytest.fixture
def landing(home: Path) -> Landing:
    return Landing(Home.from_environment())


def samples(count: int = 4, *, day: str = "2026-11-01", gpu: str = "GPU-1") -> pl.DataFrame:
    """Readings of one GPU, a minute apart, from midnight on."""
    return pl.DataFrame(
        {
            "cluster": "c1",
            "node": "n1",
            "gpu_uuid": gpu,
            "interval_start_at": [f"{day}T{minute // 60:02d}:{minute % 60:02d}:00Z" for minute in range(count)],
            "interval_ms": 60_000,
            "sm_active_ratio": 0.5,
            "source": "test",
        }
    )


def tree(root: Path) -> dict[str, tuple[int, int]]:
    """Every file below `root` with its inode and time: what a landing that changes nothing leaves alone."""
    return {
        str(path.relative_to(root)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()
    }


def read_current(home: Home) -> pl.DataFrame:
    """The rows that a reader of the outcome records sees."""
    files = [home.raw / file for _, file in current_files(landed_tables(home.raw))]
    return pl.read_parquet(files, hive_partitioning=False) if files else pl.DataFrame()


def test_landing_the_same_rows_twice_changes_no_file(landing: Landing) -> None:
    first = landing.land("test", {"gpu_samples": samples()})
    before = tree(landing.home.root)
    second = landing.land("test", {"gpu_samples": samples()})
    assert (first.status, second.status) == ("landed", "already_landed")
    assert (second.collection_run_id, second.rows, second.window) == (first.collection_run_id, first.rows, first.window)
    assert tree(landing.home.root) == before


def test_how_the_rows_were_cut_into_frames_does_not_matter(landing: Landing) -> None:
    rows = samples(10)
    landing.land("test", {"gpu_samples": rows})
    outcome = landing.land("test", {"gpu_samples": [rows[:3], rows[3:4], rows[4:]]})
    # each frame counts its lines from 1 where none are given, so the lines are given here
    numbered = rows.with_columns(line_number=pl.int_range(1, 11))
    again = landing.land("test", {"gpu_samples": iter([numbered[:7], numbered[7:]])})
    assert outcome.status == "landed"
    assert again.status == "already_landed"


def test_another_window_with_the_same_rows_is_news(landing: Landing) -> None:
    """An hour in which nothing new happened moves `data_through_at` all the same."""
    hours = [Window(datetime(2026, 11, 1, hour), datetime(2026, 11, 1, hour + 1)) for hour in (1, 2)]
    outcomes = [landing.land("slurm", {}, cluster="c1", window=hour) for hour in (*hours, hours[1])]
    assert [outcome.status for outcome in outcomes] == ["landed", "landed", "already_landed"]
    assert [record.window_end_at for record in landed_tables(landing.home.raw)] == [hour.end_at for hour in hours]


def test_a_failing_source_leaves_the_old_state(landing: Landing) -> None:
    landing.land("test", {"gpu_samples": samples()})
    before = tree(landing.home.root)

    def broken() -> Iterator[pl.DataFrame]:
        yield samples(3, gpu="GPU-2")
        raise ValueError("the source broke")

    for content in (None, "known"):
        with pytest.raises(ValueError, match="the source broke"):
            landing.land("test", {"gpu_samples": broken()}, content=content)
        assert tree(landing.home.root) == before


def test_frames_of_a_known_content_are_put_together_into_files_of_bounded_size(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing_writer, "FILE_ROWS", 25)
    pieces = [samples(10, gpu=f"GPU-{number}") for number in range(6)]
    outcome = landing.land("test", {"gpu_samples": iter(pieces)}, content="known")
    files = [file for _, file in current_files(landed_tables(landing.home.raw))]
    assert [pl.read_parquet(landing.home.raw / file).height for file in files] == [30, 30]
    assert outcome.rows == {"gpu_samples": 60}
    assert outcome.window == Window(datetime(2026, 11, 1), datetime(2026, 11, 1, 0, 10))
    assert landing.land("test", {"gpu_samples": iter(pieces)}, content="known").status == "already_landed"


def test_rejects_beside_frames_are_quarantined_and_counted(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejects that a reader found while its frames were landed used to be lost."""
    monkeypatch.setattr(landing_writer, "QUARANTINE_ROWS", 2)
    monkeypatch.setattr(landing_writer, "SHOWN_REJECTS", 3)
    bad = [Reject("a.csv", line, "malformed", "unreadable") for line in range(2, 7)]
    outcome = landing.land("test", {"gpu_samples": [(samples(2), bad[:1]), (samples(2, gpu="GPU-2"), bad[1:])]}, content="k")
    assert (outcome.rows_quarantined, outcome.rejects) == (5, {"malformed": 5})
    assert list(outcome.rejected_rows) == bad[:3]
    quarantined = pl.read_parquet(landing.home.quarantine / "test/dt=*/*.parquet")
    assert sorted(quarantined["line"]) == [2, 3, 4, 5, 6]
    again = landing.land("test", {"gpu_samples": []}, content="k")
    assert (again.status, again.rows_quarantined, again.rejects) == ("already_landed", 5, {"malformed": 5})


def test_rows_fall_into_the_partition_of_their_utc_day(landing: Landing) -> None:
    frame = pl.concat([samples(2, day="2026-11-02"), samples(2)])
    frame = frame.with_columns(interval_start_at=pl.col("interval_start_at").str.replace("Z", "-05:00"))
    late = frame.with_columns(interval_start_at=pl.lit("2026-11-02T23:30:00-05:00"))
    landing.land("test", {"gpu_samples": pl.concat([frame, late[:1]])})
    days = sorted(Path(file).parent.name for _, file in current_files(landed_tables(landing.home.raw)))
    assert days == ["dt=2026-11-01", "dt=2026-11-02", "dt=2026-11-03"]


def test_an_older_reference_table_landed_again_is_the_current_one(landing: Landing) -> None:
    def cards(price: str) -> pl.DataFrame:
        return pl.DataFrame({"gpu_model": ["H100"], "currency": "USD", "cost_per_gpu_hour": price, "valid_from": "2026-01-01"})

    prices = ["2.0", "3.0", "2.0", "2.0", "3.0"]
    outcomes = [landing.land("import", {"rate_cards": cards(price)}) for price in prices]
    assert [outcome.status for outcome in outcomes] == ["landed", "landed", "landed", "already_landed", "landed"]
    assert len({outcome.collection_run_id for outcome in outcomes}) == 4


def test_a_row_whose_interval_no_clock_can_count_does_not_stop_a_landing(landing: Landing) -> None:
    frame = samples(1).with_columns(interval_ms=pl.lit(2**62))
    assert landing.land("test", {"gpu_samples": frame}).status == "landed"


def test_the_hash_of_files_follows_their_bytes_their_order_and_the_settings(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    copy = tmp_path / "c"
    copy.write_bytes(b"1")
    assert hash_files([first], "runs") == hash_files([copy], "runs")
    hashes = {hash_files([first, second], "runs"), hash_files([second, first], "runs"), hash_files([first, second], "nodes")}
    assert len(hashes) == 3


def test_a_staging_folder_of_a_dead_writer_is_swept_and_one_at_work_is_not(landing: Landing) -> None:
    raw = landing.home.raw
    command = f"""
import os, pathlib
from warehouse.atomic import Staging
with Staging(pathlib.Path({str(raw)!r})) as staging:
    (staging.folder / "half.parquet").write_text("half")
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 9
    with Staging(raw) as alive:
        assert len(list((raw / ".staging").iterdir())) == 4
        assert sweep(raw) == 1
        assert alive.folder.is_dir()
    assert list((raw / ".staging").iterdir()) == []


def test_a_staging_folder_of_another_machine_is_swept_after_a_day(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = landing.home.raw / ".staging" / "far-1-0"
    foreign.mkdir(parents=True)
    assert sweep(landing.home.raw) == 0
    monkeypatch.setattr(atomic, "STALE_SECONDS", -1)
    assert sweep(landing.home.raw) == 1


def test_only_one_process_at_a_time_maintains_the_landing_root(landing: Landing) -> None:
    with (
        alone(landing.home.raw, "maintenance"),
        pytest.raises(BusyError, match="run this again"),
        alone(landing.home.raw, "maintenance"),
    ):
        pass
    with alone(landing.home.raw, "maintenance"):
        pass


def test_a_disk_that_takes_no_more_leaves_the_old_state_and_says_so(landing: Landing) -> None:
    landing.land("test", {"gpu_samples": samples()})
    before, rows = tree(landing.home.root), read_current(landing.home)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    try:
        with pytest.raises(LandingError, match="nothing was landed; make room"):
            landing.land("test", {"gpu_samples": samples(500, gpu="GPU-2")})
        failure = landing.record_failure("test", "no space")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert tree(landing.home.root) == before
    assert_frame_equal(read_current(landing.home), rows)
    assert failure.status == "failed"
    assert "could not be recorded" in failure.notes[0]
    assert landing.land("test", {"gpu_samples": samples(500, gpu="GPU-2")}).status == "landed"


def test_a_failure_is_recorded_without_rows(landing: Landing) -> None:
    landing.record_failure("slurm", "sacct: not found", cluster="c1")
    (record,) = landed_tables(landing.home.raw)
    assert (record.status, record.rows_landed, record.files, record.through) == ("failed", 0, (), {})


def test_a_reading_of_a_time_to_come_is_left_out_and_told(landing: Landing) -> None:
    """A host whose clock stood in 2099 used to move the whole cluster's data 70 years on; its neighbour's rows stay."""
    rows = pl.concat([samples(2), samples(1, day="2099-01-01", gpu="GPU-2")])
    outcome = landing.land("test", {"gpu_samples": rows})
    assert (outcome.rows, outcome.rejects) == ({"gpu_samples": 2}, {"out_of_range": 1})
    assert "clock" in outcome.rejected_rows[0].detail
    assert landed_tables(landing.home.raw)[0].through == {"c1": "2026-11-01T00:02:00"}


def test_a_reservation_may_lie_in_the_future(landing: Landing) -> None:
    """Maintenance is planned, prices are agreed: only what was measured cannot be of a time to come."""
    window = {"cluster": "c1", "node": "n1", "state": "maintenance", "started_at": "2099-01-01T00:00:00Z"}
    assert landing.land("test", {"node_states": pl.DataFrame([window])}).rows == {"node_states": 1}


def test_a_clock_that_runs_ahead_moves_the_data_at_most_five_minutes_beyond_the_landing(landing: Landing) -> None:
    """Samples stamped an hour ahead are landed, and open runs do not hold on until there."""
    ahead = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
    landing.land("test", {"gpu_samples": samples(1).with_columns(interval_start_at=pl.lit(ahead))})
    with control.open_build_database(landing.home) as connection:
        records = landed_tables(landing.home.raw)
        control.write_inputs(connection, landing.home, records, records, Window(None, None), build_id="b", full_refresh=True)
        (through,) = connection.execute("select data_through_at from control.data_through").fetchall()[0]
    assert through == records[0].landed_at + timedelta(minutes=5)
