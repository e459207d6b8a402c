"""What `scontrol show` prints: blocks of `Name=value` pairs, over several lines or (`-o`) on one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

_PAIR = re.compile(r"(?:^|\s)([A-Z][A-Za-z_/]*(?::[A-Za-z:]+)?)=")


@dataclass(frozen=True)
class Block:
    """One node, job or partition: its text and the line on which it begins."""

    line: int
    text: str


def blocks(text: str, name: str) -> Iterator[Block]:
    """The blocks that begin with `name=` at the start of a line."""
    starts = [match.start() for match in re.finditer(rf"(?m)^{name}=", text)]
    line, place = 1, 0
    for start, end in pairwise([*starts, len(text)]):
        line += text.count("\n", place, start)
        place = start
        yield Block(line, text[start:end])


def pairs(text: str) -> Mapping[str, str]:
    """Name → value; a value runs to the next name, so that it may hold spaces. Of two with one name the first stands."""
    names = list(_PAIR.finditer(text))
    ends = [*(name.start() for name in names[1:]), len(text)][: len(names)]
    values: dict[str, str] = {}
    for name, end in zip(names, ends, strict=True):
        values.setdefault(name[1], text[name.end() : end].strip())
    return values


def said(values: Mapping[str, str], *names: str) -> str:
    """The first of these values that says something, else an empty text."""
    for name in names:
        text = values.get(name, "")
        if text.lower() not in ("", "(null)", "n/a", "none"):
            return text
    return ""
