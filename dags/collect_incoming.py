"""### Land dropped files

Lands what others have put into `$GPU_NET_HOME/incoming` and moves it to `incoming/done`: files in the landing shape
(`incoming/<table>/`), what a source's own tool saved (`incoming/<source>/<cluster>/`: slurm, kubernetes, sonar, dcgm,
nvidia-smi, inference, requests), FOCUS bills (`incoming/billing/`). A kind of which nothing waits is skipped.

**Owner**: gpu-net. **When it fails**: the file named in the log could not be read and is still in `incoming`; nothing
of it has landed, all others have. Repair or remove it and clear the task. A folder of an unknown name and a link are
named as well, and are not read. Rows that broke the landing shape do not fail
the task: they are in `quarantine/` with file, line and reason, and counted in `fct_collection_runs`.
"""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, dag, task
from gpu_net_steps import DEFAULT_ARGS, LANDED, QUARANTINED, RAW_FILES, START_DATE, run_command


@dag(
    schedule=CronTriggerTimetable("10 * * * *", timezone="UTC"),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:landing", "source:incoming", "impact:tier_2"],
)
def collect_incoming() -> None:
    for kind, asset in RAW_FILES.items():

        @task(task_id=f"land_{kind}", outlets=[asset])
        def land(kind: str) -> None:
            from airflow.sdk.exceptions import AirflowSkipException

            from collectors.incoming import deliveries, refused
            from warehouse.home import Home

            home = Home.from_environment()
            if not deliveries(home, [kind]) and not refused(home, [kind]):
                raise AirflowSkipException("nothing waits")
            run_command("collectors", "incoming", kind, accept=(LANDED, QUARANTINED))

        land(kind)


collect_incoming()
