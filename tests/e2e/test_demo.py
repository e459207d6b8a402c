"""`make demo` on this machine: Airflow's own DAG runs, the planted answer found again, a screen and a mail to look at."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from demo.planted import compare
from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.warehouse.report.test_report import contents_of, rounded, summed
from warehouse.digest.editions import Edition
from warehouse.digest.reading import read
from warehouse.home import Home
from warehouse.questions.asking import ask, read_questions, read_recorded

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Demo:
    folder: Path
    output: str
    published: duckdb.DuckDBPyConnection

    @property
    def database(self) -> Path:
        return self.folder / "data" / "published" / "current" / "gpu_net.duckdb"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "demo", str(folder)],
        cwd=PROJECT_ROOT,
        env=clean_environment(folder / "not_this_one") | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    with duckdb.connect(str(folder / "data" / "published" / "current" / "gpu_net.duckdb"), read_only=True) as published:
        yield Demo(folder, done.stdout, published)


def test_what_is_published_is_what_was_planted(demo: Demo) -> None:
    (answer,) = (demo.folder / "data" / "simulation").glob("*.csv")
    found = compare(answer, demo.database)
    assert found.differences == [], found.summary(20)
    assert "difference        0 rows, 0.00 GPU-hours, 0.00 USD" in demo.output


def test_it_is_sixty_cards_of_three_clusters_over_two_weeks(demo: Demo) -> None:
    rows = demo.published.execute("select cluster, count(distinct gpu_id) from dim_gpus group by 1 order by 1").fetchall()
    assert [cluster for cluster, _ in rows] == ["alder", "cirrus", "drift"]
    assert sum(count for _, count in rows) == 60
    assert demo.published.execute("select count(distinct usage_date) from mart_gpu_net_daily").fetchone() == (14,)


def test_every_table_and_column_says_in_the_file_what_it_is(demo: Demo) -> None:
    for kind, name in (("tables", "table_name"), ("columns", "table_name || '.' || column_name")):
        silent = demo.published.execute(
            f"select {name} from duckdb_{kind}() where database_name = current_database() and not internal and comment is null"
        ).fetchall()
        assert silent == []
    unexplained = demo.published.execute(
        """select table_name, column_name from data_dictionary
        where formula is null and regexp_matches(column_name, '_ratio(_|$)|_per_')"""
    ).fetchall()
    assert unexplained == []


def test_the_ten_questions_are_answered_as_they_were_recorded(demo: Demo) -> None:
    assert {question.name: ask(demo.published, question).says for question in read_questions()} == read_recorded()


def test_the_report_says_what_the_mail_and_the_marts_say(demo: Demo) -> None:
    page = demo.database.with_name("report.html")
    contents, figures = contents_of(page), read(Home(demo.folder / "data", demo.folder / "data" / "raw"), Edition())
    states = [state["state"] for state in contents["states"]]
    fleet = summed(contents, "fleet", 10**6, "state", day=contents["last_whole_day"])
    assert {states[state]: rounded(amount) for (state,), amount in fleet.items()} == {
        step.state: rounded(step.amount) for step in figures.steps if step.amount.gpu_hours or step.amount.costs
    }
    for part, scale in (("fleet", 10**6), ("holders", 10**4)):
        found = {states[state]: amount.gpu_hours for (state,), amount in summed(contents, part, scale, "state").items()}
        marts = dict(
            demo.published.execute("select state, sum(gpu_hours) from mart_ghost_capacity_daily group by state").fetchall()
        )
        assert found == pytest.approx(marts, abs=0.01)


def test_every_state_of_the_ledger_has_time(demo: Demo) -> None:
    states = {row[0] for row in demo.published.execute("select distinct state from fct_gpu_ledger_hourly").fetchall()}
    assert states >= {
        *("out_of_service", "unallocated", "borrowed", "suspended", "unobserved", "pipeline_waiting", "reserved_memory"),
        *("idle_compute", "unbalanced", "throttled", "oversized", "underfilled", "productive"),
    }


def test_money_comes_from_bills_estimates_and_rate_cards(demo: Demo) -> None:
    sources = demo.published.execute("select distinct cluster, cost_source from fct_gpu_ledger_hourly order by 1, 2").fetchall()
    assert sources == [("alder", "rate_card"), ("cirrus", "billing"), ("cirrus", "estimate"), ("drift", "rate_card")]
    row = demo.published.execute("select sum(cost) from mart_ghost_capacity_daily where state = 'commitment_unused'").fetchone()
    # twelve of fourteen days are billed
    assert row == (Decimal("0.38") * 24 * 12,)


def test_the_last_two_hours_came_through_the_sources_own_collectors(demo: Demo) -> None:
    sources = {row[0] for row in demo.published.execute("select distinct source from fct_collection_runs").fetchall()}
    assert sources == {"simulate", "import", "slurm", "dcgm", "kubernetes", "inference", "requests", "billing"}
    hours = demo.published.execute(
        """select count(distinct hour_start_at) from fct_gpu_ledger_hourly
        where hour_start_at >= '2026-11-04 22:00' and state = 'productive'"""
    ).fetchone()
    assert hours == (2,)
    assert not list((demo.folder / "data" / "quarantine").rglob("*.parquet"))


def test_airflow_recorded_the_runs_as_its_own(demo: Demo) -> None:
    with sqlite3.connect(demo.folder / "airflow" / "airflow.db") as connection:
        runs = connection.execute("select dag_id, state from dag_run order by dag_id").fetchall()
        events = {
            name for (name,) in connection.execute("select asset.name from asset_event inner join asset on asset.id = asset_id")
        }
    assert runs == [("build_warehouse", "success"), ("collect_incoming", "success")]
    assert events >= {
        "raw_import",
        "raw_slurm",
        "raw_dcgm",
        "raw_kubernetes",
        "raw_billing",
        "warehouse_built",
        "warehouse_published",
    }


def test_the_screen_ends_with_what_was_found_and_where_it_is(demo: Demo) -> None:
    for text in ("Capacity", "GPU Net", "Cost per million tokens", "The 5 largest ghosts", "Unused commitment", "total time"):
        assert text in demo.output
    for path in (
        demo.database,
        *(demo.folder / "data" / "digests").rglob("*.html"),
        *(demo.folder / "data" / "digests").rglob("*.png"),
    ):
        assert str(path) in demo.output
        assert path.stat().st_size > 2_000


def test_the_digest_is_of_the_last_day(demo: Demo) -> None:
    (html,) = (demo.folder / "data" / "digests").rglob("*.html")
    assert html.parent.name == "2026-11-04"
    assert "GPU Net" in html.read_text()
