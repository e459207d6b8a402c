"""What the gate said, and about which build: the record that publication (and the digest) go by."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from warehouse.atomic import replaced
from warehouse.home import Home

PUBLISH, HOLD = "publish", "hold"


@dataclass(frozen=True)
class Build:
    """One row of `control.builds`, naive UTC instants; `is_finished` is false while a later build was begun and not ended."""

    build_id: str
    started_at: datetime
    finished_at: datetime | None
    status: str
    version: str
    data_through_at: datetime | None
    is_full_refresh: bool
    is_finished: bool


@dataclass(frozen=True)
class Check:
    """One rule and what it saw. `message` says what a failure means and what to do; `observed` is text for people."""

    check_id: str
    table: str
    severity: str
    success: bool
    observed: str
    unexpected_count: int
    message: str


@dataclass(frozen=True)
class Verdict:
    """`publish` or `hold` for one build. `database_state` is the build file's size and change time when it was checked."""

    build_id: str
    verdict: str
    checked_at: datetime
    database_state: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> int:
        return sum(check.success for check in self.checks)

    @property
    def warned(self) -> int:
        return sum(not check.success and check.severity == "warning" for check in self.checks)

    @property
    def failed(self) -> int:
        return sum(not check.success and check.severity == "critical" for check in self.checks)


def last_build(connection: duckdb.DuckDBPyConnection) -> Build | None:
    """The build recorded last, whatever the clock said then; None where nothing was ever built.

    `control.build_window` names the build that began last. Where that is another one, it failed or was killed, and the tables
    hold a mixture of the two.
    """
    tables = {
        row[0] for row in connection.execute("select table_name from duckdb_tables() where schema_name = 'control'").fetchall()
    }
    if "builds" not in tables:
        return None
    newest = connection.execute(
        """select build_id, started_at, finished_at, status, version, data_through_at, is_full_refresh
        from control.builds order by rowid desc limit 1"""
    ).fetchall()
    if not newest:
        return None
    build_id, started_at, finished_at, status, version, data_through_at, is_full_refresh = newest[0]
    begun = connection.execute("select build_id from control.build_window").fetchall() if "build_window" in tables else []
    return Build(
        build_id=build_id,
        started_at=started_at,
        finished_at=finished_at,
        status=status,
        version=version,
        data_through_at=data_through_at,
        is_full_refresh=is_full_refresh,
        is_finished=begun in ([], [(build_id,)]),
    )


def database_state(home: Home) -> str:
    """Size and change time of the build database: they differ when it was written to, by whomever."""
    files = (home.build_database, home.build_database.with_name(home.build_database.name + ".wal"))
    return " ".join(f"{file.stat().st_size}@{file.stat().st_mtime_ns}" for file in files if file.exists())


def verdict_path(home: Home) -> Path:
    return home.build / "verdict.json"


def write_verdict(home: Home, verdict: Verdict) -> None:
    """Write `build/verdict.json`, in full or not at all."""
    record = asdict(verdict) | {
        "checked_at": verdict.checked_at.isoformat() + "Z",
        "passed": verdict.passed,
        "warned": verdict.warned,
        "failed": verdict.failed,
        "evaluated": len(verdict.checks),
    }
    with replaced(verdict_path(home)) as temporary:
        temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def read_verdict(home: Home) -> Verdict | None:
    """The gate's last verdict; None where there is none."""
    try:
        record = json.loads(verdict_path(home).read_text())
    except FileNotFoundError:
        return None
    return Verdict(
        build_id=record["build_id"],
        verdict=record["verdict"],
        checked_at=datetime.fromisoformat(record["checked_at"]).replace(tzinfo=None),
        database_state=record["database_state"],
        checks=tuple(Check(**check) for check in record["checks"]),
    )
