"""A build that is killed leaves nothing that the next build does not put right (`GPU_NET_KILLS` raises the number)."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT, clean_environment, run_module
from tests.e2e.published import contents, differing_rows

pytestmark = pytest.mark.integration

KILLS = int(os.environ.get("GPU_NET_KILLS", "2"))
WORLD = PROJECT_ROOT / "tests" / "scenarios" / "one_training_hour_with_every_common_state" / "raw"
CLUSTER = WORLD.parent.name
BUILT = Path("build") / "gpu_net.duckdb"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A warehouse with one small world, built once."""
    root = tmp_path / "home"
    for path in sorted(WORLD.glob("*.csv")):
        assert run_module(root, "collectors", "import", path.stem, str(path)).returncode == 0
    assert run_module(root, "warehouse", "build").returncode == 0
    return root


def land_a_late_job(home: Path, number: int) -> None:
    text = (
        "cluster,scheduler,job_id,name,namespace,state,started_at,ended_at,gpu_count,node_list,observed_at\n"
        f"{CLUSTER},slurm,late-{number},late,ml,COMPLETED,2026-11-02T0{number % 9}:10:00Z,2026-11-02T0{number % 9}:25:30Z,1,"
        "elsewhere,2026-11-02T10:00:00Z\n"
    )
    path = home.parent / f"late-{number}.csv"
    path.write_text(text)
    assert run_module(home, "collectors", "import", "runs", str(path)).returncode == 0


def kill_a_build(home: Path, seconds: float) -> None:
    """Start a build as a session of its own and end it and dbt after so many seconds, as a power cut would."""
    command = [sys.executable, "-m", "warehouse", "build"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    build = subprocess.Popen(command, cwd=PROJECT_ROOT, env=clean_environment(home), start_new_session=True, **quiet)
    time.sleep(seconds)
    os.killpg(build.pid, signal.SIGKILL)
    build.wait()


def tables_of_readers(source: Path, target: Path) -> Path:
    """A copy of what would be published, so that two builds can be compared."""
    with duckdb.connect(str(target)) as connection:
        connection.execute(f"attach '{source}' as built (read_only)")
        names = connection.execute(
            """select table_name from duckdb_tables() where database_name = 'built' and schema_name = 'main'
            and regexp_matches(table_name, '^(dim|fct|mart|audit)_')"""
        ).fetchall()
        for (name,) in names:
            connection.execute(f"create table {name} as select * from built.main.{name}")
    return target


def test_a_killed_build_is_put_right_by_the_next(home: Path) -> None:
    dice = random.Random(11)
    for number in range(KILLS):
        land_a_late_job(home, number)
        kill_a_build(home, dice.uniform(4, 22))
    healed = run_module(home, "warehouse", "build")
    assert healed.returncode == 0, healed.stdout + healed.stderr
    at_once = home.parent / "at-once"
    shutil.copytree(home / "raw", at_once / "raw")
    assert run_module(at_once, "warehouse", "build").returncode == 0
    one = tables_of_readers(home / BUILT, home.parent / "one.duckdb")
    other = tables_of_readers(at_once / BUILT, home.parent / "other.duckdb")
    ours, theirs = contents(one), contents(other)
    differing = [table for table in ours if ours[table] != theirs[table]]
    assert {table: differing_rows(one, other, table) for table in differing} == {}
