"""What services answered: requests, tokens and latencies, as many as their replicas' cards were busy."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from collectors.simulate.hardware import CIRRUS
from collectors.simulate.loads import MILLION
from collectors.simulate.painting import slot_key
from collectors.simulate.plan import Plan, Run, Service
from collectors.simulate.samples import start_us

#: bounds of latency histograms, in seconds
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, math.inf)
#: requests that wait at a replica whose front end hangs; seconds of the two phases per token
WAITING, PREFILL_SECONDS, DECODE_SECONDS = 7.0, 0.00021, 0.0011
#: rows of a frame of usage, about
USAGE_ROWS = 50_000


def serving_runs(plan: Plan) -> list[tuple[Run, Service]]:
    """Replicas of services that have requests."""
    pairs = [(run, plan.services_by_name.get((run.namespace, run.workload))) for run in plan.runs if run.cluster == CIRRUS]
    return [(run, service) for run, service in pairs if service is not None and service.peak_requests]


def requests_of(plan: Plan, run: Run, service: Service, first: int, last: int) -> npt.NDArray[np.int64]:
    """Requests that a replica answered in each minute: as many as its cards were busy."""
    slot = next(slot for slot in plan.fleet.by_name[run.node].slots if slot.number == run.slots[0])
    activity = service.load.activity(np.arange(first, last), run.start, slot_key(plan, slot))
    return np.asarray(np.round(activity / MILLION * service.peak_requests / 0.7)).astype(np.int64)


def usage_frames(plan: Plan, first: int, last: int, every: int) -> Iterator[pl.DataFrame]:
    """A row of `inference_usage` per replica and `every` minutes."""
    waiting: list[pl.DataFrame] = []
    for run, service in serving_runs(plan):
        start, end = max(first, run.start), min(last, run.until(plan.window))
        if start < end:
            waiting.append(_usage(plan, run, service, start, end, every))
        if sum(frame.height for frame in waiting) >= USAGE_ROWS:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def latencies(requests: npt.NDArray[np.int64], service: Service) -> npt.NDArray[np.int64]:
    """Requests of each minute that took no longer than each of `BUCKETS`."""
    below = np.array([1 - math.exp(-limit / service.seconds) for limit in BUCKETS])
    return np.asarray(np.round(requests[:, None] * below)).astype(np.int64)


def waiting_of(service: Service, start: int, end: int) -> npt.NDArray[np.bool_]:
    """Whether requests wait, in each minute."""
    minutes = np.arange(start, end)
    is_waiting = np.zeros(len(minutes), np.bool_)
    for first, last in service.waiting:
        is_waiting |= (minutes >= first) & (minutes < last)
    return is_waiting


def _usage(plan: Plan, run: Run, service: Service, start: int, end: int, every: int) -> pl.DataFrame:
    begins = np.unique([start, *range(start + every - start % every, end, every)])
    by_minute = requests_of(plan, run, service, start, end)
    requests, failed = (np.add.reduceat(counts, begins - start) for counts in (by_minute, by_minute // 100))
    lengths = np.diff([*begins, end])
    counts = np.add.reduceat(latencies(by_minute, service), begins - start, axis=0).astype(np.float64)
    latency = pl.DataFrame({"le_seconds": np.tile(BUCKETS, len(begins)), "count": counts.ravel()})
    is_waiting = np.logical_or.reduceat(waiting_of(service, start, end), begins - start)
    return pl.DataFrame(
        {
            "interval_start_at": pl.Series(start_us(plan) + begins * 60_000_000).cast(pl.Datetime("us")),
            "interval_ms": lengths * 60_000,
            "request_count": requests,
            "failed_request_count": failed,
            "prompt_tokens": requests * service.prompt_tokens,
            "cached_prompt_tokens": requests * service.cached_tokens,
            "output_tokens": requests * service.output_tokens,
            "running_requests": requests / lengths * service.seconds / 60,
            "waiting_requests": np.where(is_waiting, WAITING, 0.0),
            "kv_cache_usage_ratio": np.minimum(0.75, requests / lengths * service.seconds / 200),
            "prefill_seconds": np.round(requests * service.prompt_tokens * PREFILL_SECONDS, 4),
            "decode_seconds": np.round(requests * service.output_tokens * DECODE_SECONDS, 4),
            "latency_histogram": latency.to_struct().reshape((len(begins), len(BUCKETS))).arr.to_list(),
        }
    ).with_columns(
        pl.when(pl.col("request_count") > 0).then(pl.col("latency_histogram")).alias("latency_histogram"),
        pl.lit(CIRRUS).alias("cluster"),
        pl.lit(f"{run.name}:8000").alias("server"),
        pl.lit(run.node).alias("node"),
        pl.lit(run.job_id).alias("job_id"),
        pl.lit(run.namespace).alias("namespace"),
        pl.lit(run.workload).alias("workload"),
        pl.lit(service.model).alias("model"),
        pl.lit(True).alias("prompt_includes_cached"),
    )
