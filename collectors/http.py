"""One request, asked again where the network or a busy server failed; the text of an error never holds a credential."""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from collectors.command import SourceFailedError
from collectors.files import TEXT_LIMIT, unpack

METRICS_TEXT = "text/plain;version=0.0.4"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TIMEOUT_SECONDS = 10.0
#: asked again after these answers, and where no connection came about: 0, 0.5, 1 s later
BUSY = (429, 502, 503, 504)
RETRIES = 3

_ADDRESS = re.compile(r"(?P<scheme>https?://)(?:(?P<user>[^/?#]*)@)?(?P<rest>[^@]*)", re.IGNORECASE)


class AnswerError(SourceFailedError):
    """The server answered, and not with 200; `status` and the beginning of its `text` say why."""

    def __init__(self, message: str, status: int, text: str) -> None:
        super().__init__(message)
        self.status, self.text = status, text


class TooMuchError(SourceFailedError):
    """The answer took too long or was too large; asked for less, the server may give it."""


def get(
    url: str,
    *,
    parameters: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    retries: int = RETRIES,
    hint: str = "is it running there, and the port open?",
    ca_file: Path | None = None,
    limit: int = TEXT_LIMIT,
) -> bytes:
    """The body of the answer, unpacked. `user:password@` in the address becomes a header; a `form` is sent with POST.

    Certificates are checked against `ca_file`, else against what the system trusts. Raises AnswerError for a status other
    than 200, TooMuchError for an answer that is late or of more than `limit` bytes, SourceFailedError where there is none.
    """
    import urllib3  # 0.1 s that a reader of files does not need

    shown = without_credentials(url)
    address, own_headers = _request(url, shown)
    if parameters:
        address += ("&" if "?" in address else "?") + urllib.parse.urlencode(parameters)
    again = urllib3.Retry(
        total=retries,
        redirect=3,
        status_forcelist=BUSY,
        allowed_methods=None,  # what is sent with POST here is a question as well
        backoff_factor=0.25,
        raise_on_status=False,
        respect_retry_after_header=False,
    )
    pool = urllib3.PoolManager(ca_certs=str(ca_file) if ca_file else None)
    try:
        answer = pool.request(
            "GET" if form is None else "POST",
            address,
            body=None if form is None else urllib.parse.urlencode(form),
            headers={"Accept-Encoding": "gzip", **(FORM if form is not None else {}), **own_headers, **(headers or {})},
            timeout=urllib3.Timeout(connect=timeout_seconds, read=timeout_seconds),
            retries=again,
            preload_content=False,
        )
        body: bytes = answer.read(limit + 1, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        cause = getattr(error, "reason", None) or error
        reason = _without_address(cause)
        kind = TooMuchError if isinstance(cause, urllib3.exceptions.ReadTimeoutError) else SourceFailedError
        raise kind(f"{shown}: cannot be read ({reason}); {hint}") from None
    finally:
        pool.clear()
    if answer.status != 200:
        text = body[:2000].decode("utf-8", "replace").strip()
        raise AnswerError(f"{shown}: answers {answer.status} {answer.reason}; {hint}", answer.status, text)
    if len(body) > limit:
        raise TooMuchError(f"{shown}: answers with more than {limit >> 20} MiB; {hint}")
    return unpack(body, shown)


def without_credentials(url: str) -> str:
    """The address as it may be shown: without user, password and query."""
    return re.sub(r"//.*@", "//", url.partition("?")[0])


def _request(url: str, shown: str) -> tuple[str, dict[str, str]]:
    address = _ADDRESS.fullmatch(url.strip())
    if address is None:
        raise SourceFailedError(f"{shown}: not an http or https address; write http://HOST:PORT/path")
    headers = {}
    if address["user"]:
        pair = urllib.parse.unquote(address["user"]).encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return address["scheme"] + address["rest"], headers


def _without_address(error: object) -> str:
    """What a library says went wrong, without the objects and addresses that it prints beside it."""
    return re.sub(r"^.*?(?:object at 0x[0-9a-f]+>|pool|HTTPS?ConnectionPool\([^)]*\)):\s*", "", str(error))
