"""What names say: a sample's (`ray_vllm:prompt_tokens_total` is `vllm:prompt_tokens`), a saved scrape's (server and time)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from collectors.inference.schema import KNOWN, NIM_NAMES, PREFIXES
from collectors.times import IN_NAME

_ENDING = re.compile(r"(\.(prom|txt|metrics|text|log|gz))+$")
_SUFFIXES = ("_bucket", "_sum", "_count", "_created")


@dataclass(frozen=True)
class Name:
    """`part` is value, bucket, sum, count or created; `is_known` whether the tables have the metric."""

    metric: str
    part: str
    is_known: bool

    @property
    def server(self) -> str:
        return self.metric.partition(":")[0]


@lru_cache(maxsize=4096)
def read_name(name: str, is_nim: bool = False) -> Name | None:
    """None for a name that is no inference server's (of the process, of Ray, of a sidecar)."""
    for server, prefix in PREFIXES.items():
        found = prefix.match(name)
        if found:
            return _within(server, name[found.end() :])
    if is_nim:
        bare = _within("nim", name)
        return bare if bare.is_known else None
    return None


def is_nim(names: Iterable[str]) -> bool:
    """Whether these names are NIM's: vLLM's without a prefix, and nobody else's."""
    bare = {name.removesuffix("_total") for name in names}
    return len(bare & NIM_NAMES) > 1 and not any(prefix.match(name) for name in bare for prefix in PREFIXES.values())


def _within(server: str, rest: str) -> Name:
    """The longest spelling that is known counts: `request_count` is a counter of TGI, not a part of a histogram."""
    for bare in (rest, rest.removesuffix("_total")):
        if f"{server}:{bare}" in KNOWN:
            return Name(f"{server}:{bare}", "value", True)
    for suffix in _SUFFIXES:
        base = rest.removesuffix(suffix)
        if base == rest:
            continue
        for bare in (base, base.removesuffix("_total")):
            if f"{server}:{bare}" in KNOWN:
                return Name(f"{server}:{bare}", suffix[1:], True)
        return Name(f"{server}:{base}", suffix[1:], False)
    return Name(f"{server}:{rest.removesuffix('_total')}", "value", False)


def server_in_name(path: Path) -> str:
    """What a file is called without its time and ending: the scrapes of one server are `vllm-a-<time>.prom`.

    A file that is called by its time alone is of the server that its folder is called by.
    """
    return _ENDING.sub("", IN_NAME.sub("", path.name)).strip("-_.") or path.resolve().parent.name or "unknown"
