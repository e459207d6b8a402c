"""Fetch a scrape of an inference server: the one module here that touches the network."""

from __future__ import annotations

from collectors import http

HINT = (
    "is the server running there, and the path right (/metrics; Triton :8002/metrics, NIM /v1/metrics, SGLang --enable-metrics)?"
)


def fetch(url: str, timeout_seconds: float) -> bytes:
    """The server's metrics text; SourceFailedError says what to check."""
    return http.get(url, headers={"Accept": http.METRICS_TEXT}, timeout_seconds=timeout_seconds, retries=0, hint=HINT)
