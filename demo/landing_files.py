"""The fleet as files in the landing shape (`docs` of each table: `warehouse/landing_shape.py`)."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from demo.bill import lines
from demo.fleet import (
    ALDER,
    CIRRUS,
    END_AT,
    HOUR,
    HUNG,
    JOBS,
    NATIVE_FROM,
    NODE_STATES,
    NODES,
    PODS,
    PROVIDER,
    START_AT,
    Job,
    jitter,
    office_hours,
)
from demo.telemetry import GIB, MINUTE, readings

Row = Mapping[str, Any]


def write(folder: Path) -> None:
    """Write one file per landing table below `folder`, each in a folder of the table's name."""
    _parquet(folder, "gpu_samples", samples())
    _parquet(folder, "inference_usage", inference_usage())
    _csv(folder, "gpu_inventory", inventory())
    _csv(folder, "nodes", nodes())
    _csv(folder, "node_states", node_states())
    _csv(folder, "rate_cards", rate_cards())
    _csv(folder, "workload_rules", workload_rules())
    _csv(folder, "run_gpus", run_gpus())
    _csv(folder, "billing_lines", lines(START_AT, datetime(2026, 11, 4), "bill-2026-11-04", datetime(2026, 11, 4, 6)))
    _json_lines(folder, "runs", runs())


def samples() -> Iterator[Row]:
    for reading in readings(START_AT, NATIVE_FROM):
        yield {
            "cluster": reading.node.cluster,
            "node": reading.node.name,
            "gpu_uuid": reading.slot.gpu_uuid,
            "slot_uuid": reading.slot.slot_uuid,
            "gpu_index": reading.slot.index,
            "interval_start_at": reading.start_at,
            "interval_ms": 60_000,
            # DCGM gives no SM activity per MIG instance on this driver; graphics engine activity works there
            "sm_active_ratio": None if reading.is_partition else reading.activity,
            "graphics_engine_active_ratio": min(1.0, round(reading.activity * 1.04, 4)),
            "gpu_utilization_ratio": None if reading.is_partition else float(reading.activity > 0),
            "memory_used_bytes": reading.memory_bytes,
            "memory_total_bytes": int(reading.node.slot_memory_gib(reading.slot) * GIB),
            "power_watts": reading.power_watts,
            "energy_joules": round(reading.power_watts * 60, 3),
            "temperature_celsius": float(reading.temperature_celsius),
            "sm_clock_mhz": float(reading.clock_mhz),
            "sm_clock_max_mhz": float(reading.node.clock_mhz),
            "clock_event_reasons": reading.clock_event_reasons,
            "source": "dcgm",
        }


def inventory() -> Iterator[Row]:
    """A record per slot each ten minutes, at a five, so that none meets a scrape's instant."""
    for seen_at in _times(START_AT, END_AT, 10 * MINUTE):
        for node in NODES:
            for slot in node.slots:
                yield {
                    "cluster": node.cluster,
                    "node": node.name,
                    "gpu_uuid": slot.gpu_uuid,
                    "slot_uuid": slot.slot_uuid,
                    "mig_profile": slot.profile,
                    "compute_slices": slot.compute_slices,
                    "card_slices": 7 if slot.profile else None,
                    "gpu_model": node.gpu_model,
                    "memory_total_bytes": int(node.slot_memory_gib(slot) * GIB),
                    "gpu_index": slot.index,
                    "driver_version": "580.95.05",
                    "power_limit_watts": node.full_watts,
                    "sm_clock_max_mhz": node.clock_mhz,
                    "provider": PROVIDER if node.resource_id else None,
                    "provider_resource_id": node.resource_id,
                    "region": "eu-north" if node.resource_id else None,
                    "rack": None if node.resource_id else "r7",
                    "seen_at": _utc(seen_at + (timedelta(0) if seen_at == START_AT else timedelta(seconds=5))),
                }


