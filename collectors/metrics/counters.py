"""What a counter grew by between readings: resets count from 0, a single reading that drops and comes back is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

Point = tuple[datetime, float]


@dataclass(frozen=True)
class Increase:
    """The counter grew by `amount` (≥ 0, the counter's own unit) somewhere in `[start_at, end_at)`."""

    start_at: datetime
    end_at: datetime
    amount: float


def without_glitches(points: Sequence[Point]) -> list[Point]:
    """The points without those that drop below their predecessor while the next one is back above it."""
    kept: list[Point] = []
    for position, (at, value) in enumerate(points):
        drops = bool(kept) and value < kept[-1][1]
        if drops and position + 1 < len(points) and points[position + 1][1] >= kept[-1][1]:
            continue
        kept.append((at, value))
    return kept


def increases(points: Sequence[Point]) -> list[Increase]:
    """The growth between consecutive readings in time order; after a drop the counter began again at 0 (semantics 8)."""
    kept = without_glitches(points)
    return [
        Increase(start, end, later - earlier if later >= earlier else later) for (start, earlier), (end, later) in pairwise(kept)
    ]


def grown_within(found: Sequence[Increase], start_at: datetime, end_at: datetime) -> float | None:
    """The part of the increases that falls into `[start_at, end_at)`, each taken as even over its own time.

    None where the increases do not cover all of it: what was not counted is missing, not 0.
    """
    amount, covered = 0.0, 0.0
    for increase in found:
        overlap = (min(end_at, increase.end_at) - max(start_at, increase.start_at)).total_seconds()
        if overlap > 0:
            amount += increase.amount * overlap / (increase.end_at - increase.start_at).total_seconds()
            covered += overlap
    return amount if covered >= (end_at - start_at).total_seconds() - 1e-6 else None
