"""Windows of time cut at a fixed grid, so that reading the same window again cuts it at the same instants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors.prometheus.answers import EPOCH, to_milliseconds

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Span:
    """`[start_at, end_at)`, naive UTC."""

    start_at: datetime
    end_at: datetime

    @property
    def start_ms(self) -> int:
        return to_milliseconds(self.start_at)

    @property
    def end_ms(self) -> int:
        return to_milliseconds(self.end_at)

    def holds(self, at: datetime) -> bool:
        return self.start_at <= at < self.end_at


def cut(span: Span, length: timedelta) -> Iterator[Span]:
    """The span in pieces that end at multiples of `length` since 1970."""
    at = span.start_at
    while at < span.end_at:
        until = min(span.end_at, EPOCH + ((at - EPOCH) // length + 1) * length)
        yield Span(at, until)
        at = until
