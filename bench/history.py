"""`python -m bench.history`: what a day costs after two months of history, as a ratio to what the second day cost.

A fleet whose pods live for months and are seen again every hour, beside jobs of the day. The second day and the sixty-first are
landed alike; build, gate and publication are timed for each, in turn, several times from a copy of the same home, and of each
command the best counts. Processor time is what is compared: a machine that is busy with other things makes everything take
longer, not dearer.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from bench.__main__ import Cost, apart, land, least, node_seconds, run
from bench.day import GPUS_PER_NODE, Day, write_day

FIRST = date(2026, 9, 1)
MOST_RATIO = 1.1
COMMANDS = (("warehouse", "build"), ("expectations",), ("warehouse", "publish"))


@dataclass(frozen=True)
class DayCost:
    """Of one day landed onto what was there: processor and elapsed seconds of the commands, seconds of each dbt node."""

    processor: float
    elapsed: float
    nodes: Mapping[str, float]

    @property
    def dbt(self) -> float:
        return sum(self.nodes.values())


def write_days(folder: Path, first: date, last: date, *, gpus: int) -> Day:
    """The days from `first` to `last`, all in one file per table."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[Path]] = {}
    day, samples = first, 0
    while day <= last:
        written = write_day(folder / f"{day}", gpus=gpus, interval_s=60, day=str(day))
        for table, path in [*written.files.items(), *_pods(folder / f"{day}", day, gpus).items()]:
            parts.setdefault(table, []).append(path)
        samples += written.samples
        day += timedelta(days=1)
    connection = duckdb.connect()
    files = {}
    for table, paths in parts.items():
        files[table] = folder / f"{table}.parquet"
        names = ", ".join(f"'{path}'" for path in paths)
        connection.execute(f"copy (from read_parquet([{names}], union_by_name = true)) to '{files[table]}' (format parquet)")
    return Day(files, samples)


def _pods(folder: Path, day: date, gpus: int) -> dict[str, Path]:
    """Services on the nodes after the others: one pod per GPU since the first day, seen every hour, busy every minute."""
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")
    connection.execute(
        f"create table pods as select p, {gpus // GPUS_PER_NODE} + p // {GPUS_PER_NODE} as n from range({gpus // 4}) as t(p)"
    )
    files = {name: folder / f"pods_{name}.parquet" for name in _PODS}
    for name, query in _PODS.items():
        connection.execute(f"copy ({query.format(day=day, first=FIRST)}) to '{files[name]}' (format parquet)")
    return files


_NODE = "'pods' || lpad(n::varchar, 4, '0')"
_GPU = "'GPU-' || md5('pod' || p)"
_PODS = {
    "gpu_inventory": f"""
        select 'bench' as cluster, {_NODE} as node, {_GPU} as gpu_uuid, 'NVIDIA H100 80GB HBM3' as gpu_model,
            85520809984::bigint as memory_total_bytes, timestamp '{{day}}' + to_hours(h) as seen_at
        from pods, range(25) as t(h)""",
    "runs": f"""
        select 'bench' as cluster, 'kubernetes' as scheduler, 'pod-' || p as job_id, 'chat-' || (p % 3) || '-' || p as name,
            'serving' as namespace, 'RUNNING' as state, timestamp '{{first}}' as started_at, null::timestamp as ended_at,
            1.0 as gpu_count, {_NODE} as node_list, 'ReplicaSet' as owner_kind, 'chat-' || (p % 3) as owner_name,
            timestamp '{{day}}' + to_hours(h + 1) as observed_at
        from pods, range(24) as t(h)""",
    "run_gpus": f"""
        select 'bench' as cluster, 'pod-' || p as job_id, {_NODE} as node, {_GPU} as gpu_uuid, 1.0 as gpu_count,
            timestamp '{{first}}' as started_at
        from pods""",
    "inference_usage": """
        select 'bench' as cluster, 'pod-' || p as server, 'pod-' || p as job_id, 'serving' as namespace, 'llama' as model,
            timestamp '{day}' + to_minutes(m) as interval_start_at, 60000::bigint as interval_ms,
            (hash(p, m) % 50)::bigint as request_count, (hash(p, m) % 9000)::bigint as prompt_tokens,
            (hash(p, m, 1) % 3000)::bigint as output_tokens, 0.0 as waiting_requests
        from pods, range(1440) as t(m)""",
    "gpu_samples": f"""
        select 'bench' as cluster, {_NODE} as node, {_GPU} as gpu_uuid,
            timestamp '{{day}}' + to_minutes(m) as interval_start_at, 60000::bigint as interval_ms,
            case when hash(p, m // 30) % 3 = 0 then 0.0 else 0.3 + (hash(p, m) % 1000) / 2000.0 end as sm_active_ratio,
            60000000000::bigint as memory_used_bytes, 85520809984::bigint as memory_total_bytes,
            90 + 6 * (hash(p, m, 1) % 100000) / 1000.0 as power_watts, 'nvml' as source
        from pods, range(1440) as t(m)""",
}


