"""Half-open stretches `[start, end)` of integer microseconds, as sorted lists that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def united(spans: Iterable[Span]) -> list[Span]:
    """The time covered by any of `spans`; touching stretches become one, empty ones vanish."""
    result: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def common(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """The time covered by both."""
    rest = list(other)
    return united((max(a, c), min(b, d)) for a, b in one for c, d in rest if max(a, c) < min(b, d))


def without(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """The time of `one` that `other` does not cover."""
    result = list(one)
    for c, d in other:
        result = [piece for a, b in result for piece in ((a, min(b, c)), (max(a, d), b)) if piece[0] < piece[1]]
    return united(result)


def total(spans: Iterable[Span]) -> int:
    """Microseconds covered; the stretches must not overlap."""
    return sum(end - start for start, end in spans)


def holds(spans: Iterable[Span], start: int, end: int) -> bool:
    """Whether one of the stretches covers all of `[start, end)`."""
    return any(a <= start and end <= b for a, b in spans)
