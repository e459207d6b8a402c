"""What a comparison of two published versions says, as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

#: levels of a move: what its member is one of
FLEET, CLUSTER, TEAM, WORKLOAD, STATE, MODEL, ACCOUNT = "fleet", "cluster", "team", "workload", "state", "model", "account"
LEVELS = (FLEET, CLUSTER, TEAM, WORKLOAD, STATE, MODEL, ACCOUNT)
#: the one member of the level `fleet`
ALL = "all"

#: units of figures; money stands in the move's currency
GPU_HOURS, RATIO, MONEY, MONEY_PER_MILLION, KWH, TOKENS = (
    "gpu_h",
    "ratio",
    "currency",
    "currency_per_million_tokens",
    "kWh",
    "count",
)

#: kinds of causes
NEW_DAYS, LATE_ROWS, BILL, CORRECTED_BILL, PRICES = "new days", "late rows", "first bill", "corrected bill", "prices"
RULES, SOFTWARE, SEALED, SHAPE = "workload rules", "software", "sealed", "tables"


@dataclass(frozen=True)
class VersionRecord:
    """One of the two versions. `version` is that of the software and its rules; the instants are naive UTC."""

    publication_id: str
    build_id: str
    published_at: datetime
    data_through_at: datetime | None
    version: str


@dataclass(frozen=True)
class TableChange:
    """A table whose content differs. `days` are those that differ, empty for a table without days; columns as names."""

    table: str
    days: tuple[date, ...]
    rows_before: int
    rows_after: int
    is_new: bool
    is_gone: bool
    columns_added: tuple[str, ...]
    columns_removed: tuple[str, ...]


@dataclass(frozen=True)
class Cause:
    """Something that moves numbers, seen in the data.

    `days` are the days with other rows that it touches, `clusters` and `levels` where it can be seen; empty says any. One with
    `is_money_only` leaves hours as they are.
    """

    kind: str
    text: str
    days: tuple[date, ...] = ()
    clusters: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    is_money_only: bool = False


@dataclass(frozen=True)
class Move:
    """A figure that differs: of one UTC day, or (`usage_date` None) of all restated days.

    Of all restated days means of those `day_count` on which the figure's table differs. A side is None where that version has no
    such row, or the ratio has nothing below the line. `currency` is empty for what is not money. `why` are the kinds of the
    causes that touch it.
    """

    figure: str
    label: str
    unit: str
    level: str
    member: str
    usage_date: date | None
    day_count: int
    is_new_day: bool
    currency: str
    before: float | None
    after: float | None
    why: tuple[str, ...] = ()

    @property
    def change(self) -> float:
        """After minus before; what is not there counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def share(self) -> float:
        """The change against the larger side, 0 to 1; how moves of different units are put in order of size."""
        largest = max(abs(self.before or 0.0), abs(self.after or 0.0))
        return abs(self.change) / largest if largest else 0.0


@dataclass(frozen=True)
class Differences:
    """What moved from `before` to `after` and why.

    `days` are the days with other rows in any figure; `new_days` those of them that `before` did not hold in full. `not_compared`
    names figures that one of the two files has no columns for.
    """

    before: VersionRecord
    after: VersionRecord
    days: tuple[date, ...]
    new_days: tuple[date, ...]
    tables: tuple[TableChange, ...]
    moves: tuple[Move, ...]
    causes: tuple[Cause, ...]
    not_compared: tuple[str, ...] = ()

    @property
    def restated_days(self) -> tuple[date, ...]:
        """The days that `before` held in full and that hold other figures now."""
        new = set(self.new_days)
        return tuple(day for day in self.days if day not in new)

    @property
    def headlines(self) -> list[Move]:
        """The fleet's figures over all restated days, in the order of their definition."""
        return [move for move in self.moves if move.level == FLEET and move.usage_date is None]

    def of(self, level: str, *, by_day: bool = False, figure: str | None = None) -> list[Move]:
        """The moves of a level, the largest first: over all restated days, or of each day."""
        return largest_first(
            move
            for move in self.moves
            if move.level == level and (move.usage_date is not None) == by_day and figure in (None, move.figure)
        )


def largest_first(moves: Iterable[Move]) -> list[Move]:
    """Moves of money, then of hours, then of ratios and the rest, each by the size of the change."""
    order = {MONEY: 0, GPU_HOURS: 1, MONEY_PER_MILLION: 2, RATIO: 3}
    return sorted(
        moves,
        key=lambda move: (order.get(move.unit, 4), -abs(move.change), move.figure, move.member, move.usage_date or date.min),
    )


def days_text(days: Sequence[date]) -> str:
    """Days as people say them: `2026-10-30`, `2026-10-30 to 2026-11-02`, `3 days from … to …` where some between are left out."""
    if not days:
        return "no day"
    first, last = min(days), max(days)
    count = len(set(days))
    if count == 1:
        return str(first)
    span = f"{first} to {last}"
    return span if (last - first).days + 1 == count else f"{count} days of {span}"
