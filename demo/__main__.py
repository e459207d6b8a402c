"""`make demo`: land the made-up fleet, build, gate and publish it by running the project's DAGs, print the first screen."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, NoReturn

from rich.console import Console

from dags.local.airflow_home import PROJECT_ROOT, adopt, prepare_database
from dags.local.runs import load_dags, run, succeeded

DEMO = PROJECT_ROOT / ".demo"
LOG = DEMO / "demo.log"
#: in the log: where a task's exception begins, and a line of Airflow's own
FAILURE = re.compile(r"airflow\.sdk\.exceptions\.Airflow\w*Exception: ")
AIRFLOW_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
#: what each DAG is run for
DAGS = {
    "collect_incoming": "land the files: landing shape, sacct, dcgm-exporter, FOCUS",
    "build_warehouse": "build, gate, publish",
}


def main() -> None:
    """Run the demo; exit 1, with the last lines of the log, where a DAG run does not succeed."""
    started = float(os.environ.get("GPU_NET_STARTED_AT") or time.time())
    shutil.rmtree(DEMO / "data", ignore_errors=True)
    (DEMO / "data").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("GPU_NET_")]:
        del os.environ[name]
    os.environ["GPU_NET_HOME"] = str(DEMO / "data")
    adopt(DEMO / "airflow")
    console = Console(file=os.fdopen(os.dup(1), "w"), soft_wrap=True)
    console.print("GPU Net demo: 12 GPUs, 2 clusters, 2026-11-02 to 2026-11-04, made up; nothing leaves this machine")
    with _into_log(), console.status("") as status:
        with _step(console, status, "write the fleet's files"):
            from demo import landing_files, native_text

            landing_files.write(DEMO / "data" / "incoming")
            native_text.write(DEMO / "data" / "incoming")
        with _step(console, status, "start Airflow (one process, its database in .demo/airflow)"):
            prepare_database()
            dags = load_dags()
        for dag_id, purpose in DAGS.items():
            with _step(console, status, f"DAG {dag_id}: {purpose}"):
                states = run(dags[dag_id])
            console.print("    " + ", ".join(f"{task} {state}" for task, state in states.items()))
            if not succeeded(states):
                status.stop()
                _give_up(console)
    _show(console)
    console.print(f"\nlog: {LOG.relative_to(PROJECT_ROOT)}; total time {time.time() - started:.0f} s")


@contextmanager
def _into_log() -> Iterator[None]:
    """Send everything that Airflow, dbt and the commands print to the log."""
    saved = os.dup(1), os.dup(2)
    sys.stdout.flush()
    with LOG.open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)


@contextmanager
def _step(console: Console, status: Any, name: str) -> Iterator[None]:
    started = time.monotonic()
    status.update(f"{name} …")
    yield
    console.print(f"  {name}: {time.monotonic() - started:.1f} s")


def _give_up(console: Console) -> NoReturn:
    """Print what the failed task said, without what Airflow said around it."""
    lines = LOG.read_text(errors="replace").splitlines()
    begins = max((number for number, line in enumerate(lines) if FAILURE.match(line)), default=max(0, len(lines) - 40))
    said = list(takewhile(lambda line: not AIRFLOW_LINE.match(line), lines[begins:]))
    console.print("\n".join(said), markup=False, highlight=False)
    console.print(f"\nthe demo did not get to its end; the whole log: {LOG}")
    sys.exit(1)


def _show(console: Console) -> None:
    from warehouse.first_screen import show
    from warehouse.home import Home

    console.print()
    show(Home.from_environment().published_database, console)
    console.print("open it read-only, for example: duckdb -readonly, DBeaver, Superset; the tables are in schema main")


if __name__ == "__main__":
    main()
