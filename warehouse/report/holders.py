"""Who held what, as finely as the page can carry it: by day if that fits, else older weeks as one; the largest workloads by
name, the rest together by team, or by cluster where even the teams are too many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import duckdb

from warehouse.digest import words
from warehouse.digest.figures import COMMITMENT
from warehouse.relations import LEDGER, WATERFALL
from warehouse.report.columns import TENTHOUSANDTH, Lists, Members, to_columns, to_whole
from warehouse.report.sizes import MOST_HOLDER_CELLS, MOST_NAMED_CELLS, choose_largest, cut_into_buckets
from warehouse.sql import compose

OTHERS = "other workloads"

# the ledger tells reasons; it has no row for a commitment that no device used, which the waterfall has
_DAYS = compose(
    """create or replace temporary table report_days as
    select usage_date, workload_id, cluster, workload, team, state, coalesce(state_reason, '') as state_reason, priced_currency,
        sum(gpu_hours) as gpu_hours, sum(cost) as cost
    from {ledger} where usage_date >= $first group by all
    union all
    select usage_date, workload_id, cluster, workload, team, state, '', priced_currency, gpu_hours, cost
    from {waterfall} where usage_date >= $first and state = 'commitment_unused'""",
    ledger=LEDGER,
    waterfall=WATERFALL,
)
_BUCKETS = """create or replace temporary table report_buckets as
    with buckets as (
        select unnest(range(len($starts))) as bucket, unnest($starts) as start_date, unnest($ends) as end_date
    ),
    days as (
        select unnest(range(start_date, end_date + 1, interval 1 day)) as usage_date, bucket from buckets
    )
    select bucket, workload_id, cluster, workload, team, state, state_reason, priced_currency,
        sum(gpu_hours) as gpu_hours, sum(cost) as cost
    from report_days inner join days on report_days.usage_date = cast(days.usage_date as date)
    group by all"""
_FOLDED = """select bucket, case when is_named then workload_id else '' end as holder_id, cluster,
        case when is_named then workload else '' end as holder,
        case when is_named or $by_team then team else 'several teams' end as holder_team,
        state, state_reason, priced_currency, sum(gpu_hours), sum(cost)
    from (select *, list_contains($named, workload_id) as is_named from report_buckets)
    group by all order by all"""


def read_holders(
    connection: duckdb.DuckDBPyConnection, lists: Lists, states: dict[str, int], first: date, last: date
) -> dict[str, Any]:
    """Hours and money by workload, state, reason, currency and time, and the lists that they point into."""
    connection.execute(_DAYS, {"first": first})
    buckets = cut_into_buckets(first, last, by_week=_count(connection) > MOST_HOLDER_CELLS)
    connection.execute(_BUCKETS, {"starts": [start for start, _ in buckets], "ends": [end for _, end in buckets]})
    rows = _folded(connection)
    workloads, reasons = Members(), Members()
    remedies: dict[str, str] = {}
    cells = []
    for bucket, workload_id, cluster, workload, team, state, reason, currency, hours, cost in rows:
        name = _name(workload_id, workload, state)
        holder = workloads.place(
            (cluster, team, workload_id, name), {"name": name, "cluster": lists.cluster(cluster), "team": lists.team(team)}
        )
        place = reasons.place(reason, words.reason_words(reason) or "–")
        if advice := words.remedy(state, reason):
            remedies[f"{states[state]}:{place}"] = advice
        amounts = to_whole(hours, TENTHOUSANDTH), to_whole(cost, TENTHOUSANDTH)
        cells.append((holder, states[state], place, lists.currency(currency), bucket, *amounts))
    return {
        "buckets": [[(start - first).days, (end - first).days] for start, end in buckets],
        "workloads": workloads.values,
        "reasons": reasons.values,
        "remedies": remedies,
        "holders": to_columns(("workload", "state", "reason", "currency", "bucket", "hours", "cost"), cells),
    }


def _count(connection: duckdb.DuckDBPyConnection) -> int:
    row = connection.execute("select count(*) from report_days").fetchone()
    return int(row[0]) if row else 0


def _folded(connection: duckdb.DuckDBPyConnection) -> Sequence[tuple[Any, ...]]:
    sizes = connection.execute("select workload_id, count(*), sum(gpu_hours) from report_buckets group by 1").fetchall()
    most = MOST_NAMED_CELLS if sum(count for _, count, _ in sizes) > MOST_HOLDER_CELLS else MOST_HOLDER_CELLS
    named = sorted(choose_largest(sizes, most) | {words.NOBODY})
    rows = connection.execute(_FOLDED, {"named": named, "by_team": True}).fetchall()
    if len(rows) > MOST_HOLDER_CELLS:
        rows = connection.execute(_FOLDED, {"named": named, "by_team": False}).fetchall()
    return rows


def _name(workload_id: str, workload: str, state: str) -> str:
    if workload_id == words.NOBODY:
        return "commitments" if state == COMMITMENT else "held by nobody"
    return words.clean(workload) if workload_id else OTHERS
