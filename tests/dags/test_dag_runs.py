"""The DAGs run by Airflow itself, from a dropped file to a published table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT, clean_environment

NODE_HOUR = """cluster,node,gpu_uuid,gpu_model,memory_total_bytes,seen_at
tiny,n1,GPU-1,NVIDIA A100-SXM4-80GB,85899345920,2026-11-02T00:00:00Z
tiny,n1,GPU-1,NVIDIA A100-SXM4-80GB,85899345920,2026-11-02T00:10:00Z
tiny,n1,GPU-1,NVIDIA A100-SXM4-80GB,85899345920,2026-11-02T00:20:00Z
"""


@pytest.mark.integration
@pytest.mark.timeout(900)
def test_a_dropped_file_is_landed_built_gated_and_published_by_dag_runs(tmp_path: Path) -> None:
    """One GPU seen from 0:00 to 0:20 and held by nobody: 1/3 GPU-hour, unallocated."""
    home = tmp_path / "home"
    dropped = home / "incoming" / "gpu_inventory" / "inventory.csv"
    dropped.parent.mkdir(parents=True)
    dropped.write_text(NODE_HOUR)
    done = subprocess.run(
        [sys.executable, "-m", "dags.local.runs", str(tmp_path / "airflow"), "collect_incoming", "build_warehouse"],
        cwd=PROJECT_ROOT,
        env=clean_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    states = json.loads(done.stdout.strip().splitlines()[-1])
    assert states["build_warehouse"] == {"build": "success", "gate": "success", "publish": "success"}
    assert states["collect_incoming"]["land_tables"] == "success"
    assert {states["collect_incoming"][f"land_{kind}"] for kind in ("slurm", "dcgm", "billing")} == {"skipped"}
    assert not dropped.exists()
    with duckdb.connect(str(home / "published" / "current" / "gpu_net.duckdb"), read_only=True) as connection:
        ledger = connection.execute("select state, sum(gpu_microseconds) from fct_gpu_ledger_hourly group by 1").fetchall()
    assert ledger == [("unallocated", 20 * 60 * 1_000_000)]
