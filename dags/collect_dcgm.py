"""### Scrape dcgm-exporter

From its start to the end of its hour, scrapes every address in `GPU_NET_DCGM_URLS` (separated by commas or blanks)
each `GPU_NET_DCGM_INTERVAL` seconds (60) with `python -m collectors dcgm --url …`. Skips where no address is set.

**Set up**: `GPU_NET_DCGM_URLS`, `GPU_NET_CLUSTER`.

**Owner**: gpu-net. **When it fails**: an exporter that does not answer is logged and asked again at the next scrape;
the task fails at the end of the hour if one never answered. The time without readings is `unobserved`, nothing else
is lost. Check the address with `curl`, then clear the task.
"""

from __future__ import annotations

from airflow.sdk import CronTriggerTimetable, dag, task
from gpu_net_steps import DEFAULT_ARGS, LANDED, QUARANTINED, RAW_DCGM, SOURCE_FAILED, START_DATE, run_command


@dag(
    schedule=CronTriggerTimetable("0 * * * *", timezone="UTC"),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:landing", "source:dcgm", "impact:tier_2"],
)
def collect_dcgm() -> None:
    @task(outlets=[RAW_DCGM])
    def scrape_for_an_hour() -> None:
        import os
        import time
        from datetime import UTC, datetime, timedelta

        from airflow.sdk.exceptions import AirflowException, AirflowSkipException

        urls = os.environ.get("GPU_NET_DCGM_URLS", "").replace(",", " ").split()
        if not urls:
            raise AirflowSkipException("GPU_NET_DCGM_URLS names no address: nothing to scrape")
        interval = timedelta(seconds=int(os.environ.get("GPU_NET_DCGM_INTERVAL", "60")))
        scrape_at = datetime.now(UTC)
        # the next hour's run begins where this one ends
        end_at = scrape_at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        answered: set[str] = set()
        while scrape_at < end_at:
            time.sleep(max(0.0, (scrape_at - datetime.now(UTC)).total_seconds()))
            for url in urls:
                seconds = f"{interval.total_seconds():g}"
                code = run_command(
                    "collectors", "dcgm", "--url", url, "--interval", seconds, accept=(LANDED, QUARANTINED, SOURCE_FAILED)
                )
                answered |= {url} if code != SOURCE_FAILED else set()
            # a scrape that took longer than the interval leaves out the times that have passed
            while scrape_at <= datetime.now(UTC):
                scrape_at += interval
        silent = sorted(set(urls) - answered)
        if silent:
            raise AirflowException(f"no answer in this hour from {', '.join(silent)}")

    scrape_for_an_hour()


collect_dcgm()
