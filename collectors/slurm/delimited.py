"""Delimited sacct output (`-P`, `-p`, `--delimiter`), with a header or without, into records.

sacct prints names as they are, so a job called `train|llama` has a cell too many, and one with a line end in its comment
takes two lines. The surplus goes back into the free-text field if the shapes of the other fields leave only one way to do it;
otherwise the row is quarantined.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from collectors.slurm.fields import COMMA_LISTS, DEFAULT_FIELDS, FREE_TEXT, USED, WANTED_FIELDS, has_shape, is_header, spell
from collectors.slurm.records import Reading, Record, Records, SourceFailedError
from warehouse.landing.conform import MALFORMED, Reject, redact

AMBIGUOUS_FIELDS = "ambiguous_fields"

#: cannot stand in a job name; the live command uses it
UNIT_SEPARATOR = "\x1f"
#: a row with more surplus cells than this is no row of sacct
MOST_SURPLUS = 60
#: ways to cut a row that are tried before it counts as ambiguous
MOST_WAYS = 200
#: lines that one row may take; a text with more line ends is no name or comment
MOST_LINES = 200
MOST_CHARACTERS = 1 << 16
#: rows looked at to see whether an output without header has the fields it is said to have
ROWS_TRIED = 50
RESOURCE = re.compile(r"[a-z]+(?:/[^=,]+)?=[^=,]*")

Lines = Sequence[tuple[int, str]]


@dataclass(frozen=True)
class _Layout:
    """How a line is cut: `is_closed` where a delimiter also stands behind the last field (`-p`)."""

    delimiter: str
    fields: tuple[str, ...]
    is_closed: bool

    def cells(self, line: str) -> list[str]:
        cells = _cells(line, self.delimiter)
        return cells[:-1] if self.is_closed and not cells[-1] else cells


@dataclass(frozen=True)
class _Uncut:
    """Why a line has no fields."""

    reason: str
    detail: str


def read_delimited(text: str, file: str, reading: Reading) -> Records:
    """Records of an output; rows that cannot be cut into fields are rejects.

    Raises SourceFailedError where the output as a whole cannot be understood; the message says how to save it.
    """
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        raise SourceFailedError(f"{file}: the file is empty; sacct prints a header even where it finds no job (save without -n)")
    if len(lines) > 1 and re.fullmatch(r"[- ]*-{3}[- ]*", lines[1][1]):
        raise SourceFailedError(f"{file}: columns of fixed width cut long values off; save with sacct --parsable2")
    first = lines[0][1]
    delimiter = reading.delimiter or _find_delimiter(first)
    layout = _header(first, delimiter) or _named_layout(lines, delimiter, file, reading.fields)
    _require_fields(layout.fields, file)
    return _read_rows(lines, layout, file)


def has_header(first: str) -> bool:
    """Whether the line is a header of sacct: the id of a job and another of its fields."""
    return _header(first, _find_delimiter(first)) is not None


def _require_fields(fields: tuple[str, ...], file: str) -> None:
    """Refuse an output that cannot tell what was held from when to when: its jobs would hold nothing, or for ever."""
    for choice in (("JobIDRaw", "JobID"), ("State",), ("Start",), ("End", "ElapsedRaw", "Elapsed")):
        if not set(choice) & set(fields):
            raise SourceFailedError(f"{file}: no field {' or '.join(choice)}; save with sacct -o {','.join(WANTED_FIELDS)}")


def _find_delimiter(first: str) -> str:
    """What stands behind the first field name of a header; without one, the separator that is there."""
    found = re.match(r'"?[A-Za-z]+(?:%-?\d+)?"?([^A-Za-z"%]+)', first)
    if found and is_header(_cells(first, found[1])):
        return found[1]
    return UNIT_SEPARATOR if UNIT_SEPARATOR in first else "|"


def _header(line: str, delimiter: str) -> _Layout | None:
    if "jobid" not in line.lower():
        return None
    cells = _cells(line, delimiter)
    if not is_header(cells):
        return None
    is_closed = not cells[-1].strip()
    return _Layout(delimiter, tuple(spell(cell) for cell in (cells[:-1] if is_closed else cells)), is_closed)


def _named_layout(lines: Lines, delimiter: str, file: str, named: tuple[str, ...]) -> _Layout:
    """The layout of an output without header, from the fields it is said to have; SourceFailedError where no row has them."""
    fields = tuple(spell(name) for name in named or DEFAULT_FIELDS)
    _require_fields(fields, file)
    tried = [_cells(line, delimiter) for _, line in lines[:ROWS_TRIED]]
    layout = _Layout(delimiter, fields, all(not cells[-1] and len(cells) > len(fields) for cells in tried))
    if any(isinstance(_cut(layout.cells(line), layout), tuple) for _, line in lines[:ROWS_TRIED]):
        return layout
    if named:
        raise SourceFailedError(f"{file}: no header, and no row has the {len(fields)} fields of --fields in that order")
    raise SourceFailedError(
        f"{file}: no header that names JobID, and no row has the {len(fields)} default fields; "
        "save without --noheader, or name the fields: --fields JobIDRaw,State,Start,…"
    )


def _read_rows(lines: Lines, layout: _Layout, file: str) -> Records:
    result = Records()
    place = 0
    while place < len(lines):
        number, line = lines[place]
        header = _header(line, layout.delimiter)
        if header:  # the first line, or that of an output appended to this one
            layout = header
            place += 1
            continue
        cut, text, taken = _mended(lines, place, layout) or (_cut(layout.cells(line), layout), line, 1)
        place += taken
        if isinstance(cut, _Uncut):
            result.rejects.append(Reject(file, number, cut.reason, cut.detail, redact(text)))
        else:
            result.records.append(Record(number, dict(zip(layout.fields, cut, strict=True)), text))
    return result


def _mended(lines: Lines, place: int, layout: _Layout) -> tuple[tuple[str, ...], str, int] | None:
    """A row that line ends in its free text have spread over several lines: its fields, its text, how many lines it took.

    None where the line is a row of its own or none, and where it cannot be put together for sure: no line with a job's id in
    its place is taken into another, and every line end must fall into free text. (Behind a whole row a line without an id may
    be the rest of its last field, or a message; it is quarantined.)
    """
    text = lines[place][1]
    cells = layout.cells(text)
    if len(cells) >= len(layout.fields) or not _has_id(cells, layout) or not _fit(cells[:-1], layout):
        return None
    for taken, (_, following) in enumerate(lines[place + 1 : place + MOST_LINES], start=2):
        if _has_id(layout.cells(following), layout) or len(text) + len(following) > MOST_CHARACTERS:
            return None
        text += f"\n{following}"
        cells = layout.cells(text)
        if len(cells) >= len(layout.fields):
            cut = _cut(cells, layout)
            if isinstance(cut, _Uncut) or any("\n" in value for value in _outside_free_text(cut, layout)):
                return None
            return cut, text, taken
    return None


def _has_id(cells: Sequence[str], layout: _Layout) -> bool:
    """Whether a job's id stands in its place: the line is a row, or the beginning of one."""
    told = [(name, text) for name, text in zip(layout.fields, cells, strict=False) if name in ("JobIDRaw", "JobID")]
    return bool(told) and all(has_shape(name, text) for name, text in told)


