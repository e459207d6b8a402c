"""Fetch a scrape: the one module here that touches files and the network."""

from __future__ import annotations

import base64
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from collectors.command import SourceFailedError
from collectors.dcgm.exposition import TEXT_LIMIT

_ADDRESS = re.compile(r"(?P<scheme>https?://)(?:(?P<user>[^/?#]*)@)?(?P<rest>[^@]*)", re.IGNORECASE)


def read_file(path: Path) -> bytes:
    """The file's bytes; more than any scrape has is not read."""
    with path.open("rb") as file:
        return file.read(TEXT_LIMIT + 1)


def fetch(url: str, timeout_seconds: float = 10.0) -> bytes:
    """The body of a GET; SourceFailedError says what to check. The text never holds the URL's credentials."""
    shown = without_credentials(url)
    try:
        with urllib.request.urlopen(request(url), timeout=timeout_seconds) as response:
            body: bytes = response.read(TEXT_LIMIT + 1)
    except urllib.error.HTTPError as error:
        raise SourceFailedError(
            f"{shown}: answers {error.code} {error.reason}; the metrics usually are at :9400/metrics"
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SourceFailedError(
            f"{shown}: cannot be read ({reason}); is dcgm-exporter running there, and the port open?"
        ) from error
    return body


def request(url: str) -> urllib.request.Request:
    """A GET for metrics text; `user:password@` in the address becomes a header. ValueError for anything but http(s)."""
    address = _ADDRESS.fullmatch(url.strip())
    if address is None:
        raise ValueError("not an http or https address; write http://HOST:9400/metrics")
    headers = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip"}
    if address["user"]:
        pair = urllib.parse.unquote(address["user"]).encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return urllib.request.Request(address["scheme"] + address["rest"], headers=headers)


def without_credentials(url: str) -> str:
    """The address as it may be shown: without user, password and query."""
    return re.sub(r"//.*@", "//", url.partition("?")[0])
