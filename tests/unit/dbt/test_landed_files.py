"""What the models read of the landing root: all files that count, those of before a column was added included."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.unit.dbt.harness import Harness
from warehouse import control
from warehouse.home import Home
from warehouse.landing.landings import Landing, Window
from warehouse.landing.outcomes import current_files, landed_tables


@pytest.fixture
def own_home(home: Path) -> Home:
    return Home.from_environment().create()


def land(home: Home, hour: int) -> None:
    seen_at = datetime(2026, 11, 2, hour)
    row = {"cluster": "c", "node": f"n{hour}", "cpu_count": 64.0, "partitions": "gpu", "seen_at": seen_at}
    Landing(home).land("test", {"nodes": pl.DataFrame([row])})


def drop_column(path: Path, column: str) -> None:
    """Make the file one that landed before the column was added."""
    pl.read_parquet(path, hive_partitioning=False).drop(column).write_parquet(path)


def rows(home: Home) -> list[tuple[Any, ...]]:
    """`landed('nodes')` as dbt would write it, read."""
    with control.open_build_database(home) as connection:
        landed = landed_tables(home.raw)
        control.write_inputs(connection, home, landed, landed, Window(None, None), build_id="b", full_refresh=True)

        def run_query(query: str) -> SimpleNamespace:
            return SimpleNamespace(rows=connection.execute(query).fetchall())

        query = Harness().render_text("{{ landed('nodes') }}", run_query=run_query)
        return connection.execute(f"select node, cpu_count, partitions, dt::varchar from ({query}) order by node").fetchall()


def files(home: Home) -> list[Path]:
    return [home.raw / file for _, file in current_files(landed_tables(home.raw))]


def test_a_file_that_landed_before_a_column_was_added_is_read_with_the_others(own_home: Home) -> None:
    """An upgrade that added a column to the landing shape made every build of an older home fail."""
    land(own_home, 1)
    drop_column(*files(own_home), "partitions")
    land(own_home, 2)
    assert rows(own_home) == [("n1", 64.0, None, "2026-11-02"), ("n2", 64.0, "gpu", "2026-11-02")]


def test_files_that_are_all_older_are_read_as_well(own_home: Home) -> None:
    land(own_home, 1)
    drop_column(*files(own_home), "partitions")
    assert rows(own_home) == [("n1", 64.0, None, "2026-11-02")]


def test_a_file_is_looked_into_once(own_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    land(own_home, 1)
    before = rows(own_home)
    with control.open_build_database(own_home) as connection:
        known = connection.execute("select path, column_names from control.file_columns").fetchall()
        assert [path for path, _ in known] == [str(path) for path in files(own_home)]
        connection.execute("update control.file_columns set column_names = replace(column_names, 'partitions', '')")
    assert rows(own_home) == [(*before[0][:2], None, before[0][3])]


def test_nothing_landed_is_a_relation_without_rows(own_home: Home) -> None:
    assert rows(own_home) == []


def test_a_broken_file_is_named(own_home: Home) -> None:
    land(own_home, 1)
    (path,) = files(own_home)
    path.write_bytes(b"PAR1 but no more than that PAR1")
    with pytest.raises(duckdb.Error, match=path.name):
        rows(own_home)
