"""A log file → its records as dictionaries with their lines, in bounded memory: CSV, JSON lines, or a JSON document."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from collectors.command import SourceFailedError
from collectors.requests.schema import FORMATS, Format
from collectors.requests.values import find
from collectors.tables.delimited import LINE_LIMIT, UNREADABLE, read_csv
from collectors.tables.parse import read_blocks, split_lines
from warehouse.landing.conform import MALFORMED, Reject
from warehouse.landing.shape import Column, Table

#: lists of records in an answer of an API
LISTS = ("data", "logs", "spend_logs", "results", "requests")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Record:
    line: int
    values: dict[str, Any]


def read_records(path: Path, form: Format | None) -> Iterator[Record | Reject]:
    """Every record of the file, and a reject (without its text: it may hold a prompt) for what is none.

    A CSV file's columns that no format names are not read. Raises SourceFailedError where the file as a whole is no log.
    """
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            raise SourceFailedError(
                f"{path}: a Parquet file; export the log as CSV or JSON lines, or `import inference_requests`"
            )
    blocks = read_blocks(path)
    try:
        first = next(blocks, b"")
    except UNREADABLE as error:
        raise SourceFailedError(f"{path}: cannot be read ({error}); fetch it again") from error
    if not first.strip():
        raise SourceFailedError(f"{path}: the file is empty")
    head = first.lstrip()[:1]
    if head != b"[" and _is_json_lines(first):
        yield from _json_lines(path, chain([first], blocks))
    elif head in (b"{", b"["):
        yield from _documents(path, chain([first], blocks))
    else:
        yield from _csv(path, first, chain([first], blocks), form)


def _is_json_lines(block: bytes) -> bool:
    """Whether one of the first lines is a whole object (not only the first: a rotated log may begin in the middle of one)."""
    return any(line[:1] == b"{" and _is_object(line) for line in block.split(b"\n", 20)[:20])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json_lines(path: Path, blocks: Iterable[bytes]) -> Iterator[Record | Reject]:
    number = 0
    try:
        for number, line in enumerate(split_lines(path, blocks), start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = "not UTF-8 text" if isinstance(error, UnicodeError) else "cut or garbled"
                yield Reject(path.name, number, MALFORMED, f"no JSON object ({reason})")
                continue
            yield from _records(path, value, number)
    except UNREADABLE as error:
        yield Reject(path.name, number + 1, MALFORMED, f"the file ends early ({error})")


def _documents(path: Path, blocks: Iterable[bytes]) -> Iterator[Record | Reject]:
    """Objects one after the other, or in one array, each over any number of lines."""
    text, position, line = "", 0, 1
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    broken = "no JSON from here on (cut or garbled); the rest is not read"
    remaining = iter(blocks)
    while True:
        while position < len(text) and text[position] in " \t\r\n,[]":
            line += text[position] == "\n"
            position += 1
        if position < len(text) and text[position] != "{":
            yield Reject(path.name, line, MALFORMED, broken)
            return
        try:
            value, end = _DECODER.raw_decode(text, position)
        except RecursionError:
            yield Reject(path.name, line, MALFORMED, "nested too deeply; the rest is not read")
            return
        except ValueError:
            # the object may go on in the next block
            text, position = text[position:], 0
            try:
                block = next(remaining, None) if len(text) <= LINE_LIMIT else None
            except UNREADABLE as error:
                yield Reject(path.name, line, MALFORMED, f"the file ends early ({error})")
                return
            if block is None:
                if text:
                    yield Reject(path.name, line, MALFORMED, broken)
                return
            text += decoder.decode(block)
        else:
            yield from _records(path, value, line)
            line += text.count("\n", position, end)
            position = end


def _records(path: Path, value: Any, line: int) -> Iterator[Record | Reject]:
    """The record, or the records of a list in it (the answer of an API)."""
    if isinstance(value, dict):
        inner = next((value[name] for name in LISTS if _is_list_of_records(value.get(name))), None)
        if inner is None or any(is_told(form, value) for form in FORMATS.values()):
            yield Record(line, value)
            return
        value = inner
    if not isinstance(value, list):
        yield Reject(path.name, line, MALFORMED, "no JSON object; each record is one: {…}")
        return
    for item in value:
        if isinstance(item, dict):
            yield Record(line, item)
        else:
            yield Reject(path.name, line, MALFORMED, "no JSON object; each record is one: {…}")


def _is_list_of_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _csv(path: Path, first: bytes, blocks: Iterator[bytes], form: Format | None) -> Iterator[Record | Reject]:
    names = _header(first)
    forms: Sequence[Format] = (
        [form] if form else [known for known in FORMATS.values() if is_told(known, dict.fromkeys(names, "there"))]
    )
    if not forms:
        raise SourceFailedError(f"{path}: {unknown_format([])}")
    wanted = dict.fromkeys(name for one in forms for name in one.top_level)
    table = Table("requests", tuple(Column(name, "text") for name in wanted), (), "", "")
    for frame, rejects in read_csv(path, blocks, table):
        yield from rejects
        if "line_number" in frame.columns:
            for row in frame.iter_rows(named=True):
                yield Record(row.pop("line_number"), row)


def _header(block: bytes) -> list[str]:
    """The first line's cells; none where it is no CSV line."""
    text = block.lstrip(b"\r\n")[: 1 << 16].decode("utf-8", "replace")
    try:
        return [name.strip() for name in next(csv.reader(io.StringIO(text, newline="")), [])]
    except csv.Error:
        return []


def is_told(form: Format, record: dict[str, Any]) -> bool:
    """Whether the record has a field of each group that tells the format."""
    return all(any(_is_there(form, record, path) for path in group) for group in form.told_by)


def _is_there(form: Format, record: dict[str, Any], path: str) -> bool:
    if not path.startswith("answer."):
        return path in record
    inner = path.removeprefix("answer.")
    return any(find(record, f"{place}.{inner}".lstrip(".")) is not None for place in form.within)


def unknown_format(names: Iterable[str]) -> str:
    """That a file is in no known format; names of its fields are shown if they look like names."""
    shown = ", ".join([name for name in names if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}", name)][:12])
    has = f" (its records have {shown})" if shown else ""
    return f"no log of requests that is known here{has}; if it is one, name its format: --format {'|'.join(FORMATS)}"
