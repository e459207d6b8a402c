"""The plan as rows of the landing tables that are no readings: machines, runs, usage, prices, rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from collectors.simulate.hardware import ALDER, CARD_SLICES, DRIFT, SPOT, Node, Slot
from collectors.simulate.money import PROVIDERS, bill_lines, delivery_minute, rate_cards
from collectors.simulate.plan import DOWN, DRAINED, DRAINING, LOST, RESERVED, Plan, Run, Waiting
from collectors.simulate.samples import MIB, start_us
from collectors.simulate.window import DAY_MINUTES

Row = Mapping[str, Any]

#: minutes between two inventory records of a card, between two of a node
INVENTORY_EVERY, NODES_EVERY = 10, 60
DRIVER = "580.95.05"
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
