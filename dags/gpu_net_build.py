"""The tasks between landed files and a published version, for the DAGs that build; the last tells what the alert rules found."""

from __future__ import annotations

from airflow.sdk import task
from gpu_net_messages import tell_alerts
from gpu_net_steps import HELD, WAREHOUSE_BUILT, WAREHOUSE_PUBLISHED, WRITER_POOL, run_command

#: a started run goes on before another run's build begins: the gate judges, and publish takes, the last build
_WRITER = {"pool": WRITER_POOL, "weight_rule": "upstream"}


def build_gate_publish() -> None:
    """build >> gate >> publish >> alert; the DAG's params `since`, `until`, `full_refresh`, where it has them, name the days."""

    @task(outlets=[WAREHOUSE_BUILT], **_WRITER)
    def build(params: dict[str, object] | None = None) -> None:
        given = params or {}
        window = [text for name in ("since", "until") if given.get(name) for text in (f"--{name}", str(given[name]))]
        full_refresh = ["--full-refresh"] if given.get("full_refresh") else []
        run_command("warehouse", "build", *window, *full_refresh)

    @task(**_WRITER)
    def gate() -> None:
        # a verdict to hold is a result, not a failure of the gate: `publish` reads it and stops
        run_command("expectations", accept=(0, HELD))

    @task(outlets=[WAREHOUSE_PUBLISHED], **_WRITER)
    def publish() -> None:
        # held: not tried again, the same build would be held again
        run_command("warehouse", "publish", final=(HELD,))

    @task
    def alert() -> None:
        tell_alerts()

    # a teardown runs whatever became of the tasks before it, and what becomes of it is not what becomes of the run: a held
    # build is told and its run has failed, and a channel that is down fails no publication
    build() >> gate() >> publish() >> alert().as_teardown()
