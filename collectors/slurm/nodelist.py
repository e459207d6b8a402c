"""Slurm's folded node lists: `c1-[5,9,12-18],gpu-7`."""

from __future__ import annotations

import re
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException

#: more nodes than this in one list is a typing error or an attack; expanding it would take all memory
MOST_NODES = 200_000

_TOP_COMMA = re.compile(r",(?![^\[]*\])")
_RANGE = re.compile(r"(\d+)-(\d+)")


@lru_cache(maxsize=256)
def expand(text: str) -> tuple[str, ...]:
    """The nodes of a list, in order; empty for `None assigned`. ValueError where it is no node list."""
    text = text.strip()
    if text.lower() in ("", "none assigned", "none", "n/a", "(null)"):
        return ()
    if not re.fullmatch(r"[\w.,\[\]-]+", text):
        raise ValueError(f"{text[:80]!r} is no node list; it looks like gpu-[1-4,7]")
    if max((_breadth(first, last) for first, last in _RANGE.findall(text)), default=0) > MOST_NODES:
        raise ValueError(f"{text[:80]!r} names more than {MOST_NODES} nodes")
    try:
        nodes = NodeSet(text, resolver=RESOLVER_NOGROUP)
        if len(nodes) > MOST_NODES:
            raise ValueError(f"{text[:80]!r} names more than {MOST_NODES} nodes")
        return tuple(nodes)
    except (NodeSetException, RangeSetException) as error:
        raise ValueError(f"{text[:80]!r} is no node list: {error}") from None


@lru_cache(maxsize=256)
def expand_in_order(text: str) -> tuple[str, ...]:
    """The nodes of a list in the order in which it names them, as Slurm's arrays per node have it; `expand` sorts."""
    return tuple(node for part in _TOP_COMMA.split(text) for single in _by_range(part) for node in expand(single))


def _by_range(part: str) -> list[str]:
    """`gpu-[7,1-2]` as `gpu-[7]`, `gpu-[1-2]`; a name with several brackets as it is."""
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)", part)
    return [f"{match[1]}[{piece}]{match[3]}" for piece in match[2].split(",")] if match else [part]


def _breadth(first: str, last: str) -> int:
    return 10**9 if len(first) > 9 or len(last) > 9 else int(last) - int(first)
