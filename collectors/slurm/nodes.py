"""Nodes and their states: what every form that tells of nodes is read into, and the rows made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from collectors.parsed import Parsed
from collectors.slurm import tres
from collectors.slurm.gres import Gres, gpus_of_gres, parse_gres
from collectors.slurm.nodelist import expand
from collectors.slurm.scontrol import blocks, pairs, said
from collectors.slurm.shares import per_gpu
from collectors.slurm.states import node_state, unknown_flags
from collectors.slurm.times import parse_time
from warehouse.landing.conform import MALFORMED, Reject, redact

UNKNOWN_STATES = "states of nodes with words that are not known: {}"
STATELESS = "{} nodes have a reason but no state: give the states with them (sinfo -N -l, or sinfo -R -l)"

_SINCE = re.compile(r"\s*\[[^\[\]@]*@([^\]]+)\]\s*$")


@dataclass(frozen=True)
class Node:
    """What one form says of a node at one time; None where it does not say.

    `gres` is empty where it says that there are none. `since` is when the state was set, as far as the form tells.
    """

    name: str
    line: int
    cluster: str | None = None
    cpu_count: int | None = None
    memory_bytes: int | None = None
    gpu_count: int | None = None
    gres: str | None = None
    instance_type: str | None = None
    partitions: tuple[str, ...] = ()
    features: str | None = None
    state: str | None = None
    reason: str | None = None
    since: datetime | None = None

    def of_cluster(self, cluster: str | None) -> Node:
        """This, of the cluster that its output names, where it names none itself."""
        return replace(self, cluster=cluster) if cluster and not self.cluster else self

    def joined(self, other: Node) -> Node:
        """This and what another form or row says of the same node: what is not said here, and the partitions of both."""
        said_there = {
            column.name: getattr(other, column.name)
            for column in fields(self)
            if getattr(self, column.name) is None and getattr(other, column.name) is not None
        }
        partitions = tuple(dict.fromkeys(self.partitions + other.partitions))
        return replace(self, **said_there, partitions=partitions)


def join(nodes: Iterable[Node]) -> list[Node]:
    """A node per name and cluster: overlapping partitions tell of one node several times."""
    found: dict[tuple[str | None, str], Node] = {}
    for node in nodes:
        key = (node.cluster, node.name)
        found[key] = found[key].joined(node) if key in found else node
    return list(found.values())


def read_scontrol(text: str, file: str, zone: ZoneInfo | None) -> tuple[list[Node], list[Reject]]:
    """Nodes of `scontrol show node`; one whose values cannot be read is a reject."""
    nodes: list[Node] = []
    rejects: list[Reject] = []
    for place, block in enumerate(blocks(text, "NodeName"), start=1):
        values = pairs(block.text)
        try:
            nodes.append(_node(values, place, zone))
        except ValueError as error:
            detail = f"node {values.get('NodeName', '')}: {error}"
            rejects.append(Reject(file, place, MALFORMED, detail, redact(json.dumps(dict(values)))))
    return nodes, rejects


def read_partitions(text: str, file: str) -> tuple[list[Node], list[Reject]]:
    """Nodes, with nothing but their partition, of `scontrol show partition`."""
    nodes: list[Node] = []
    rejects: list[Reject] = []
    for place, block in enumerate(blocks(text, "PartitionName"), start=1):
        values = pairs(block.text)
        try:
            nodes += [Node(name, place, partitions=(values["PartitionName"],)) for name in expand(said(values, "Nodes"))]
        except ValueError as error:
            rejects.append(Reject(file, place, MALFORMED, str(error), redact(block.text)))
    return nodes, rejects


def to_rows(nodes: Iterable[Node], *, seen_at: datetime, file: str) -> Parsed:
    """A row per node in `nodes` as far as the form describes it, and in `node_states` the state it is in.

    A node out of service is in its state since the time beside its reason, else since `seen_at`. `in_service` is a sighting:
    the node is so at `seen_at`, which ends whatever state it was in before. A node whose state has no word that is known is
    a reject; words that no version known to us has are noted.
    """
    parsed = Parsed()
    strange: set[str] = set()
    stateless = 0
    for node in nodes:
        identity = {"cluster": node.cluster, "node": node.name, "line_number": node.line}
        if node.gpu_count is not None or node.cpu_count is not None or node.memory_bytes is not None or node.partitions:
            parsed.add("nodes", {**identity, **_described(node), "seen_at": seen_at})
        if node.state is None:
            stateless += node.reason is not None
            continue
        try:
            state = node_state(node.state)
        except ValueError as error:
            parsed.rejects.append(Reject(file, node.line, MALFORMED, f"node {node.name}: {error}"))
            continue
        strange |= unknown_flags([node.state])
        if state:
            since = node.since if node.since and node.since <= seen_at else None
            started_at = seen_at if state == "in_service" or since is None else since
            parsed.add("node_states", {**identity, "state": state, "reason": node.reason, "started_at": started_at})
    if stateless:
        parsed.notes.append(STATELESS.format(stateless))
    if strange:
        parsed.notes.append(UNKNOWN_STATES.format(", ".join(sorted(strange))[:300]))
    return parsed


def shares_per_gpu(nodes: Iterable[Node]) -> dict[tuple[str | None, str], Mapping[str, float]]:
    """(cluster, node) → how many shards and MPS shares each of its GPUs is cut into."""
    return {(node.cluster, node.name): cut for node in nodes if node.gres and (cut := per_gpu(_entries(node.gres)))}


def gpu_count_of(gres: str, tres_text: str = "") -> int:
    """GPUs, or instances, that a node hands out; 0 where it lists none."""
    count = tres.gpus(tres.parse_tres(tres_text)).count
    return count if count is not None else gpus_of_gres(parse_gres(gres)).count or 0


def since_reason(text: str, zone: ZoneInfo | None) -> tuple[str | None, datetime | None]:
    """`Not responding [slurm@2026-11-30T06:29:20]` → the text and the time since when."""
    match = _SINCE.search(text)
    return (text[: match.start()] if match else text) or None, parse_time(match[1], zone) if match else None


def _node(values: Mapping[str, str], line: int, zone: ZoneInfo | None) -> Node:
    cpus = said(values, "CPUTot")
    reason, since = since_reason(said(values, "Reason"), zone)
    return Node(
        name=values["NodeName"],
        line=line,
        cpu_count=int(cpus) if cpus.isdecimal() else None,
        memory_bytes=tres.parse_bytes(said(values, "RealMemory")),
        gpu_count=gpu_count_of(said(values, "Gres"), said(values, "CfgTRES")),
        gres=said(values, "Gres"),
        instance_type=said(values, "InstanceType") or None,
        partitions=tuple(part for part in said(values, "Partitions").split(",") if part),
        features=said(values, "ActiveFeatures") or None,
        state=said(values, "State") or None,
        reason=reason,
        since=since,
    )


def _described(node: Node) -> dict[str, Any]:
    labels = {name: text for name, text in (("features", node.features), ("gres", node.gres)) if text}
    return {
        "cpu_count": node.cpu_count,
        "memory_bytes": node.memory_bytes,
        "gpu_count": node.gpu_count,
        "instance_type": node.instance_type,
        "partitions": ",".join(node.partitions) or None,
        "labels": json.dumps(labels, sort_keys=True),
    }


def _entries(gres: str) -> tuple[Gres, ...]:
    try:
        return parse_gres(gres)
    except ValueError:
        return ()
