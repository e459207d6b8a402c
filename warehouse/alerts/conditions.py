"""Ask the published database, the verdict and the build's record whether a rule fires.

The numbers are sums over the marts, and ratios of sums, as the day's mail and the report take them, of the same last whole day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

from warehouse.alerts import kinds
from warehouse.alerts.kinds import CLUSTER, FLEET, MONTH, SOURCE, TEAM, WORKLOAD
from warehouse.alerts.rules import Rule, read_rules
from warehouse.database import WarehouseLockedError, connect, locked
from warehouse.digest import words
from warehouse.digest.editions import Edition
from warehouse.digest.published import NothingPublishedError, last_whole_day, read_hold, read_publication
from warehouse.first_screen import COVERAGE_FLOOR, NO_CLUSTER, NO_TIME, UNPRICED
from warehouse.home import Home
from warehouse.sql import Sql, compose
from warehouse.verdict import last_build

#: sources that a person brings by hand, or that are settings
_NOT_STREAMS = ("config", "simulate", "import")
PIPELINE = "the newest build"
THE_FLEET = "the fleet"


@dataclass(frozen=True)
class Firing:
    """A rule that fires for a subject. `period` is the day or month of a sum, empty for a state; `value` in the limit's unit.

    `team` is whose edition of the mail may say it, None for the fleet's alone.
    """

    rule: Rule
    subject: str
    period: str
    says: str
    value: float | None
    team: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """What fires now. `undetermined` are rules that could not be asked: what they found before stands."""

    at: datetime
    publication_id: str | None
    usage_date: date | None
    rules: Sequence[Rule]
    firings: Sequence[Firing]
    undetermined: frozenset[str]
    problems: Sequence[str]

    def of(self, edition: Edition) -> list[Firing]:
        """What an edition of the mail may tell: the fleet's everything, a team's only what is about that team."""
        return [firing for firing in self.firings if edition.team is None or firing.team == edition.team]


def evaluate(home: Home, now: datetime) -> Evaluation:
    """Ask every rule. `now` is naive UTC. Raises ConfigError where the rules cannot be read, duckdb.Error."""
    rules, problems = read_rules(home)
    firings: list[Firing] = []
    undetermined: set[str] = set()
    publication_id, day = None, None
    of_pipeline = [rule for rule in rules if is_of_pipeline(rule)]
    of_figures = [rule for rule in rules if rule not in of_pipeline]
    asks_for_build = any(rule.kind.name in (kinds.BUILD_FAILED, kinds.SOURCE_SILENT) for rule in rules)
    failed = _failed_build(home) if asks_for_build else ""
    for rule in of_pipeline:
        if rule.kind.name == kinds.BUILD_HELD:
            firings.extend(_held(home, rule, now))
        elif failed is None:
            undetermined.add(rule.name)
        elif failed:
            firings.append(Firing(rule, PIPELINE, "", f"The newest build failed: {failed}", None))
    if of_figures and home.published_database.exists():
        with connect(home.published_database, read_only=True) as connection:
            publication = read_publication(connection)
            # while a newer build is held or broken, the published version cannot know what landed since
            is_behind = bool(failed) or ((hold := read_hold(home)) is not None and hold.build_id != publication.build_id)
            published = evaluate_published(connection, of_figures, publication.published_at if is_behind else now)
        publication_id, day = published.publication_id, published.usage_date
        firings.extend(published.firings)
        undetermined |= published.undetermined
        problems.extend(published.problems)
    else:
        undetermined |= {rule.name for rule in of_figures}
    return Evaluation(now, publication_id, day, rules, firings, frozenset(undetermined), problems)


def is_of_pipeline(rule: Rule) -> bool:
    """Whether a rule is about a build, of which no published figure can tell."""
    return rule.kind.name in (kinds.BUILD_HELD, kinds.BUILD_FAILED)


def evaluate_published(connection: duckdb.DuckDBPyConnection, rules: Sequence[Rule], now: datetime) -> Evaluation:
    """Ask the rules about figures of an open published database. `now` (naive UTC) is the instant that ends a silence."""
    publication = read_publication(connection)
    firings: list[Firing] = []
    undetermined: set[str] = set()
    problems: list[str] = []
    day = None
    try:
        day = last_whole_day(connection, publication)
    except NothingPublishedError:
        # not a whole day yet: only what landed can be asked
        undetermined |= {rule.name for rule in rules if rule.kind.name != kinds.SOURCE_SILENT}
    figures = _Figures(connection, day, now)
    for rule in rules:
        if rule.name in undetermined:
            continue
        try:
            firings.extend(figures.ask(rule))
        except (duckdb.CatalogException, duckdb.BinderException):
            undetermined.add(rule.name)
            lacks = f"{publication.publication_id} lacks what {rule.kind.name} needs; build and publish again"
            problems.append(f"{words.clean(rule.name)}: {lacks}")
    return Evaluation(now, publication.publication_id, day, rules, firings, frozenset(undetermined), problems)


def _held(home: Home, rule: Rule, now: datetime) -> Iterator[Firing]:
    hold = read_hold(home)
    if hold is None:
        return
    hours = (now - hold.checked_at).total_seconds() / 3600
    if Decimal(hours) >= (rule.limit or 0):
        why = " ".join(hold.failures)
        says = f"The gate holds build {words.clean(hold.build_id)}, checked {hold.checked_at:%Y-%m-%d %H:%M} UTC: {why}"
        yield Firing(rule, PIPELINE, "", words.clean(says, 600), hours)


def _failed_build(home: Home) -> str | None:
    """Why the newest build is none; empty where it is one, or none was begun. None while a build runs: it cannot be told."""
    if not home.build_database.exists():
        return ""
    try:
        # a build that runs has not ended either, and looks as one that was killed
        with locked(home), connect(home.build_database, read_only=True) as connection:
            build = last_build(connection)
    except (WarehouseLockedError, duckdb.IOException):
        return None
    if build is None or (build.is_finished and build.status == "succeeded"):
        return ""
    return (
        f"after {words.clean(build.build_id)} a build began that did not end, so that readers keep what they have. "
        "Run `python -m warehouse build` and read its last lines."
    )


class _Figures:
    """The published rows. `now` is the instant to which silence is measured."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, day: date | None, now: datetime) -> None:
        self._connection, self._day, self._now = connection, day, now
        self._askers: dict[str, Callable[[Rule], Iterator[Firing]]] = {
            kinds.GHOST_MONEY: self._ghost_money,
            kinds.NET_BELOW: self._net_below,
            kinds.COVERAGE_BELOW: self._coverage_below,
            kinds.SOURCE_SILENT: self._source_silent,
            kinds.BILL_OPEN: self._bill_open,
            kinds.TOKEN_COST: self._token_cost,
            kinds.UNPRICED_SHARE: self._unpriced_share,
            kinds.UNKNOWN_SHARE: self._unknown_share,
        }

    def ask(self, rule: Rule) -> list[Firing]:
        """The subjects that fire, the worst first."""
        # what is narrowed to a team is that team's to know
        return [replace(firing, team=firing.team or rule.team) for firing in self._askers[rule.kind.name](rule)]

    def _rows(self, query: Sql, rule: Rule) -> list[tuple[Any, ...]]:
        day = self._day
        values = {
            "day": day,
            "since": day.replace(day=1) if day and rule.period == MONTH else day,
            "limit": rule.limit,
            "floor": COVERAGE_FLOOR,
            **{name: getattr(rule, name) for name in ("cluster", "team", "workload", "source", "currency")},
        }
        used = {name: value for name, value in values.items() if f"${name}" in query}
        return self._connection.execute(query, used).fetchall()

    def _ghost_money(self, rule: Rule) -> Iterator[Firing]:
        query = """select {subject}, {name}, {team}, sum(cost) as value
            from {rows} where is_ghost and currency = $currency group by 1, 2, 3 having sum(cost) > $limit
            order by value desc, 1"""
        assert self._day is not None
        period = f"{self._day:%Y-%m}" if rule.period == MONTH else f"{self._day}"
        when = f"in {period} through {self._day}" if rule.period == MONTH else f"on {period}"
        for subject, name, team, value in self._rows(_over(query, rule), rule):
            says = f"Ghost capacity of {_named(rule, name)} cost {value:,.2f} {rule.currency} {when}, above {rule.limit:,.2f}."
            yield Firing(rule, subject, period, says, float(value), team)

    def _net_below(self, rule: Rule) -> Iterator[Firing]:
        # semantics 6: below the coverage floor only the interval is known, and it must lie below the limit as a whole
        query = """select subject, name, team, low, high, is_known from (
                select {subject} as subject, {name} as name, {team} as team,
                    sum(gpu_hours) filter (where state = 'productive') as productive,
                    sum(gpu_hours) filter (where state = 'unobserved') as unobserved,
                    sum(gpu_hours) filter (where state <> 'out_of_service') as in_service,
                    sum(gpu_hours) filter (where state not in ('out_of_service', 'unallocated', 'borrowed')) as held,
                    coalesce(productive, 0) / nullif(in_service, 0) as low,
                    (coalesce(productive, 0) + coalesce(unobserved, 0)) / nullif(in_service, 0) as high,
                    round(1 - coalesce(unobserved, 0) / nullif(held, 0), 9) as coverage,
                    coalesce(coverage, 1) >= $floor as is_known
                from {rows} where state <> 'commitment_unused' group by 1, 2, 3
            ) where case when is_known then low else high end < $limit order by low, subject"""
        for subject, name, team, low, high, is_known in self._rows(_over(query, rule), rule):
            value = words.percent(low) if is_known else f"{words.percent(low)} to {words.percent(high)}"
            says = f"GPU Net of {_named(rule, name)} was {value} on {self._day}, below {_share(rule)}."
            yield Firing(rule, subject, "", says, low, team)

    def _coverage_below(self, rule: Rule) -> Iterator[Firing]:
        if rule.per == SOURCE or rule.source:
            yield from self._source_coverage(rule)
            return
        query = """select subject, name, team, coverage from (
                select {subject} as subject, {name} as name, {team} as team,
                    round(1 - coalesce(sum(gpu_hours) filter (where state = 'unobserved'), 0) / nullif(sum(gpu_hours), 0), 9)
                        as coverage
                from {rows}
                where state not in ('out_of_service', 'unallocated', 'borrowed', 'commitment_unused') group by 1, 2, 3
            ) where coverage < $limit order by coverage, subject"""
        for subject, name, team, value in self._rows(_over(query, rule), rule):
            says = (
                f"{words.percent(value)} of the GPU time that {_named(rule, name)} held was observed on {self._day}, "
                f"below {_share(rule)}."
            )
            yield Firing(rule, subject, "", says, value, team)

    def _source_coverage(self, rule: Rule) -> Iterator[Firing]:
        query = compose(
            """select cluster, source, sum(covered_hours) / nullif(sum(expected_hours), 0) as value
            from mart_data_coverage_daily
            where usage_date = $day and ($cluster is null or cluster = $cluster) and ($source is null or source = $source)
            group by all having sum(covered_hours) / nullif(sum(expected_hours), 0) < $limit order by value, cluster, source"""
        )
        for cluster, source, value in self._rows(query, rule):
            says = (
                f"{words.clean(source)} observed {words.percent(value)} of the GPU time held in {words.clean(cluster)} on "
                f"{self._day}, below {_share(rule)}."
            )
            yield Firing(rule, f"{cluster} {source}", "", says, value)

    def _source_silent(self, rule: Rule) -> Iterator[Firing]:
        query = compose(
            """select cluster, source, max(landed_at) as last_at
            from fct_collection_runs
            where status = 'landed' and rows_landed > 0 and ($cluster is null or cluster = $cluster)
                and ($source is null or source = $source)
            group by all order by last_at, cluster, source"""
        )
        for cluster, source, last_at in self._rows(query, rule):
            hours = (self._now - last_at).total_seconds() / 3600
            if (source in _NOT_STREAMS and source != rule.source) or Decimal(hours) <= (rule.limit or 0):
                continue
            where = f" for {words.clean(cluster)}" if cluster not in (UNPRICED, NO_CLUSTER) else ""
            says = (
                f"{words.clean(source)} has landed nothing{where} since {last_at:%Y-%m-%d %H:%M} UTC, "
                f"for {hours:,.0f} hours; {rule.limit:,.0f} are the limit."
            )
            yield Firing(rule, f"{cluster} {source}", "", says, hours)

    def _bill_open(self, rule: Rule) -> Iterator[Firing]:
        query = compose(
            """select provider_name, billing_account_id, currency, strftime(usage_date, '%Y-%m') as month,
                sum(abs(difference) + abs(billed_without_telemetry_cost)) as unexplained, sum(effective_cost) as cost,
                cast(sum(abs(difference) + abs(billed_without_telemetry_cost)) as double)
                    / nullif(cast(abs(sum(effective_cost)) as double), 0) as value
            from mart_cost_reconciliation_daily
            where is_closed and date_trunc('month', usage_date) >= date_trunc('month', cast($day as date)) - interval 1 month
            group by all having unexplained > 0.01 and (value > $limit or value is null)
            order by unexplained desc, 1, 2, 3, 4"""
        )
        for provider, account, currency, month, unexplained, cost, value in self._rows(query, rule):
            name = f"{words.clean(provider)} {words.clean(account)}"
            says = (
                f"The bill of {name} for {month} does not close: {unexplained:,.2f} of {cost:,.2f} {words.clean(currency, 12)} "
                f"are neither in the ledger nor lines without time, above {_share(rule)}."
            )
            yield Firing(rule, f"{provider} {account} {currency}", month, says, value)

    def _token_cost(self, rule: Rule) -> Iterator[Firing]:
        query = """select {subject}, {name}, {team}, {served},
                sum(cast(cost_per_million_tokens as double) * tokens_all)
                    / nullif(sum(tokens_all) filter (where cost_per_million_tokens is not null), 0) as value
            from (
                select economics.*, coalesce(dim_workloads.team, 'unknown') as team, dim_workloads.workload
                from mart_unit_economics_daily as economics left join dim_workloads using (workload_id)
            ) as mart
            where usage_date = $day and currency = $currency and {narrows}
            group by 1, 2, 3, 4 having value > $limit order by value desc, 1"""
        for subject, name, team, served, value in self._rows(_over(query, rule), rule):
            serving = f" for {words.clean(served)}" if served else ""
            says = (
                f"A million tokens of {_named(rule, name)}{serving} cost {words.unit_price(Decimal(str(value)))} "
                f"{rule.currency} on {self._day}, above {words.unit_price(rule.limit)}."
            )
            yield Firing(rule, f"{subject} {served}".strip(), "", says, value, team)

    def _unpriced_share(self, rule: Rule) -> Iterator[Firing]:
        query = """select {subject}, {name}, {team},
                coalesce(sum(gpu_hours) filter (where cost is null or currency = 'unknown'), 0) as unpriced,
                unpriced / nullif(sum(gpu_hours), 0) as value
            from {rows} where state <> 'commitment_unused' group by 1, 2, 3 having value > $limit order by value desc, 1"""
        for subject, name, team, hours, value in self._rows(_over(query, rule), rule):
            if hours > NO_TIME:
                says = (
                    f"{words.hours(hours)} GPU-hours of {_named(rule, name)} have no price on {self._day}: "
                    f"{words.percent(value)} of its time, above {_share(rule)}."
                )
                yield Firing(rule, subject, "", says, value, team)

    def _unknown_share(self, rule: Rule) -> Iterator[Firing]:
        query = """select {subject}, {name}, {team}, currency,
                coalesce(sum(cost) filter (where mart.team = 'unknown'), 0) as unknown_cost,
                cast(unknown_cost as double) / nullif(cast(sum(cost) as double), 0) as value
            from {rows} where currency <> 'unknown' group by 1, 2, 3, 4 having value > $limit order by value desc, 1"""
        for subject, name, team, currency, cost, value in self._rows(_over(query, rule), rule):
            says = (
                f"No known team answers for {cost:,.2f} {words.clean(currency, 12)} of {_named(rule, name)} on {self._day}: "
                f"{words.percent(value)} of its money, above {_share(rule)}."
            )
            yield Firing(rule, f"{subject} {currency}", "", says, value, team)


