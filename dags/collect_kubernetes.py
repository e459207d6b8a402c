"""### Read pods and nodes from the Kubernetes API

Runs `python -m collectors kubernetes` each 5 minutes: pods with their GPUs, nodes and their states, as they are now. A pod
that came and went between two runs is not seen: `collect_prometheus` with kube-state-metrics sees it. Skips where there is
neither a service account (the task runs inside the cluster) nor a `kubectl` with a kubeconfig.

**Set up**: `GPU_NET_CLUSTER`; the ClusterRole in `collectors/kubernetes/`.

**Owner**: gpu-net. **When it fails**: nothing partial has landed; the next run reads the API again, so a single failure can
be ignored. If it keeps failing, run `python -m collectors check` on that machine.
"""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, dag, task
from gpu_net_steps import DEFAULT_ARGS, LANDED, QUARANTINED, RAW_KUBERNETES, START_DATE, run_command


@dag(
    schedule=CronTriggerTimetable("*/5 * * * *", timezone="UTC"),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:landing", "source:kubernetes", "impact:tier_2"],
)
def collect_kubernetes() -> None:
    @task(outlets=[RAW_KUBERNETES])
    def land_pods_and_nodes() -> None:
        import os
        import shutil
        from pathlib import Path

        from airflow.sdk.exceptions import AirflowSkipException

        has_kubeconfig = "KUBECONFIG" in os.environ or (Path.home() / ".kube" / "config").exists()
        if "KUBERNETES_SERVICE_HOST" not in os.environ and not (shutil.which("kubectl") and has_kubeconfig):
            raise AirflowSkipException("neither a service account nor kubectl with a kubeconfig: no cluster to ask")
        run_command("collectors", "kubernetes", accept=(LANDED, QUARANTINED))

    land_pods_and_nodes()


collect_kubernetes()
