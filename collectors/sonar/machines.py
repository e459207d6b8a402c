"""What nodes are made of: `sonar sysinfo`, and the configuration that Jobanalyzer keeps of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from collectors.slurm.json_values import as_text
from collectors.slurm.nodelist import expand
from collectors.sonar.schema import KIBIBYTE

GIBIBYTE = 1 << 30
_GPUS = re.compile(r"(\d+)\s*x\s+((?:NVIDIA|AMD|Intel|Tesla|GeForce|Habana)[^,@;]*?)\s*(?:@\s*(\d+)\s*(GB|GiB)\b|[,;]|$)")


@dataclass(frozen=True)
class MachineCard:
    index: int
    model: str | None
    memory_bytes: int | None = None
    uuid: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """A node; `at` is None where the form tells no time (the configuration)."""

    node: str
    line: int
    cards: Sequence[MachineCard] = ()
    at: datetime | None = None
    cluster: str | None = None
    cpu_count: int | None = None
    memory_bytes: int | None = None


def machine_of(machines: Iterable[Machine], node: str) -> Machine | None:
    """What is known of a node: sysinfo before the configuration; a host name's first part will do where it is one node's."""
    known = sorted((machine for machine in machines if machine.node == node), key=lambda machine: machine.at is None)
    if known:
        return known[0]
    short = [machine for machine in machines if machine.node.split(".")[0] == node.split(".")[0]]
    return short[0] if len({machine.node for machine in short}) == 1 else None


def read_sysinfo(attributes: Mapping[str, Any], line: int) -> Machine:
    """A `data.attributes` of type sysinfo. Raises ValueError where it is none."""
    cores = [_whole(attributes.get(name)) for name in ("sockets", "cores_per_socket", "threads_per_core")]
    return Machine(
        node=_named(attributes, "node"),
        line=line,
        cards=[_sysinfo_card(card) for card in attributes.get("cards") or []],
        at=_time(attributes.get("time")),
        cluster=as_text(attributes.get("cluster")) or None,
        cpu_count=cores[0] * cores[1] * cores[2] or None,
        memory_bytes=_whole(attributes.get("memory")) * KIBIBYTE or None,
    )


def read_old_sysinfo(document: Mapping[str, Any], line: int) -> Machine:
    """Versions 0.9 to 0.13: flat, with the cards in words, later also as `gpu_info`. Raises ValueError where it is none."""
    machine = _configured(document, line, _named(document, "hostname"))
    cards = [
        MachineCard(
            index=_whole(card.get("index")),
            model=as_text(card.get("model")) or None,
            memory_bytes=_whole(card.get("mem_size_kib")) * KIBIBYTE or None,
            uuid=as_text(card.get("uuid")) or None,
            details={
                "pci_bus_id": as_text(card.get("bus_addr")) or None,
                "driver_version": as_text(card.get("driver")) or None,
                "power_limit_watts": _whole(card.get("power_limit_watt")) or None,
                "sm_clock_max_mhz": _whole(card.get("max_ce_clock_mhz")) or None,
            },
        )
        for card in document.get("gpu_info") or []
    ]
    return replace(machine, at=_time(document.get("timestamp")), cards=cards or machine.cards)


def read_config(document: Any) -> list[Machine]:
    """Nodes of a cluster's configuration, an object with `nodes` or, in older ones, the list itself."""
    nodes, cluster = (document["nodes"], as_text(document.get("name"))) if isinstance(document, dict) else (document, "")
    return [
        replace(_configured(item, place, name), cluster=cluster or None)
        for place, item in enumerate(nodes, start=1)
        for name in expand(_named(item, "hostname"))
    ]


def is_config(document: Any) -> bool:
    nodes = document.get("nodes") if isinstance(document, dict) else document
    return isinstance(nodes, list) and bool(nodes) and all(isinstance(node, dict) and "hostname" in node for node in nodes)


def _configured(item: Mapping[str, Any], line: int, node: str) -> Machine:
    count, memory = _whole(item.get("gpu_cards")), _whole(item.get("gpumem_gb"))
    models = [
        (model.strip(), int(size) * GIBIBYTE if size else None)
        for number, model, size, _ in _GPUS.findall(as_text(item.get("description")))
        for _ in range(min(int(number), count))
    ]
    named = models if len(models) == count else [(None, None)] * count
    each = memory * GIBIBYTE // count if count and memory else None
    return Machine(
        node=node,
        line=line,
        cards=[MachineCard(index, model, size or each) for index, (model, size) in enumerate(named)],
        cpu_count=_whole(item.get("cpu_cores")) or None,
        memory_bytes=_whole(item.get("mem_gb")) * GIBIBYTE or None,
    )


def _sysinfo_card(card: Mapping[str, Any]) -> MachineCard:
    return MachineCard(
        index=_whole(card.get("index")),
        model=as_text(card.get("model")) or None,
        memory_bytes=_whole(card.get("memory")) * KIBIBYTE or None,
        uuid=as_text(card.get("uuid")) or None,
        details={
            "pci_bus_id": as_text(card.get("address")) or None,
            "driver_version": as_text(card.get("driver")) or None,
            "power_limit_watts": _whole(card.get("power_limit")) or None,
            "sm_clock_max_mhz": _whole(card.get("max_ce_clock")) or None,
        },
    )


def _named(values: Mapping[str, Any], key: str) -> str:
    name = as_text(values.get(key))
    if not name:
        raise ValueError(f"it names no {key}")
    return name


def _whole(value: Any) -> int:
    text = as_text(value) or "0"
    if not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def _time(value: Any) -> datetime:
    at = datetime.fromisoformat(as_text(value))
    return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at
