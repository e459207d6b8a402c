"""Whatever a file looks like, its collector lands what can be read and says of the rest where it is and what helps."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.command import FAILED, LANDED, QUARANTINED, WRONG_USAGE
from tests.unit.collectors.bad_input.harness import collect
from tests.unit.collectors.bad_input.inputs import INPUTS, Input

EACH = pytest.mark.parametrize("item", INPUTS.values(), ids=INPUTS.keys())
WITH_HEADER = pytest.mark.parametrize(
    "item", [item for item in INPUTS.values() if item.has_header], ids=[item.name for item in INPUTS.values() if item.has_header]
)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\6\0\0\0" + bytes(range(256)) * 8
BINARY = {
    "png": PNG,
    "noise": random.Random(7).randbytes(5000),
    "zeros": b"\0" * 5000,
    "parquet": b"PAR1" + bytes(500),
    "sqlite": b"SQLite format 3\0" + bytes(90),
}


@EACH
def test_the_good_input_lands_whole(item: Input) -> None:
    result = collect(item, item.text.encode())
    assert (result.code, result.quarantined) == (LANDED, 0), result.said
    assert result.landed


@EACH
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be with a mark"])
def test_a_byte_order_mark_changes_nothing(item: Input, encoding: str) -> None:
    data = b"\xfe\xff" + item.text.encode("utf-16-be") if encoding.startswith("utf-16-be") else item.text.encode(encoding)
    assert collect(item, data).rows == collect(item, item.text.encode()).rows


@EACH
def test_line_ends_of_windows_change_nothing(item: Input) -> None:
    windows = item.text.replace("\r\n", "\n").replace("\n", "\r\n")
    assert collect(item, windows.encode()).rows == collect(item, item.text.encode()).rows


@EACH
def test_gzip_changes_nothing(item: Input) -> None:
    packed = gzip.compress(item.text.encode(), mtime=0)
    assert collect(item, packed, file=f"{item.file}.gz").rows == collect(item, item.text.encode()).rows
    assert collect(item, packed).rows == collect(item, item.text.encode()).rows


@EACH
def test_a_last_line_without_its_end_changes_nothing(item: Input) -> None:
    assert collect(item, item.text.rstrip("\n").encode()).rows == collect(item, item.text.encode()).rows


@EACH
def test_gzip_that_ends_early_fails_or_lands_what_came(item: Input) -> None:
    result = collect(item, gzip.compress(item.text.encode())[:-9])
    assert result.code in (FAILED, QUARANTINED), result.said


@EACH
@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"\xff\xfe"], ids=["empty", "blank", "a-mark", "a-wide-mark"])
def test_an_empty_file_is_not_taken_for_good(item: Input, data: bytes) -> None:
    result = collect(item, data)
    assert not result.landed
    assert result.said.strip()


@EACH
@pytest.mark.parametrize("data", BINARY.values(), ids=BINARY.keys())
def test_binary_data_is_refused(item: Input, data: bytes) -> None:
    result = collect(item, data)
    assert result.code in (FAILED, WRONG_USAGE, QUARANTINED), result.said
    assert not result.landed


@EACH
@pytest.mark.parametrize("data", [b"<html><body>502 Bad Gateway</body></html>\n", b"command not found\n", b"[]\n", b"{}\n"])
def test_the_text_of_another_tool_is_not_taken_for_good(item: Input, data: bytes) -> None:
    result = collect(item, data)
    assert not result.landed
    assert result.said.strip()


@EACH
@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.85, 0.97])
def test_a_truncated_file_lands_its_whole_rows_or_fails(item: Input, share: float) -> None:
    cut = item.text.encode()[: int(len(item.text) * share)]
    whole = collect(item, item.text.encode())
    result = collect(item, cut)
    assert sum(result.landed.values()) <= sum(whole.landed.values())


@EACH
def test_latin_1_in_a_name_costs_at_most_its_row(item: Input) -> None:
    """Excel and old accounting databases write names in their own code page."""
    text = item.text.replace("c1", "na\xefve", 1) if item.cells else item.text
    result = collect(item, text.encode("latin-1", "replace"))
    assert result.code in (LANDED, QUARANTINED), result.said


@WITH_HEADER
def test_a_header_alone_is_no_row_and_no_error(item: Input) -> None:
    result = collect(item, item.text.splitlines(keepends=True)[0].encode())
    assert result.code in (LANDED, FAILED)  # an empty bill is no bill: it would replace the one before
    assert (result.landed, result.quarantined) == ({}, 0), result.said


@WITH_HEADER
def test_swapped_columns_change_nothing(item: Input) -> None:
    cells, lines = item.cells or "", item.text.splitlines()
    # a quoted cell, or a job's name with the delimiter in it, cannot be cut by splitting
    plain = [line for line in lines if '"' not in line and line.count(cells) == lines[0].count(cells)]
    swapped = "\n".join(cells.join(reversed(line.split(cells))) for line in plain)
    assert collect(item, swapped.encode()).rows == collect(item, "\n".join(plain).encode()).rows


@EACH
def test_a_line_of_many_megabytes_costs_neither_the_memory_nor_an_hour(item: Input, tmp_path: Path) -> None:
    """90 MB on one line, in a process of its own that may take 3 GiB of addresses and two minutes."""
    path = tmp_path / item.file
    with path.open("wb") as file:
        file.write(item.text.encode().rstrip(b"\n") + b"\n")
        for _ in range(90):
            file.write(b'"x' * (1 << 19))
        file.write(b"\n" + item.text.encode().splitlines()[-1] + b"\n")
    done = subprocess.run(
        [sys.executable, "-m", "collectors", *item.call(path)],
        env={**os.environ, "GPU_NET_HOME": str(tmp_path / "home"), "POLARS_MAX_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=_limit_memory,
    )
    assert done.returncode in (LANDED, FAILED, WRONG_USAGE, QUARANTINED), done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 20_000


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
