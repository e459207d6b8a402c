"""Read the CSV files of `config/`, and add lines to them; what is there stays as it is, to the byte.

A line is a row: `#` at its beginning makes it a comment, and a quoted cell ends where its line does. So each problem has
a line, and a file that is broken in one place says the rest.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warehouse.atomic import replaced
from warehouse.landing.conform import MALFORMED, Reject

#: a file of rules for ten thousand workloads has some 2 MB
SIZE_LIMIT = 16 * 2**20
COMMENT = "#"


class ConfigError(Exception):
    """A file of `config/` cannot be read at all; the message names file, line and remedy."""


@dataclass(frozen=True)
class ConfigRow:
    """A row and its line, counted from 1. A cell is stripped text; an empty one, or one that the row lacks, is None."""

    line: int
    cells: Mapping[str, str | None]


@dataclass(frozen=True)
class ConfigFile:
    """What a file says: rows in force, rows that somebody switched off by a `#`, lines that are no row."""

    path: Path
    header: tuple[str, ...]
    rows: tuple[ConfigRow, ...]
    switched_off: tuple[ConfigRow, ...]
    rejects: tuple[Reject, ...]


def read_config_file(path: Path, required: Sequence[str]) -> ConfigFile | None:
    """The file's content; None where there is no such file. Raises ConfigError where it has no usable header."""
    text = _read_text(path)
    if text is None:
        return None
    lines = text.splitlines()
    start, header = _header(path, lines, required)
    rows: list[ConfigRow] = []
    switched_off: list[ConfigRow] = []
    rejects: list[Reject] = []
    for number, line in enumerate(lines, start=1):
        content = line.strip()
        if content.startswith(COMMENT):
            cells = _cells(content.lstrip(COMMENT))
            if number > start and isinstance(cells, list) and len(cells) == len(header) and len(header) > 1:
                switched_off.append(_row(number, header, cells))
        elif number > start and content.strip(","):
            cells = _cells(line)
            if isinstance(cells, str):
                rejects.append(Reject(path.name, number, MALFORMED, cells, line))
            elif cells[0].startswith(COMMENT):  # a spreadsheet puts a comment that holds a comma into quotes
                continue
            elif len(cells) != len(header):
                detail = f"{len(cells)} cells where the header names {len(header)}; put a text that holds a comma into quotes"
                rejects.append(Reject(path.name, number, MALFORMED, detail, line))
            else:
                rows.append(_row(number, header, cells))
    return ConfigFile(path, header, tuple(rows), tuple(switched_off), tuple(rejects))


def _read_text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); let this user read it") from None
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"{path} has more than {SIZE_LIMIT >> 20} MiB; is it another kind of file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text; save it as CSV in UTF-8") from None
    if "\0" in text:
        raise ConfigError(f"{path}, line {text.count(chr(10), 0, text.index(chr(0))) + 1}: not text; save it as CSV in UTF-8")
    return text


def _header(path: Path, lines: Sequence[str], required: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip(" ,;\t") or line.lstrip('" ').startswith(COMMENT):
            continue
        cells = _cells(line)
        header = tuple(cell.lower() for cell in cells) if isinstance(cells, list) else ()
        lacking = [name for name in required if name not in header]
        if lacking and any(separator in line for separator in ";\t") and "," not in line:
            raise ConfigError(f"{path}, line {number}: the columns are not separated by commas; save it as CSV with commas")
        if lacking:
            shown = line if len(line) <= 200 else line[:200] + "…"
            raise ConfigError(f"{path}, line {number}: no column {', '.join(lacking)} in the header {shown!r}")
        twice = sorted({name for name in header if name and header.count(name) > 1})
        if twice:
            raise ConfigError(f"{path}, line {number}: the header names {', '.join(twice)} twice; keep one of them")
        return number, header
    raise ConfigError(f"{path}: no header; the first line that is no comment names the columns: {','.join(required)}, …")


def _cells(line: str) -> list[str] | str:
    """The cells of one line, or why they cannot be told apart."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True), [])]
    except csv.Error as error:
        return f"unreadable line ({error}); quotes come in pairs, and a row stays on its line"


def _row(line: int, header: Sequence[str], cells: Sequence[str]) -> ConfigRow:
    return ConfigRow(line, {name: cell or None for name, cell in zip(header, cells, strict=True) if name})


@dataclass(frozen=True)
class Draft:
    """A row to add, with the comment that goes on the line before it; without cells the comment stands alone."""

    cells: Mapping[str, str]
    comment: str = ""


def new_text(introduction: str, header: Sequence[str], drafts: Sequence[Draft]) -> str:
    """The text of a new file."""
    comments = [f"{COMMENT} {line}".rstrip() for line in introduction.splitlines()]
    return "\n".join([*comments, ",".join(header), *_lines(header, drafts), ""])


def add_drafts(file: ConfigFile, drafts: Sequence[Draft]) -> None:
    """Add rows at the end, in the order of the file's own columns; all that was there stays as it is.

    Raises ConfigError where somebody saved the file in between.
    """
    before = file.path.read_bytes()
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    added = b"".join(line.encode() + newline for line in _lines(file.header, drafts))
    separator = b"" if not before or before.endswith(b"\n") else newline
    target = file.path.resolve()  # a link stays a link
    with replaced(target) as temporary:
        temporary.write_bytes(before + separator + added)
        shutil.copymode(target, temporary)
        if target.read_bytes() != before:
            raise ConfigError(f"{file.path} was saved by somebody else just now; run this again")


def _lines(header: Sequence[str], drafts: Sequence[Draft]) -> Iterator[str]:
    for draft in drafts:
        if draft.comment:
            yield f"{COMMENT} {draft.comment}"
        if draft.cells:
            yield ",".join(_quoted(draft.cells.get(name, "")) for name in header)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if any(mark in cell for mark in ',"\r\n') or cell.startswith(COMMENT) else cell
