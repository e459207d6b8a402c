"""### Read what Prometheus has kept

Runs `python -m collectors prometheus` each hour: the raw samples of dcgm-exporter, kube-state-metrics and inference servers
since the last landing, from `GPU_NET_PROMETHEUS_URL`. Skips where no address is set.

**Set up**: `GPU_NET_PROMETHEUS_URL` (`GPU_NET_PROMETHEUS_TOKEN` where it asks for one), `GPU_NET_CLUSTER`.

**Owner**: gpu-net. **When it fails**: chunks that were read have landed, the rest is read by the next run, as long as
Prometheus keeps it. Check the address with `python -m collectors check`, then clear the task.
"""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, dag, task
from gpu_net_steps import DEFAULT_ARGS, LANDED, QUARANTINED, RAW_PROMETHEUS, START_DATE, run_command


@dag(
    schedule=CronTriggerTimetable("15 * * * *", timezone="UTC"),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:landing", "source:prometheus", "impact:tier_2"],
)
def collect_prometheus() -> None:
    @task(outlets=[RAW_PROMETHEUS])
    def land_samples() -> None:
        import os

        from airflow.sdk.exceptions import AirflowSkipException

        if not os.environ.get("GPU_NET_PROMETHEUS_URL"):
            raise AirflowSkipException("GPU_NET_PROMETHEUS_URL is not set: nothing to read")
        run_command("collectors", "prometheus", accept=(LANDED, QUARANTINED))

    land_samples()


collect_prometheus()
