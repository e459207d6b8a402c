"""Fetch a scrape of dcgm-exporter: the one module here that touches the network."""

from __future__ import annotations

from collectors import http


def fetch(url: str, seconds: float = http.TIMEOUT_SECONDS) -> bytes:
    """The exporter's metrics text, in at most about `seconds`; SourceFailedError says what to check."""
    hint = "is dcgm-exporter running there, the port open, and the path right (usually :9400/metrics)?"
    return http.get(url, headers={"Accept": http.METRICS_TEXT}, timeout_seconds=seconds, deadline_seconds=seconds, hint=hint)
