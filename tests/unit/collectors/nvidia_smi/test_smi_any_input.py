"""Whatever stands in a file: rows, rejects, or a failed source that says why; never another error."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.nvidia_smi.blocks import Reading
from collectors.nvidia_smi.collection import Collection, survey_files
from collectors.nvidia_smi.lines import LINE_LIMIT
from collectors.nvidia_smi.parse import Input
from collectors.nvidia_smi.records import Identity
from collectors.nvidia_smi.survey import Context
from collectors.times import TIME_ZONE
from tests.unit.collectors.nvidia_smi.outputs import QUERY, land, xml_gpu, xml_log
from tests.unit.collectors.nvidia_smi.test_smi_other_tools import AMD, DMON, DMON_WITH_TIME, PMON, ROCM
from tests.unit.collectors.nvidia_smi.test_smi_reports import LISTING, MIG, PROCESS, TEXT
from warehouse.landing.conform import conform
from warehouse.landing.landings import Piece
from warehouse.landing.shape import TABLES

CONTEXT = Context("node7", (Identity(index=0),), timedelta(seconds=1))
OUTPUTS = [
    QUERY,
    xml_log(xml_gpu(mode="Enabled", devices=MIG, utilization="N/A", processes=PROCESS.format(gi=5, pid=7, name="a")), xml_gpu()),
    LISTING,
    TEXT,
    DMON,
    DMON_WITH_TIME,
    PMON,
    json.dumps(ROCM, indent=1),
    json.dumps(AMD, indent=1),
    QUERY + LISTING + TEXT,
]
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le"]
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
)


def read(data: bytes, *, fields: tuple[str, ...] = ()) -> dict[str, int]:
    """Rows by table, checked against the landing shape; what a failed source leaves is none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "any"
        path.write_bytes(data)
        given_input = Input(path, Reading("any", TIME_ZONE.convert("Europe/Berlin", None, None)), fields)
        rows: dict[str, int] = {}
        with suppress(SourceFailedError):
            found = survey_files([given_input], [datetime(2026, 7, 14)], cluster="x", context=CONTEXT)
            for table, pieces in _tables(found).items():
                for piece in pieces:
                    frame = piece if isinstance(piece, pl.DataFrame) else piece[0]
                    if frame.height:
                        rows[table] = rows.get(table, 0) + conform(TABLES[table], frame, "any").rows.height
        return rows


def _tables(found: Collection) -> dict[str, Iterator[Piece]]:
    return {"gpu_samples": found.samples(), "gpu_inventory": found.inventory(), "gpu_processes": found.processes()}


@pytest.mark.parametrize("text", OUTPUTS[:2] + OUTPUTS[3:4])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_windows_and_gzip_say_the_same(text: str, encoding: str) -> None:
    plain = read(text.encode())
    assert plain["gpu_samples"]
    data = text.replace("\n", "\r\n").encode(encoding)
    data = b"\xff\xfe" + data if encoding == "utf-16-le" else data
    assert read(data) == plain
    assert read(gzip.compress(data)) == plain


@pytest.mark.parametrize("text", OUTPUTS)
def test_output_that_is_cut_anywhere_is_read_as_far_as_it_goes(text: str) -> None:
    data = text.encode()
    whole = read(data)
    for end in range(0, len(data), max(1, len(data) // 60)):
        rows = read(data[:end])
        assert all(rows.get(table, 0) <= whole.get(table, 0) + 1 for table in rows)


def test_gzip_that_ends_early_keeps_what_came_before(home: Path) -> None:
    row = QUERY.splitlines()[1]
    many = (
        QUERY.splitlines()[0]
        + "\n"
        + "\n".join(row.replace("09:00:00.500", f"09:{n // 60:02}:{n % 60:02}.{n % 997:03}") for n in range(3000))
    )
    landed = land(home, gzip.compress(many.encode(), 0)[:-60_000])
    assert landed.code == 4
    assert "ends early" in landed.quarantine[-1]["detail"]
    assert len(landed.samples) > 500


def test_binary_data_is_refused(home: Path) -> None:
    landed = land(home, bytes(range(256)) * 64)
    assert landed.code == 1
    assert "binary" in landed.said


def test_a_line_without_end_costs_itself(home: Path) -> None:
    long = b"x" * (LINE_LIMIT + 100)
    began = time.monotonic()
    landed = land(home, QUERY.encode() + long + b"\n" + QUERY.encode().replace(b"09:00", b"09:01"))
    assert landed.code == 4
    assert len(landed.samples) == 6
    assert "MiB is none" in landed.quarantine[0]["detail"]
    assert time.monotonic() - began < 30


def test_one_file_that_is_none_leaves_the_others(home: Path) -> None:
    landed = land(home, QUERY, "hello\n")
    assert landed.code == 4
    assert len(landed.samples) == 3
    assert "no output of" in landed.quarantine[0]["detail"]


def test_a_header_alone_is_a_file_without_rows(home: Path) -> None:
    landed = land(home, QUERY.splitlines()[0] + "\n")
    assert landed.code == 0
    assert landed.tables == {}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(OUTPUTS), st.data())
def test_damaged_output_is_never_an_error_of_ours(text: str, data: st.DataObject) -> None:
    damaged = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(damaged)))
        end = min(len(damaged), start + data.draw(st.integers(0, 30)))
        damaged[start:end] = data.draw(
            st.one_of(st.binary(max_size=12), st.sampled_from([b"\n", b",", b"<", b"&x;", b"[", b'"', b"\t", b"9" * 25]))
        )
    read(bytes(damaged))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(OUTPUTS), st.data())
def test_lines_in_any_order_are_never_an_error_of_ours(text: str, data: st.DataObject) -> None:
    lines = text.splitlines()
    shuffled = data.draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))
    read("\n".join(shuffled).encode(), fields=data.draw(st.sampled_from([(), ("timestamp", "uuid", "utilization.gpu")])))


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("latin-1"))))
def test_any_text_is_never_an_error_of_ours(text: str) -> None:
    read(text.encode("utf-8", "surrogatepass"))
    read(f"timestamp, uuid, power.draw [W], pid\n{text}".encode("utf-8", "surrogatepass"))
    read(
        f"<nvidia_smi_log><timestamp>{text}</timestamp><gpu id='{text}'><uuid>{text}</uuid></gpu></nvidia_smi_log>".encode(
            "utf-8", "surrogatepass"
        )
    )


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(ROCM["card0"])), ANYTHING), ANYTHING)
def test_any_json_is_never_an_error_of_ours(card: dict[str, object], other: object) -> None:
    read(json.dumps({"card0": card, "card1": other, "system": other}).encode())
    read(json.dumps([{"gpu": other, "usage": other, "uuid": other, "process_list": other, "timestamp": other}]).encode())
    read(json.dumps({"gpu_data": [{"gpu": 0, "bus": {"bdf": other}, "process_list": [other, {"process_info": other}]}]}).encode())
