"""Damage files at random: whatever comes of it, the promises of the harness hold.

`make fuzz` does the same for as long as you like, on the captures as well where they are here: it sets
`GPU_NET_FUZZ_SECONDS`, and without it a short form runs with all other tests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.collectors.bad_input.harness import collect
from tests.unit.collectors.bad_input.inputs import CAPTURES, INPUTS, Input

SECONDS = float(os.environ.get("GPU_NET_FUZZ_SECONDS", "0"))
EXAMPLES = 200 if SECONDS else 12
CORPUS = {**INPUTS, **(CAPTURES if SECONDS else {})}
#: what breaks parsers: numbers at the edges, words for nothing, quotes and delimiters, half of a character, a repeated hour
TOKENS = [
    *(
        b"",
        b"\0",
        b"\n",
        b"\r",
        b"\r\n",
        b'"',
        b"'",
        b",",
        b"|",
        b"=",
        b"{",
        b"}",
        b"[",
        b"]",
        b"<",
        b">",
        b"&",
        b"\\",
        b"\x1f",
        b"#",
    ),
    *(b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"+Inf", b"9223372036854775807", b"9223372036854775808", b"18446744073709551615"),
    *(b"1.07e+010", b"0x1F", b"1_000", b"1,5", b"NULL", b"null", b"None", b"N/A", b"[N/A]", b"[Not Supported]", b"-", b"unknown"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\xa6\x86", "\u202e".encode(), "\u2028".encode()),
    *(b"2026-10-25T02:30:00", b"2026-03-29T02:30:00", b"9999-12-31T23:59:59Z", b"0001-01-01", b"1970-01-01T00:00:00Z", b"1e18"),
    *(b"<script>", b"../../etc/passwd", b"$(reboot)", b"{{ 1 }}", b"A" * 5000, b"[" * 500, b"&lol;" * 50),
]


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """One way to damage a file: bytes taken out, doubled, moved, overwritten, lines or cells changed."""
    kind = draw(st.sampled_from(["cut", "drop", "double", "swap", "token", "flip", "line", "lines", "cell"]))
    start, length = draw(st.floats(0, 1)), draw(st.integers(1, 200))
    token, number = draw(st.sampled_from(TOKENS)), draw(st.integers(0, 255))

    def apply(data: bytes) -> bytes:
        at = int(start * len(data))
        end = min(len(data), at + length)
        if kind == "cut":
            return data[:at]
        if kind == "drop":
            return data[:at] + data[end:]
        if kind == "double":
            return data[:end] + data[at:end] + data[end:]
        if kind == "swap":
            return data[end:] + data[at:end] + data[:at]
        if kind == "token":
            return data[:at] + token + data[at + number % 8 :]
        if kind == "flip":
            return data[:at] + bytes([number]) + data[at + 1 :]
        lines = data.splitlines(keepends=True) or [b""]
        place = int(start * (len(lines) - 1))
        if kind == "line":
            lines[place] = token + b"\n"
        elif kind == "lines":
            lines = [*lines[place:], *lines[:place]]
        else:
            cells = lines[place].split(bytes([_delimiter(lines[place])]))
            cells[number % len(cells)] = token
            lines[place] = bytes([_delimiter(lines[place])]).join(cells)
        return b"".join(lines)

    return apply


def _delimiter(line: bytes) -> int:
    """The most frequent of the delimiters in the line."""
    return max(b",|\t =", key=line.count)


DAMAGES = st.lists(damage(), min_size=1, max_size=4)


@pytest.mark.parametrize("item", CORPUS.values(), ids=CORPUS.keys())
def test_a_damaged_file_lands_its_rest_or_says_why_not(item: Input) -> None:
    until = time.monotonic() + SECONDS / len(CORPUS)

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(DAMAGES)
    def damaged(damages: list[Callable[[bytes], bytes]]) -> None:
        data = item.data
        for apply in damages:
            data = apply(data)
        collect(item, data)

    damaged()
    while time.monotonic() < until:
        damaged()
