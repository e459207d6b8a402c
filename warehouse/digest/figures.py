"""What a day's digest says: every figure as the published tables hold it, or a sum of theirs.

A team's edition takes the rows of its workloads only, so that held time takes the place of the fleet's capacity in service.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from warehouse.digest.editions import Edition
from warehouse.digest.restated import Restated
from warehouse.first_screen import COVERAGE_FLOOR, NO_TIME, Amount

TREND_DAYS = 28
#: how many of each list a mail shows
MOST_GHOSTS, MOST_MODELS, MOST_MOVES, MOST_SOURCES = 10, 8, 5, 12

#: UTC hour from which a held build is worth a mail of its own
NOTICE_HOUR = 12

OUT_OF_SERVICE, UNOBSERVED, PRODUCTIVE, COMMITMENT = "out_of_service", "unobserved", "productive", "commitment_unused"
#: steps of the waterfall that are not time anyone held
BEFORE_HELD = (OUT_OF_SERVICE, "unallocated", "borrowed")
#: the waterfall's order: what nobody held, what nobody saw, the ghosts as the states are numbered, and what is left
_FIRST_STEPS = (*BEFORE_HELD, UNOBSERVED)


@dataclass(frozen=True)
class Net:
    """One day's GPU-hours. `base` is capacity in service, of a team what it held; the ratios are of it, None where it is 0."""

    usage_date: date
    base: float
    held: float
    unobserved: float
    productive: float

    @property
    def low(self) -> float | None:
        return self.productive / self.base if self.base > NO_TIME else None

    @property
    def high(self) -> float | None:
        return (self.productive + self.unobserved) / self.base if self.base > NO_TIME else None

    @property
    def coverage(self) -> float | None:
        """Share of the held time that was observed."""
        return 1 - self.unobserved / self.held if self.held > NO_TIME else None

    @property
    def ratio(self) -> float | None:
        """None where too little was observed, and the interval from `low` to `high` is all that can be said (semantics 6)."""
        return self.low if self.coverage is None or round(self.coverage, 9) >= COVERAGE_FLOOR else None

    def plus(self, other: Net) -> Net:
        """Two days as one: sums, of which ratios can be taken."""
        return Net(
            max(self.usage_date, other.usage_date),
            self.base + other.base,
            self.held + other.held,
            self.unobserved + other.unobserved,
            self.productive + other.productive,
        )


@dataclass(frozen=True)
class Step:
    """One state of the waterfall."""

    state: str
    label: str
    is_ghost: bool
    amount: Amount


@dataclass(frozen=True)
class Ghost:
    """Where GPU-hours went that nobody got work out of. `workload` is `unallocated` where nobody held them."""

    cluster: str
    workload: str
    team: str
    state: str
    label: str
    reason: str
    amount: Amount


@dataclass(frozen=True)
class UnitCost:
    """One row of `mart_unit_economics_daily`, and the prices of the day before; None where the mart has none.

    The list price is of the same or a comparable model elsewhere, where one is configured.
    """

    cluster: str
    workload: str
    model: str
    currency: str
    tokens: int
    requests: int
    per_million_tokens: Decimal | None
    per_thousand_requests: Decimal | None
    before_per_million_tokens: Decimal | None
    before_per_thousand_requests: Decimal | None
    null_reason: str | None
    list_per_million_tokens: Decimal | None
    list_per_thousand_requests: Decimal | None
    list_model: str | None
    list_provider: str | None
    cost_to_list_ratio: float | None


@dataclass(frozen=True)
class Move:
    """A workload's time in one state on the day before and on the day."""

    cluster: str
    workload: str
    team: str
    state: str
    label: str
    is_ghost: bool
    before: Amount
    after: Amount

    @property
    def change(self) -> Amount:
        costs = {
            currency: self.after.costs.get(currency, Decimal(0)) - self.before.costs.get(currency, Decimal(0))
            for currency in self.after.costs.keys() | self.before.costs.keys()
        }
        unpriced = self.after.unpriced_gpu_hours + self.before.unpriced_gpu_hours
        return Amount(self.after.gpu_hours - self.before.gpu_hours, unpriced, costs)

    @property
    def kind(self) -> str:
        """`new` where there was nothing the day before, `gone` where nothing is left, else empty."""
        if self.before.gpu_hours <= NO_TIME and not self.before.costs:
            return "new"
        return "gone" if self.after.gpu_hours <= NO_TIME and not self.after.costs else ""


