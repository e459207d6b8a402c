"""A day whose samples have expired is sealed: what comes later changes its money, and nothing else (semantics 11)."""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT, run_module
from warehouse.home import Home
from warehouse.landing.retention import expire

pytestmark = pytest.mark.integration

WORLD = PROJECT_ROOT / "tests" / "scenarios" / "usage_cost_is_not_allocation_cost_on_a_bill"
CLUSTER = WORLD.name
DAY = "2026-11-02"
#: what a bill may change
MONEY = re.compile(r"cost|currency|rows_late|difference|null_reason|_ghost_")
#: tables that count landings or audit money; what they must say is looked at by itself
NOT_OF_DAYS = {
    *("mart_data_coverage_daily", "mart_cost_reconciliation_daily", "audit_cost_reconciled", "audit_cost_bases_closed"),
    *("audit_ledger_cost_conserved", "audit_waterfall_closed", "audit_unit_economics_closed"),
}

Rows = list[tuple[Any, ...]]


def query(home: Path, statement: str) -> Rows:
    with duckdb.connect(str(home / "build" / "gpu_net.duckdb"), read_only=True) as connection:
        return connection.execute(statement).fetchall()


def day_rows(home: Path, *, with_money: bool) -> dict[str, Rows]:
    """The published tables' rows of the day."""
    columns: dict[str, list[str]] = {}
    for table, column in query(
        home, "select table_name, column_name from information_schema.columns where table_schema = 'main' order by all"
    ):
        if re.match("fct|mart|audit", table) and table not in NOT_OF_DAYS:
            columns.setdefault(table, []).append(column)
    dated = {table: names for table, names in columns.items() if {"usage_date", "hour_start_at"} & set(names)}
    kept = {table: [name for name in names if with_money or not MONEY.search(name)] for table, names in dated.items()}
    return {
        table: query(
            home,
            f"select {', '.join(names)} from {table} "
            f"where cast({'usage_date' if 'usage_date' in dated[table] else 'hour_start_at'} as date) = '{DAY}' order by all",
        )
        for table, names in kept.items()
    }


def land(home: Path, table: str, path: Path) -> None:
    done = run_module(home, "collectors", "import", table, str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def written(folder: Path, table: str, *rows: dict[str, str]) -> Path:
    path = folder / f"{table}.csv"
    with path.open("w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows_of(table: str) -> list[dict[str, str]]:
    with (WORLD / "raw" / f"{table}.csv").open(newline="") as text:
        return list(csv.DictReader(text))


def build(home: Path, *options: str) -> None:
    done = run_module(home, "warehouse", "build", *options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_sealed_day_takes_its_money_counts_what_came_late_and_keeps_all_else(home: Path, tmp_path: Path) -> None:
    """10 h at 2 $ billed, corrected by -5 $ after the samples expired: 15 $, and not another figure of the day moves."""
    for path in sorted((WORLD / "raw").glob("*.csv")):
        land(home, path.stem, path)
    build(home)
    before, money_before = day_rows(home, with_money=False), day_rows(home, with_money=True)
    coverage = f"select cluster, rows_landed, rows_late from mart_data_coverage_daily where usage_date = '{DAY}' order by all"
    landed = {cluster: (rows, late) for cluster, rows, late in query(home, coverage)}
    (own_rows, own_late), (bill_rows, _) = landed[CLUSTER], landed["unallocated"]
    assert own_late == 0
    assert query(home, f"select sum(cost) from fct_gpu_ledger_hourly where usage_date = '{DAY}'") == [(Decimal(20),)]
    assert len(before["fct_gpu_ledger_hourly"]) >= 10
    assert expire(Home.from_environment(), samples_days=0, settle_days=0)

    # what is told of the day's only run after the fact, a run of the day nobody knew of, two samples of it, and money
    failed = rows_of("runs")[0] | {"state": "Failed", "observed_at": "2026-11-03T01:00:00Z"}
    unknown = rows_of("runs")[0] | {"job_id": "late", "name": "late", "observed_at": "2026-11-02T23:30:00Z"}
    samples = [row | {"sm_active_ratio": "0.01"} for row in rows_of("gpu_samples")[:2]]
    correction = rows_of("billing_lines")[0] | {
        "billed_cost": "-5",
        "effective_cost": "-5",
        "billing_period_start": "2026-12-01T00:00:00Z",
        "billing_period_end": "2027-01-01T00:00:00Z",
        "charge_period_end": "2026-11-03T00:00:00Z",
        "charge_class": "Correction",
        "delivery_id": "d2",
        "delivered_at": "2027-01-03T00:00:00Z",
    }
    for table, rows in (("runs", [failed, unknown]), ("gpu_samples", samples), ("billing_lines", [correction])):
        land(home, table, written(tmp_path, table, *rows))
    build(home)
    assert day_rows(home, with_money=False) == before
    corrected = day_rows(home, with_money=True)
    for audit in ("audit_cost_bases_closed", "audit_ledger_cost_conserved"):
        assert query(home, f"select holds, sum(measured) from {audit} where usage_date = '{DAY}' group by all") == [(True, 15)]
    assert query(home, f"select sum(cost) from fct_gpu_ledger_hourly where usage_date = '{DAY}'") == [(Decimal(15),)]
    for table in ("mart_ghost_capacity_daily", "mart_gpu_net_daily", "mart_gpu_idle_time_daily", "mart_workload_gpu_hours_daily"):
        assert corrected[table] != money_before[table], table
    assert query(home, "select sum(cost) from fct_gpu_idle_spans") == [(Decimal("10.5"),)]
    reconciled = query(
        home, f"select effective_cost, ledger_cost, difference from mart_cost_reconciliation_daily where usage_date = '{DAY}'"
    )
    assert reconciled == [(Decimal(15), Decimal(15), Decimal(0))]

    # two samples and the unknown run came late; the other row was told on the day after, which is not sealed
    assert sorted(query(home, coverage)) == sorted([(CLUSTER, own_rows, 3), ("unallocated", bill_rows + 1, 0)])
    assert query(home, "select table_name, sum(rows_late) from int_late_rows_counted group by all order by all") == [
        ("gpu_samples", 2),
        ("runs", 1),
    ]
    assert query(home, "select rows_late from fct_collection_runs where rows_late > 0 order by all") == [(1,), (2,)]

    build(home, "--full-refresh")
    assert day_rows(home, with_money=True) == corrected
    assert query(home, "select sum(rows_late) from int_late_rows_counted") == [(3,)]
    # dbt replaced the days one by one, but what is learned once per day was to be learned anew
    assert query(home, "select is_full_refresh from control.build_window") == [(True,)]
