"""CSV text in the landing shape: plain blocks at column speed, all others row by row, every row with its line."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path

import polars as pl

from collectors.command import SourceFailedError
from warehouse.landing.conform import MALFORMED, Reject, redact
from warehouse.landing.shape import Table

#: rows per frame where Python reads them row by row
TEXT_CHUNK_ROWS = 50_000
#: a field longer than this is refused; no column of the landing shape holds that much
FIELD_LIMIT = 1_000_000
#: a line longer than this is none: the file is of another kind
LINE_LIMIT = 64 * 2**20
#: while the quotes do not pair up, so much is kept in the hope that they will
UNPAIRED_LIMIT = 64 * 2**20
#: what reading a compressed or failing file raises in the middle
UNREADABLE = (EOFError, gzip.BadGzipFile, zlib.error)

_QUOTED_FIELD = re.compile(rb'(?:(?<=[,\n])|\A)"[^"]*(?:""[^"]*)*"(?=[,\n]|\Z)')

Piece = tuple[pl.DataFrame, list[Reject]]


def read_csv(path: Path, blocks: Iterator[bytes], table: Table, given: Collection[str] = ()) -> Iterator[Piece]:
    """The rows of CSV text with a header, as frames of texts with `line_number`, and the rows that are none.

    Raises SourceFailedError where there is no header or it lacks a required column.
    """
    csv.field_size_limit(FIELD_LIMIT)
    ended: list[Reject] = []
    pieces = _cut_at_rows(refuse_endless_lines(path, _until_unreadable(path, blocks, ended)))
    header, first, line = _header(path, pieces)
    if header is None:
        raise SourceFailedError(f"{path}: {ended[0].detail if ended else 'the file is empty; a CSV file begins with a header'}")
    require_columns(path, header, table, given)
    shape = _Shape(path, header, [name for name in header if any(column.name == name for column in table.columns)])
    for block, is_paired in chain([first], pieces):
        if not is_paired:
            # from here on a quoted field may reach over blocks: only a reader of rows can tell where it ends
            rest = chain([block], (further for further, _ in pieces))
            yield from _row_by_row(shape, _text_lines(rest), line)
            break
        plain = _plain(block, len(header))
        frame = _columns(shape, plain, line) if plain is not None else None
        if frame is not None:
            yield frame, []
        else:
            yield from _row_by_row(shape, _text_lines([block]), line)
        line += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
    if ended:
        yield pl.DataFrame(), ended


def refuse_endless_lines(path: Path, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks; SourceFailedError at a line of more than `LINE_LIMIT` bytes, which is of another kind of file."""
    length = 0
    for block in blocks:
        first, last = block.find(b"\n"), block.rfind(b"\n")
        # a line inside one block is no longer than the block
        longest = length + (len(block) if first < 0 else first)
        if longest > LINE_LIMIT:
            raise SourceFailedError(f"{path}: a line of more than {LINE_LIMIT >> 20} MiB; is this the right kind of file?")
        length = longest if first < 0 else len(block) - last - 1
        yield block


def require_columns(path: Path, names: Collection[str], table: Table, given: Collection[str] = ()) -> None:
    """Raise SourceFailedError where a column that every row must have is not in the file at all."""
    wanted = [column.name for column in table.columns if column.required and column.name not in given]
    lacking = [name for name in wanted if name not in names]
    if lacking:
        raise SourceFailedError(
            f"{path}: no column {', '.join(lacking)}, which {table.name} needs; the file has {', '.join(names)}"
        )


class _Shape:
    """The header of a file and which of its columns land."""

    def __init__(self, path: Path, header: list[str], wanted: list[str]) -> None:
        twice = sorted({name for name in wanted if header.count(name) > 1})
        if twice:
            raise SourceFailedError(f"{path}: the header names {', '.join(twice)} twice; keep one of them")
        self.path, self.header, self.wanted = path, header, wanted
        self.positions = [header.index(name) for name in wanted]
        #: cells of a broken line cannot be told apart, and a column that does not land may hold a prompt or a key
        self.shows_text = len(wanted) == len(header)

    def reject(self, line: int, detail: str, text: str) -> Reject:
        return Reject(self.path.name, line, MALFORMED, detail, redact(text) if self.shows_text else "")


def _until_unreadable(path: Path, blocks: Iterator[bytes], ended: list[Reject]) -> Iterator[bytes]:
    try:
        yield from blocks
    except UNREADABLE as error:
        ended.append(Reject(path.name, None, MALFORMED, f"the file ends early ({error})"))