@dataclass(frozen=True)
class Source:
    """One source of one cluster on the day; `coverage` is None for a source that has no hours to cover."""

    cluster: str
    source: str
    coverage: float | None
    rows_landed: int
    rows_quarantined: int
    last_landed_at: datetime | None


@dataclass(frozen=True)
class Publication:
    """The version that the figures are of; `data_through_at` is None where nothing landed says."""

    publication_id: str
    build_id: str
    published_at: datetime
    data_through_at: datetime | None
    checks_passed: int


@dataclass(frozen=True)
class Hold:
    """The newest build, which the gate did not let through; `failures` say what each failed check means."""

    build_id: str
    checked_at: datetime
    failures: Sequence[str]


@dataclass(frozen=True)
class Figures:
    """`days` are the last of up to 28, oldest first, the digest's own at the end; of a day without rows there is none."""

    edition: Edition
    usage_date: date
    publication: Publication
    hold: Hold | None
    days: Sequence[Net]
    steps: Sequence[Step]
    cost_sources: Sequence[tuple[str, Amount]]
    ghosts: Sequence[Ghost]
    ghosts_in_all: int
    unit_costs: Sequence[UnitCost]
    unit_costs_in_all: int
    moves: Sequence[Move]
    sources: Sequence[Source]
    sources_in_all: int
    warnings: Sequence[str]
    is_ranked_by_money: bool
    restated: Restated | None = None
    alerts: Sequence[str] = ()

    @property
    def today(self) -> Net | None:
        return self._day(0)

    @property
    def day_before(self) -> Net | None:
        return self._day(1)

    @property
    def week_before(self) -> Net | None:
        """The seven days before the day as one; None where one of them is missing."""
        days = [day for day in (self._day(back) for back in range(1, 8)) if day]
        if len(days) < 7:
            return None
        total = days[0]
        for day in days[1:]:
            total = total.plus(day)
        return total

    def _day(self, back: int) -> Net | None:
        wanted = self.usage_date - timedelta(days=back)
        return next((day for day in self.days if day.usage_date == wanted), None)

    @property
    def whole(self) -> Amount:
        """What the waterfall begins with: its steps, unused commitments included, add up to it."""
        return add(step.amount for step in self.steps)

    @property
    def lost(self) -> Amount:
        """GPU-hours and money of the ghosts, unused commitments included."""
        return add(step.amount for step in self.steps if step.is_ghost)

    @property
    def is_whole_day(self) -> bool:
        through = self.publication.data_through_at
        return through is None or through >= datetime.combine(self.usage_date, datetime.min.time()) + timedelta(days=1)

    @property
    def mail_date(self) -> date:
        """The day that a mail with these figures is the mail of: at most one is sent for it.

        Where the newest build is held, readers wait for the figures of the day before the gate looked at it. From noon on they
        get a mail that says so, with the last figures there are; a hold that is mended by then is none of their business.
        """
        if self.hold is None or self.hold.checked_at.hour < NOTICE_HOUR:
            return self.usage_date
        return max(self.usage_date, self.hold.checked_at.date() - timedelta(days=1))


def add(amounts: Iterable[Amount]) -> Amount:
    """The sum of amounts, currency by currency."""
    total = Amount()
    for amount in amounts:
        total = total.plus(amount)
    return total


def waterfall_order(state: str, state_order: int) -> tuple[int, int]:
    """Sort key of the waterfall's steps (semantics 6); what has money and no hours is last."""
    if state in _FIRST_STEPS:
        return 0, _FIRST_STEPS.index(state)
    return {PRODUCTIVE: 2, COMMITMENT: 3}.get(state, 1), state_order
