"""One made-up day of a fleet in the landing shape: samples on an exact grid, inventory by the hour, jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

DAY = "2026-11-02"
GPUS_PER_NODE = 8


@dataclass(frozen=True)
class Day:
    """Files of one day by landing table, and how many samples they hold."""

    files: dict[str, Path]
    samples: int


def write_day(folder: Path, *, gpus: int, interval_s: int = 10) -> Day:
    """Write a day of `gpus` GPUs sampled every `interval_s` seconds to Parquet files in `folder`.

    Three of four nodes are held by one job that the scheduler knows by count alone, the others by exact single-GPU jobs;
    activity changes every ten minutes between busy, half busy and idle; power and temperature jitter as real ones do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")
    connection.execute(f"create table gpus as select g, g // {GPUS_PER_NODE} as n from range({gpus}) as t(g)")
    files = {name: folder / f"{name}.parquet" for name in _QUERIES}
    for name, query in _QUERIES.items():
        text = query.format(day=DAY, per_node=GPUS_PER_NODE, interval=interval_s, steps=86400 // interval_s)
        connection.execute(f"copy ({text}) to '{files[name]}' (format parquet)")
    samples = gpus * (86400 // interval_s)
    return Day(files, samples)


_NODE = "'node' || lpad(n::varchar, 4, '0')"
_GPU = "'GPU-' || md5(g::varchar)"
_NOISE = "(hash(g, s) % 1000) / 1000.0"

_QUERIES = {
    "gpu_inventory": f"""
        select 'bench' as cluster, {_NODE} as node, {_GPU} as gpu_uuid, 'NVIDIA H100 80GB HBM3' as gpu_model,
            85520809984::bigint as memory_total_bytes, timestamp '{{day}}' + to_hours(h) as seen_at
        from gpus, range(25) as t(h)""",
    "runs": f"""
        select 'bench' as cluster, 'slurm' as scheduler, 'node-' || n as job_id, 'train-' || n as name, 'ml' as namespace,
            'COMPLETED' as state, timestamp '{{day}}' + to_minutes(30) as started_at,
            timestamp '{{day}}' + to_hours(22) as ended_at, {{per_node}}::double as gpu_count, {_NODE} as node_list,
            timestamp '{{day}}' + to_hours(24) as observed_at
        from (select distinct n from gpus) where n % 4 > 0
        union all
        select 'bench', 'slurm', 'gpu-' || g, 'serve-' || (g % 7), 'serving', 'COMPLETED',
            timestamp '{{day}}' + to_minutes(g % 60), timestamp '{{day}}' + to_hours(20), 1.0, {_NODE},
            timestamp '{{day}}' + to_hours(24)
        from gpus where n % 4 = 0""",
    "run_gpus": f"""
        select 'bench' as cluster, 'gpu-' || g as job_id, {_NODE} as node, {_GPU} as gpu_uuid, 1.0 as gpu_count,
            timestamp '{{day}}' + to_minutes(g % 60) as started_at
        from gpus where n % 4 = 0""",
    "gpu_samples": f"""
        select 'bench' as cluster, {_NODE} as node, {_GPU} as gpu_uuid, (g % {{per_node}})::bigint as gpu_index,
            timestamp '{{day}}' + to_seconds(s * {{interval}}) as interval_start_at, {{interval}}000::bigint as interval_ms,
            case (hash(g, s * {{interval}} // 600) % 3)
                when 0 then 0.0 when 1 then 0.2 + 0.1 * {_NOISE} else 0.9 * {_NOISE} + 0.1
            end as sm_active_ratio,
            {_NOISE} as gpu_utilization_ratio, 20000000000 + (hash(g) % 50000000000)::bigint as memory_used_bytes,
            85520809984::bigint as memory_total_bytes, 90 + 6 * (hash(g, s, 1) % 100000) / 1000.0 as power_watts,
            (40 + hash(g, s // 6) % 30)::double as temperature_celsius, (1400 + hash(g, s // 4) % 580)::double as sm_clock_mhz,
            1980.0 as sm_clock_max_mhz, case when hash(g, s // 30) % 50 = 0 then 64 else 0 end::bigint as clock_event_reasons,
            'nvml' as source
        from gpus, range({{steps}}) as t(s)
        order by g, s""",
}
