"""One request, asked again where the network or a busy server failed; the text of an error never holds a credential."""

from __future__ import annotations

import base64
import re
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from collectors.command import SourceFailedError
from collectors.files import TEXT_LIMIT, unpack

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

METRICS_TEXT = "text/plain;version=0.0.4"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
#: without a byte for so long the server hangs
TIMEOUT_SECONDS = 10.0
#: all of a call, every attempt and every byte of the answer
DEADLINE_SECONDS = 300.0
#: asked again after these answers, and where the connection failed or broke: 0.5, 1, 1.5 s later
BUSY = (429, 502, 503, 504)
RETRIES = 3
REDIRECTS = 3
_PAUSE_SECONDS = 0.5
_CHUNK = 1 << 16

_ADDRESS = re.compile(r"(?P<scheme>https?://)(?:(?P<user>[^/?#]*)@)?(?P<rest>[^@\s\\]+)", re.IGNORECASE)


class AnswerError(SourceFailedError):
    """The server answered, and not with 200; `status` and the beginning of its `text` say why."""

    def __init__(self, message: str, status: int, text: str) -> None:
        super().__init__(message)
        self.status, self.text = status, text


class TooMuchError(SourceFailedError):
    """The answer took too long or was too large; asked for less, the server may give it."""


class _BrokenError(Exception):
    """This attempt failed in a way that another one may not; the text holds no address."""


class _LateError(_BrokenError):
    """The server took the question and did not answer in time."""


def get(
    url: str,
    *,
    parameters: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    deadline_seconds: float = DEADLINE_SECONDS,
    retries: int = RETRIES,
    hint: str = "is it running there, and the port open?",
    ca_file: Path | None = None,
    limit: int = TEXT_LIMIT,
) -> bytes:
    """The body of the answer, unpacked. `user:password@` in the address becomes a header; a `form` is sent with POST.

    Certificates are checked against `ca_file`, else against what the system trusts. Raises AnswerError for a status other
    than 200, TooMuchError for an answer that is late or of more than `limit` bytes, SourceFailedError where there is none or
    a cut one.
    """
    import urllib3  # 0.1 s that a reader of files does not need

    shown = without_credentials(url)
    address, own_headers = _request(url, shown)
    if parameters:
        address += ("&" if "?" in address else "?") + urllib.parse.urlencode(parameters)
    body = None if form is None else urllib.parse.urlencode(form)
    asked = {"Accept-Encoding": "gzip", **(FORM if body is not None else {}), **own_headers, **(headers or {})}
    ends_at = time.monotonic() + deadline_seconds
    try:
        pool = urllib3.PoolManager(ca_certs=str(ca_file) if ca_file else None)
        for attempt in range(retries + 1):
            last = attempt == retries or time.monotonic() + _PAUSE_SECONDS * (attempt + 1) >= ends_at
            try:
                answer, found = _ask(pool, address, body, asked, timeout_seconds, ends_at, limit)
                if answer.status not in BUSY or last:
                    break
            except _BrokenError:
                if last:
                    raise
            time.sleep(_PAUSE_SECONDS * (attempt + 1))
    except (_BrokenError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        kind = TooMuchError if isinstance(error, _LateError) else SourceFailedError
        raise kind(f"{shown}: cannot be read ({_without_address(error)}); {hint}") from None
    if answer.status != 200:
        text = found[:2000].decode("utf-8", "replace").strip()
        reason = _printable(f"{answer.status} {answer.reason or ''}".strip())
        raise AnswerError(f"{shown}: answers {reason}; {hint}", answer.status, text)
    if len(found) > limit:
        raise TooMuchError(f"{shown}: answers with more than {_size(limit)}; {hint}")
    return unpack(found, shown, limit)


def without_credentials(url: str) -> str:
    """The address as it may be shown: without user, password, query and fragment."""
    # a password may hold any character, so the credentials go first
    return _printable(re.split(r"[?#]", re.sub(r"//.*@", "//", url.strip(), flags=re.DOTALL))[0])


def _ask(
    pool: PoolManager,
    address: str,
    body: str | None,
    headers: Mapping[str, str],
    timeout: float,
    ends_at: float,
    limit: int,
) -> tuple[BaseHTTPResponse, bytes]:
    """One attempt: the answer and its body as it was sent, at most a little more than `limit` bytes of it."""
    import urllib3

    left = max(0.001, min(timeout, ends_at - time.monotonic()))
    try:
        answer = pool.request(
            "GET" if body is None else "POST",
            address,
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=left, read=left),
            # an answer is not asked again here, since the pauses between would not end by `ends_at`
            retries=urllib3.Retry(total=REDIRECTS, connect=0, read=0, redirect=REDIRECTS, status=0, other=0),
            preload_content=False,
        )
        try:
            return answer, _body(answer, ends_at, limit)
        finally:
            answer.close()
    except (urllib3.exceptions.MaxRetryError, urllib3.exceptions.ProtocolError, urllib3.exceptions.TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, urllib3.exceptions.ResponseError):
            raise ValueError("it redirects in a circle") from None
        if isinstance(reason, urllib3.exceptions.ProtocolError) and reason.args:
            reason = reason.args[0]
        kind = _LateError if isinstance(reason, urllib3.exceptions.ReadTimeoutError) else _BrokenError
        raise kind(_without_address(reason)) from None


def _body(answer: BaseHTTPResponse, ends_at: float, limit: int) -> bytes:
    # gzip is unpacked when all is there: only then can a cut answer be told
    decoded = answer.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity", "gzip", "x-gzip")
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_CHUNK, decode_content=decoded):
        parts.append(part)
        size += len(part)
        if size > limit:
            break
        if time.monotonic() > ends_at:
            raise ValueError(f"the answer does not end: {_size(size)} so far")
    return b"".join(parts)


def _request(url: str, shown: str) -> tuple[str, dict[str, str]]:
    address = _ADDRESS.fullmatch(url.strip())
    if address is None:
        raise SourceFailedError(f"{shown}: not an http or https address; write http://HOST:PORT/path")
    headers = {}
    if address["user"]:
        user, _, password = address["user"].partition(":")
        pair = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return address["scheme"] + address["rest"], headers


def _without_address(error: object) -> str:
    """What a library says went wrong, without the objects and addresses that it prints beside it."""
    text = re.sub(r"^.*?(?:object at 0x[0-9a-f]+>|pool|HTTPS?ConnectionPool\([^)]*\)|\w+Connection\([^)]*\)):\s*", "", str(error))
    return _printable(re.sub(r"\w+://\S*", "…", text)) or type(error).__name__


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in text)


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
