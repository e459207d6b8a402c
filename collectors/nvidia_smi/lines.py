"""A file's lines, whatever its size: gzip, UTF-16 and byte-order marks undone, no line longer than one can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from collectors.tables.delimited import UNREADABLE
from collectors.tables.parse import read_blocks
from warehouse.landing.conform import MALFORMED, Reject

#: a document of a hundred GPUs without a line break is shorter
LINE_LIMIT = 8 << 20


def read_lines(path: Path) -> Iterator[tuple[int, str] | Reject]:
    """(number from 1, text without its end) of each line; a reject for what is no line or cannot be read.

    Raises SourceFailedError where the bytes are no text at all.
    """
    number, rest, is_skipping = 0, b"", False
    try:
        for block in read_blocks(path):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                number += 1
                if is_skipping or len(line) > LINE_LIMIT:
                    is_skipping = False
                    yield _too_long(path, number)
                else:
                    yield number, _text(line)
            if len(rest) > LINE_LIMIT:
                rest, is_skipping = b"", True
    except UNREADABLE as error:
        yield Reject(path.name, number + 1, MALFORMED, f"the file ends early ({error}); what came before is read")
        rest = b""
    if is_skipping:
        yield _too_long(path, number + 1)
    elif rest:
        yield number + 1, _text(rest)


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace").replace("\0", "")


def _too_long(path: Path, number: int) -> Reject:
    return Reject(path.name, number, MALFORMED, f"a line of more than {LINE_LIMIT >> 20} MiB is none that nvidia-smi prints")
