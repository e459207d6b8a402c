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
    """`count` is None where the list says nothing of GPUs; `kinds` are the types with their counts, None the untyped rest."""

    count: int | None
    kinds: tuple[tuple[str | None, int], ...] = ()

    @property
    def model(self) -> str | None:
        """The type, if there is exactly one."""
        named = [kind for kind, _ in self.kinds if kind]
        return named[0] if len(named) == 1 else None


def gpus(tres: Mapping[str, str]) -> Gpus:
    """GPUs of a list (semantics 3): the untyped `gres/gpu=N` if it is there, else the sum of the typed ones.

    Both count the same cards, so they are never added. `gres/gpumem`, `gres/gpuutil`, `gres/shard` count no cards.
    """
    typed = {name.removeprefix("gres/gpu:"): _whole(count) for name, count in tres.items() if name.startswith("gres/gpu:")}
    kinds: list[tuple[str | None, int]] = [(kind, count) for kind, count in typed.items() if count]
    if "gres/gpu" not in tres:
        return Gpus(sum(typed.values()) if typed else None, tuple(kinds))
    total = _whole(tres["gres/gpu"])
    if total > sum(typed.values()):
        kinds.append((None, total - sum(typed.values())))
    return Gpus(total, tuple(kinds))


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
