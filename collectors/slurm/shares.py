"""Shares of a GPU, `gres/shard` and `gres/mps`: what part of one GPU a job holds.

A node's count of them is spread evenly over its GPUs, so `gpu:h100:4,shard:h100:32` cuts each into 8. Of a job on a node
whose cut is not known, the number of GPUs stays unknown too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectors.slurm.gres import SHARED, Gres
from collectors.slurm.tres import parse_count

UNSIZED = (
    "jobs hold shards or MPS shares of a GPU and nothing tells how many a GPU has, so their GPUs are unknown (null): "
    "give the nodes with them (scontrol show node)"
)


@dataclass(frozen=True)
class Shares:
    """`count` shares of kind `name` (shard, mps), in all."""

    name: str
    count: float


def shares_of(allocated: Mapping[str, str], gres: Sequence[Gres]) -> Shares | None:
    """The shares a job holds: of its TRES, where untyped and typed count the same ones, else of its GRES."""
    for name in SHARED:
        typed = [parse_count(count) or 0 for entry, count in allocated.items() if entry.startswith(f"gres/{name}:")]
        total = parse_count(allocated.get(f"gres/{name}", "")) or sum(typed)
        total = total or sum(entry.count for entry in gres if entry.name == name)
        if total:
            return Shares(name, total)
    return None


def per_gpu(gres: Iterable[Gres]) -> dict[str, float]:
    """Kind of share → how many of it each GPU of a node is cut into; a node with GPUs of several cuts has none."""
    counts: dict[str, dict[str | None, float]] = {}
    for entry in gres:
        of_kind = counts.setdefault(entry.name, {})
        of_kind[entry.kind] = of_kind.get(entry.kind, 0) + entry.count
    found = {}
    for name in SHARED:
        gpus, shares = counts.get("gpu", {}), counts.get(name, {})
        if None not in shares and set(shares) <= set(gpus):
            cuts = {shares[kind] / gpus[kind] for kind in shares if shares[kind] and gpus[kind]}
        else:
            cuts = {sum(shares.values()) / sum(gpus.values())} if sum(gpus.values()) else set()
        if len(cuts) == 1 and (cut := cuts.pop()) >= 1:
            found[name] = cut
    return found


#: (cluster, node) → `per_gpu` of the node
Cuts = Mapping[tuple[str | None, str], Mapping[str, float]]


def size_holds(run_gpus: Iterable[dict[str, Any]], cuts: Cuts) -> list[dict[str, Any]]:
    """The rows with their `share_ratio`; those whose shares cannot be sized are left out, the job's own row says so."""
    sized = []
    for row in run_gpus:
        shares = row.pop("shares", None)
        cut = cuts.get((row["cluster"], row["node"]), {}).get(shares.name) if shares else None
        if shares is None:
            sized.append(row)
        elif cut:
            sized.append({**row, "share_ratio": min(shares.count / cut, 1.0)})
    return sized


def size_shares(runs: Iterable[dict[str, Any]], nodes: Cuts) -> int:
    """Give runs that hold shares their GPU count and `share_ratio`; how many could not be told.

    A job of more shares than a GPU has holds as many GPUs as that takes.
    """
    unsized = 0
    for row in runs:
        shares = row.pop("shared_gres", None)
        if not shares or row["gpu_count"] or not row["started_at"]:
            continue
        places = [(row["cluster"], node) for node in (row["node_list"] or "").split(",")]
        cuts = {nodes.get(place, {}).get(shares.name) for place in places}
        cut = cuts.pop() if len(cuts) == 1 else None
        if not cut:
            unsized += 1
            continue
        row["gpu_count"] = max(math.ceil(shares.count / cut), len(places))
        row["share_ratio"] = shares.count / cut / row["gpu_count"]
    return unsized
