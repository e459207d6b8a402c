"""`make bench`: land, compact and build one day of 1,000 GPUs sampled every 10 s, and say what it costs in scans.

A scan is DuckDB's own reading of every column of the landed samples, in the same run on the same machine. The part of
the build that grows with the data is the time of its dbt nodes, less the time the same nodes take for a fleet of 8 GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from bench.day import Day, write_day

ROOT = Path(__file__).resolve().parents[1]


def run(home: Path, *arguments: str) -> float:
    """Seconds that `python -m …` took on `home`; its output is shown when it fails."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "GPU_NET_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} left with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return time.perf_counter() - begun


def node_seconds(home: Path) -> dict[str, float]:
    """Execution time of each dbt node of the last build, by its name."""
    results = json.loads((home / "build" / "dbt" / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[2]: result["execution_time"] for result in results}


def scan_seconds(home: Path, repeats: int = 5) -> float:
    """Median time of reading every column of the landed samples with two threads."""
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    files = f"{home}/raw/*/gpu_samples/*/*.parquet"
    names = [row[0] for row in connection.execute(f"describe select * from read_parquet('{files}')").fetchall()]
    query = f"select {', '.join(f'max({name})' for name in names)} from read_parquet('{files}')"
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        connection.execute(query).fetchall()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def land(home: Path, day: Day) -> float:
    return sum(run(home, "collectors", "import", table, str(path)) for table, path in day.files.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--interval", type=int, default=10, help="seconds between samples")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="gpu-net-bench-"))
    try:
        measure(folder, options.gpus, options.interval)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path, gpus: int, interval_s: int) -> None:
    small, large = folder / "small", folder / "large"
    land(small, write_day(folder / "small-files", gpus=8, interval_s=600))
    run(small, "warehouse", "build")
    fixed = node_seconds(small)
    day = write_day(folder / "files", gpus=gpus, interval_s=interval_s)
    landing = land(large, day)
    compaction = run(large, "warehouse", "compact", "--older-than-hours", "0", "--delete-now")
    before = scan_seconds(large)
    building = run(large, "warehouse", "build")
    scan = statistics.mean((before, scan_seconds(large)))
    nodes = node_seconds(large)
    growth = {name: max(0.0, seconds - fixed.get(name, 0.0)) for name, seconds in nodes.items()}
    peak_gib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    console = Console(width=100)
    table = Table("what", "seconds", "scans", title=f"{day.samples:,} samples of {gpus:,} GPUs, every {interval_s} s, one day")
    rows = {
        "scan of the landed samples": scan,
        "landing": landing,
        "compaction": compaction,
        "build, in all": building,
        "build, the part that grows with the data": sum(growth.values()),
    }
    rows |= {f"  {name}": seconds for name, seconds in sorted(growth.items(), key=lambda item: -item[1])[:8]}
    for name, seconds in rows.items():
        table.add_row(name, f"{seconds:.2f}", f"{seconds / scan:.1f}")
    console.print(table)
    console.print(f"largest process of all steps: {peak_gib:.2f} GiB")


if __name__ == "__main__":
    main()
