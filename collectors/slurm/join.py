"""What several outputs tell together: nodes told of twice, shares sized by their nodes, the cluster each row belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from collectors import command
from collectors.parsed import Parsed
from collectors.slurm.nodes import Node, join, shares_per_gpu, to_rows
from collectors.slurm.parse import SlurmOutput, with_devices
from collectors.slurm.runs import BY_TRES
from collectors.slurm.shares import UNSIZED, size_holds, size_shares

KEPT_APART = "the output names several clusters ({}); each row stays in its own, --cluster is not applied"


def joined(outputs: Sequence[SlurmOutput], cluster: str | None, local: str | None = None) -> tuple[Parsed, str | None]:
    """All rows with their cluster, and its name if there is one for all.

    Rows that name no cluster are in `cluster`, else in `local`, else in the one cluster that others name, else in none.
    `--cluster` renames one cluster; several (a federation) are kept apart, since they may give one id to different jobs.
    A usage error where nothing names the cluster.
    """
    parsed = Parsed()
    for output in outputs:
        parsed.extend(output.tables)
        parsed.extend(Parsed({}, list(output.rejects), list(output.notes)))
    runs = [row for output in outputs for row in output.rows]
    told = [row["cluster"] for row in [*runs, *parsed.tables.get("node_states", [])]]
    told += [node.cluster for output in outputs for _, nodes in output.nodes for node in nodes]
    named = sorted({name for name in told if name})
    own = cluster or local or (named[0] if len(named) == 1 else None)
    if len(named) > 1 and cluster:
        parsed.notes.append(KEPT_APART.format(", ".join(named)))

    def placed(name: str | None) -> str | None:
        if name and (len(named) > 1 or not cluster):
            return name
        return own if own or named else command.require_cluster(own)

    tables = {table: [{**row, "cluster": placed(row["cluster"])} for row in rows] for table, rows in parsed.tables.items()}
    parsed.tables.clear()
    for table, rows in tables.items():
        for row in rows:
            parsed.add(table, row)
    runs = [{**row, "cluster": placed(row["cluster"])} for row in runs]
    nodes = _nodes_by_time(outputs, placed)
    cuts = {place: cut for found in nodes.values() for place, cut in shares_per_gpu(found).items()}
    unsized = size_shares(runs, cuts)
    if unsized:
        parsed.notes.append(f"{unsized} {UNSIZED}")
    for row in runs:
        parsed.add("runs", row)
    for row in size_holds([{**row, "cluster": placed(row["cluster"])} for row in _held(outputs)], cuts):
        parsed.add("run_gpus", row)
    for seen_at, found in nodes.items():
        parsed.extend(to_rows(found, seen_at=seen_at, file="nodes"))
    clusters = {row["cluster"] for rows in parsed.tables.values() for row in rows}
    return parsed, next(iter(clusters)) if len(clusters) == 1 else None


def _nodes_by_time(outputs: Iterable[SlurmOutput], placed: Callable[[str | None], str | None]) -> dict[datetime, list[Node]]:
    """What outputs of one time say of a node, together: its state of one, its partitions of another."""
    found: dict[datetime, list[Node]] = {}
    for output in outputs:
        for seen_at, nodes in output.nodes:
            found.setdefault(seen_at, []).extend(replace(node, cluster=placed(node.cluster)) for node in nodes)
    return {seen_at: join(nodes) for seen_at, nodes in sorted(found.items())}


def _held(outputs: Iterable[SlurmOutput]) -> list[dict[str, Any]]:
    """The rows of `run_gpus`; of an attempt whose devices the controller tells, not what its counts alone would say."""
    rows = [row for output in outputs for row in output.run_gpus]
    counted = [row for row in rows if row["assignment_method"] == BY_TRES]
    return with_devices(counted, [row for row in rows if row["assignment_method"] != BY_TRES])
