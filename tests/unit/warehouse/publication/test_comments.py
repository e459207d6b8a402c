"""Comments in the published file: what the dictionary says stands on the tables and columns themselves, in old readers too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import yaml

from tests.unit.expectations.fake_build import build_and_publish, published
from warehouse.home import PROJECT_ROOT, Home
from warehouse.publication import publish
from warehouse.publication.comments import write_comments

DICTIONARY = """
update data_dictionary set table_description = 'How much work. One row per day.' where table_name = 'mart_gpu_net_daily';
update data_dictionary set description = 'What it''s worth; a "cost".', unit = 'currency'
    where table_name = 'mart_gpu_net_daily' and column_name = 'cost';
update data_dictionary set description = 'GPU Net.', unit = 'ratio', formula = 'productive / in service'
    where table_name = 'mart_gpu_net_daily' and column_name = 'gpu_net_ratio';
insert into data_dictionary values
    ('publication', 'publication_id', 1, 'The folder''s name.', 'varchar', null, null, null, 'Which version. One row.'),
    ('mart_not_there', 'x', 1, 'Gone.', 'varchar', null, null, null, 'Gone.');
"""
COMMENTS = """select column_name, comment from duckdb_columns()
    where database_name = current_database() and table_name = 'mart_gpu_net_daily'
        and column_name in ('usage_date', 'cost', 'gpu_net_ratio') order by column_index"""
EXPECTED = [
    ("usage_date", "What it means."),
    ("gpu_net_ratio", "GPU Net. Unit: ratio. Formula: productive / in service."),
    ("cost", 'What it\'s worth; a "cost". Unit: currency.'),
]


@pytest.fixture
def built(home: Path) -> Home:
    return Home.from_environment()


def test_tables_and_columns_say_what_the_dictionary_says(built: Home) -> None:
    build_and_publish(built, DICTIONARY)
    assert published(built, COMMENTS) == EXPECTED
    tables = dict(published(built, "select table_name, comment from duckdb_tables()"))
    assert tables["mart_gpu_net_daily"] == "How much work. One row per day."
    assert tables["publication"] == "Which version. One row."
    assert tables["gate_results"] is None


def test_a_clone_keeps_them_and_takes_what_changed(built: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    build_and_publish(built, DICTIONARY)
    written: list[int] = []
    monkeypatch.setattr(
        publish, "write_comments", lambda connection, catalog: written.append(write_comments(connection, catalog))
    )
    change = "update mart_gpu_net_daily set cost = cost + 1 where usage_date = '2025-03-01'"
    assert build_and_publish(built, change, number=2).publication_id == "v000002"
    assert published(built, COMMENTS) == EXPECTED
    # `publication` is written anew with each version: its table and its column
    assert written == [2]
    build_and_publish(built, "update data_dictionary set description = 'The day.' where column_name = 'usage_date'", number=3)
    assert published(built, COMMENTS)[0] == ("usage_date", "The day.")


def test_a_build_without_a_dictionary_is_published_without_comments(built: Home) -> None:
    build_and_publish(built, "drop table data_dictionary")
    assert [comment for _, comment in published(built, COMMENTS)] == [None, None, None]


def test_duckdb_1_2_shows_them(built: Home, tmp_path: Path) -> None:
    """Skipped where the package index cannot be reached."""
    build_and_publish(built, DICTIONARY)
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "old"), "duckdb==1.2.2"]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        pytest.skip("duckdb 1.2.2 could not be installed")
    code = f"""import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    print((duckdb.__version__, connection.execute({COMMENTS!r}).fetchall()))"""
    reader = subprocess.run(
        [sys.executable, "-c", code, str(built.published_database)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "old")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert reader.stdout.strip() == repr(("1.2.2", EXPECTED))


def test_the_tables_that_publishing_adds_are_described_as_they_are(built: Home) -> None:
    """Their YAML is written by hand: no contract holds it to the columns."""
    build_and_publish(built)
    (source,) = yaml.safe_load((PROJECT_ROOT / "dbt_project" / "models" / "published.yml").read_text())["sources"]
    described = [(table["name"], c["name"], c["data_type"].upper()) for table in source["tables"] for c in table["columns"]]
    names = {table["name"] for table in source["tables"]}
    added = published(built, "select table_name, column_name, data_type from duckdb_columns() where not internal")
    assert sorted(described) == sorted(row for row in added if row[0] in names)
    with duckdb.connect(str(built.build_database), read_only=True) as connection:
        built_tables = {name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()}
    assert {row[0] for row in added} - built_tables == names
