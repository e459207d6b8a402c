"""The published rows that one day's digest is made of, for one edition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from warehouse.digest.figures import (
    BEFORE_HELD,
    COMMITMENT,
    OUT_OF_SERVICE,
    PRODUCTIVE,
    TREND_DAYS,
    UNOBSERVED,
    Ghost,
    Move,
    Net,
    Source,
    Step,
    UnitCost,
    add,
    waterfall_order,
)
from warehouse.digest.words import NOBODY, clean
from warehouse.first_screen import Amount
from warehouse.publication.relations import ECONOMICS, LEDGER, WATERFALL
from warehouse.sql import compose

#: a change of less than this share of the day's hours, and of its money, is none that anyone would read about
LEAST_SHARE = 0.002


def _matters(change: Amount, whole: Amount) -> bool:
    """Whether hours, or money of a currency, changed by a share of the whole that is worth a line."""
    return abs(change.gpu_hours) > LEAST_SHARE * whole.gpu_hours or any(
        abs(cost) > Decimal(str(LEAST_SHARE)) * abs(whole.costs.get(currency, Decimal(0)))
        for currency, cost in change.costs.items()
    )


class Scope:
    """The published rows of one day and one edition. The team's condition stands in every query."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, team: str | None, day: date) -> None:
        self._connection = connection
        self._values = {
            "team": team,
            "day": day,
            "before": day - timedelta(days=1),
            "since": day - timedelta(days=TREND_DAYS - 1),
        }

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        used = {name: value for name, value in self._values.items() if f"${name}" in query}
        return self._connection.execute(query, used).fetchall()

    def days(self) -> list[Net]:
        rows = self._rows(
            """select usage_date, state, sum(gpu_hours) from mart_ghost_capacity_daily
            where usage_date between $since and $day and ($team is null or team = $team) and state <> 'commitment_unused'
            group by usage_date, state"""
        )
        by_day: dict[date, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for usage_date, state, gpu_hours in rows:
            by_day[usage_date][state] = gpu_hours
        days = []
        for usage_date, states in sorted(by_day.items()):
            total = sum(states.values())
            base = total - states[OUT_OF_SERVICE]
            held = total - sum(states[state] for state in BEFORE_HELD)
            days.append(Net(usage_date, base, held, states[UNOBSERVED], states[PRODUCTIVE]))
        return days

    def steps(self) -> list[Step]:
        rows = self._rows(
            """select state, label, states.state_order, states.is_ghost, currency, cost is null, sum(gpu_hours), sum(cost)
            from dim_states as states
            left join (
                from mart_ghost_capacity_daily where usage_date = $day and ($team is null or team = $team)
            ) using (state)
            group by all"""
        )
        amounts: dict[str, Amount] = defaultdict(Amount)
        states: dict[str, tuple[str, int, bool]] = {}
        for state, label, order, is_ghost, currency, _, gpu_hours, cost in rows:
            states[state] = label, order, is_ghost
            if gpu_hours is not None:
                amounts[state].add(gpu_hours, currency, cost)
        ordered = sorted(states, key=lambda state: waterfall_order(state, states[state][1]))
        return [Step(state, states[state][0], states[state][2], amounts[state]) for state in ordered]

    def ghosts(self, steps: Iterable[Step]) -> list[Ghost]:
        """Ghost time by workload, state and reason; the ledger tells reasons, the unused commitment is a step alone."""
        rows = self._rows(
            compose(
                """select workload_id, cluster, workload, team, state, label, state_reason, currency, cost is null,
                    sum(gpu_hours), sum(cost)
                from {ledger} where usage_date = $day and is_ghost and ($team is null or team = $team)
                group by all order by all""",
                ledger=LEDGER,
            )
        )
        amounts: dict[tuple[Any, ...], Amount] = defaultdict(Amount)
        for *key, currency, _, gpu_hours, cost in rows:
            amounts[tuple(key)].add(gpu_hours, currency, cost)
        # two workloads of one name in different namespaces are two
        ghosts = [
            Ghost(cluster, workload, team, state, label, reason, amount)
            for (_, cluster, workload, team, state, label, reason), amount in amounts.items()
        ]
        ghosts.extend(
            Ghost(NOBODY, NOBODY, NOBODY, step.state, step.label, "", step.amount)
            for step in steps
            if step.state == COMMITMENT and step.amount.costs
        )
        return ghosts

    def cost_sources(self, steps: Iterable[Step]) -> list[tuple[str, Amount]]:
        """Time and money by where the price comes from; the rows add up to the waterfall's first."""
        rows = self._rows(
            compose(
                """select case when cost is null then 'unpriced' else cost_source end as source, currency,
                    sum(gpu_hours), sum(cost)
                from {ledger} where usage_date = $day and ($team is null or team = $team)
                group by all order by all""",
                ledger=LEDGER,
            )
        )
        amounts: dict[str, Amount] = defaultdict(Amount)
        for source, currency, gpu_hours, cost in rows:
            amounts[source].add(gpu_hours, currency, cost)
        commitment = add(step.amount for step in steps if step.state == COMMITMENT)
        if commitment.costs:
            amounts["commitment"] = commitment
        order = ("billing", "commitment", "rate_card", "estimate", "unpriced")
        return sorted(amounts.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))

    def unit_costs(self) -> list[UnitCost]:
        rows = self._rows(
            compose(
                """with economics as (
                    from {economics} where usage_date in ($day, $before) and ($team is null or team = $team)
                )
                select today.cluster, today.workload, today.model, today.currency, coalesce(today.tokens_all, 0),
                    coalesce(today.request_count, 0), today.cost_per_million_tokens, today.cost_per_thousand_requests,
                    before.cost_per_million_tokens, before.cost_per_thousand_requests, today.null_reason,
                    today.list_cost_per_million_tokens, today.list_cost_per_thousand_requests, today.list_model,
                    today.list_provider, today.cost_to_list_ratio
                from economics as today
                left join (from economics where usage_date = $before) as before using (workload_id, model, currency)
                where today.usage_date = $day
                order by today.tokens_all desc nulls last, today.request_count desc nulls last, workload_id, model, currency""",
                economics=ECONOMICS,
            )
        )
        return [UnitCost(*row) for row in rows]

    def moves(self, whole: Amount) -> list[Move]:
        """The changes since the day before that matter in the whole; none where nothing is known of that day."""
        if not self._rows("select 1 from mart_ghost_capacity_daily where usage_date = $before limit 1"):
            return []
        rows = self._rows(
            compose(
                """select workload_id, cluster, workload, team, state, label, is_ghost, usage_date = $day as is_today,
                    currency, cost is null, sum(gpu_hours), sum(cost)
                from {waterfall} where usage_date in ($day, $before) and ($team is null or team = $team)
                group by all order by all""",
                waterfall=WATERFALL,
            )
        )
        amounts: dict[tuple[Any, ...], tuple[Amount, Amount]] = defaultdict(lambda: (Amount(), Amount()))
        for *key, is_today, currency, _, gpu_hours, cost in rows:
            amounts[tuple(key)][is_today].add(gpu_hours, currency, cost)
        moves = [
            Move(cluster, workload, team, state, label, is_ghost, before, after)
            for (_, cluster, workload, team, state, label, is_ghost), (before, after) in amounts.items()
        ]
        return [move for move in moves if _matters(move.change, whole)]

    def sources(self) -> list[Source]:
        """The sources of the clusters concerned, what needs a look first: silent ones, then the least covered."""
        rows = self._rows(
            """select cluster, source, coverage_ratio, rows_landed, rows_quarantined, last_landed_at
            from mart_data_coverage_daily
            where usage_date = $day and ($team is null or cluster in (
                select cluster from mart_ghost_capacity_daily where usage_date = $day and team = $team))
            order by rows_landed > 0, coverage_ratio nulls last, rows_quarantined desc, cluster, source"""
        )
        return [Source(*row) for row in rows]

    def workload_ids(self) -> list[str]:
        """The team's workloads; none for the fleet's edition, which needs no list."""
        rows = self._rows("select workload_id from dim_workloads where $team is not null and team = $team order by 1")
        return [workload_id for (workload_id,) in rows]

    def warnings(self) -> list[str]:
        """What the gate let through with a note; a team is not told of the whole fleet's."""
        if self._values["team"] is not None:
            return []
        rows = self._rows("select message from gate_results where not success and severity = 'warning' order by check_id")
        return [clean(message, 300) for (message,) in rows]
