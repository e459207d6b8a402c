"""Files in the landing shape: every row with its line, what is no row with its reason, in bounded pieces."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from collectors.command import SourceFailedError
from collectors.parsed import to_frame
from collectors.tables import delimited, parse
from collectors.tables.parse import read_pieces
from warehouse.landing.conform import Reject
from warehouse.landing.shape import TABLES, Table

NODES = TABLES["nodes"]
HEADER = "cluster,node,instance_type,seen_at"
LINE = "c1,n1,p5,2026-11-01T00:00:00Z"


def read(path: Path, table: Table = NODES, given_columns: tuple[str, ...] = ()) -> tuple[pl.DataFrame, list[Reject]]:
    """All pieces of a file as one."""
    pieces = list(read_pieces(path, table, given_columns))
    frames = [frame for frame, _ in pieces if frame.height]
    return pl.concat(frames) if frames else pl.DataFrame(), [reject for _, rejects in pieces for reject in rejects]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\n{LINE}\n{LINE}\n",
        f"{HEADER}\n{LINE}\n{LINE}",
        f"{HEADER}\r\n{LINE}\r\n{LINE}\r\n",
        f"{HEADER}\r{LINE}\r{LINE}\r",
        f"\ufeff{HEADER}\n{LINE}\n{LINE}\n",
        f"{HEADER}\n\"c1\",n1,'p5',2026-11-01T00:00:00Z\n{LINE}\n".replace("'", '"'),
    ],
)
def test_line_ends_marks_and_quotes_do_not_matter(tmp_path: Path, content: str) -> None:
    frame, rejects = read(write(tmp_path / "a.csv", content))
    assert rejects == []
    assert frame.rows() == [("c1", "n1", "p5", "2026-11-01T00:00:00Z", line) for line in (2, 3)]


def test_packed_and_wide_texts_are_read(tmp_path: Path) -> None:
    text = f"{HEADER}\n{LINE}\n".replace("p5", "größe")
    expected = read(write(tmp_path / "a.csv", text))[0]
    assert_frame_equal(read(write(tmp_path / "a.csv.gz", gzip.compress(text.encode())))[0], expected)
    assert_frame_equal(read(write(tmp_path / "w.csv", text.encode("utf-16")))[0], expected)


def test_a_line_of_the_wrong_width_is_left_out_with_its_line_and_the_others_stay(tmp_path: Path) -> None:
    frame, rejects = read(write(tmp_path / "a.csv", f"{HEADER}\n{LINE}\nc1,n2\n{LINE},more\n\n{LINE}\n"))
    assert frame["line_number"].to_list() == [2, 6]
    assert [(reject.line, reject.detail) for reject in rejects] == [
        (3, "2 fields where the header names 4"),
        (4, "5 fields where the header names 4"),
    ]
    assert rejects[0].text == "c1,n2"


def test_bytes_that_are_no_text_leave_their_line_out(tmp_path: Path) -> None:
    frame, rejects = read(
        write(tmp_path / "a.csv", f"{HEADER}\n{LINE}\n".encode() + b"c1,\xff,x,y\nc1,n\0,x,y\n" + LINE.encode())
    )
    assert frame["line_number"].to_list() == [2, 5]
    assert [(reject.line, reject.detail) for reject in rejects] == [(3, "not UTF-8 text"), (4, "not UTF-8 text")]


def test_a_quoted_field_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    frame, rejects = read(write(tmp_path / "a.csv", f'{HEADER}\nc1,n1,"a ""b"",\nc",2026-11-01\n{LINE}\n'))
    assert rejects == []
    assert frame["instance_type"].to_list() == ['a "b",\nc', "p5"]
    assert frame["line_number"].to_list() == [2, 4]


def test_what_stands_in_columns_that_do_not_land_is_not_kept_of_a_broken_line(tmp_path: Path) -> None:
    frame, rejects = read(write(tmp_path / "a.csv", f"{HEADER},prompt\n{LINE},my diary\n{LINE},my,diary\n"))
    assert frame.columns == ["cluster", "node", "instance_type", "seen_at", "line_number"]
    assert rejects[0].text == ""


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceFailedError, match="names node twice"):
        read(write(tmp_path / "a.csv", f"{HEADER},node\n{LINE},n2\n"))


@pytest.mark.parametrize(("content", "message"), [("", "the file is empty"), ("cluster,node\nc1,n1\n", "no column seen_at")])
def test_a_file_without_a_header_or_a_required_column_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(SourceFailedError, match=message):
        read(write(tmp_path / "a.csv", content))


def test_the_cluster_may_be_given_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "node,seen_at\nn1,2026-11-01\n")
    with pytest.raises(SourceFailedError, match="no column cluster"):
        read(path)
    assert read(path, given_columns=("cluster",))[0].height == 1


def test_a_packed_file_that_ends_early_lands_what_it_has_and_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(f"{HEADER}\n{LINE}\n{LINE}\n".encode())
    frame, rejects = read(write(tmp_path / "a.csv.gz", packed[:-8]))
    assert rejects[-1].line is None
    assert "the file ends early" in rejects[-1].detail
    lines = gzip.compress(b'{"cluster": "c1"}\n' * 3)
    assert "the file ends early" in read(write(tmp_path / "a.jsonl.gz", lines[:-8]))[1][-1].detail
    assert frame.height <= 2


CELL = st.text(alphabet='ab,"\n\r é', max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(CELL, min_size=3, max_size=5), max_size=8), st.booleans(), st.integers(8, 64))
def test_plain_and_careful_reading_agree_with_the_standard_library(rows: list[list[str]], quoted: bool, block: int) -> None:
    """However the bytes fall into blocks, and whichever way a block is read."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writerow(HEADER.split(","))
    writer.writerows(rows)
    reader = csv.reader(io.StringIO(text.getvalue(), newline=""))
    next(reader)
    expected: list[tuple[Any, ...]] = []
    wrong: list[int] = []
    line = 2
    for cells in reader:
        if len(cells) == 4:
            expected.append((*cells, line))
        elif cells:
            wrong.append(line)
        line = reader.line_num + 1
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.csv", text.getvalue())
        size, parse.BLOCK_BYTES = parse.BLOCK_BYTES, block
        try:
            frame, rejects = read(path)
        finally:
            parse.BLOCK_BYTES = size
    assert [(*(cell or "" for cell in row[:4]), row[4]) for row in frame.rows()] == expected
    assert [reject.line for reject in rejects] == wrong


