"""Which devices of which node a job holds, as slurmctld tells it, into rows of `run_gpus`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from collectors.slurm.controller import JobDetail
from collectors.slurm.gres import GPU, SHARED, Gres, parse_gres
from collectors.slurm.shares import Shares
from collectors.slurm.slices import MigRules

BY_INDEX, BY_COUNT = "gres_index", "gres_count"

UNFINISHED = "jobs whose nodes' GRES lists do not add up to their GPUs: which devices they hold is left open"


def to_run_gpus(
    details: Iterable[JobDetail], rows: Sequence[dict[str, Any]], rules: MigRules
) -> tuple[list[dict[str, Any]], int]:
    """Rows of the jobs that have begun, a row per device where the list names it, else per node and kind; and `UNFINISHED`.

    `rows` are the jobs' rows of `runs`; one that holds shares told GPU by GPU gets its count and `share_ratio` from them. What
    a job holds is told whole or not at all, since its other devices would be taken for free: lists that do not add up to its
    GPUs (a file cut off) tell nothing. `gpu_index` is the device's place in the node's list of GPUs, in which MIG instances
    count too.
    """
    by_job = {(row["line_number"], row["job_id"]): row for row in rows}
    found: list[dict[str, Any]] = []
    unfinished = 0
    for detail in details:
        row = by_job.get((detail.record.line, detail.record.raw_id))
        if not row or not row["started_at"] or not detail.gres:
            continue
        try:
            holds = [{"node": node, **hold} for node, text in detail.gres.items() for hold in _holds(text, row["queue"], rules)]
        except ValueError:
            unfinished += 1
            continue
        if not holds:
            continue  # a job that has ended: its nodes are told, what they gave no longer
        if row["shared_gres"]:
            ratios = [float(hold["share_ratio"]) for hold in holds if "share_ratio" in hold]
            if len(ratios) == len(holds):
                row |= {"gpu_count": len(holds), "share_ratio": sum(ratios) / len(holds), "shared_gres": None}
        elif row["gpu_count"] and sum(hold["gpu_count"] for hold in holds) != row["gpu_count"]:
            unfinished += 1
            continue
        identity = {name: row[name] for name in ("line_number", "cluster", "job_id", "started_at", "ended_at")}
        found += [{**identity, **hold} for hold in holds]
    return found, unfinished


def _holds(text: str, partition: str | None, rules: MigRules) -> Iterator[dict[str, Any]]:
    """What a node's list says of GPUs: the shares of each, or the devices, and a count per kind of those not named."""
    entries = parse_gres(text)
    unnamed: dict[str | None, float] = {}
    for entry in entries:
        if entry.name in SHARED:
            yield from _shared(entry)
        if entry.name != GPU or not entry.count:
            continue
        profile = rules.profile(entry.kind, partition or "")
        if entry.indices and len(set(entry.indices)) == entry.count:
            for index in entry.indices:
                yield {"gpu_index": index, "mig_profile": profile, "gpu_count": 1.0, "assignment_method": BY_INDEX}
        else:
            unnamed[profile] = unnamed.get(profile, 0) + entry.count
    for profile, count in unnamed.items():
        yield {"mig_profile": profile, "gpu_count": count, "assignment_method": BY_COUNT}


def _shared(entry: Gres) -> Iterator[dict[str, Any]]:
    """Shares told GPU by GPU: `shard:3(3/8,0/8)` is 3/8 of the node's first GPU; `shard:2(IDX:1)` (22.05) 2 of the second.

    Of how many is for the node to say; shares on several GPUs are taken as even.
    """
    for index in entry.indices or ():
        part = Shares(entry.name, entry.count / len(entry.indices or ()))
        yield {"gpu_index": index, "gpu_count": 1.0, "shares": part, "assignment_method": BY_INDEX}
    for index, (held, whole) in enumerate(entry.shares):
        if held and whole:
            yield {"gpu_index": index, "gpu_count": 1.0, "share_ratio": held / whole, "assignment_method": BY_INDEX}
