from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import files
from collectors.command import SourceFailedError
from collectors.files import decode, read_file, unpack

TEXT = "node,gpu\nköln-1,0\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
        codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
    ],
)
def test_a_text_is_the_same_in_every_encoding_packed_or_not(data: bytes) -> None:
    assert decode(data, "a.csv") == TEXT
    assert decode(gzip.compress(data), "a.csv") == TEXT
    # files that were packed one by one and joined, as rotated logs are
    assert decode(gzip.compress(data[:9]) + gzip.compress(data[9:]), "a.csv") == TEXT


def test_bytes_of_an_old_encoding_cost_their_line_or_their_letter() -> None:
    data = TEXT.encode("latin-1")
    assert decode(data, "a.csv") == "node,gpu\nk\udcf6ln-1,0\n"
    assert decode(data, "a.csv", errors="replace") == "node,gpu\nk�ln-1,0\n"


def test_nothing_and_a_mark_alone_are_an_empty_text() -> None:
    for data in (b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, gzip.compress(b"")):
        assert decode(data, "a.csv") == ""


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 20,
        b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00",
        b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(range(200)),
        lzma.compress(TEXT.encode() * 100),
        bz2.compress(TEXT.encode() * 100),
        TEXT.encode("utf-16-le"),  # without its mark
    ],
)
def test_what_is_no_text_is_refused_with_the_files_name_and_what_to_give(data: bytes) -> None:
    with pytest.raises(SourceFailedError, match=r"a\.bin: binary data, not text; give .* plain or gzip"):
        decode(data, "a.bin")


def test_a_colour_code_or_a_form_feed_makes_a_text_no_binary_data() -> None:
    text = "\x1b[1mname\x1b[0m|state\n" * 20 + "\f"
    assert decode(text.encode(), "a.txt") == text


@pytest.mark.parametrize("cut", [2, 10, 15, -9, -1])
def test_a_packed_file_that_is_cut_off_is_to_be_fetched_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:cut])
    with pytest.raises(SourceFailedError, match=r"a\.csv\.gz: the gzip data is broken .* fetch it again"):
        read_file(path)


def test_a_packed_file_with_a_wrong_byte_or_with_something_behind_it_is_broken() -> None:
    packed = bytearray(gzip.compress(TEXT.encode() * 50))
    packed[len(packed) // 2] ^= 0xFF
    for data in (bytes(packed), gzip.compress(TEXT.encode()) + b"trailing"):
        with pytest.raises(SourceFailedError, match="broken"):
            unpack(data, "a.gz")


def test_a_file_is_never_unpacked_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes of gzip hold gigabytes."""
    monkeypatch.setattr(files, "TEXT_LIMIT", 1 << 20)
    path = tmp_path / "large"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_file(path)) == 1 << 20
    for data in (b"x" * ((1 << 20) + 1), gzip.compress(b"x" * (50 << 20))):
        path.write_bytes(data)
        with pytest.raises(SourceFailedError, match=r"large: larger than 1 MiB, .* give it in parts"):
            read_file(path)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_text_or_a_failed_source(data: bytes, is_packed: bool) -> None:
    with suppress(SourceFailedError):
        assert isinstance(decode(gzip.compress(data) if is_packed else data, "a"), str)
