"""Trackable resources: `billing=78,cpu=48,gres/gpu:a100_80=4,gres/gpu=4,mem=384G,node=1`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SIZE = re.compile(r"(\d+(?:\.\d*)?)([KMGTP]?)(?:i?B)?([nc]?)\??", re.IGNORECASE)


@lru_cache(maxsize=4096)  # a cluster's jobs ask for the same few things
def parse_tres(text: str) -> Mapping[str, str]:
    """The list as name → count; ValueError where an entry is no `name=count`."""
    entries: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, count = entry.partition("=")
        if not separator or not name:
            raise ValueError(f"{entry!r} is no name=count; a TRES list looks like cpu=48,gres/gpu=4,mem=384G")
        entries[name.strip()] = count.strip()
    return entries


@dataclass(frozen=True)
class Gpus:
    """`count` is None where the list says nothing of GPUs; `model` is the type if there is exactly one."""

    count: int | None
    model: str | None


def gpus(tres: Mapping[str, str]) -> Gpus:
    """GPUs of a list (semantics 3): the untyped `gres/gpu=N` if it is there, else the sum of the typed ones.

    Both count the same cards, so they are never added. `gres/gpumem`, `gres/gpuutil`, `gres/shard` count no cards.
    """
    typed = {name.removeprefix("gres/gpu:"): _whole(count) for name, count in tres.items() if name.startswith("gres/gpu:")}
    models = [model for model, count in typed.items() if count]
    model = models[0] if len(models) == 1 else None
    if "gres/gpu" in tres:
        return Gpus(_whole(tres["gres/gpu"]), model)
    return Gpus(sum(typed.values()) if typed else None, model)


def gpus_of_gres(text: str) -> Gpus:
    """GPUs of an AllocGRES of older versions: `gpu:2`, `gpu:a100:2`, `gres:gpu:2`, with an `(IDX:0-1)` or `(S:0)` behind."""
    counts: dict[str, int] = {}
    for entry in filter(None, re.sub(r"\([^)]*\)", "", text).split(",")):
        parts = entry.strip().removeprefix("gres:").removeprefix("gres/").replace("=", ":").split(":")
        if parts[0] != "gpu":
            continue
        has_count = len(parts) > 1 and parts[-1].isdecimal()
        kind = ":".join(parts[1 : -1 if has_count else None])
        counts[kind] = counts.get(kind, 0) + (int(parts[-1]) if has_count else 1)
    if not counts:
        return Gpus(None, None)
    typed = [kind for kind in counts if kind]
    return Gpus(counts.get("", sum(counts.values())), typed[0] if len(typed) == 1 else None)


def parse_bytes(text: str, *, cpus: float | None = None, nodes: float | None = None, unit: str = "M") -> int | None:
    """A memory size in bytes; None where none is said. A bare number is in `unit` (MiB, as Slurm counts).

    ReqMem of versions before 21.08 ends in `c` (per CPU) or `n` (per node) and is multiplied out; None if by what is unknown.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        if text.strip():
            raise ValueError(f"{text!r} is no memory size; it looks like 384G or 10000M")
        return None
    number, suffix, per = match.groups()
    size = float(number) * _FACTORS[suffix.upper() or unit]
    if per:
        times = cpus if per.lower() == "c" else nodes
        if times is None:
            return None
        size *= times
    return int(size) or None  # 0 is Slurm's word for "all of the node"


def parse_count(text: str) -> float | None:
    """A count that sacct may shorten (`0.00K`, `1.5K`); None for an empty text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", text.strip())
    if not match:
        if text.strip():
            raise ValueError(f"{text!r} is no count")
        return None
    return float(match[1]) * 1000.0 ** "_KMGTP".index(match[2] or "_")


def _whole(text: str) -> int:
    number = parse_count(text)
    if number is None or number != int(number) or number > 10_000_000:
        raise ValueError(f"{text!r} is no number of GPUs")
    return int(number)