def measure(folder: Path, *, gpus: int, days: int, repeats: int) -> bool:
    """Run, print, and say whether a day costs what it did."""
    home = folder / "home"
    land(home, apart(write_days, folder / "first", FIRST, FIRST, gpus=gpus))
    run(home, "warehouse", "run")
    second_home = _with_day(folder, home, FIRST + timedelta(days=1), gpus)
    land(home, apart(write_days, folder / "history", FIRST + timedelta(days=1), FIRST + timedelta(days=days - 1), gpus=gpus))
    run(home, "warehouse", "run")
    last_home = _with_day(folder, home, FIRST + timedelta(days=days), gpus)
    second, last = _costs_of(folder, (second_home, last_home), repeats)
    table = Table(title=f"{gpus + gpus // 4} GPUs every minute: a day after {days} days of history", title_justify="left")
    for column in ("what", "second day", f"day {days + 1}", "ratio"):
        table.add_column(column, justify="left" if column == "what" else "right")
    rows = [
        ("processor time of build, gate and publication", second.processor, last.processor),
        ("elapsed", second.elapsed, last.elapsed),
        ("dbt nodes", second.dbt, last.dbt),
    ]
    grown = sorted(last.nodes, key=lambda name: second.nodes.get(name, 0.0) - last.nodes[name])
    rows += [(f"  {name}", second.nodes.get(name, 0.0), last.nodes[name]) for name in grown[:12]]
    for name, before, after in rows:
        table.add_row(name, f"{before:.2f} s", f"{after:.2f} s", f"{after / before:.2f}" if before else "")
    Console(width=110).print(table)
    return last.processor <= MOST_RATIO * second.processor


def _with_day(folder: Path, home: Path, day: date, gpus: int) -> Path:
    """A copy of `home` in which `day` has landed and is not built yet; `home` stays as it is."""
    copy = folder / f"home-{day}"
    shutil.copytree(home, copy, symlinks=True)
    land(copy, apart(write_days, folder / f"day-{day}", day, day, gpus=gpus))
    return copy


def _costs_of(folder: Path, homes: Sequence[Path], repeats: int) -> list[DayCost]:
    """The least that each command and each dbt node cost on copies of each home, in turn: a machine's speed moves."""
    runs: dict[Path, list[tuple[list[Cost], dict[str, float]]]] = {home: [] for home in homes}
    for _ in range(repeats):
        for home, found in runs.items():
            copy = folder / "copy"
            shutil.copytree(home, copy, symlinks=True)
            found.append(([run(copy, *command) for command in COMMANDS], node_seconds(copy)))
            shutil.rmtree(copy)
    return [_least(found) for found in runs.values()]


def _least(runs: Sequence[tuple[list[Cost], dict[str, float]]]) -> DayCost:
    commands = list(zip(*(costs for costs, _ in runs), strict=True))
    return DayCost(
        sum(min(cost.processor for cost in costs) for costs in commands),
        sum(min(cost.seconds for cost in costs) for costs in commands),
        least([nodes for _, nodes in runs]),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=7, help="of each day, in turn")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    options = parser.parse_args()
    work = options.keep or Path(tempfile.mkdtemp(prefix="gpu-net-bench-"))
    try:
        sys.exit(0 if measure(work, gpus=options.gpus, days=options.days, repeats=options.repeats) else 1)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