def _fit(cells: Sequence[str], layout: _Layout) -> bool:
    return all(has_shape(name, text) for name, text in zip(layout.fields, cells, strict=False))


def _outside_free_text(cut: tuple[str, ...], layout: _Layout) -> list[str]:
    return [text for name, text in zip(layout.fields, cut, strict=True) if name not in FREE_TEXT]


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == "," and '"' in line:
        try:
            return next(csv.reader([line]), [""])
        except csv.Error:
            return line.split(delimiter)
    return line.split(delimiter)


def _cut(cells: list[str], layout: _Layout) -> tuple[str, ...] | _Uncut:
    """One text per field, or why there is no way to say which text is whose."""
    fields = layout.fields
    surplus = len(cells) - len(fields)
    if surplus < 0:
        return _Uncut(MALFORMED, f"{len(cells)} fields where {len(fields)} belong: the line is not whole")
    if surplus == 0:
        for name, text in zip(fields, cells, strict=True):
            if name in ("JobIDRaw", "JobID", "State") and not has_shape(name, text):
                return _Uncut(MALFORMED, f"{text[:60]!r} is no {name}; is the order of fields right (--fields)?")
        return tuple(cells)
    ways = _distinct_ways(cells, layout) if surplus <= MOST_SURPLUS else []
    if len(ways) == 1:
        return ways[0]
    detail = f"{len(cells)} cells for {len(fields)} fields: the delimiter also stands inside a value, and "
    if ways:
        return _Uncut(AMBIGUOUS_FIELDS, detail + r"there are several ways to cut the row; save with --delimiter=$'\x1f'")
    return _Uncut(MALFORMED, detail + r"no way to cut the row fits the fields; save with --delimiter=$'\x1f'")


def _distinct_ways(cells: list[str], layout: _Layout) -> list[tuple[str, ...]]:
    """Up to two ways to cut that differ in a field from which rows are made; the second is empty where there are too many."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    ways = _ways(cells, layout)
    for way in islice(ways, MOST_WAYS):
        found.setdefault(tuple(text for name, text in zip(layout.fields, way, strict=True) if name in USED), way)
        if len(found) > 1:
            return list(found.values())
    if next(ways, None) is not None:
        return [*found.values(), ()]
    return list(found.values())


def _ways(cells: list[str], layout: _Layout) -> Iterator[tuple[str, ...]]:
    """Every way to give each field one cell, or several to a free-text field, so that every value has its field's shape."""
    fields, delimiter = layout.fields, layout.delimiter
    surplus = len(cells) - len(fields)

    def spans(field: int, start: int) -> Iterator[tuple[int, str]]:
        is_list = delimiter == "," and fields[field] in COMMA_LISTS
        can_span = fields[field] in FREE_TEXT or is_list
        for width in range(1, (surplus - (start - field) if can_span else 0) + 2):
            text = delimiter.join(cells[start : start + width])
            # a name=count behind a list of them is one more of them, not free text
            goes_on = is_list and "=" in text and RESOURCE.fullmatch("".join(cells[start + width : start + width + 1]))
            if has_shape(fields[field], text) and not goes_on:
                yield start + width, text

    @cache
    def fits(field: int, start: int) -> bool:
        if field == len(fields):
            return start == len(cells)
        return any(fits(field + 1, end) for end, _ in spans(field, start))

    def cuts(field: int, start: int) -> Iterator[tuple[str, ...]]:
        if field == len(fields):
            yield ()
            return
        for end, text in spans(field, start):
            if fits(field + 1, end):
                for rest in cuts(field + 1, end):
                    yield (text, *rest)

    return cuts(0, 0)
