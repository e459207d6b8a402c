"""A day whose samples have expired is sealed: neither a late row nor a full refresh changes what was worked out for it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT, run_module
from warehouse.home import Home
from warehouse.retention import expire

pytestmark = pytest.mark.integration

WORLD = PROJECT_ROOT / "tests" / "scenarios" / "one_training_hour_with_every_common_state" / "raw"


def ledger(home: Path) -> list[tuple[object, ...]]:
    with duckdb.connect(str(home / "build" / "gpu_net.duckdb"), read_only=True) as connection:
        return connection.execute(
            "select hour_start_at, slot_id, run_id, state, gpu_microseconds from fct_gpu_ledger_hourly order by all"
        ).fetchall()


def test_a_sealed_day_outlives_late_rows_and_a_full_refresh(home: Path) -> None:
    for path in sorted(WORLD.glob("*.csv")):
        assert run_module(home, "collectors", "import", path.stem, str(path)).returncode == 0
    assert run_module(home, "warehouse", "build").returncode == 0
    before = ledger(home)
    assert {state for _, _, _, state, _ in before} >= {"productive", "reserved_memory", "throttled"}
    assert expire(Home.from_environment(), samples_days=0, settle_days=0)

    late = home.parent / "late.csv"
    late.write_text(
        "cluster,scheduler,job_id,name,namespace,state,started_at,ended_at,gpu_count,node_list,observed_at\n"
        f"{WORLD.parent.name},slurm,late,late,ml,COMPLETED,2026-11-02T00:07:00Z,2026-11-02T00:09:00Z,1,n1,2026-11-02T03:00:00Z\n"
    )
    assert run_module(home, "collectors", "import", "runs", str(late)).returncode == 0
    assert run_module(home, "warehouse", "build").returncode == 0
    assert ledger(home) == before

    refreshed = run_module(home, "warehouse", "build", "--full-refresh")
    assert refreshed.returncode == 0, refreshed.stdout + refreshed.stderr
    assert ledger(home) == before

    # dbt replaced the days one by one, but what is learned once per day was to be learned anew
    with duckdb.connect(str(home / "build" / "gpu_net.duckdb"), read_only=True) as connection:
        assert connection.execute("select is_full_refresh from control.build_window").fetchall() == [(True,)]
