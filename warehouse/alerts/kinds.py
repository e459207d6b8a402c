"""What an alert rule can watch."""

from __future__ import annotations

from dataclasses import dataclass

FLEET, CLUSTER, TEAM, WORKLOAD, SOURCE = "fleet", "cluster", "team", "workload", "source"
DAY, MONTH = "day", "month"
#: units of limits
MONEY, RATIO, HOURS, MONEY_PER_MILLION = "currency", "ratio", "hours", "currency_per_million_tokens"

GHOST_MONEY, NET_BELOW, COVERAGE_BELOW, SOURCE_SILENT = "ghost_money", "gpu_net_below", "coverage_below", "source_silent"
BUILD_HELD, BUILD_FAILED, BILL_OPEN, TOKEN_COST = "build_held", "build_failed", "bill_does_not_close", "token_cost"
UNPRICED_SHARE, UNKNOWN_SHARE = "unpriced_share", "unknown_share"


@dataclass(frozen=True)
class Kind:
    """A kind of rule. `unit` is that of its limit, None where it has none; `default` the limit of a rule that names none.

    `pers` are what a rule may be taken by, the first where it does not say; `narrows` the columns that make it smaller;
    `periods` how long it is summed over (empty: it is a state, not a sum).
    """

    name: str
    says: str
    unit: str | None
    default: str | None = None
    pers: tuple[str, ...] = (FLEET,)
    narrows: tuple[str, ...] = ()
    periods: tuple[str, ...] = ()

    @property
    def has_currency(self) -> bool:
        return self.unit in (MONEY, MONEY_PER_MILLION)


_PLACES = (CLUSTER, TEAM, WORKLOAD)

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            GHOST_MONEY,
            "ghost money of a day or of the month so far, above a budget",
            MONEY,
            pers=(FLEET, *_PLACES),
            narrows=_PLACES,
            periods=(DAY, MONTH),
        ),
        Kind(NET_BELOW, "GPU Net of the last whole day, below a floor", RATIO, pers=(FLEET, CLUSTER), narrows=(CLUSTER,)),
        Kind(
            COVERAGE_BELOW,
            "observed share of the time held on the last whole day, below a floor; per source: what it observed",
            RATIO,
            pers=(FLEET, CLUSTER, TEAM, SOURCE),
            narrows=(CLUSTER, TEAM, SOURCE),
        ),
        Kind(
            SOURCE_SILENT,
            "a source of a cluster that has landed nothing for longer than so many hours (import, simulate: where named)",
            HOURS,
            pers=(SOURCE,),
            narrows=(CLUSTER, SOURCE),
        ),
        Kind(BUILD_HELD, "the gate holds the newest build (for longer than so many hours)", HOURS, default="0"),
        Kind(BUILD_FAILED, "the newest build failed or was killed", None),
        Kind(
            BILL_OPEN,
            "of a bill of this month or the last, the share that neither ledger nor lines without time hold, above a limit",
            RATIO,
            default="0.01",
        ),
        Kind(
            TOKEN_COST,
            "cost per million tokens of the last whole day, above a limit",
            MONEY_PER_MILLION,
            pers=(WORKLOAD, FLEET),
            narrows=_PLACES,
        ),
        Kind(
            UNPRICED_SHARE,
            "share of the last whole day's GPU-hours without a price, above a limit",
            RATIO,
            default="0",
            pers=(FLEET, CLUSTER, TEAM),
            narrows=(CLUSTER, TEAM),
        ),
        Kind(
            UNKNOWN_SHARE,
            "share of the last whole day's money that no known team answers for (team `unknown`), above a limit",
            RATIO,
            pers=(FLEET, CLUSTER),
            narrows=(CLUSTER,),
        ),
    )
}
