"""Visit every DAG: what Airflow needs to run it, and what a person needs who is woken by it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dags.local.airflow_home import DAGS_FOLDER, WRITER_POOL

DAG_FILES = sorted(path for path in DAGS_FOLDER.glob("*.py") if not path.name.startswith("gpu_net_"))
DAG_IDS = [path.stem for path in DAG_FILES]
#: assets that DAGs wait for or bring forth
SOURCES = ("slurm", "kubernetes", "sonar", "dcgm", "nvidia_smi", "prometheus", "inference", "requests", "billing", "import")
PRODUCED = {*(f"raw_{source}" for source in SOURCES), "warehouse_built", "warehouse_published"}


@pytest.fixture(params=DAG_IDS)
def dag(request: pytest.FixtureRequest, dag_bag: Any) -> Any:
    return dag_bag.dags[request.param]


def _clock(dag: Any) -> Any:
    """The part of the timetable that goes by time."""
    return getattr(dag.timetable, "timetable", dag.timetable)


def test_every_dag_file_is_read_without_an_error(dag_bag: Any) -> None:
    assert dag_bag.import_errors == {}
    assert len(DAG_IDS) >= 5


def test_a_file_holds_the_one_dag_it_is_named_for(dag_bag: Any) -> None:
    assert {dag_id: Path(dag.fileloc).stem for dag_id, dag in dag_bag.dags.items()} == dict(zip(DAG_IDS, DAG_IDS, strict=True))


def test_a_dag_says_what_it_does_who_owns_it_and_what_to_do_when_it_fails(dag: Any) -> None:
    assert dag.doc_md.startswith("### ")
    assert "**Owner**: gpu-net" in dag.doc_md
    assert "**When it fails**: " in dag.doc_md
    assert {task.owner for task in dag.tasks} == {"gpu-net"}


def test_the_timetable_lists_every_dag_at_its_minute(dag: Any) -> None:
    row = re.search(rf"^\| `{dag.dag_id}` \| ([^|]*) \|", (DAGS_FOLDER / "README.md").read_text(), re.MULTILINE)
    assert row, f"dags/README.md has no row for {dag.dag_id}"
    expression = getattr(_clock(dag), "expression", None)
    if expression is None:
        assets = [asset.name for asset in getattr(getattr(dag.timetable, "asset_condition", None), "objects", [])]
        assert re.findall(r"^when `(\w+)` is renewed$", row.group(1)) == assets
        assert assets or row.group(1).startswith("by hand")
    else:
        minute, *rest = expression.split()
        assert rest == ["*"] * 4, "the timetable knows no rhythm of days: say the new one there and here"
        every = re.fullmatch(r"\*/(\d+)", minute)
        assert (f"each {every[1]} minutes" if every else f"each hour at :{int(minute):02d}") in row.group(1)


def test_tags_are_of_the_closed_set_one_of_each_kind(dag: Any) -> None:
    from gpu_net_steps import TAGS

    assert set(dag.tags) <= TAGS
    for kind in ("layer:", "source:", "impact:tier_"):
        assert sum(tag.startswith(kind) for tag in dag.tags) == 1, f"one tag {kind}…"


def test_times_are_utc_and_missed_runs_are_not_made_up(dag: Any) -> None:
    assert str(dag.timezone) in ("UTC", "utc")
    assert dag.start_date.utcoffset().total_seconds() == 0
    assert dag.catchup is False
    assert dag.max_active_runs == 1


def test_a_timetable_has_no_daylight_saving_time(dag: Any) -> None:
    assert str(getattr(_clock(dag), "timezone", "UTC")) == "UTC"


def test_a_task_is_tried_again_after_a_while_and_does_not_hang_for_ever(dag: Any) -> None:
    for task in dag.tasks:
        assert task.retries == 2
        assert task.retry_delay.total_seconds() >= 60
        assert task.execution_timeout is not None


def test_what_writes_the_warehouse_takes_the_pools_only_slot(dag: Any) -> None:
    writes = "layer:warehouse" in dag.tags
    assert {task.pool for task in dag.tasks if not task.is_teardown} == {WRITER_POOL if writes else "default_pool"}
    # a run that has built goes on to its gate before another run builds
    assert not writes or {str(getattr(task.weight_rule, "name", task.weight_rule)).lower() for task in dag.tasks} != {
        "downstream"
    }


def test_assets_join_what_lands_with_what_builds(dag_bag: Any) -> None:
    brought_forth = {
        asset.name for dag in dag_bag.dags.values() for task in dag.tasks for asset in task.outlets if hasattr(asset, "name")
    }
    assert brought_forth == PRODUCED
    condition = dag_bag.dags["build_warehouse"].timetable.asset_condition
    waited_for = {asset.name for asset in condition.objects}
    assert waited_for == {name for name in PRODUCED if name.startswith("raw_")}


def test_reading_the_dag_files_loads_neither_dbt_nor_great_expectations_nor_polars() -> None:
    import subprocess

    heavy = ("dbt", "great_expectations", "polars", "duckdb")
    files = ", ".join(repr(str(path)) for path in DAG_FILES)
    code = (
        f"import sys, runpy; sys.path.insert(0, {str(DAGS_FOLDER)!r})\n"
        f"for file in [{files}]: runpy.run_path(file)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_a_step_that_ends_badly_raises_with_its_last_lines(dag_bag: Any) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
    from gpu_net_steps import run_command

    with pytest.raises(AirflowException, match="No such command 'nothing'"):
        run_command("warehouse", "nothing")
    assert run_command("warehouse", "nothing", accept=(2,)) == 2
    with pytest.raises(AirflowFailException):
        run_command("warehouse", "nothing", final=(2,))


def test_a_held_verdict_fails_publish_for_good_and_is_told_once_with_the_failed_check(
    dag_bag: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    from tests.unit.expectations.fake_build import allow, make_build
    from tests.unit.warehouse.alerts.receiver import receiving
    from warehouse.alerts.rules import rules_path
    from warehouse.home import Home
    from warehouse.verdict import HOLD

    allow(Home.from_environment(), make_build(Home.from_environment()), verdict=HOLD)
    with pytest.raises(AirflowFailException, match="fct_gpu_ledger_hourly: keys: Two rows are one") as held:
        dag_bag.dags["build_warehouse"].get_task("publish").python_callable()
    assert "exit code 3" in str(held.value)
    assert not Home.from_environment().published_database.exists()

    alert = dag_bag.dags["build_warehouse"].get_task("alert")
    # it runs although `publish` failed, and the run has failed although it runs
    assert alert.is_teardown
    assert not alert.on_failure_fail_dagrun
    assert alert.upstream_task_ids == {"publish"}
    rules_path(Home.from_environment()).write_text("rule,kind\nheld,build_held\n")
    with receiving() as receiver:
        connection = {"conn_type": "http", "password": f"{receiver.url}/s3cret"}
        monkeypatch.setenv("AIRFLOW_CONN_GPU_NET_WEBHOOK", json.dumps(connection))
        for _ in range(2):
            alert.python_callable()
        (message,) = receiver.messages
        assert "fct_gpu_ledger_hourly: Two rows are one." in message["text"]
        receiver.status = 500
        allow(Home.from_environment(), "build-001")
        alert.python_callable()
        allow(Home.from_environment(), "build-001", verdict=HOLD)
        with pytest.raises(AirflowException, match="webhook, 1 event: failed: the server said 500") as failed:
            alert.python_callable()
        assert "s3cret" not in str(failed.value)


def test_the_copy_does_nothing_without_its_connection_and_hands_it_on_unlogged(
    dag_bag: Any, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import gpu_net_steps
    from airflow.sdk.exceptions import AirflowException, AirflowSkipException

    copy = dag_bag.dags["copy_to_postgres"].get_task("copy").python_callable
    with pytest.raises(AirflowSkipException, match="no connection gpu_net_postgres"):
        copy()
    monkeypatch.setenv("AIRFLOW_CONN_GPU_NET_POSTGRES", "postgres://someone:s3cret@127.0.0.1:1/gpu?connect_timeout=1")
    with caplog.at_level("INFO", logger=gpu_net_steps.log.name), pytest.raises(AirflowException, match="nothing is published"):
        copy()
    assert "python -m warehouse export-postgres" in caplog.text
    assert "s3cret" not in caplog.text