def test_a_quote_that_is_never_closed_costs_its_rows_and_not_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(delimited, "UNPAIRED_LIMIT", 4000)
    monkeypatch.setattr(delimited, "FIELD_LIMIT", 2000)
    path = write(tmp_path / "a.csv", f'{HEADER}\n{LINE}\nc1,"n1,p5,x\n' + f"{LINE}\n" * 500)
    frame, rejects = read(path)
    assert any("field larger than field limit" in reject.detail for reject in rejects)
    assert 300 < frame.height < 500
    assert frame["line_number"].to_list()[-1] == 503


def test_json_lines_keep_their_values_and_lines(tmp_path: Path) -> None:
    rows = [
        {"cluster": "c1", "node": "n1", "labels": {"a": {"b": 1}}, "prompt": "my diary"},
        {"cluster": "c1", "node": 7, "labels": {"c": None}, "memory_bytes": 2**70},
    ]
    content = "\n".join([json.dumps(rows[0]), "", "{broken", "[1]", json.dumps(rows[1]), '{"node": "\\ud800"}'])
    frame, rejects = read(write(tmp_path / "a.jsonl", content))
    assert frame.columns == ["cluster", "node", "labels", "line_number", "memory_bytes"]
    assert frame["line_number"].to_list() == [1, 5, 6]
    assert frame["node"].to_list() == ["n1", "7", "?"]
    assert frame["labels"].to_list() == ['{"a": {"b": 1}}', '{"c": null}', None]
    assert [reject.line for reject in rejects] == [3, 4]


def test_a_parquet_file_is_read_in_pieces_with_its_row_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "CHUNK_ROWS", 100)
    frame = pl.DataFrame({"cluster": "c1", "node": [f"n{row}" for row in range(250)], "seen_at": "2026-11-01", "other": 1})
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=70)
    pieces = [piece for piece, _ in read_pieces(tmp_path / "a.parquet", NODES)]
    assert max(piece.height for piece in pieces) <= 100
    rows = pl.concat(pieces)
    assert rows.columns == ["cluster", "node", "seen_at", "line_number"]
    assert rows["node"].to_list() == frame["node"].to_list()
    assert rows["line_number"].to_list() == list(range(1, 251))


@pytest.mark.parametrize("cut", [4, 100, -4, -40])
def test_a_broken_parquet_file_is_refused(tmp_path: Path, cut: int) -> None:
    pl.DataFrame({"cluster": "c1", "node": "n1", "seen_at": ["2026-11-01"] * 50}).write_parquet(tmp_path / "a.parquet")
    path = write(tmp_path / "b.parquet", (tmp_path / "a.parquet").read_bytes()[:cut])
    with pytest.raises(SourceFailedError, match="write it again"):
        read(path)


def test_values_of_many_types_become_a_frame_without_being_changed() -> None:
    frame = to_frame([{"a": 1, "b": 1, "c": {"x": 1}}, {"a": 2.5, "b": "x", "c": [1, None]}, {"a": None, "b": True}])
    assert frame["a"].to_list() == [1.0, 2.5, None]
    assert frame["b"].to_list() == ["1", "x", "True"]
    assert frame["c"].to_list() == ['{"x": 1}', "[1, null]", None]
    assert to_frame([{"a": 2**53 + 1}, {"a": 0.5}])["a"].to_list() == ["9007199254740993", "0.5"]
    assert to_frame([]).shape == (0, 0)
