"""### Scrape inference servers

From its start to the end of its hour, scrapes every address in `GPU_NET_INFERENCE_URLS` (separated by commas or blanks;
vLLM, SGLang, TGI, Triton and their kin) each `GPU_NET_INFERENCE_INTERVAL` seconds (60) with `python -m collectors inference
--url … --for …`. Skips where no address is set.

**Set up**: `GPU_NET_INFERENCE_URLS`, `GPU_NET_CLUSTER`.

**Owner**: gpu-net. **When it fails**: a server that does not answer is told in the log and asked again at the next scrape;
the task fails at the end of the hour if one never answered. Its counters go on, so that tokens served meanwhile are
counted with its next answer, unless it was restarted. Check the address with `curl`, then clear the task.
"""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, dag, task
from gpu_net_steps import DEFAULT_ARGS, RAW_INFERENCE, START_DATE, scrape_until_the_hour_ends


@dag(
    schedule=CronTriggerTimetable("0 * * * *", timezone="UTC"),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:landing", "source:inference", "impact:tier_2"],
)
def collect_inference() -> None:
    @task(outlets=[RAW_INFERENCE])
    def scrape_for_an_hour() -> None:
        scrape_until_the_hour_ends("inference")

    scrape_for_an_hour()


collect_inference()
