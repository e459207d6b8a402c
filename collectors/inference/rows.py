"""What grew → rows of `inference_usage`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from collectors.inference.growth import Growth, Model
from collectors.inference.parse import Reading, Series
from collectors.inference.schema import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    KV_TOKENS,
    KV_USAGE,
    PROMPT_WITHOUT_CACHED,
    WHOLE,
    Alternatives,
    Term,
)
from warehouse.landing.conform import RATIO_CEILING

UNKNOWN_MODEL = "unknown"
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Given:
    """What the caller says of the servers, where their text does not: see the options of the command."""

    cluster: str
    node: str | None = None
    workload: str | None = None
    namespace: str | None = None
    model: str | None = None
    job_id: str | None = None
    kv_bytes_per_token: float | None = None


def to_rows(growth: Growth, given: Given, longest: timedelta) -> list[dict[str, Any]]:
    """The rows of one model and interval: one, or if it is longer than `longest` (a gap) one per UTC hour it touches.

    What grew in a gap is spread evenly over its time, in parts that add up; the gauges stand in the last part.
    """
    figures = _figures(growth.amounts)
    histograms = {column: _histogram(growth, column) for column in HISTOGRAMS}
    start_at, end_at = growth.start_at, growth.reading.at
    bounds = [start_at, end_at]
    if end_at - start_at > longest:
        bounds[1:1] = _hours_between(start_at, end_at)
    shares = [(bound - start_at) / (end_at - start_at) for bound in bounds]
    rows = []
    for (start, end), (before, after) in zip(pairwise(bounds), pairwise(shares), strict=True):
        row: dict[str, Any] = _identity(growth, given)
        row |= {"interval_start_at": start, "interval_ms": round((end - start) / timedelta(milliseconds=1))}
        row |= {column: _part(column, figure, before, after) for column, figure in figures.items()}
        for column, buckets in histograms.items():
            row[column] = [{"le_seconds": le, "count": count * (after - before)} for le, count in buckets] if buckets else None
        if end == end_at:
            row |= _standing(growth, given)
        rows.append(row)
    return rows


def _identity(growth: Growth, given: Given) -> dict[str, Any]:
    reading = growth.reading
    servers = {series.metric.partition(":")[0] for series in growth.amounts}
    return {
        "cluster": given.cluster,
        "server": reading.server,
        "node": given.node,
        "job_id": given.job_id,
        "namespace": given.namespace or reading.namespace,
        "workload": given.workload,
        "model": growth.model or given.model or UNKNOWN_MODEL,
        "adapter": growth.adapter,
        "prompt_includes_cached": not servers & PROMPT_WITHOUT_CACHED,
        "line_number": reading.line,
    }


def _figures(amounts: Mapping[Series, float]) -> dict[str, float | None]:
    figures = {column: _sum(amounts, choices) for column, choices in COUNTERS.items()}
    requests, failed = figures["request_count"], figures["failed_request_count"]
    if requests is not None and failed is None and any(series.metric == "vllm:request_success" for series in amounts):
        figures["failed_request_count"] = 0.0  # its reasons are told, and none of them is a failure
    if requests is not None and failed is not None:
        # SGLang counts a request aborted in the queue among the aborted, not among the finished
        figures["request_count"] = max(requests, failed)
    return figures


def _sum(amounts: Mapping[Series, float], choices: Alternatives) -> float | None:
    """The first alternative whose leading term was read; None where none was."""
    for terms in choices:
        found = [_matching(amounts, term) for term in terms]
        if found[0]:
            return sum(sum(values) * term.scale for term, values in zip(terms, found, strict=True))
    return None


def _matching(amounts: Mapping[Series, float], term: Term) -> list[float]:
    return [
        value
        for series, value in amounts.items()
        if (series.metric, series.part) == (term.metric, term.part)
        and (not term.label or series.label(term.label) in term.values)
    ]


def _part(column: str, figure: float | None, before: float, after: float) -> float | int | None:
    """The share `[before, after)` of a figure; whole numbers stay whole, and their parts add up to the figure."""
    if figure is None:
        return None
    if column in WHOLE:
        whole = round(figure)
        return _up_to(whole, after) - _up_to(whole, before)
    return figure * (after - before)


def _up_to(whole: int, share: float) -> int:
    return whole if share >= 1 else math.floor(whole * share)


def _hours_between(start_at: datetime, end_at: datetime) -> Iterator[datetime]:
    hour = start_at.replace(minute=0, second=0, microsecond=0) + HOUR
    while hour < end_at:
        yield hour
        hour += HOUR


def _histogram(growth: Growth, column: str) -> list[tuple[float, float]] | None:
    """(bound in seconds, requests up to it), the last bound infinite; None unless every bucket that is there was counted."""
    for metric, scale in HISTOGRAMS[column]:
        there = [series for series in growth.reading.values if series.metric == metric and series.part == "bucket"]
        there = [series for series in there if (series.model, series.adapter) == (growth.model, growth.adapter)]
        if not there:
            continue
        buckets: dict[float, float] = {}
        for series in there:
            if series not in growth.amounts:
                return None
            bound = float(series.label("le"))
            buckets[bound] = buckets.get(bound, 0.0) + growth.amounts[series]
        if not any(math.isinf(bound) for bound in buckets):
            return None
        return [(bound * scale, buckets[bound]) for bound in sorted(buckets)]
    return None


def _standing(growth: Growth, given: Given) -> dict[str, float | None]:
    """The gauges at the end of the interval."""
    own = {
        series: value
        for series, value in growth.reading.values.items()
        if (series.model, series.adapter) == (growth.model, growth.adapter)
    }
    found: dict[str, float | None] = {column: _sum(own, choices) for column, choices in GAUGES.items()}
    usage = next((values for terms in KV_USAGE if (values := _matching(own, terms[0]))), None)
    mean = sum(usage) / len(usage) if usage else None
    found["kv_cache_usage_ratio"] = None if mean is None or mean > RATIO_CEILING else min(mean, 1.0)
    tokens = _sum(own, KV_TOKENS)
    if tokens is not None and given.kv_bytes_per_token:
        found["kv_cache_total_bytes"] = round(tokens * given.kv_bytes_per_token)
    return found


def describe(first: Mapping[Model, Reading], given: Given) -> list[str]:
    """What the first reading of each model stands at: of what happened in an interval nothing is known yet."""
    told = []
    for (model, adapter), reading in first.items():
        own = {series: value for series, value in reading.values.items() if (series.model, series.adapter) == (model, adapter)}
        told.append(_told(reading, model, own, given))
    return told


def totals(growth: Growth, given: Given) -> str:
    """What grew, in a line."""
    return _told(growth.reading, growth.model, growth.amounts, given)


def _told(reading: Reading, model: str | None, amounts: Mapping[Series, float], given: Given) -> str:
    figures = _figures(amounts)
    shown = ((column, figures[column]) for column in ("request_count", "prompt_tokens", "output_tokens"))
    counts = ", ".join(f"{figure:,.0f} {column}" for column, figure in shown if figure is not None)
    return f"{reading.server} {model or given.model or UNKNOWN_MODEL}: {counts or 'no counter'}"
