"""Generic resources as Slurm writes them: `gpu:a100:4(S:0-1)` of a node, `gpu:2(IDX:0,3),gpu:1g.10gb:1(IDX:8)` of a job.

Who prints what (src/interfaces/gres.c, src/stepmgr/gres_stepmgr.c): `(S:…)` are sockets, `(IDX:…)` the places of the devices
in the node's list of GPUs, `(CNT:n)` a count of things without device files, `(3/8,0/8)` the shares held of each GPU over
those it is cut into; `GRES_IDX=gpu(IDX:0-1)` of versions before 19.05 has no count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from collectors.slurm.tres import Gpus, parse_count

GPU = "gpu"
#: shares of a GPU: each GPU of a node is cut into as many as the node's count of them per GPU
SHARED = ("shard", "mps")
#: more devices than this in one list is no list of a node
MOST_DEVICES = 4096

_OUTSIDE_COMMA = re.compile(r",(?![^(]*\))")
_ENTRY = re.compile(r"(?:gres[/:])?([A-Za-z]\w*)((?:[:=][^:=()]*)*)((?:\([^()]*\))*)")
_MIG = re.compile(r"(?<![0-9a-z])([1-7])g[._]?(\d{1,3})gb(?:[+._-](me|gfx))?(?![0-9a-z])", re.IGNORECASE)
_SHARES = re.compile(r"\d+/\d+(?:,\d+/\d+)*")


@dataclass(frozen=True)
class Gres:
    """One entry of a list. `indices` is None where it names no devices; `shares` are (held, whole) of each GPU, by place."""

    name: str
    kind: str | None
    count: float
    indices: tuple[int, ...] | None = None
    shares: tuple[tuple[int, int], ...] = ()


@lru_cache(maxsize=4096)  # a cluster's nodes and jobs have the same few
def parse_gres(text: str) -> tuple[Gres, ...]:
    """The entries of a list; ValueError where one is none. `(null)` and `N/A` are an empty list."""
    text = text.replace("(null)", "").strip()
    if text.lower() in ("", "n/a", "none"):
        return ()
    return tuple(_entry(part.strip()) for part in _OUTSIDE_COMMA.split(text) if part.strip())


def gpus_of_gres(entries: Sequence[Gres]) -> Gpus:
    """GPUs of a list, or of the lists of several nodes one after the other: an untyped count if there is one, else all."""
    counts: dict[str | None, int] = {}
    for entry in entries:
        if entry.name == GPU and entry.count == int(entry.count):
            counts[entry.kind] = counts.get(entry.kind, 0) + int(entry.count)
    if not counts:
        return Gpus(None)
    return Gpus(counts.get(None, sum(counts.values())), tuple((kind, count) for kind, count in counts.items() if count))


@lru_cache(maxsize=1024)
def mig_profile(kind: str | None) -> str | None:
    """The MIG profile that a GRES type names: `1g.10gb`, `a100_1g.5gb`, `nvidia_a100_3g.39gb`, `h100-1g.10gb+me`."""
    match = _MIG.search(kind or "")
    if not match:
        return None
    slices, memory, extension = match.groups()
    return f"{slices}g.{memory}gb" + (f"+{extension.lower()}" if extension else "")


@lru_cache(maxsize=1024)
def card_model(kind: str | None) -> str | None:
    """The model of the card in a GRES type, without the MIG profile: `a100_1g.5gb` → `a100`, `1g.10gb` → None."""
    match = _MIG.search(kind or "")
    if not match or not kind:
        return kind or None
    return re.sub(r"[-_.]?(?:mig)?[-_.]*$", "", kind[: match.start()], flags=re.IGNORECASE) or None


def _entry(text: str) -> Gres:
    match = _ENTRY.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:60]!r} is no resource; a GRES list looks like gpu:a100:2(IDX:0-1)")
    name, middle, brackets = match.groups()
    parts = [part for part in re.split("[:=]", middle)[1:] if part not in ("", "no_consume")]
    count = _count(parts[-1]) if parts and parts[-1][:1].isdigit() else None
    if count is not None:
        parts.pop()
    indices: tuple[int, ...] | None = None
    shares: tuple[tuple[int, int], ...] = ()
    for inside in re.findall(r"\(([^()]*)\)", brackets):
        label, _, value = inside.partition(":")
        if label == "IDX":
            indices = None if value.strip() in ("N/A", "") else tuple(_indices(value))
        elif label == "CNT":
            count = _count(value)
        elif _SHARES.fullmatch(inside):
            shares = tuple((int(held), int(whole)) for held, whole in (pair.split("/") for pair in inside.split(",")))
    if count is None:
        count = float(len(indices)) if indices else 1.0
    return Gres(name.lower(), ":".join(parts) or None, count, indices, shares)


def _count(text: str) -> float | None:
    """A count, or None where the text is a type that begins with a digit: `1g.10gb`, `2080ti`."""
    try:
        return parse_count(text)
    except ValueError:
        return None


def _indices(text: str) -> Iterator[int]:
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if not match:
            raise ValueError(f"{text[:60]!r} is no list of devices; it looks like 0-1,3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST_DEVICES:
            raise ValueError(f"{text[:60]!r} is no list of devices of one node")
        yield from range(first, last + 1)