def _cut_at_rows(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Blocks that end where a row ends, and whether that is sure: the quotes in them pair up."""
    rest = b""
    for block in blocks:
        rest += block
        end = _last_row_end(rest)
        if end:
            yield rest[:end], True
            rest = rest[end:]
        elif len(rest) > UNPAIRED_LIMIT:
            yield rest, False
            rest = b""
    if rest:
        yield rest, rest.count(b'"') % 2 == 0


def _last_row_end(text: bytes) -> int:
    """The position behind the last line end that no quoted field holds; 0 where none is near the end."""
    end = text.rfind(b"\n") + 1
    unpaired = text.count(b'"', 0, end) % 2
    for _ in range(1000):
        if not unpaired or not end:
            break
        before = text.rfind(b"\n", 0, end - 1) + 1
        unpaired ^= text.count(b'"', before, end) % 2
        end = before
    return 0 if unpaired else end


def _header(path: Path, pieces: Iterator[tuple[bytes, bool]]) -> tuple[list[str] | None, tuple[bytes, bool], int]:
    """The names of the columns, the text behind them, and the line at which that begins."""
    first, is_paired = next(pieces, (b"", True))
    text = io.StringIO(_decoded(first), newline="")
    reader = csv.reader(text)
    try:
        header = next((cells for cells in reader if cells), None)
    except csv.Error as error:
        raise SourceFailedError(f"{path}: no readable CSV header ({error})") from error
    behind = text.read().encode("utf-8", "surrogateescape")
    names = None if header is None else [name.strip() for name in header]
    return names, (behind, is_paired), reader.line_num + 1


def _plain(block: bytes, columns: int) -> bytes | None:
    """The block if it holds one row of `columns` fields per line and nothing else; None where that is not sure."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not block or b"\r" in block or b"\0" in block or not _is_utf8(block):
        return None
    bare = _QUOTED_FIELD.sub(b"", block) if b'"' in block else block
    rows = _count_rows(block)
    if b'"' in bare or _count_rows(bare) != rows or bare.count(b",") != rows * (columns - 1):
        return None
    return None if block.startswith(b"\n") or b"\n\n" in block else block


def _count_rows(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _columns(shape: _Shape, block: bytes, line: int) -> pl.DataFrame | None:
    """A plain block as a frame; None where a line has more fields than the header, which only the parser sees."""
    names = [f"column_{position}" for position in range(1, len(shape.header) + 1)]
    try:
        frame = pl.read_csv(
            block,
            has_header=False,
            schema=dict.fromkeys(names, pl.String),
            # all columns, though some may not land: a projection would not notice a line of too many fields
            quote_char='"' if b'"' in block else None,
        )
    except pl.exceptions.PolarsError:
        return None
    if frame.height != _count_rows(block):
        return None
    numbers = pl.int_range(line, line + frame.height, dtype=pl.Int64, eager=True).alias("line_number")
    frame = frame.select(pl.col(names[at]).alias(name) for at, name in zip(shape.positions, shape.wanted, strict=True))
    return frame.with_columns(numbers)


def _text_lines(blocks: Iterator[bytes] | list[bytes]) -> Iterator[str]:
    rest = ""
    for block in blocks:
        text = rest + _decoded(block)
        cut = text.rfind("\n") + 1
        yield from io.StringIO(text[:cut], newline="")
        rest = text[cut:]
    yield from io.StringIO(rest, newline="")


def _decoded(block: bytes) -> str:
    return block.decode("utf-8", "surrogateescape")


def _row_by_row(shape: _Shape, lines: Iterator[str], first_line: int) -> Iterator[Piece]:
    rows: list[list[str]] = []
    numbers: list[int] = []
    rejects: list[Reject] = []
    for line, item in _rows(shape, lines, first_line):
        if isinstance(item, Reject):
            rejects.append(item)
        else:
            rows.append([item[position] for position in shape.positions])
            numbers.append(line)
        if len(rows) + len(rejects) >= TEXT_CHUNK_ROWS:
            yield _frame(shape, rows, numbers), rejects
            rows, numbers, rejects = [], [], []
    yield _frame(shape, rows, numbers), rejects


def _frame(shape: _Shape, rows: list[list[str]], numbers: list[int]) -> pl.DataFrame:
    columns = zip(*rows, strict=True) if rows else [[] for _ in shape.wanted]
    texts = [pl.Series(name, list(values), dtype=pl.String) for name, values in zip(shape.wanted, columns, strict=True)]
    return pl.DataFrame([*texts, pl.Series("line_number", numbers, dtype=pl.Int64)])


def _rows(shape: _Shape, lines: Iterator[str], first_line: int) -> Iterator[tuple[int, list[str] | Reject]]:
    reader = csv.reader(lines)
    while True:
        line = first_line + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, shape.reject(line, f"unreadable line ({error})", "")
            continue
        if not cells:
            continue
        text = ",".join(cells)
        if len(cells) != len(shape.header):
            yield line, shape.reject(line, f"{len(cells)} fields where the header names {len(shape.header)}", _readable(text))
        elif not _is_clean(text):
            yield line, shape.reject(line, "not UTF-8 text", _readable(text))
        else:
            yield line, cells


def _is_clean(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text))


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
