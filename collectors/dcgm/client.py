"""Fetch a scrape of dcgm-exporter: the one module here that touches the network."""

from __future__ import annotations

from collectors import http


def fetch(url: str) -> bytes:
    """The exporter's metrics text; SourceFailedError says what to check."""
    hint = "is dcgm-exporter running there, the port open, and the path right (usually :9400/metrics)?"
    return http.get(url, headers={"Accept": http.METRICS_TEXT}, hint=hint)
