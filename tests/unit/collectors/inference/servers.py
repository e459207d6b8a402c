"""Metrics texts as servers write them, re-typed in small: names, labels and oddities of several versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

NOON = datetime(2026, 11, 1, 12)
MINUTE = timedelta(minutes=1)


def epoch(at: datetime) -> float:
    return (at - datetime(1970, 1, 1)).total_seconds()


def vllm(
    prompt: float = 1000,
    output: float = 100,
    done: float = 10,
    *,
    engine: str = "0",
    model: str = "m",
    started: datetime | None = None,
    more: str = "",
) -> str:
    """vLLM V1 with one engine: counters, gauges, a histogram; `started` is its process's start."""
    labels = f'engine="{engine}",model_name="{model}"'
    start = f"process_start_time_seconds {epoch(started)!r}\n" if started else ""
    return f"""{start}# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{labels}}} 2.0
vllm:num_requests_waiting{{{labels}}} 3.0
vllm:kv_cache_usage_perc{{{labels}}} 0.25
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{{labels}}} {float(prompt)}
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{{{labels}}} 1.7888602775296042e+09
vllm:prefix_cache_queries_total{{{labels}}} {float(prompt)}
vllm:prefix_cache_hits_total{{{labels}}} {prompt / 2}
vllm:generation_tokens_total{{{labels}}} {float(output)}
vllm:request_success_total{{{labels},finished_reason="stop"}} {float(done)}
vllm:request_success_total{{{labels},finished_reason="length"}} 0.0
vllm:request_success_total{{{labels},finished_reason="abort"}} {done / 10}
vllm:e2e_request_latency_seconds_sum{{{labels}}} {done * 2.5}
vllm:e2e_request_latency_seconds_bucket{{{labels},le="1.0"}} {done / 2}
vllm:e2e_request_latency_seconds_bucket{{{labels},le="+Inf"}} {done * 1.1}
vllm:e2e_request_latency_seconds_count{{{labels}}} {done * 1.1}
vllm:request_prefill_time_seconds_sum{{{labels}}} {done * 0.5}
vllm:request_decode_time_seconds_sum{{{labels}}} {done * 2.0}
{more}"""


def rows(home: Path) -> list[dict[str, Any]]:
    """The landed rows without their lineage, by server, model and time; a key that landed twice as it landed last."""
    paths = sorted(home.glob("raw/inference/inference_usage/dt=*/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    if not paths:
        return []
    frame = pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths])
    key = ["server", "model", "interval_start_at"]
    return frame.unique(key, keep="last").sort(key).drop("collection_run_id", "landed_at", "line_number").to_dicts()


def told(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
