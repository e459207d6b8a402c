"""Files as people have them: gzip or plain, with a byte-order mark, UTF-16 from Windows, cut off, or no text at all."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path

from collectors.command import SourceFailedError

#: more than this in one piece is another kind of file; what may be larger is read in blocks (`tables.parse.read_blocks`)
TEXT_LIMIT = 512 << 20
GZIP = b"\x1f\x8b"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
#: bytes that no text holds (all below a space but TAB, LF, CR, ESC and the separators); a twentieth of them tells binary data
_NO_TEXT = bytes(set(range(32)) - set(b"\t\n\r\x1b\x1c\x1d\x1e\x1f"))
_HEAD = 4096


def read_file(path: Path) -> bytes:
    """The file's bytes, unpacked if they are gzip. Raises SourceFailedError where they are broken or more than `TEXT_LIMIT`."""
    with path.open("rb") as file:
        return unpack(file.read(TEXT_LIMIT + 1), path.name, TEXT_LIMIT)


def unpack(data: bytes, file: str, limit: int = TEXT_LIMIT) -> bytes:
    """The bytes without their gzip packing, of which no more than `limit` is unpacked."""
    if data[:2] == GZIP:
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise SourceFailedError(f"{file}: the gzip data is broken ({error}); fetch it again") from error
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
