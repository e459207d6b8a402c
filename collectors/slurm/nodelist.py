"""Slurm's folded node lists: `c1-[5,9,12-18],gpu-7`."""

from __future__ import annotations

import re
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException

#: more nodes than this in one list is a typing error or an attack; expanding it would take all memory
MOST_NODES = 200_000

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


def _breadth(first: str, last: str) -> int:
    return 10**9 if len(first) > 9 or len(last) > 9 else int(last) - int(first)
