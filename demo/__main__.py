"""`make demo`: make up a fleet, land it, build, gate and publish it by running the project's DAGs, print the first screen.

python -m demo [FOLDER]    everything it writes is below FOLDER (.demo), whose `data` is a GPU_NET_HOME

Most of the fleet's time is landed in the landing shape; its last two hours are written as the text of sacct, kubectl,
dcgm-exporter, vLLM and a FOCUS bill, and land through the collectors of those. What is published is compared with the
answer that the simulation left.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from dags.local.airflow_home import PROJECT_ROOT, adopt, prepare_database
from dags.local.runs import load_dags, run, succeeded

GPUS, DAYS, SEED = 60, 14, 57
UNTIL_AT = datetime(2026, 11, 5)
NATIVE_HOURS = 2
#: seconds between the samples of the time that is landed, as many as a scrape a minute gives for the rest; minutes of usage
INTERVAL, USAGE_EVERY = 60, 5

#: in the log: where a task's exception begins, and a line of Airflow's own
FAILURE = re.compile(r"airflow\.sdk\.exceptions\.Airflow\w*Exception: ")
AIRFLOW_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
#: what each DAG is run for
DAGS = {
    "collect_incoming": "land the text of the last two hours: sacct, scontrol, kubectl, dcgm-exporter, vLLM, LiteLLM, FOCUS",
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
    console.print(
        f"GPU Net demo: {GPUS} GPUs in 3 clusters over {DAYS} days to {UNTIL_AT:%Y-%m-%d}, made up; nothing leaves this machine"
    )
    with _into(log), console.status("") as status:
        with _step(console, status, f"make the fleet up, land all but its last {NATIVE_HOURS} hours"):
            answer = _simulate(data)
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
        with _step(console, status, "draw the digest of the last day"):
            digests = _digest(data)
    _show(console, answer, digests)
    console.print(f"log               {log}\ntotal time        {time.time() - started:.0f} s")


def _simulate(data: Path) -> Path:
    """Land the fleet up to its last hours, write those as native text; where the answer is."""
    from collectors.simulate.answer import write_answer
    from collectors.simulate.land import land_plan
    from collectors.simulate.native.write import write_native
    from collectors.simulate.world import Parameters, make_plan
    from warehouse.home import Home
    from warehouse.landing.landings import Landing

    home = Home.from_environment()
    parameters = Parameters(GPUS, DAYS * 24, SEED, UNTIL_AT)
    plan = make_plan(parameters)
    native_from = plan.window.minutes - NATIVE_HOURS * 60
    for outcome in land_plan(plan, parameters, 0, native_from, Landing(home), interval=INTERVAL, usage_every=USAGE_EVERY):
        print(outcome.summary())
    print(write_native(plan, native_from, plan.window.minutes, data / "incoming"), "files")
    return write_answer(plan, parameters, home)


def _digest(data: Path) -> list[Path]:
    """Preview the mail of the last day; its files."""
    from warehouse.digest.command import digest_command

    digest_command.main([], prog_name="python -m warehouse digest", standalone_mode=False)
    return sorted(path for path in (data / "digests").rglob("*") if path.suffix in (".html", ".png"))


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


def _show(console: Console, answer: Path, digests: list[Path]) -> None:
    """The first screen, how it compares with what was planted, and where things are."""
    from demo.planted import compare
    from warehouse.first_screen import show
    from warehouse.home import Home

    database = Home.from_environment().published_database
    console.print()
    show(database, console)
    console.print(compare(answer, database).summary(), markup=False, highlight=False)
    console.print()
    console.print(f"database          {database} (open it read-only: duckdb -readonly, DBeaver, Superset; schema main)")
    console.print(f"planted answer    {answer}")
    for path in digests:
        kind = "digest, picture" if path.suffix == ".png" else "digest"
        console.print(f"{kind:<18}{path}")


if __name__ == "__main__":
    main(*(Path(argument).absolute() for argument in sys.argv[1:2]))
