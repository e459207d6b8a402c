"""A build made by SQL, as fast as a test needs it: what `python -m warehouse build` leaves, without dbt."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

from warehouse.database import connect
from warehouse.home import Home
from warehouse.publication import publish
from warehouse.verdict import HOLD, PUBLISH, Check, Verdict, database_state, write_verdict

FIRST_BUILD_AT = datetime(2025, 3, 4, 6)
SQL = Path(__file__).with_suffix(".sql").read_text()


def make_build(home: Home, *statements: str, number: int = 1, full_refresh: bool = True, status: str = "succeeded") -> str:
    """Make (number 1) or change the build by `statements`, and record it as build `number`; its id."""
    home.create()
    build_id = f"build-{number:03d}"
    started_at = FIRST_BUILD_AT + timedelta(hours=number)
    with connect(home.build_database, read_only=False) as connection:
        if not connection.execute("select 1 from duckdb_schemas() where schema_name = 'control'").fetchone():
            connection.execute(SQL)
        for statement in statements:
            connection.execute(statement)
        connection.execute("delete from control.build_window")
        connection.execute("insert into control.build_window values (?, null, null)", [build_id])
        connection.execute(
            "insert into control.builds values (?, ?, ?, ?, 'v', null, null, timestamp '2025-03-04', ?)",
            [build_id, started_at, started_at + timedelta(minutes=1), status, full_refresh],
        )
    write_run_results(home, generated_at=started_at + timedelta(seconds=50))
    return build_id


def write_run_results(home: Home, *, generated_at: datetime = FIRST_BUILD_AT + timedelta(days=1), **statuses: str) -> None:
    """dbt's record of its nodes; `statuses` maps a node's name to its status, two succeeded ones are always there."""
    target = home.build / "dbt" / "target"
    target.mkdir(parents=True, exist_ok=True)
    nodes = {"model_one": "success", "test_one": "pass", **statuses}
    results = [{"unique_id": name, "status": status, "message": None} for name, status in nodes.items()]
    record = {"metadata": {"generated_at": generated_at.isoformat() + "Z"}, "results": results}
    (target / "run_results.json").write_text(json.dumps(record))


def allow(home: Home, build_id: str, *, verdict: str = PUBLISH) -> None:
    """Write the verdict that a gate would write on a build; a held one has a failed check."""
    check = Check("keys", "fct_gpu_ledger_hourly", "critical", verdict != HOLD, "0 rows", 0, "Two rows are one.")
    warning = Check("fresh", "mart_data_coverage_daily", "warning", False, "1 rows", 1, "A source is old.")
    write_verdict(home, Verdict(build_id, verdict, FIRST_BUILD_AT, database_state(home), (check, warning)))


def build_and_publish(home: Home, *statements: str, number: int = 1, full_refresh: bool = False) -> publish.PublishOutcome:
    """A build that the gate lets through, shown to readers."""
    allow(home, make_build(home, *statements, number=number, full_refresh=full_refresh))
    return publish.publish(home)


def published(home: Home, query: str) -> list[tuple[object, ...]]:
    """What a reader of the current version gets."""
    with duckdb.connect(str(home.published_database), read_only=True) as connection:
        return connection.execute(query).fetchall()


def rows_of(file: Path) -> dict[str, list[str]]:
    """Every published table's rows as sorted text: two files with equal rows hold the same."""
    with duckdb.connect(str(file), read_only=True) as connection:
        tables = "select table_name from duckdb_tables() where schema_name = 'main' order by 1"
        names = [row[0] for row in connection.execute(tables).fetchall()]
        return {name: sorted(map(repr, connection.execute(f"select * from {name}").fetchall())) for name in names}
