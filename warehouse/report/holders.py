"""Who held what, as finely as the page can carry it: by day if that fits, else older weeks or months as one.

Where even that is too much the largest workloads have names, with their reasons, and the others stand together by team without
them; by cluster only where there are thousands of teams.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import duckdb

from warehouse.digest import words
from warehouse.digest.figures import COMMITMENT
from warehouse.publication.relations import LEDGER, LEDGER_REPORTING, WATERFALL, WATERFALL_REPORTING
from warehouse.report.columns import TENTHOUSANDTH, Lists, Members, clean, to_columns, to_whole
from warehouse.report.exchange import EXCHANGE, sum_reported, to_exchange
from warehouse.report.sizes import (
    MOST_HOLDER_CELLS,
    MOST_HOLDER_CELLS_REPORTING,
    PERIODS,
    choose_largest,
    cut_into_buckets,
)
from warehouse.sql import compose

OTHERS = "other workloads"

# the ledger tells reasons; it has no row for a commitment that no device used, which the waterfall has
_DAYS = """create or replace temporary table report_days as
    select usage_date, workload_id, cluster, workload, team, state, coalesce(state_reason, '') as state_reason, priced_currency,
        sum(gpu_hours) as gpu_hours, sum(cost) as cost, {reported} as cost_reporting
    from {ledger} where usage_date >= $first group by all
    union all
    select usage_date, workload_id, cluster, workload, team, state, '', priced_currency, sum(gpu_hours), sum(cost), {reported}
    from {waterfall} where usage_date >= $first and state = 'commitment_unused' group by all"""
_BUCKETS = """create or replace temporary table report_buckets as
    with buckets as (
        select unnest(range(len($starts))) as bucket, unnest($starts) as start_date, unnest($ends) as end_date
    ),
    days as (
        select unnest(range(start_date, end_date + 1, interval 1 day)) as usage_date, bucket from buckets
    )
    select bucket, workload_id, cluster, workload, team, state, state_reason, priced_currency,
        sum(gpu_hours) as gpu_hours, sum(cost) as cost,
        case when count(cost) = count(cost_reporting) then sum(cost_reporting) end as cost_reporting
    from report_days inner join days on report_days.usage_date = cast(days.usage_date as date)
    group by all"""
_FOLDED = """select bucket, case when is_named then workload_id else '' end as holder_id, cluster,
        case when is_named then workload else '' end as holder,
        case when is_named or $by_team then team else 'several teams' end as holder_team,
        state, case when is_named or state = 'unallocated' then state_reason else '' end as reason, priced_currency,
        sum(gpu_hours), sum(cost), case when count(cost) = count(cost_reporting) then sum(cost_reporting) end
    from (select *, list_contains($named, workload_id) as is_named from report_buckets)
    group by all order by all"""


def read_holders(
    connection: duckdb.DuckDBPyConnection,
    lists: Lists,
    states: dict[str, int],
    first: date,
    last: date,
    reporting: str | None,
) -> dict[str, Any]:
    """Hours and money by workload, state, reason, currency and time, and the lists that they point into."""
    relations = (LEDGER_REPORTING, WATERFALL_REPORTING) if reporting else (LEDGER, WATERFALL)
    days = compose(_DAYS, ledger=relations[0], waterfall=relations[1], reported=sum_reported(reporting))
    connection.execute(days, {"first": first})
    most = MOST_HOLDER_CELLS_REPORTING if reporting else MOST_HOLDER_CELLS
    for period in PERIODS:
        buckets = cut_into_buckets(first, last, period)
        connection.execute(_BUCKETS, {"starts": [start for start, _ in buckets], "ends": [end for _, end in buckets]})
        sizes = connection.execute("select workload_id, count(*), sum(gpu_hours) from report_buckets group by 1").fetchall()
        if sum(cells for _, cells, _ in sizes) <= most:
            break
    rows = _folded(connection, sizes, most)
    workloads, reasons = Members(), Members()
    remedies: dict[str, str] = {}
    cells = []
    for bucket, workload_id, cluster, workload, team, state, reason, currency, hours, cost, reported in rows:
        name = _name(workload_id, workload, state)
        holder = workloads.place(
            (cluster, team, workload_id, name), {"name": name, "cluster": lists.cluster(cluster), "team": lists.team(team)}
        )
        place = reasons.place(reason, words.reason_words(reason) or "–")
        if advice := words.remedy(state, reason):
            remedies[f"{states[state]}:{place}"] = advice
        amounts = to_whole(hours, TENTHOUSANDTH), to_whole(cost, TENTHOUSANDTH)
        exchange = [to_exchange(cost, reported, TENTHOUSANDTH)] if reporting else []
        cells.append((holder, states[state], place, lists.currency(currency), bucket, *amounts, *exchange))
    return {
        "buckets": [[(start - first).days, (end - first).days] for start, end in buckets],
        "workloads": workloads.values,
        "reasons": reasons.values,
        "remedies": remedies,
        "holders": to_columns(
            ("workload", "state", "reason", "currency", "bucket", "hours", "cost", *([EXCHANGE] if reporting else [])), cells
        ),
    }


def _folded(
    connection: duckdb.DuckDBPyConnection, sizes: Sequence[tuple[str, int, float]], most: int
) -> Sequence[tuple[Any, ...]]:
    """The cells, at most `most` of them: all, or those of the largest workloads and of what is left of each team."""

    def fold(most_named: int, by_team: bool) -> list[tuple[Any, ...]]:
        named = sorted(choose_largest(sizes, most_named) | {words.NOBODY})
        return connection.execute(_FOLDED, {"named": named, "by_team": by_team}).fetchall()

    if sum(cells for _, cells, _ in sizes) <= most:
        return fold(most, by_team=True)
    teams = len(fold(0, by_team=True))
    if teams < most * 3 // 4:
        return fold(most - teams, by_team=True)
    return fold(most - len(fold(0, by_team=False)), by_team=False)


def _name(workload_id: str, workload: str, state: str) -> str:
    if workload_id == words.NOBODY:
        return "commitments" if state == COMMITMENT else "held by nobody"
    return clean(workload) if workload_id else OTHERS
