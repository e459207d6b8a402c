"""`make bench`: land, compact and build one day of 1,000 GPUs sampled every 10 s, and say what it costs in scans.

A scan is DuckDB's own reading of every column of the landed samples, in the same run on the same machine. The part of
the build that grows with the data is the time of its dbt nodes, less the time the same nodes take for a fleet of 8 GPUs;
both fleets are built several times, and the best time of each node counts, since there are hundreds of them and each is short.
They are built in turn, and scanned between: a machine that is a tenth slower for some minutes would be taken for growth.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from bench.day import Day, write_day
from bench.scan import scan_seconds

Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Cost:
    """Wall-clock seconds of a command, the most memory that one of its processes held, in GiB, and its processor seconds."""

    seconds: float
    peak_gib: float
    processor: float = 0.0


def run(home: Path, *arguments: str) -> Cost:
    """What `python -m …` cost on `home`; its output is shown when it fails."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env={**os.environ, "GPU_NET_HOME": str(home)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status):
            output.seek(0)
            sys.exit(f"{' '.join(arguments)} left with {os.waitstatus_to_exitcode(status)}\n{output.read()}")
    return Cost(time.perf_counter() - begun, usage.ru_maxrss / 2**20, usage.ru_utime + usage.ru_stime)


def node_seconds(home: Path) -> dict[str, float]:
    """Execution time of each dbt node of the last build, by its name."""
    results = json.loads((home / "build" / "dbt" / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[2]: result["execution_time"] for result in results}


def build(home: Path) -> tuple[Cost, dict[str, float]]:
    """Build everything: what it cost, and what each dbt node took."""
    return run(home, "warehouse", "build", "--full-refresh"), node_seconds(home)


def least(builds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each dbt node the least time that it took in any of the builds."""
    return {name: min(seconds[name] for seconds in builds) for name in builds[0]}


def apart(function: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
    """Call a function in a process of its own: what it holds must not count as memory of the commands that follow."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **options).result()


def land(home: Path, day: Day) -> Cost:
    costs = [run(home, "collectors", "import", table, str(path)) for table, path in day.files.items()]
    return Cost(sum(cost.seconds for cost in costs), max(cost.peak_gib for cost in costs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--interval", type=int, default=10, help="seconds between samples")
    parser.add_argument("--repeats", type=int, default=5, help="builds of each fleet")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="gpu-net-bench-"))
    try:
        measure(folder, options.gpus, options.interval, options.repeats)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path, gpus: int, interval_s: int, repeats: int) -> None:
    small, large = folder / "small", folder / "large"
    land(small, apart(write_day, folder / "small-files", gpus=8, interval_s=600))
    day = apart(write_day, folder / "files", gpus=gpus, interval_s=interval_s)
    landing = land(large, day)
    compaction = run(large, "warehouse", "compact", "--older-than-hours", "0", "--delete-now")
    scans, of_small, of_large = [], [], []
    for _ in range(repeats):
        of_small.append(build(small))
        scans.append(apart(scan_seconds, large))
        of_large.append(build(large))
    scan = statistics.median(scans)
    building = min((cost for cost, _ in of_large), key=lambda cost: cost.seconds)
    fixed, nodes = (least([seconds for _, seconds in builds]) for builds in (of_small, of_large))
    growth = {name: seconds - fixed.get(name, 0.0) for name, seconds in nodes.items()}
    table = Table(
        "what", "seconds", "scans", "GiB", title=f"{day.samples:,} samples of {gpus:,} GPUs, every {interval_s} s, a day"
    )
    commands = {"landing": landing, "compaction": compaction, "build, in all": building}
    rows = [("scan of the landed samples", scan, "")]
    rows += [(name, cost.seconds, f"{cost.peak_gib:.2f}") for name, cost in commands.items()]
    rows += [("build, the part that grows with the data", sum(growth.values()), "")]
    rows += [(f"  {name}", seconds, "") for name, seconds in sorted(growth.items(), key=lambda item: -item[1])[:8]]
    for name, seconds, peak in rows:
        table.add_row(name, f"{seconds:.2f}", f"{seconds / scan:.1f}", peak)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
