"""Run the project's DAGs in this process: real DAG runs, recorded in Airflow's database, without a scheduler.

python -m dags.local.runs AIRFLOW_HOME DAG_ID…    run them one after the other, print the state of each task as JSON
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dags.local.airflow_home import DAGS_FOLDER


def load_dags() -> dict[str, Any]:
    """DAG id → DAG; raises RuntimeError with the errors of files that cannot be read."""
    from airflow.dag_processing.dagbag import BundleDagBag

    bag = BundleDagBag(dag_folder=DAGS_FOLDER, bundle_path=DAGS_FOLDER, bundle_name="dags-folder")
    if bag.import_errors:
        raise RuntimeError(f"DAG files that cannot be read: {bag.import_errors}")
    return dict(bag.dags)


def run(dag: Any) -> dict[str, str]:
    """One run of the DAG, each task tried once; the state of each task, in their order."""
    for task in dag.tasks:
        task.retries = 0
    finished = dag.test(logical_date=datetime.now(UTC))
    states = {instance.task_id: str(instance.state) for instance in finished.get_task_instances()}
    return {task.task_id: states.get(task.task_id, "missing") for task in dag.topological_sort()}


def succeeded(states: dict[str, str]) -> bool:
    """Whether every task did its work, or had none."""
    return set(states.values()) <= {"success", "skipped"}
