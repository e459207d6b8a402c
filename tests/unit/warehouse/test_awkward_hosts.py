"""What a host does to a pipeline: a clock that is set back, two commands at once, readers that stay, files that change shape."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from collectors.__main__ import main as collect
from expectations.__main__ import main as gate
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.__main__ import main as warehouse
from warehouse.control import not_consumed, open_build_database, write_inputs
from warehouse.database import connect, locked
from warehouse.home import Home
from warehouse.landing import landings as landing
from warehouse.landing.landings import Window
from warehouse.landing.outcomes import current_files, landed_tables
from warehouse.publication import publish
from warehouse.publication.publications import current_version, versions
from warehouse.verdict import last_build


class Back(datetime):
    """A clock that was set back by a year."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime.now(UTC) - timedelta(days=365)


def set_back(home: Home, build_id: str) -> None:
    """As if the build had run on a clock a year behind."""
    with connect(home.build_database, read_only=False) as connection:
        connection.execute(
            "update control.builds set started_at = started_at - interval 1 year, finished_at = finished_at - interval 1 year "
            "where build_id = ?",
            [build_id],
        )


def test_the_last_build_is_the_one_recorded_last_whatever_the_clock_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build after the clock was set back once was held as unfinished until the clock had caught up."""
    place = Home.from_environment()
    allow(place, make_build(place))
    assert publish.publish(place).publication_id == "v000001"
    build_id = make_build(place, "update dim_gpus set node = 'n2'", number=2, full_refresh=False)
    set_back(place, build_id)
    with connect(place.build_database, read_only=True) as connection:
        last = last_build(connection)
    assert last is not None
    assert (last.build_id, last.is_finished) == (build_id, True)
    allow(place, build_id)
    monkeypatch.setattr(publish, "datetime", Back)
    for expected, number in (("v000002", 2), ("v000003", 3), ("v000004", 4), ("v000005", 5)):
        if number > 2:
            allow(place, make_build(place, f"update dim_gpus set node = 'n{number}'", number=number, full_refresh=False))
        assert publish.publish(place).publication_id == expected
        current = current_version(place.published)
        assert current is not None
        assert current.name == expected
    assert [version.name for version in versions(place.published)][-3:] == ["v000003", "v000004", "v000005"]


def samples(folder: Path, name: str, day: str, value: float = 0.5) -> Path:
    path = folder / f"{name}.csv"
    path.write_text(
        f"cluster,node,gpu_uuid,interval_start_at,interval_ms,sm_active_ratio\nc1,n1,{name},{day}T00:00:00Z,60000,{value}\n"
    )
    return path


def test_what_lands_by_a_clock_that_was_set_back_still_touches_its_day(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CliRunner().invoke(collect, ["import", "gpu_samples", str(samples(tmp_path, "a", "2025-06-01"))]).exit_code == 0
    place = Home.from_environment()
    with open_build_database(place) as connection:
        seen = landed_tables(place.raw)
        connection.executemany("insert into control.consumed values (?)", [[record.collection_run_id] for record in seen])
        monkeypatch.setattr(landing, "_now", lambda: Back.now().replace(tzinfo=None))
        assert CliRunner().invoke(collect, ["import", "gpu_samples", str(samples(tmp_path, "b", "2025-07-01"))]).exit_code == 0
        landed = landed_tables(place.raw)
        fresh = not_consumed(connection, landed)
        assert len(fresh) == 1
        write_inputs(connection, place, landed, fresh, Window(None, None), build_id="b", full_refresh=False)
        days = connection.execute("select distinct usage_date from control.days_landed").fetchall()
    assert days == [(date(2025, 7, 1),)]


@pytest.mark.parametrize("command", [["build"], ["publish"], ["retention"]])
def test_a_second_command_on_a_warehouse_is_refused_in_one_clear_line(home: Path, command: list[str]) -> None:
    place = Home.from_environment().create()
    with locked(place):
        result = CliRunner().invoke(warehouse, command)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "another build, gate or publication is running on this warehouse; wait for it to end" in line


def test_a_gate_beside_a_build_is_refused_in_one_clear_line(home: Path) -> None:
    place = Home.from_environment()
    make_build(place)
    with locked(place):
        result = CliRunner().invoke(gate, [])
    assert result.exit_code == 1
    assert "another build, gate or publication is running" in result.stderr


def test_a_reader_that_holds_the_file_keeps_its_version_while_others_come_and_it_expires(home: Path) -> None:
    place = Home.from_environment()
    allow(place, make_build(place))
    publish.publish(place)
    first = place.published_database.resolve()
    with duckdb.connect(str(first), read_only=True) as reader:
        for number in range(2, 7):
            allow(place, make_build(place, f"update dim_gpus set node = 'n{number}'", number=number, full_refresh=False))
            assert publish.publish(place).status == "published"
            assert reader.execute("select build_id, (select min(node) from dim_gpus) from publication").fetchall() == [
                ("build-001", "n1")
            ]
        assert reader.execute("select count(*) from fct_gpu_ledger_hourly").fetchall() == [(216,)]
    # the last of each month stays, whose published_at is that of this test's publications
    assert [version.number for version in versions(place.published)] == [4, 5, 6]
    assert not first.exists()


def test_a_day_whose_files_change_shape_in_the_middle_holds_all_rows(home: Path, tmp_path: Path) -> None:
    """A column more, a column less, another type: what an exporter's update does at noon."""
    base = {
        "cluster": ["c1"], "node": ["n1"], "gpu_uuid": ["GPU-1"], "interval_start_at": [datetime(2026, 11, 1, 0)],
        "interval_ms": [60000], "sm_active_ratio": [0.5], "gpu_index": [0], "memory_used_bytes": [1],
    }  # fmt: skip
    frames = [
        pl.DataFrame(base),
        # types: text, decimal, zoned time, float index
        pl.DataFrame(base).with_columns(
            interval_start_at=pl.lit("2026-11-01T12:00:00+00:00"),
            interval_ms=pl.lit("60000"),
            sm_active_ratio=pl.lit(Decimal("0.50")),
            gpu_index=pl.lit(0.0),
        ),
        pl.DataFrame(base).drop("memory_used_bytes", "gpu_index").with_columns(interval_start_at=pl.lit("2026-11-01T13:00:00Z")),
        pl.DataFrame(base).with_columns(interval_start_at=pl.lit("2026-11-01T14:00:00Z"), new_metric=pl.lit("x")),
    ]
    for number, frame in enumerate(frames):
        frame.write_parquet(tmp_path / f"{number}.parquet")
        result = CliRunner().invoke(collect, ["import", "gpu_samples", str(tmp_path / f"{number}.parquet")])
        assert result.exit_code == 0, result.output
    place = Home.from_environment()
    with open_build_database(place) as connection:
        landed = landed_tables(place.raw)
        write_inputs(connection, place, landed, landed, Window(None, None), build_id="b", full_refresh=True)
        assert {row[0] for row in connection.execute("select lacking_columns from control.landed_files").fetchall()} == {""}
    rows = pl.read_parquet([place.raw / file for _, file in current_files(landed)], hive_partitioning=False)
    assert rows.sort("interval_start_at").select("interval_ms", "sm_active_ratio", "gpu_index", "memory_used_bytes").rows() == [
        (60000, 0.5, 0, 1),
        (60000, 0.5, 0, 1),
        (60000, 0.5, None, None),
        (60000, 0.5, 0, 1),
    ]
    pl.DataFrame(base).drop("interval_ms").write_parquet(tmp_path / "gone.parquet")
    result = CliRunner().invoke(collect, ["import", "gpu_samples", str(tmp_path / "gone.parquet")])
    assert result.exit_code == 1
    assert "no column interval_ms, which gpu_samples needs" in result.stderr
