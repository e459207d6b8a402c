"""Nodes in JSON: `scontrol show node --json`, slurmrestd's `/nodes` and `/partitions`, `sinfo --json`, sonar's clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from collectors.slurm import tres
from collectors.slurm.json_values import as_text, dig, texts
from collectors.slurm.nodelist import expand
from collectors.slurm.nodes import Node, gpu_count_of
from collectors.slurm.times import parse_time
from warehouse.landing.conform import MALFORMED, Reject, redact

Nodes = tuple[list[Node], list[Reject]]


def read_nodes(items: Any, file: str) -> Nodes:
    """Slurm's own description of each node (21.08: `state` and `state_flags`, 23.02 and later a list)."""
    return _read(items, file, "nodes", _nodes)


def read_partitions(items: Any, file: str) -> Nodes:
    """The nodes of each partition, of which nothing else is known."""
    return _read(items, file, "partitions", _of_partition)


def read_sinfo(items: Any, file: str) -> Nodes:
    """`sinfo --json` of 23.02 and later: an entry per partition and kind of node."""
    return _read(items, file, "sinfo", _of_sinfo)


def read_sonar(attributes: Mapping[str, Any], file: str) -> Nodes:
    """Sonar's cluster document: lists of nodes by partition and by state."""
    nodes, rejects = _read(attributes.get("nodes"), file, "nodes", _of_sonar_states)
    more, more_rejects = _read(attributes.get("partitions"), file, "partitions", _of_sonar_partition)
    return nodes + more, rejects + more_rejects


def _read(items: Any, file: str, name: str, read: Callable[[int, Mapping[str, Any]], Iterable[Node]]) -> Nodes:
    nodes: list[Node] = []
    rejects: list[Reject] = []
    for place, item in enumerate(items if isinstance(items, list) else [], start=1):
        try:
            nodes += read(place, item)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            detail = f"{name}[{place - 1}] cannot be read ({type(error).__name__}: {error})"
            rejects.append(Reject(file, place, MALFORMED, detail, redact(json.dumps(item))[:2000]))
    return nodes, rejects


def _nodes(place: int, item: Mapping[str, Any]) -> Iterator[Node]:
    name = as_text(item.get("name"))
    if not name:
        raise ValueError("it has no name")
    gres = as_text(item.get("gres")).replace("(null)", "")
    reason = as_text(item.get("reason"))
    yield Node(
        name=name,
        line=place,
        cluster=as_text(item.get("cluster_name")) or None,
        cpu_count=_whole(item.get("cpus")),
        memory_bytes=tres.parse_bytes(as_text(item.get("real_memory"))),
        gpu_count=gpu_count_of(gres, as_text(item.get("tres"))),
        gres=gres,
        instance_type=as_text(item.get("instance_type")) or None,
        partitions=tuple(texts(item.get("partitions"))),
        features=",".join(texts(item.get("active_features"))) or None,
        state="+".join(texts(item.get("state")) + texts(item.get("state_flags"))) or None,
        reason=reason or None,
        since=parse_time(as_text(item.get("reason_changed_at")), None) if reason else None,
    )


def _of_partition(place: int, item: Mapping[str, Any]) -> Iterator[Node]:
    nodes = item.get("nodes")
    listed = as_text(nodes.get("configured")) if isinstance(nodes, dict) else as_text(nodes)
    partition = as_text(item.get("name"))
    if not partition:
        raise ValueError("it has no name")
    for name in expand(listed):
        yield Node(name, place, cluster=as_text(item.get("cluster")) or None, partitions=(partition,))


def _of_sinfo(place: int, item: Mapping[str, Any]) -> Iterator[Node]:
    names = [name for text in texts(dig(item, "nodes", "nodes")) for name in expand(text)]
    gres, reason = as_text(dig(item, "gres", "total")).replace("(null)", ""), as_text(dig(item, "reason", "description"))
    partition = as_text(dig(item, "partition", "name")) or as_text(item.get("partition"))
    for name in names:
        yield Node(
            name=name,
            line=place,
            cluster=as_text(item.get("cluster")) or None,
            cpu_count=_alike(item.get("cpus")),
            memory_bytes=mib << 20 if (mib := _alike(item.get("memory"))) else None,
            gpu_count=gpu_count_of(gres),
            gres=gres,
            partitions=(partition,) if partition else (),
            state="+".join(texts(dig(item, "node", "state"))) or None,
            reason=reason or None,
            since=parse_time(as_text(dig(item, "reason", "time")), None) if reason else None,
        )


def _of_sonar_states(place: int, item: Mapping[str, Any]) -> Iterator[Node]:
    for name in (name for text in texts(item["names"]) for name in expand(text)):
        yield Node(name, place, state="+".join(texts(item.get("states"))) or None)


def _of_sonar_partition(place: int, item: Mapping[str, Any]) -> Iterator[Node]:
    for name in (name for text in texts(item.get("nodes")) for name in expand(text)):
        yield Node(name, place, partitions=(as_text(item["name"]),))


def _alike(bounds: Any) -> int | None:
    """The figure of each node where all nodes of the entry have the same."""
    least, most = _whole(dig(bounds, "minimum")), _whole(dig(bounds, "maximum"))
    return most if most and least in (most, None) else None


def _whole(value: Any) -> int | None:
    text = as_text(value)
    return int(text) if text.isdecimal() and len(text) < 16 else None
