"""What vLLM servers say of themselves (V1, as of 0.10): counters since they started, and how they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from collectors.simulate.plan import Plan, Run, Service
from collectors.simulate.usage import (
    BUCKETS,
    DECODE_SECONDS,
    PREFILL_SECONDS,
    WAITING,
    latencies,
    requests_of,
    serving_runs,
    waiting_of,
)


def scrapes(plan: Plan, first: int, last: int) -> Iterator[tuple[str, int, str]]:
    """Server, minute and text, from the minute `first` (or the server's start) to `last`: what grew between two is a row."""
    for run, service in serving_runs(plan):
        start, end = max(first, run.start), min(last, run.until(plan.window))
        if start >= end:
            continue
        requests = requests_of(plan, run, service, run.start, end)
        counted = np.concatenate([[0], np.cumsum(requests)])
        failed = np.concatenate([[0], np.cumsum(requests // 100)])
        below = np.concatenate([np.zeros((1, len(BUCKETS)), np.int64), np.cumsum(latencies(requests, service), axis=0)])
        waiting = waiting_of(service, run.start, end)
        for minute in range(start, end + 1):
            place = minute - run.start
            now = int(requests[place - 1]) if place else 0
            is_waiting = bool(place and waiting[place - 1])
            yield run.name, minute, _text(service, run, int(counted[place]), int(failed[place]), below[place], now, is_waiting)


def _text(
    service: Service, run: Run, requests: int, failed: int, below: npt.NDArray[np.int64], now: int, is_waiting: bool
) -> str:
    model = f'engine="0",model_name="{service.model}"'
    latency = "vllm:e2e_request_latency_seconds"
    lines = [
        *_metric("vllm:num_requests_running", "gauge", (model, now * service.seconds / 60)),
        *_metric("vllm:num_requests_waiting", "gauge", (model, WAITING if is_waiting else 0.0)),
        *_metric("vllm:kv_cache_usage_perc", "gauge", (model, min(0.75, now * service.seconds / 200))),
        *_metric("vllm:prompt_tokens_total", "counter", (model, float(requests * service.prompt_tokens))),
        *_metric("vllm:prefix_cache_hits_total", "counter", (model, float(requests * service.cached_tokens))),
        *_metric("vllm:generation_tokens_total", "counter", (model, float(requests * service.output_tokens))),
        *_metric(
            "vllm:request_success_total",
            "counter",
            (f'{model},finished_reason="stop"', float(requests - failed)),
            (f'{model},finished_reason="abort"', float(failed)),
        ),
        f"# TYPE {latency} histogram",
        *(
            f'{latency}_bucket{{{model},le="{"+Inf" if math.isinf(limit) else limit}"}} {float(count)}'
            for limit, count in zip(BUCKETS, below, strict=True)
        ),
        f"{latency}_count{{{model}}} {float(requests)}",
        f"{latency}_sum{{{model}}} {requests * service.seconds}",
    ]
    for name, tokens, seconds in (
        ("prefill", service.prompt_tokens, PREFILL_SECONDS),
        ("decode", service.output_tokens, DECODE_SECONDS),
    ):
        metric = f"vllm:request_{name}_time_seconds"
        lines += [f"# TYPE {metric} summary", f"{metric}_count{{{model}}} {float(requests)}"]
        lines.append(f"{metric}_sum{{{model}}} {requests * tokens * seconds}")
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, *series: tuple[str, float]) -> list[str]:
    return [f"# TYPE {name} {kind}", *(f"{name}{{{labels}}} {value}" for labels, value in series)]