def nodes() -> Iterator[Row]:
    for seen_at in (*_times(START_AT, END_AT, HOUR), END_AT):
        for node in NODES:
            yield {
                "cluster": node.cluster,
                "node": node.name,
                "cpu_count": node.cpu_count,
                "memory_bytes": node.cpu_count * 8 * GIB,
                "gpu_count": node.cards,
                "instance_type": node.instance_type,
                "is_spot": "false",
                "partitions": "gpu" if node.cluster == ALDER else None,
                "seen_at": _utc(seen_at),
            }


def node_states() -> Iterator[Row]:
    for state in NODE_STATES:
        yield {
            "cluster": ALDER,
            "node": state.node,
            "state": state.state,
            "reason": state.reason,
            "started_at": _utc(state.start_at),
            "ended_at": _utc(state.end_at),
        }


def runs() -> Iterator[Row]:
    """Slurm's jobs as they were known when the native text begins, and all pods."""
    for job in JOBS:
        if job.start_at < NATIVE_FROM:
            yield _job_row(job)
    for pod in PODS:
        yield {
            "cluster": CIRRUS,
            "scheduler": "kubernetes",
            "job_id": pod.uid,
            "name": pod.name,
            "namespace": pod.namespace,
            "state": "Succeeded" if pod.end_at else "Running",
            "submitted_at": _utc(pod.start_at - timedelta(seconds=4)),
            "started_at": _utc(pod.start_at),
            "ended_at": _utc(pod.end_at) if pod.end_at else None,
            "gpu_count": 1,
            "share_ratio": pod.share,
            "node_list": pod.node,
            "node_count": 1,
            "owner_kind": pod.owner_kind,
            "owner_name": pod.owner_name,
            "labels": {"app.kubernetes.io/name": pod.owner_name},
            "observed_at": _utc(END_AT),
        }


def _job_row(job: Job) -> Row:
    is_over = job.end_at is not None and job.end_at <= NATIVE_FROM
    return {
        "cluster": ALDER,
        "scheduler": "slurm",
        "job_id": str(job.job_id),
        "name": job.name,
        "namespace": job.account,
        "queue": "gpu",
        "state": job.state if is_over else "RUNNING",
        "submitted_at": _utc(job.start_at - timedelta(minutes=3)),
        "started_at": _utc(job.start_at),
        "ended_at": _utc(job.end_at) if is_over and job.end_at else None,
        "suspended_seconds": job.suspended.total_seconds(),
        "requested_gpu_count": job.gpu_count,
        "gpu_count": job.gpu_count,
        "node_list": job.node,
        "node_count": 1,
        "labels": {"interactive": True} if job.is_interactive else None,
        "observed_at": _utc(NATIVE_FROM),
    }


def run_gpus() -> Iterator[Row]:
    """Which slot each pod has, as the pod-resources API says; Slurm's accounting names none."""
    by_name = {node.name: node for node in NODES}
    for pod in PODS:
        slot = next(s for s in by_name[pod.node].slots if (s.index, s.instance) == (pod.index, pod.instance))
        yield {
            "cluster": CIRRUS,
            "job_id": pod.uid,
            "node": pod.node,
            "gpu_uuid": slot.gpu_uuid,
            "slot_uuid": slot.slot_uuid,
            "gpu_count": 1,
            "share_ratio": pod.share,
            "started_at": _utc(pod.start_at),
            "ended_at": _utc(pod.end_at) if pod.end_at else None,
            "assignment_method": "pod_resources",
        }


#: service → (requests per minute by day, by night, prompt tokens per request, of them cached, output tokens, seconds)
SERVICES = {
    "chat": ("assistant-32b", 64.0, 1.0, 880, 310, 340, 4.5),
    "embed": ("embedder", 900.0, 240.0, 420, 0, 0, 0.08),
    "rerank": ("reranker", 130.0, 2.0, 700, 0, 0, 0.2),
}
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, math.inf)


