"""The plan as rows of the landing tables that are no readings: machines, runs, usage, prices, rules."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from collectors.simulate.hardware import ALDER, CARD_SLICES, CIRRUS, DRIFT, SPOT, Node, Slot
from collectors.simulate.loads import MILLION
from collectors.simulate.money import PROVIDERS, bill_lines, delivery_minute, rate_cards
from collectors.simulate.painting import slot_key
from collectors.simulate.plan import DOWN, DRAINED, DRAINING, LOST, RESERVED, Plan, Run, Service, Waiting
from collectors.simulate.samples import MIB, start_us
from collectors.simulate.window import DAY_MINUTES

Row = Mapping[str, Any]

#: minutes between two inventory records of a card, between two of a node
INVENTORY_EVERY, NODES_EVERY = 10, 60
DRIVER = "580.95.05"
#: bounds of latency histograms, in seconds
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, math.inf)
#: requests that wait at a replica whose front end hangs; seconds of the two phases per token
WAITING, PREFILL_SECONDS, DECODE_SECONDS = 7.0, 0.00021, 0.0011
#: rows of a frame of usage, about
USAGE_ROWS = 50_000
STATES_TOLD = (DOWN, DRAINED, DRAINING, RESERVED)


def inventory_frames(plan: Plan, nodes: Sequence[Node], first: int, last: int) -> Iterator[pl.DataFrame]:
    """A record per slot each ten minutes of the node's presence, and at its beginning."""
    for node in nodes:
        lost = [trouble for trouble in plan.troubles_by_node.get(node.name, []) if trouble.kind == LOST]
        down = [trouble for trouble in plan.troubles_by_node.get(node.name, []) if trouble.kind == DOWN]
        minutes: list[int] = []
        for start, end in plan.presence(node):
            begin, finish = max(start, first), min(end, last)
            following = range(begin + INVENTORY_EVERY - begin % INVENTORY_EVERY, finish, INVENTORY_EVERY)
            minutes += [begin, *following] if begin < finish else []
        minutes = [minute for minute in minutes if not any(trouble.start <= minute < trouble.end for trouble in down)]
        seen = pl.DataFrame({"minute": pl.Series(minutes, dtype=pl.Int64)})
        slots = pl.DataFrame([_described(node, slot) for slot in node.slots], infer_schema_length=None)
        frame = slots.join(seen, how="cross").with_columns(
            (start_us(plan) + pl.col("minute") * 60_000_000).cast(pl.Datetime("us")).alias("seen_at"),
            pl.lit(False).alias("is_lost"),
        )
        for trouble in lost:
            numbers = [slot.number for slot in node.slots if trouble.concerns(slot)]
            is_lost = pl.col("number").is_in(numbers) & pl.col("minute").is_between(trouble.start, trouble.end - 1)
            frame = frame.with_columns((pl.col("is_lost") | is_lost).alias("is_lost"))
        yield frame.drop("minute", "number")


def _described(node: Node, slot: Slot) -> Row:
    is_rented = node.resource_id is not None
    return {
        "number": slot.number,
        "cluster": node.cluster,
        "node": node.name,
        "gpu_uuid": slot.gpu_uuid,
        "slot_uuid": slot.slot_uuid,
        "mig_profile": slot.profile,
        "compute_slices": slot.slices if slot.profile else None,
        "card_slices": CARD_SLICES if slot.profile else None,
        "gpu_model": node.model.name,
        "memory_total_bytes": slot.memory_mib * MIB,
        "gpu_index": slot.index,
        "driver_version": DRIVER,
        "power_limit_watts": node.model.full_watts,
        "sm_clock_max_mhz": float(node.model.clock_mhz),
        "provider": PROVIDERS.get(node.cluster),
        "provider_resource_id": node.resource_id,
        "region": "eu-north" if is_rented else None,
        "rack": None if is_rented else f"r{1 + int(node.name[1:]) // 5}",
    }


def node_rows(plan: Plan, nodes: Iterable[Node], first: int, last: int) -> Iterator[Row]:
    for node in nodes:
        for start, end in plan.presence(node):
            for minute in range(max(start, first), min(end, last), NODES_EVERY):
                yield {
                    "cluster": node.cluster,
                    "node": node.name,
                    "cpu_count": 16 * node.cards,
                    "memory_bytes": 128 * node.cards << 30,
                    "gpu_count": node.cards,
                    "instance_type": node.instance_type,
                    "is_spot": node.role == SPOT,
                    "partitions": node.role if node.cluster == ALDER else None,
                    "seen_at": plan.window.at(minute),
                }


def node_state_rows(plan: Plan, nodes: Iterable[Node], first: int, last: int) -> Iterator[Row]:
    """States as they are known at `last`: one that goes on has no end yet."""
    for node in nodes:
        for trouble in plan.troubles_by_node.get(node.name, []):
            if trouble.kind in STATES_TOLD and trouble.start < last and trouble.end > first:
                yield {
                    "cluster": node.cluster,
                    "node": node.name,
                    "state": trouble.kind,
                    "reason": trouble.reason,
                    "started_at": plan.window.at(trouble.start),
                    "ended_at": plan.window.at(trouble.end) if trouble.end <= last else None,
                }


