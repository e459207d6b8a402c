"""`make demo`: land the made-up fleet, build, gate and publish it by running the project's DAGs, print the first screen.

python -m demo [FOLDER]    everything it writes is below FOLDER (.demo), whose `data` is a GPU_NET_HOME
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from dags.local.airflow_home import PROJECT_ROOT, adopt, prepare_database
from dags.local.runs import load_dags, run, succeeded

#: in the log: where a task's exception begins, and a line of Airflow's own
FAILURE = re.compile(r"airflow\.sdk\.exceptions\.Airflow\w*Exception: ")
AIRFLOW_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
#: what each DAG is run for
DAGS = {
    "collect_incoming": "land the files: landing shape, sacct, dcgm-exporter, FOCUS",
    "build_warehouse": "build, gate, publish",
}


def main(folder: Path = PROJECT_ROOT / ".demo") -> None:
    """Run the demo; exit 1, with what the failed task said, where a DAG run does not succeed."""
    started = float(os.environ.get("GPU_NET_STARTED_AT") or time.time())
    data, log = folder / "data", folder / "demo.log"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("GPU_NET_")]:
        del os.environ[name]
    os.environ["GPU_NET_HOME"] = str(data)
    adopt(folder / "airflow")
    console = Console(file=os.fdopen(os.dup(1), "w"), soft_wrap=True)
    console.print("GPU Net demo: 12 GPUs, 2 clusters, 2026-11-02 to 2026-11-04, made up; nothing leaves this machine")
    with _into(log), console.status("") as status:
        with _step(console, status, "write the fleet's files"):
            from demo import landing_files, native_text

            landing_files.write(data / "incoming")
            native_text.write(data / "incoming")
        with _step(console, status, "start Airflow (one process, its own database)"):
            prepare_database()
            dags = load_dags()
        for dag_id, purpose in DAGS.items():
            with _step(console, status, f"DAG {dag_id}: {purpose}"):
                states = run(dags[dag_id])
            console.print("    " + ", ".join(f"{task} {state}" for task, state in states.items()))
            if not succeeded(states):
                status.stop()
                _give_up(console, log)
    _show(console)
    console.print(f"\nlog: {log}; total time {time.time() - started:.0f} s")


@contextmanager
def _into(path: Path) -> Iterator[None]:
    """Send everything that Airflow, dbt and the commands print to the log at `path`."""
    saved = os.dup(1), os.dup(2)
    sys.stdout.flush()
    with path.open("wb") as log:
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


def _give_up(console: Console, log: Path) -> NoReturn:
    """Print what the failed task said, without what Airflow said around it."""
    lines = log.read_text(errors="replace").splitlines()
    begins = max((number for number, line in enumerate(lines) if FAILURE.match(line)), default=max(0, len(lines) - 40))
    said = list(takewhile(lambda line: not AIRFLOW_LINE.match(line), lines[begins:]))
    console.print("\n".join(said), markup=False, highlight=False)
    console.print(f"\nthe demo did not get to its end; the whole log: {log}")
    sys.exit(1)


def _show(console: Console) -> None:
    from warehouse.first_screen import show
    from warehouse.home import Home

    console.print()
    show(Home.from_environment().published_database, console)
    console.print("open it read-only, for example: duckdb -readonly, DBeaver, Superset; the tables are in schema main")


if __name__ == "__main__":
    main(*(Path(argument).absolute() for argument in sys.argv[1:2]))