def inference_usage() -> Iterator[Row]:
    """A row per serving pod and minute; the second embedder gets no traffic."""
    busy = [pod for pod in PODS if pod.owner_name in SERVICES and pod.instance != 8]
    for pod in busy:
        model, by_day, by_night, prompt, cached, output, seconds = SERVICES[pod.owner_name]
        for now in _times(START_AT, END_AT, MINUTE):
            is_hung = pod.owner_name == "chat" and HUNG[0] <= now < HUNG[1]
            rate = office_hours(by_day, by_night)(0, now) * (1 + 0.2 * jitter("requests", pod.name, now))
            requests = 0 if is_hung else max(0, round(rate))
            failed = round(requests * 0.01)
            yield {
                "cluster": CIRRUS,
                "server": f"{pod.name}:8000",
                "node": pod.node,
                "job_id": pod.uid,
                "namespace": pod.namespace,
                "workload": pod.owner_name,
                "model": model,
                "interval_start_at": now,
                "interval_ms": 60_000,
                "request_count": requests,
                "failed_request_count": failed,
                "prompt_tokens": requests * prompt,
                "cached_prompt_tokens": requests * cached,
                "prompt_includes_cached": True,
                "output_tokens": requests * output,
                "running_requests": round(requests * seconds / 60, 3),
                "waiting_requests": 7.0 if is_hung else 0.0,
                "kv_cache_usage_ratio": round(min(0.9, requests * seconds / 600), 4),
                "prefill_seconds": round(requests * prompt * 0.00021, 4),
                "decode_seconds": round(requests * output * 0.0011, 4),
                "latency_histogram": _histogram(requests, seconds),
            }


def _histogram(requests: int, seconds: float) -> list[dict[str, float]]:
    """Cumulative counts of latencies spread exponentially around `seconds`."""
    below = [requests * (1 - math.exp(-limit / seconds)) for limit in BUCKETS]
    return [{"le_seconds": limit, "count": float(round(count))} for limit, count in zip(BUCKETS, below, strict=True)]


def rate_cards() -> Iterator[Row]:
    yield {
        "gpu_model": "NVIDIA A100-SXM4-80GB",
        "cluster": ALDER,
        "currency": "USD",
        "purchase_price": "17500",
        "depreciation_hours": 35040,
        "hosting_cost_per_hour": "0.38",
        "energy_price_per_kwh": "0.16",
        "pue": 1.35,
        "valid_from": "2026-01-01T00:00:00Z",
    }


def workload_rules() -> Iterator[Row]:
    rules = (
        (10, "apps", "^chat-", "chat", "assistant", "apps", "assistant-32b", "inference", 12),
        (10, "apps", "^embed-", "embed", "search", "apps", "embedder", "inference", None),
        (10, "apps", "^rerank-", "rerank", "search", "apps", "reranker", "inference", None),
        (20, "apps", "^summarize-", "summarize", "reports", "apps", None, "batch", None),
        (20, "science", "^jupyter-", "notebooks", None, "science", None, "interactive", None),
    )
    names = (
        "priority",
        "namespace",
        "name_regex",
        "workload",
        "application",
        "team",
        "model",
        "kind",
        "latency_target_p95_seconds",
    )
    for rule in rules:
        yield {**dict(zip(names, rule, strict=True)), "cluster": CIRRUS}


def _times(start_at: datetime, end_at: datetime, step: timedelta) -> Iterator[datetime]:
    while start_at < end_at:
        yield start_at
        start_at += step


def _utc(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def _target(folder: Path, table: str, suffix: str) -> Path:
    path = folder / table / f"{table}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _csv(folder: Path, table: str, rows: Iterable[Row]) -> None:
    listed = list(rows)
    with _target(folder, table, "csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)


def _json_lines(folder: Path, table: str, rows: Iterable[Row]) -> None:
    _target(folder, table, "jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _parquet(folder: Path, table: str, rows: Iterable[Row]) -> None:
    pl.DataFrame(list(rows), infer_schema_length=None).write_parquet(_target(folder, table, "parquet"))
