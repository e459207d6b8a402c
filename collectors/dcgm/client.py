"""Fetch a scrape: the one module here that touches files and the network."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from collectors.command import SourceFailed
from collectors.dcgm.exposition import TEXT_LIMIT


def read_file(path: Path) -> bytes:
    """The file's bytes; more than any scrape has is not read."""
    with path.open("rb") as file:
        return file.read(TEXT_LIMIT + 1)


def fetch(url: str, timeout_seconds: float = 10.0) -> bytes:
    """The body of a GET; SourceFailed says what to check. The text never holds the URL's credentials."""
    shown = without_credentials(url)
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise SourceFailed(f"{shown}: not an http or https address; write http://HOST:9400/metrics")
    request = urllib.request.Request(url, headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as response:
            body: bytes = response.read(TEXT_LIMIT + 1)
    except urllib.error.HTTPError as error:
        raise SourceFailed(f"{shown}: answers {error.code} {error.reason}; the metrics usually are at :9400/metrics") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SourceFailed(f"{shown}: cannot be read ({reason}); is dcgm-exporter running there, and the port open?") from error
    return body


def without_credentials(url: str) -> str:
    """The URL as it may be shown: without user, password and query."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
