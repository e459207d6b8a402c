"""### Read the scheduler's accounting

Runs `python -m collectors slurm` each hour: jobs, their GPUs and node states since the last landing, from `sacct`,
`sinfo` and `scontrol` of the machine that runs the task. Skips where there is no `sacct`.

**Set up**: `GPU_NET_CLUSTER` names the cluster.

**Owner**: gpu-net. **When it fails**: nothing partial has landed; the next run reads the window again, so a single
failure can be ignored. If it keeps failing, run `python -m collectors check` on that machine.
"""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, dag, task
from gpu_net_steps import DEFAULT_ARGS, LANDED, QUARANTINED, RAW_SLURM, START_DATE, run_command


@dag(
    schedule=CronTriggerTimetable("5 * * * *", timezone="UTC"),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:landing", "source:slurm", "impact:tier_2"],
)
def collect_slurm() -> None:
    @task(outlets=[RAW_SLURM])
    def land_accounting() -> None:
        import shutil

        from airflow.sdk.exceptions import AirflowSkipException

        if shutil.which("sacct") is None:
            raise AirflowSkipException("no sacct on this machine's PATH: nothing to read")
        run_command("collectors", "slurm", accept=(LANDED, QUARANTINED))

    land_accounting()


collect_slurm()
