"""The settings under which this project runs Airflow on one machine: SQLite, the DAGs of this folder, nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
DAGS_FOLDER = PROJECT_ROOT / "dags"

#: DuckDB has one writer: every task that writes the build database or a publication takes this pool's only slot
WRITER_POOL = "warehouse_writer"


def settings(airflow_home: Path, port: int = 8080) -> dict[str, str]:
    """Environment variables that make an Airflow below `airflow_home` and keep it from any other configuration."""
    return {
        "AIRFLOW_HOME": str(airflow_home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{airflow_home / 'airflow.db'}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DEFAULT_TIMEZONE": "utc",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "SCARF_ANALYTICS": "false",
    }


def environment(airflow_home: Path, inherited: Mapping[str, str] | None = None, port: int = 8080) -> dict[str, str]:
    """`inherited` (default: this process's) with another installation's Airflow settings taken out and ours put in.

    Connections (`AIRFLOW_CONN_*`) and variables (`AIRFLOW_VAR_*`) stay: they are facts about this deployment.
    """
    given = dict(os.environ if inherited is None else inherited)
    foreign = [name for name in given if name.startswith("AIRFLOW__") or name in ("AIRFLOW_HOME", "AIRFLOW_CONFIG")]
    # without bytecode files each start of Airflow and dbt compiles thousands of modules anew: 8 s against 3 s
    for name in (*foreign, "PYTHONDONTWRITEBYTECODE"):
        given.pop(name, None)
    # Airflow starts its components as `airflow`: the one of this environment, not another on the path
    path = os.pathsep.join([str(Path(sys.executable).parent), given.get("PATH", os.defpath)])
    return {**given, "PATH": path, **settings(airflow_home, port)}


def adopt(airflow_home: Path, port: int = 8080) -> None:
    """Put the settings into this process's environment; call before anything of Airflow is imported."""
    airflow_home.mkdir(parents=True, exist_ok=True)
    adopted = environment(airflow_home, port=port)
    os.environ.clear()
    os.environ.update(adopted)


def prepare_database() -> None:
    """Make the metadata database and the writer pool; safe to repeat."""
    from airflow.models.pool import Pool
    from airflow.utils.db import initdb

    initdb()
    Pool.create_or_update_pool(WRITER_POOL, slots=1, description="DuckDB has one writer", include_deferred=False)
