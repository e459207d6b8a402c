"""The Parquet files beside the database: its rows, no more, and those of the version before where nothing changed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.unit.expectations.fake_build import allow, make_build
from warehouse.home import Home
from warehouse.publication import parquet_export
from warehouse.publication.publish import PublishError, publish

LEDGER, DAY = "fct_gpu_ledger_hourly", "dt=2025-03-02/data.parquet"
ONE_DAY = f"update {LEDGER} set energy_kwh = energy_kwh + 1 where usage_date = '2025-03-02'"


def build_and_publish(home: Home, *statements: str, number: int = 1, full_refresh: bool = False) -> Path:
    """Publish a build; the folder of the version."""
    allow(home, make_build(home, *statements, number=number, full_refresh=full_refresh))
    return home.published / str(publish(home).publication_id)


def files_of(version: Path) -> dict[str, Path]:
    folder = version / parquet_export.FOLDER
    return {str(path.relative_to(folder)): path for path in folder.rglob("*.parquet")}


def assert_same_rows(version: Path) -> list[str]:
    """The Parquet of every table holds the rows of the version's database, each row as often; the tables' names."""
    folder = version / parquet_export.FOLDER
    with duckdb.connect(str(version / "gpu_net.duckdb"), read_only=True) as connection:
        names = [row[0] for row in connection.execute("select table_name from duckdb_tables() order by 1").fetchall()]
        for name in names:
            glob = folder / name / "*" / "*.parquet" if (folder / name).is_dir() else folder / f"{name}.parquet"
            rows = f"select * from read_parquet('{glob}', hive_partitioning = false)"
            odd = f"(from {name} except all {rows}) union all ({rows} except all from {name})"
            assert connection.execute(odd).fetchall() == [], name
    return names


def test_every_table_is_there_with_its_rows_and_hour_grain_by_day(home: Path) -> None:
    version = build_and_publish(Home.from_environment())
    names = assert_same_rows(version)
    assert {LEDGER, "mart_gpu_net_daily", "publication", "gate_results", "data_dictionary"} <= set(names)
    files = files_of(version)
    assert [name for name in sorted(files) if name.startswith(LEDGER)] == [
        f"{LEDGER}/dt=2025-03-0{day}/data.parquet" for day in (1, 2, 3)
    ]
    assert "mart_gpu_net_daily.parquet" in files
    # a table without rows is a file without rows, with its columns
    assert pl.read_parquet(files["mart_unit_economics_daily.parquet"]).height == 0
    assert oct(files[f"{LEDGER}/{DAY}"].stat().st_mode & 0o777) == "0o644"
    assert oct(files[f"{LEDGER}/{DAY}"].parent.stat().st_mode & 0o777) == "0o755"


def test_only_what_changed_is_written_the_rest_is_the_file_of_the_version_before(home: Path) -> None:
    made = Home.from_environment()
    first = files_of(build_and_publish(made))
    second_version = build_and_publish(made, ONE_DAY, number=2)
    second = files_of(second_version)
    assert_same_rows(second_version)
    other = {name for name in second if not second[name].samefile(first[name])}
    assert other == {f"{LEDGER}/{DAY}", "publication.parquet", "gate_results.parquet"}
    # the earlier version keeps its own rows
    before = pl.read_parquet(first[f"{LEDGER}/{DAY}"])["energy_kwh"].sum()
    assert pl.read_parquet(second[f"{LEDGER}/{DAY}"])["energy_kwh"].sum() == pytest.approx(before + 72)


def test_a_reader_that_follows_the_link_once_reads_one_version_whatever_is_published_meanwhile(home: Path) -> None:
    made = Home.from_environment()
    build_and_publish(made)
    below = (made.published / "current").resolve() / parquet_export.FOLDER
    days = sorted(below.glob(f"{LEDGER}/*/*.parquet"))
    energy = [pl.read_parquet(days[0])["energy_kwh"].sum()]
    build_and_publish(made, f"update {LEDGER} set energy_kwh = energy_kwh + 1", number=2)
    energy += [pl.read_parquet(day)["energy_kwh"].sum() for day in days[1:]]
    assert energy == [36.0, 36.0, 36.0]
    assert pl.read_parquet(below / "publication.parquet")["publication_id"].to_list() == ["v000001"]


def test_a_full_refresh_and_lost_days_and_columns_are_exported_as_they_are(home: Path) -> None:
    made = Home.from_environment()
    build_and_publish(made)
    refreshed = build_and_publish(made, f"delete from {LEDGER} where usage_date = '2025-03-03'", number=2, full_refresh=True)
    assert f"{LEDGER}/dt=2025-03-03/data.parquet" not in files_of(refreshed)
    assert_same_rows(refreshed)
    wider = build_and_publish(made, "alter table dim_gpus add column colour varchar", number=3)
    assert "colour" in pl.read_parquet_schema(files_of(wider)["dim_gpus.parquet"])
    empty = build_and_publish(made, "delete from fct_replica_demand_hourly", number=4)
    assert pl.read_parquet(files_of(empty)["fct_replica_demand_hourly.parquet"]).height == 0
    assert_same_rows(empty)


def test_a_version_that_has_no_files_yet_is_exported_in_full(home: Path) -> None:
    """Versions published before there was an export have no folder to link to."""
    made = Home.from_environment()
    first = build_and_publish(made)
    for path in files_of(first).values():
        path.unlink()
    second = build_and_publish(made, ONE_DAY, number=2)
    assert LEDGER in assert_same_rows(second)


def test_a_file_system_without_links_gets_copies(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("links are not supported")

    made = Home.from_environment()
    first = files_of(build_and_publish(made))
    monkeypatch.setattr(parquet_export.os, "link", refuse)
    second = build_and_publish(made, ONE_DAY, number=2)
    assert LEDGER in assert_same_rows(second)
    assert not any(path.samefile(first[name]) for name, path in files_of(second).items())


def test_a_file_that_lost_a_row_is_not_published(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Home.from_environment()
    first = build_and_publish(made)
    real = parquet_export._copy

    def lose(connection: duckdb.DuckDBPyConnection, query: str, target: Path) -> None:
        real(connection, query, target)  # type: ignore[arg-type]
        pl.read_parquet(target)[1:].write_parquet(target)

    monkeypatch.setattr(parquet_export, "_copy", lose)
    with pytest.raises(PublishError, match="does not hold the rows of the build"):
        build_and_publish(made, ONE_DAY, number=2)
    assert (made.published / "current").resolve() == first