def run_rows(plan: Plan, cluster: str, first: int, last: int) -> Iterator[Row]:
    """Runs that touch `[first, last)` as they are known at `last`, and jobs that wait."""
    for run in plan.runs:
        if run.cluster == cluster and run.start < last and run.until(plan.window) > first:
            yield _run_row(plan, run, last)
    for waiting in plan.waiting if cluster == ALDER else ():
        if waiting.submitted < last:
            yield _waiting_row(plan, waiting, last)


def _run_row(plan: Plan, run: Run, last: int) -> Row:
    is_over = run.end is not None and run.end <= last
    is_slurm = run.cluster == ALDER
    return {
        "cluster": run.cluster,
        "scheduler": "slurm" if is_slurm else "kubernetes",
        "job_id": run.job_id,
        "name": run.name,
        "namespace": run.namespace,
        "queue": plan.fleet.by_name[run.node].role if is_slurm else None,
        "state": run.state if is_over else "RUNNING" if is_slurm else "Running",
        "submitted_at": plan.window.at(run.submitted),
        "started_at": plan.window.at(run.start),
        "ended_at": plan.window.at(run.end) if is_over and run.end is not None else None,
        # a suspension that is not over is told when it is
        "suspended_seconds": 60.0 * run.suspended if is_over else 0.0,
        "requested_gpu_count": float(len(run.slots)),
        "gpu_count": float(len(run.slots)),
        "share_ratio": run.share,
        "node_list": run.node,
        "node_count": 1,
        "owner_kind": run.owner_kind,
        "owner_name": run.owner_name,
        "labels": json.dumps(run.labels, sort_keys=True) if run.labels else None,
        "observed_at": plan.window.at(last),
    }


def _waiting_row(plan: Plan, waiting: Waiting, last: int) -> Row:
    is_over = waiting.state != "PENDING" and waiting.until <= last
    return {
        "cluster": ALDER,
        "scheduler": "slurm",
        "job_id": waiting.job_id,
        "name": waiting.name,
        "namespace": waiting.namespace,
        "queue": "batch",
        "state": waiting.state if is_over else "PENDING",
        "submitted_at": plan.window.at(waiting.submitted),
        "started_at": None,
        "ended_at": plan.window.at(waiting.until) if is_over else None,
        "requested_gpu_count": float(waiting.gpu_count),
        "observed_at": plan.window.at(last),
    }


def run_gpu_rows(plan: Plan, cluster: str, first: int, last: int) -> Iterator[Row]:
    """Which slots each pod has, as the kubelet says; Slurm's accounting names none."""
    if cluster == ALDER:
        return
    for run in plan.runs:
        if run.cluster != cluster or run.start >= last or run.until(plan.window) <= first:
            continue
        slots = {slot.number: slot for slot in plan.fleet.by_name[run.node].slots}
        for number in run.slots:
            yield {
                "cluster": cluster,
                "job_id": run.job_id,
                "node": run.node,
                "gpu_uuid": slots[number].gpu_uuid,
                "slot_uuid": slots[number].slot_uuid,
                "gpu_count": 1.0,
                "share_ratio": run.share,
                "started_at": plan.window.at(run.start),
                "ended_at": plan.window.at(run.end) if run.end is not None and run.end <= last else None,
                "assignment_method": "pod_resources",
            }


def checkpoint_rows(plan: Plan, first: int, last: int) -> Iterator[Row]:
    for number, (job_id, minute) in enumerate(plan.checkpoints):
        if first <= minute < last:
            yield {"cluster": DRIFT, "job_id": job_id, "kind": "checkpoint", "step": number, "at": plan.window.at(minute)}


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


def rule_rows(plan: Plan) -> Iterator[Row]:
    for number, rule in enumerate(plan.rules):
        yield {
            "priority": 10 + number,
            "cluster": rule.cluster,
            "namespace": rule.namespace,
            "name_regex": rule.name_regex,
            "workload": rule.workload,
            "application": rule.application,
            "team": rule.team,
            "model": rule.model,
            "kind": rule.kind,
            "latency_target_p95_seconds": rule.latency_target_p95_seconds,
            "min_replicas": rule.min_replicas,
            "valid_from": None,
            "valid_to": None,
        }


def rate_card_rows(plan: Plan) -> Iterator[Row]:
    yield from rate_cards(plan)


def bill_rows(plan: Plan, first: int, last: int) -> Iterator[Row]:
    """The lines that were delivered in `[first, last)`: a delivery per day."""
    for day in plan.window.dates():
        delivered = delivery_minute(plan.window, day)
        if first <= delivered < last:
            start = max(0, plan.window.minute_of_date(day))
            end = min(plan.window.minute_of_date(day) + DAY_MINUTES, plan.billed_until)
            for line in bill_lines(plan, start, end):
                yield {**line, "delivery_id": f"bill-{day:%Y-%m-%d}", "delivered_at": plan.window.at(delivered)}
