"""`make demo` on this machine: Airflow's own DAG runs, and the published figures beside those of `demo/README.md`."""

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

from tests.conftest import PROJECT_ROOT, clean_environment

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

#: (cluster, states, reasons or None for all, GPU-hours)
WORKED = [
    ("alder", {"out_of_service"}, None, 24.0),
    ("alder", {"unallocated"}, {"reserved_empty"}, 24.0),
    ("alder", {"unallocated"}, {"draining"}, 24.0),
    ("alder", {"unallocated"}, {"free"}, 576 - 24 - (258 + 35 / 60) - 48),
    ("alder", {"suspended"}, None, 4.0),
    ("alder", {"unobserved"}, {"gap"}, 6.0),
    ("alder", {"unobserved"}, {"stale"}, 50 / 60),
    ("cirrus", {"unallocated"}, {"stranded"}, 72 / 7),
    ("cirrus", {"unallocated"}, {"free"}, 72 * 2 / 7 + 58),
    ("cirrus", {"borrowed", "unallocated"}, {"", "unrequested_share"}, 48.0),
    ("cirrus", {"reserved_memory"}, None, 30 + 72 / 7 + 30 * 2 / 7),
    ("cirrus", {"idle_compute"}, None, 14.5),
    ("cirrus", {"pipeline_waiting"}, {"waiting_requests"}, 0.75),
    ("cirrus", {"pipeline_waiting"}, {"startup"}, 0.4),
    ("cirrus", {"pipeline_waiting"}, {"stall"}, 0.6),
]


@dataclass(frozen=True)
class Demo:
    folder: Path
    output: str
    published: duckdb.DuckDBPyConnection


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


@pytest.mark.parametrize(("cluster", "states", "reasons", "hours"), WORKED)
def test_the_gpu_hours_are_those_worked_by_hand(
    demo: Demo, cluster: str, states: set[str], reasons: set[str] | None, hours: float
) -> None:
    rows = demo.published.execute(
        "select state, state_reason, sum(gpu_microseconds) from fct_gpu_ledger_hourly where cluster = ? group by all", [cluster]
    ).fetchall()
    found = sum(us for state, reason, us in rows if state in states and (reasons is None or reason in reasons))
    # a third of a microsecond may be lost or won at each cut of a device-hour
    assert found / 3.6e9 == pytest.approx(hours, abs=1e-6)


def test_capacity_and_held_time_are_those_worked_by_hand(demo: Demo) -> None:
    rows = demo.published.execute(
        """select cluster, sum(capacity_gpu_hours), sum(held_gpu_hours) from mart_gpu_net_daily
        where capacity_gpu_hours > 0 group by 1 order by 1"""
    ).fetchall()
    assert rows == [
        ("alder", pytest.approx(576), pytest.approx(258 + 35 / 60)),
        ("cirrus", pytest.approx(288), pytest.approx(72 + 2 * 72 / 7 + 72 * 2 / 7 + 12 + 10 + 16)),
    ]


def test_the_pauses_of_a_training_job_are_pipeline_waiting(demo: Demo) -> None:
    row = demo.published.execute(
        """select sum(gpu_hours) from fct_gpu_ledger_hourly inner join dim_runs using (run_id)
        where name = 'train-llm' and fct_gpu_ledger_hourly.state = 'pipeline_waiting'"""
    ).fetchone()
    assert row == (pytest.approx(4 * (18 + 18 * 4) / 60),)


def test_every_state_of_the_ledger_has_time(demo: Demo) -> None:
    states = {row[0] for row in demo.published.execute("select distinct state from fct_gpu_ledger_hourly").fetchall()}
    assert states >= {
        *("out_of_service", "unallocated", "borrowed", "suspended", "unobserved", "pipeline_waiting", "reserved_memory"),
        *("idle_compute", "throttled", "underfilled", "productive"),
    }


def test_the_money_of_the_bill_is_in_the_ledger_to_the_cent(demo: Demo) -> None:
    costs = dict(
        demo.published.execute(
            """select case when state = 'commitment_unused' then state else cluster end, sum(cost)
            from mart_ghost_capacity_daily group by 1"""
        ).fetchall()
    )
    assert costs["cirrus"] == Decimal("488.16")
    assert costs["commitment_unused"] == Decimal("27.36")
    sources = dict(demo.published.execute("select cluster, min(cost_source) from fct_gpu_ledger_hourly group by 1").fetchall())
    assert sources == {"alder": "rate_card", "cirrus": "billing"}


def test_tokens_cost_what_was_held_for_them(demo: Demo) -> None:
    row = demo.published.execute(
        """select sum(allocation_cost), 1e6 * sum(allocation_cost) / sum(prompt_tokens + output_tokens)
        from mart_unit_economics_daily where model = 'assistant-32b'"""
    ).fetchone()
    assert row is not None
    assert row[0] == Decimal("159.12")
    assert f"{row[1]:,.4f} USD" in demo.output


def test_what_the_native_text_told_of_the_last_hours_is_published(demo: Demo) -> None:
    ended, running, pending = (
        demo.published.execute(
            "select state, cast(ended_at as varchar), is_provisional from dim_runs where job_id = ?", [job]
        ).fetchall()
        for job in ("4103", "4105", "4107")
    )
    assert ended == [("TIMEOUT", "2026-11-04 22:45:00", False)]
    assert [row[0] for row in running] == ["RUNNING"]
    assert running[0][2] is True
    assert all(row[0] == "PENDING" for row in pending)
    sources = {row[0] for row in demo.published.execute("select distinct source from fct_collection_runs").fetchall()}
    assert sources == {"import", "slurm", "dcgm", "billing"}


def test_airflow_recorded_the_runs_as_its_own(demo: Demo) -> None:
    with sqlite3.connect(demo.folder / "airflow" / "airflow.db") as connection:
        runs = connection.execute("select dag_id, state from dag_run order by dag_id").fetchall()
        events = {
            name for (name,) in connection.execute("select asset.name from asset_event inner join asset on asset.id = asset_id")
        }
    assert runs == [("build_warehouse", "success"), ("collect_incoming", "success")]
    assert events == {"raw_import", "raw_slurm", "raw_dcgm", "raw_billing", "warehouse_built", "warehouse_published"}


def test_the_first_screen_is_printed_with_the_place_of_the_database_and_the_time_taken(demo: Demo) -> None:
    for text in ("Capacity", "GPU Net", "Cost per million tokens", "The 5 largest ghosts", "total time", "Unused commitment"):
        assert text in demo.output
    assert str(demo.folder / "data" / "published" / "current" / "gpu_net.duckdb") in demo.output
    assert not list((demo.folder / "data" / "quarantine").rglob("*.parquet"))