_NARROWS = compose(
    "($cluster is null or mart.cluster = $cluster) and ($team is null or mart.team = $team)"
    " and ($workload is null or $workload in (mart.workload_id, mart.workload))"
)
#: the waterfall's rows of the days that a rule looks at
_ROWS = compose(
    """(
        select * from (
            select mart.*, dim_workloads.workload
            from mart_ghost_capacity_daily as mart left join dim_workloads using (workload_id)
            where usage_date between $since and $day
        ) as mart where {narrows}
    ) as mart""",
    narrows=_NARROWS,
)
_NOBODY = compose("cast(null as varchar)")
#: what a rule is taken by → key, name and team of a subject
_SUBJECTS = {
    FLEET: (compose("'the fleet'"), compose("'the fleet'"), _NOBODY),
    CLUSTER: (compose("mart.cluster"), compose("mart.cluster"), _NOBODY),
    TEAM: (compose("mart.team"), compose("mart.team"), compose("mart.team")),
    WORKLOAD: (
        compose("mart.workload_id"),
        compose("coalesce(mart.workload, mart.workload_id) || ' in ' || mart.cluster"),
        compose("mart.team"),
    ),
}


def _over(query: str, rule: Rule) -> Sql:
    """The query by what the rule is taken by, over the rows that it looks at."""
    subject, name, team = _SUBJECTS[rule.per]
    served = compose("mart.model") if rule.per == WORKLOAD else compose("''")
    return compose(query, subject=subject, name=name, team=team, served=served, rows=_ROWS, narrows=_NARROWS)


def _named(rule: Rule, name: str) -> str:
    """The subject in a sentence, with what narrows the rule."""
    narrowed = [f"{column} {words.clean(value)}" for column in (CLUSTER, TEAM, WORKLOAD) if (value := getattr(rule, column))]
    if rule.per == FLEET:
        return " of ".join(reversed(narrowed)) or THE_FLEET
    if name.split(" ")[0] == words.NOBODY:
        return f"the time that nobody held{name.removeprefix(words.NOBODY)}"
    kind = {CLUSTER: "cluster", TEAM: "team", WORKLOAD: "workload"}[rule.per]
    where = [text for text in narrowed if not text.startswith(f"{kind} ")]
    return f"{kind} {words.clean(name)}" + (f" ({', '.join(where)})" if where else "")


def _share(rule: Rule) -> str:
    return words.percent(float(rule.limit or 0))
