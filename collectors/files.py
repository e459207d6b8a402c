"""Files as people have them: gzip or plain, with a byte-order mark, UTF-16 from Windows, cut off, or no text at all."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from collectors.command import SourceFailedError

#: more than this in one piece is another kind of file; what may be larger is read in blocks (`tables.parse.read_blocks`)
TEXT_LIMIT = 512 << 20
GZIP = b"\x1f\x8b"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
#: bytes that no text holds (all below a space but TAB, LF, CR, ESC and the separators); a twentieth of them tells binary data
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\r\x1b\x1c\x1d\x1e\x1f"))
_HEAD = 4096
#: text packs to a hundredth at best, a bomb to a thousandth; small files may pack to anything
MOST_TIMES, BOMB_BYTES = 400, 64 << 20
_CHUNK = 1 << 20


def read_file(path: Path) -> bytes:
    """The file's bytes, unpacked if they are gzip. Raises SourceFailedError where they are broken or more than `TEXT_LIMIT`."""
    with path.open("rb") as file:
        return unpack(file.read(TEXT_LIMIT + 1), path.name, TEXT_LIMIT)


class Gzip(gzip.GzipFile):
    """A gzip file that is read no further where it unpacks to more than `MOST_TIMES` its size: raises SourceFailedError."""

    def __init__(self, packed: BinaryIO, file: str, size: int) -> None:
        super().__init__(fileobj=packed)
        self._file, self._size, self._unpacked = file, size, 0

    def read(self, size: int | None = -1) -> bytes:
        return self._counted(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._counted(super().read1(size))

    def readinto(self, buffer: Any) -> int:
        return self._counted_bytes(super().readinto(buffer))

    def _counted(self, data: bytes) -> bytes:
        self._counted_bytes(len(data))
        return data

    def _counted_bytes(self, count: int) -> int:
        self._unpacked += count
        if self._unpacked > max(BOMB_BYTES, MOST_TIMES * self._size):
            raise SourceFailedError(
                f"{self._file}: unpacks to more than {MOST_TIMES} times its size, which no text does; is it what it should be?"
            )
        return count


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked if they are gzip."""
    with path.open("rb") as plain:
        is_packed = plain.read(len(GZIP)) == GZIP
        plain.seek(0)
        if not is_packed:
            yield plain
            return
        with Gzip(plain, path.name, path.stat().st_size) as unpacked:
            yield cast(BinaryIO, unpacked)


def unpack(data: bytes, file: str, limit: int = TEXT_LIMIT) -> bytes:
    """The bytes without their gzip packing, of which no more than `limit` is unpacked."""
    if data[:2] == GZIP:
        unpacked = bytearray()
        try:
            packed = Gzip(io.BytesIO(data), file, len(data))
            while len(unpacked) <= limit and (part := packed.read(_CHUNK)):
                unpacked += part
        except (OSError, EOFError, zlib.error) as error:
            raise SourceFailedError(f"{file}: the gzip data is broken ({error}); fetch it again") from error
        data = bytes(unpacked)
    if len(data) > limit:
        size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
        raise SourceFailedError(f"{file}: larger than {size}, more than one read has; give it in parts")
    return data


def decode(data: bytes, file: str, errors: str = "surrogateescape") -> str:
    """The bytes as text: gzip unpacked, a byte-order mark taken off, UTF-16 and UTF-32 converted.

    Bytes that are no UTF-8 are kept as surrogates, so that a parser can refuse the one line that holds them, or with
    `errors="replace"` become �, where a name in an old encoding must not cost its row. Raises SourceFailedError where the
    packing is broken or the bytes are no text of any kind.
    """
    data = unpack(data, file)
    if data[:4] in UTF_32:
        return data.decode("utf-32", "replace")
    if data[:2] in UTF_16:
        return data.decode("utf-16", "replace")
    refuse_binary(data, file)
    return data.decode("utf-8-sig", errors)


def refuse_binary(data: bytes, file: str) -> None:
    """Raise SourceFailedError where the first bytes show that this is no text of any kind."""
    head = data[:_HEAD]
    if len(head) - len(head.translate(None, _NO_TEXT)) > len(head) // 20:
        raise SourceFailedError(f"{file}: binary data, not text; give what the tool printed, plain or gzip")
