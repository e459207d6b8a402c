"""What the DAG files share: assets, tags, the writer pool, and how a task runs one of the packages.

The work is in `collectors`, `warehouse` and `expectations`; a task starts one of their commands with the interpreter
that runs the task. So a command does the same by hand and in Airflow, nothing heavy is imported where DAG files are
parsed, and dbt's database lock ends with its process.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException

log = logging.getLogger("gpu_net")

PROJECT_ROOT = Path(__file__).resolve().parents[1]
START_DATE = datetime(2026, 1, 1, tzinfo=UTC)

#: one slot: DuckDB has one writer; `make up` creates it
WRITER_POOL = "warehouse_writer"

#: the closed set of tags
TAGS = frozenset(
    {
        *(f"layer:{layer}" for layer in ("landing", "warehouse", "digest", "copy")),
        *(f"source:{source}" for source in ("slurm", "kubernetes", "dcgm", "prometheus", "inference", "incoming", "all")),
        *(f"impact:tier_{tier}" for tier in (1, 2, 3)),
    }
)

#: what an agent on a GPU host (`nvml`) or a person's command lands is found by the build's hourly run
RAW_SLURM = Asset("raw_slurm")
RAW_KUBERNETES = Asset("raw_kubernetes")
RAW_SONAR = Asset("raw_sonar")
RAW_DCGM = Asset("raw_dcgm")
RAW_NVIDIA_SMI = Asset("raw_nvidia_smi")
RAW_PROMETHEUS = Asset("raw_prometheus")
RAW_INFERENCE = Asset("raw_inference")
RAW_REQUESTS = Asset("raw_requests")
RAW_BILLING = Asset("raw_billing")
RAW_IMPORT = Asset("raw_import")
#: kind of file in `incoming` → the asset that its landing renews
RAW_FILES = {
    "tables": RAW_IMPORT,
    "slurm": RAW_SLURM,
    "kubernetes": RAW_KUBERNETES,
    "sonar": RAW_SONAR,
    "dcgm": RAW_DCGM,
    "nvidia-smi": RAW_NVIDIA_SMI,
    "inference": RAW_INFERENCE,
    "requests": RAW_REQUESTS,
    "billing": RAW_BILLING,
}
RAW_ASSETS = (*RAW_FILES.values(), RAW_PROMETHEUS)
WAREHOUSE_BUILT = Asset("warehouse_built")
WAREHOUSE_PUBLISHED = Asset("warehouse_published")

#: every step may be repeated: landing twice changes nothing, a build replaces whole days, publishing is a rename
DEFAULT_ARGS: dict[str, Any] = {
    "owner": "gpu-net",
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "execution_timeout": timedelta(hours=2),
}

#: exit codes of `interfaces.md`
LANDED, SOURCE_FAILED, HELD, QUARANTINED = 0, 1, 3, 4


def run_command(
    *arguments: str, accept: Sequence[int] = (0,), final: Sequence[int] = (), secrets: Mapping[str, str] | None = None
) -> int:
    """Run `python -m ARGUMENTS`, its lines into the task's log as they come; return its exit code.

    An exit code that is not in `accept` raises with the last lines; one in `final` lets the task not be tried again.
    If the task is ended, so is the command. `secrets` are environment variables for it alone, and are not logged.
    """
    log.info("python -m %s", " ".join(arguments))
    last_lines: deque[str] = deque(maxlen=20)
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=PROJECT_ROOT,
        # verbose: what dbt did with each model belongs into the log
        env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "GPU_NET_VERBOSE": "1", **(secrets or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            last_lines.append(line.rstrip())
            log.info("%s", line.rstrip())
        code = process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code not in accept:
        failure = AirflowFailException if code in final else AirflowException
        raise failure(f"python -m {' '.join(arguments)} ended with exit code {code}:\n" + "\n".join(last_lines))
    return code


def scrape_until_the_hour_ends(source: str) -> None:
    """Scrape the addresses in `GPU_NET_<SOURCE>_URLS` each `GPU_NET_<SOURCE>_INTERVAL` seconds until the next hour begins.

    Skips the task where there is no address. Of a task that is tried again only the rest of the hour is scraped.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    prefix = f"GPU_NET_{source.upper()}"
    urls = os.environ.get(f"{prefix}_URLS", "").replace(",", " ").split()
    if not urls:
        raise AirflowSkipException(f"{prefix}_URLS names no address: nothing to scrape")
    now = datetime.now(UTC)
    end_at = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    addresses = [part for url in urls for part in ("--url", url)]
    seconds = max(1, int((end_at - now).total_seconds()))
    interval = os.environ.get(f"{prefix}_INTERVAL", "60")
    run_command(*("collectors", source, *addresses, "--interval", interval, "--for", str(seconds)), accept=(LANDED, QUARANTINED))
