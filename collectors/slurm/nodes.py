"""`scontrol show node` into rows of `nodes` and `node_states`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from collectors.parsed import Parsed
from collectors.slurm import tres
from collectors.slurm.times import parse_time
from warehouse.conform import MALFORMED, Reject, redact

#: flags of a node that is not there: a cloud node that is switched off has no capacity, and is not broken either
ABSENT = frozenset({"FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP", "UNKNOWN"})
DOWN = frozenset({"DOWN", "ERROR", "FAIL", "NOT_RESPONDING", "NO_RESPOND", "INVALID_REG"})
BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING", "DRAINING"})
DRAIN = frozenset({"DRAIN", "DRAINED", "DRAINING"})

_PAIR = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*(?::[A-Za-z]+)?)=")
_SINCE = re.compile(r"\s*\[[^\[\]@]*@([^\]]+)\]\s*$")


def parse_nodes(text: str, *, cluster: str, seen_at: datetime) -> Parsed:
    """A row per node in `nodes`, and in `node_states` the state it is in.

    A node out of service is in its state since the time beside its reason, else since `seen_at`. `in_service` is a sighting:
    the node is so at `seen_at`, which ends whatever state it was in before.
    """
    parsed = Parsed()
    for place, values in enumerate(_nodes(text), start=1):
        try:
            _add(parsed, values, {"cluster": cluster, "node": values["NodeName"], "line_number": place}, seen_at)
        except ValueError as error:
            detail = f"node {values['NodeName']}: {error}"
            parsed.rejects.append(Reject("scontrol show node", place, MALFORMED, detail, redact(json.dumps(values))))
    return parsed


def node_state(text: str) -> str | None:
    """Slurm's state with its flags (`MIXED+DRAIN`, `IDLE*+MAINTENANCE`) as one of `node_states`; None for a node not there."""
    flags = {flag for flag in re.split(r"[+*~#!%$@^-]+", text.upper()) if flag}
    if "*" in text:
        flags.add("NOT_RESPONDING")
    if flags & ABSENT or "~" in text or "#" in text:
        return None
    if flags & DOWN:
        return "down"
    if flags & {"MAINT", "MAINTENANCE"}:
        return "maintenance"
    if flags & DRAIN:
        return "draining" if flags & BUSY else "drained"
    return "reserved" if "RESERVED" in flags else "in_service"


def _nodes(text: str) -> Iterator[Mapping[str, str]]:
    """Each node's `Name=value` pairs; a value runs to the next name, so that it may hold spaces."""
    for block in re.split(r"(?m)^(?=NodeName=)", text):
        names = list(_PAIR.finditer(block))
        if not names or names[0][1] != "NodeName":
            continue
        ends = [name.start() for name in names[1:]] + [len(block)]
        values: dict[str, str] = {}
        for name, end in zip(names, ends, strict=True):
            values.setdefault(name[1], block[name.end() : end].strip())
        yield values


def _add(parsed: Parsed, values: Mapping[str, str], identity: Mapping[str, Any], seen_at: datetime) -> None:
    resources = tres.parse_tres(_said(values, "CfgTRES"))
    gpus = tres.gpus(resources).count
    if gpus is None:
        gpus = tres.gpus_of_gres(_said(values, "Gres")).count or 0
    labels = {"features": _said(values, "ActiveFeatures"), "gres": _said(values, "Gres")}
    cpus = _said(values, "CPUTot")
    node = {
        **identity,
        "cpu_count": int(cpus) if cpus.isdecimal() else None,
        "memory_bytes": tres.parse_bytes(_said(values, "RealMemory")),
        "gpu_count": gpus,
        "instance_type": _said(values, "InstanceType") or None,
        "partitions": _said(values, "Partitions") or None,
        "labels": json.dumps({name: text for name, text in labels.items() if text}, sort_keys=True),
        "seen_at": seen_at,
    }
    state = node_state(_said(values, "State"))
    reason, since = _reason(values)
    parsed.add("nodes", node)
    if state:
        started_at = seen_at if state == "in_service" or since is None else since
        parsed.add("node_states", {**identity, "state": state, "reason": reason, "started_at": started_at})


def _reason(values: Mapping[str, str]) -> tuple[str | None, datetime | None]:
    """`Not responding [slurm@2026-11-30T06:29:20]` → the text and the time since when."""
    text = _said(values, "Reason")
    match = _SINCE.search(text)
    return (text[: match.start()] if match else text) or None, parse_time(match[1], None) if match else None


def _said(values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "")
    return "" if text.lower() in ("(null)", "n/a", "none") else text
