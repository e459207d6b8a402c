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


def write_day(folder: Path, *, gpus: int, interval_s: int = 10, day: str = DAY) -> Day:
    """Write a day of `gpus` GPUs sampled every `interval_s` seconds to Parquet files in `folder`.

    Three of four nodes are held by one job that the scheduler knows by count alone, the others by exact single-GPU jobs,
    the replicas of seven services that tell their usage every minute and need half of them; activity changes every ten
    minutes between busy, half busy and idle, but for one node of sixteen on which four cards wait for the other four, and
    one that does little with little memory; power and temperature jitter as real ones do. Every state is in use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")
    connection.execute(f"create table gpus as select g, g // {GPUS_PER_NODE} as n from range({gpus}) as t(g)")
    files = {name: folder / f"{name}.parquet" for name in _QUERIES}
    for name, query in _QUERIES.items():
        text = query.format(day=day, per_node=GPUS_PER_NODE, interval=interval_s, steps=86400 // interval_s)
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
    "workload_rules": """
        select 1 as priority, 'serving' as namespace, '^serve-' || k || '$' as name_regex, 'serve-' || k as workload,
            'inference' as kind, 1000.0 as replica_capacity_per_second, timestamp '2026-01-01' as valid_from
        from range(7) as t(k)""",
    "inference_usage": """
        select 'bench' as cluster, 'gpu-' || g as server, 'gpu-' || g as job_id, 'llm' as model,
            timestamp '{day}' + to_minutes(m) as interval_start_at, 60000::bigint as interval_ms,
            (60 + hash(g, m) % 60)::bigint as request_count, (8000 + hash(g, m) % 9000)::bigint as prompt_tokens,
            (12000 + hash(g, m, 1) % 20000)::bigint as output_tokens, (hash(g, m) % 8)::double as running_requests,
            0.0 as waiting_requests, 0.3 as kv_cache_usage_ratio, 40000000000::bigint as kv_cache_total_bytes
        from gpus, range(g % 60, 1200) as t(m)
        where n % 4 = 0""",
    "gpu_samples": f"""
        select 'bench' as cluster, {_NODE} as node, {_GPU} as gpu_uuid, (g % {{per_node}})::bigint as gpu_index,
            timestamp '{{day}}' + to_seconds(s * {{interval}}) as interval_start_at, {{interval}}000::bigint as interval_ms,
            case
                when n % 16 = 1 and g % 8 < 4 then 0.02
                when n % 16 = 1 then 0.85 + 0.1 * {_NOISE}
                when n % 16 = 2 then 0.08 + 0.1 * {_NOISE}
                when hash(g, s * {{interval}} // 600) % 3 = 0 then 0.0
                when hash(g, s * {{interval}} // 600) % 3 = 1 then 0.2 + 0.1 * {_NOISE}
                else 0.9 * {_NOISE} + 0.1
            end as sm_active_ratio,
            {_NOISE} as gpu_utilization_ratio,
            case when n % 16 = 2 then 4000000000 else 20000000000 + hash(g) % 50000000000 end::bigint as memory_used_bytes,
            85520809984::bigint as memory_total_bytes, 90 + 6 * (hash(g, s, 1) % 100000) / 1000.0 as power_watts,
            (40 + hash(g, s // 6) % 30)::double as temperature_celsius, (1400 + hash(g, s // 4) % 580)::double as sm_clock_mhz,
            1980.0 as sm_clock_max_mhz, case when hash(g, s // 30) % 50 = 0 then 64 else 0 end::bigint as clock_event_reasons,
            'nvml' as source
        from gpus, range({{steps}}) as t(s)
        order by g, s""",
}
