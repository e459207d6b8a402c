"""When something of a listed object changed, whatever part of the time was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from collectors.prometheus.listings import Facts, Listed, Listings
from collectors.prometheus.window import HOUR, Span

HOUR_MS = HOUR // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Event:
    """What was told of an object, where that was new or a new hour had begun.

    `ended`: it ended between the listing before and this one. `gone_ms`: it is not listed any more; it was listed last at
    `last_ms`, was there until `gone_ms` at most, and at `at_ms` that was sure.
    """

    at_ms: int
    key: str
    facts: Facts
    ended: bool = False
    last_ms: int | None = None
    gone_ms: int | None = None


def events(listings: Listings, span: Span, since_ms: int, interval_ms: int, is_open: Callable[[Facts], bool]) -> list[Event]:
    """What was new of each object in the span, in the order of time.

    The first listing since `since_ms` is new, a change is until the object ended, and of open objects the first listing of
    each UTC hour, so that each hour tells by itself what there was. Which part of the time was read makes no difference.
    """
    found = [
        event
        for key, listed in listings.objects.items()
        for event in _events_of(key, listed, listings, since_ms, interval_ms, is_open)
        if span.start_ms <= event.at_ms < span.end_ms
    ]
    return sorted(found, key=lambda event: (event.at_ms, event.key))


def _events_of(
    key: str, listed: Listed, listings: Listings, since_ms: int, interval_ms: int, is_open: Callable[[Facts], bool]
) -> Iterator[Event]:
    before: tuple[int, Facts] | None = None
    for at, facts in listed.facts.items():
        if before and at - before[0] > 2 * interval_ms:
            gone = listings.gone(key, before[0], at, interval_ms)
            if gone:
                yield Event(gone[1], key, before[1], last_ms=before[0], gone_ms=gone[0])
                before = None
        if before is None or before[0] < since_ms <= at:
            yield Event(at, key, facts)
        elif is_open(before[1]):
            is_new_hour = before[0] // HOUR_MS != at // HOUR_MS and is_open(facts)
            if before[1] != facts or is_new_hour:
                yield Event(at, key, facts, ended=not is_open(facts))
        before = (at, facts)
    gone = listings.gone(key, before[0], None, interval_ms) if before else None
    if gone and before:
        yield Event(gone[1], key, before[1], last_ms=before[0], gone_ms=gone[0])
