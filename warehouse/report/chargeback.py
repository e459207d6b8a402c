"""What each team, application, model and workload is charged by calendar month on the three bases, and what nobody is charged.

The lines of nobody stand beside them with what each basis leaves with nobody, so that on every basis and by every choice the
rows add up to the whole month. Money comes in millionths, as the published columns hold it: the sums are equal to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from warehouse.report.columns import MICRO, TENTHOUSANDTH, Lists, Members, clean, to_columns, to_whole
from warehouse.report.exchange import to_exchange
from warehouse.report.sizes import MOST_CHARGEBACK_ROWS, MOST_CHARGEBACK_ROWS_REPORTING, choose_largest
from warehouse.sql import compose, identifier

BASES = ("allocation", "usage", "fully_loaded")
EXCHANGES = tuple(f"{basis}_exchange" for basis in BASES)
HELD_UNUSED = "held_unused"
#: what nobody is charged, in the order in which it is shown → how the page calls it
LINES = {
    HELD_UNUSED: "held, and not productive",
    "unallocated": "held by nobody",
    "borrowed": "used beyond the share asked for",
    "out_of_service": "out of service",
    "commitment_unused": "commitments that nothing used",
    "non_time": "credits, and lines that are no GPU's time",
    "billed_without_telemetry": "billed, and seen by no collector",
}
#: what the page lets one choose → what tells its members apart, and their name
_CHOICES = {
    "team": (identifier("team"), identifier("team")),
    "application": (identifier("application"), identifier("application")),
    "model": (identifier("model"), identifier("model")),
    "workload": (compose("cluster || ' ' || workload_id"), identifier("workload")),
}

# of what nobody held, a holder is charged with on no basis but the last; a line of a bill that is no time with on none at all
_CHARGES = """create or replace temporary table report_charges as
    select strftime(usage_date, '%Y-%m') as month, cost_line, mart.cluster, mart.team, application, mart.model, mart.workload_id,
        coalesce(workload, mart.workload_id) as workload,
        case when cost is not null and currency <> 'unknown' then currency end as priced_currency, gpu_hours,
        {amounts}
    from (
        select *, cost_line = 'held' as is_held, cost_line in ('non_time', 'billed_without_telemetry') as is_no_time
        from mart_cost_allocation_daily
    ) as mart left join (select workload_id, workload from dim_workloads) as names using (workload_id)"""
_AMOUNTS = compose(
    """case when is_held then allocation_cost else cost end as allocation,
        case when is_held then usage_cost else cost end as usage,
        case when is_no_time then cost else fully_loaded_cost end as fully_loaded"""
)
_REPORTED = compose(
    """case when is_held then allocation_cost_reporting else cost_reporting end as allocation_reporting,
        case when is_held then usage_cost_reporting else cost_reporting end as usage_reporting,
        case when is_no_time then cost_reporting else fully_loaded_cost_reporting end as fully_loaded_reporting"""
)
_NOT_REPORTED = compose("null as allocation_reporting, null as usage_reporting, null as fully_loaded_reporting")
# without a rate for one of its days a month's money is not known in another currency
_SUMS = compose(
    """sum(gpu_hours), sum(allocation), sum(usage), sum(fully_loaded),
        case when count(allocation) = count(allocation_reporting) then sum(allocation_reporting) end,
        case when count(usage) = count(usage_reporting) then sum(usage_reporting) end,
        case when count(fully_loaded) = count(fully_loaded_reporting) then sum(fully_loaded_reporting) end"""
)
_BY_MEMBER = """select case when is_named then {key} else '' end as member, case when is_named then {name} else '' end as name,
        case when is_named and {is_placed} then cluster else '' end as place, month, priced_currency, {sums}
    from (select *, list_contains($named, {key}) as is_named from report_charges where cost_line = 'held')
    group by all order by all"""
_BY_LINE = compose(
    """select cost_line, month, priced_currency, {sums} from report_charges where cost_line <> 'held' group by all
    union all
    select 'held_unused', month, priced_currency, 0, 0, sum(allocation) - sum(usage), 0, 0,
        case when count(allocation) = count(allocation_reporting) and count(usage) = count(usage_reporting)
            then sum(allocation_reporting) - sum(usage_reporting) end, 0
    from report_charges where cost_line = 'held' and priced_currency is not null group by all""",
    sums=_SUMS,
)


def read_chargeback(connection: duckdb.DuckDBPyConnection, lists: Lists, reporting: str | None) -> dict[str, Any]:
    """By choice its members and their months; the lines of nobody; and which months are closed, by currency."""
    amounts = compose("{own}, {reported}", own=_AMOUNTS, reported=_REPORTED if reporting else _NOT_REPORTED)
    connection.execute(compose(_CHARGES, amounts=amounts))
    names = ("month", "currency", "hours", *BASES, *(EXCHANGES if reporting else ()))
    lines = [
        (line, *_amounts(lists, bool(reporting), month, currency, sums))
        for line, month, currency, *sums in connection.execute(_BY_LINE).fetchall()
    ]
    months = connection.execute(
        """select strftime(month_start_date, '%Y-%m'), nullif(currency, 'unknown'), bool_and(is_closed)
        from mart_team_chargeback_monthly group by all"""
    ).fetchall()
    closed = [(month, lists.currency(currency), is_closed) for month, currency, is_closed in months]
    return {
        "choices": {choice: _members(connection, lists, choice, names) for choice in _CHOICES},
        "lines": to_columns(("line", *names), lines),
        "labels": LINES | {line: clean(line.replace("_", " ")) for line, *_ in lines if line not in LINES},
        "closed": to_columns(("month", "currency", "is_closed"), closed),
    }


def _members(connection: duckdb.DuckDBPyConnection, lists: Lists, choice: str, names: Sequence[str]) -> dict[str, Any]:
    """Those charged by one choice: the largest, and the others as one where there are too many."""
    is_reported = EXCHANGES[0] in names
    key, name = _CHOICES[choice]
    sizes = connection.execute(
        compose(
            """select {key}, count(distinct (month, priced_currency)), sum(gpu_hours) from report_charges
            where cost_line = 'held' group by 1""",
            key=key,
        )
    ).fetchall()
    named = choose_largest(sizes, MOST_CHARGEBACK_ROWS_REPORTING if is_reported else MOST_CHARGEBACK_ROWS)
    is_placed = compose("true" if choice == "workload" else "false")
    query = compose(_BY_MEMBER, key=key, name=name, is_placed=is_placed, sums=_SUMS)
    members = Members()
    columns = []
    for member, said, place, month, currency, *sums in connection.execute(query, {"named": sorted(named)}).fetchall():
        listed = {"name": clean(said) if member else f"other {choice}s", "cluster": lists.cluster(place) if place else -1}
        columns.append((members.place(member, listed), *_amounts(lists, is_reported, month, currency, sums)))
    return {"members": members.values, "rows": to_columns(("member", *names), columns)}


def _amounts(lists: Lists, is_reported: bool, month: str, currency: str | None, sums: Sequence[Any]) -> tuple[Any, ...]:
    hours, *money = sums
    own, reported = money[: len(BASES)], money[len(BASES) :]
    exchanges = [to_exchange(amount, other, MICRO) for amount, other in zip(own, reported, strict=True)] if is_reported else []
    amounts = (to_whole(amount, MICRO) for amount in own)
    return month, lists.currency(currency), to_whole(hours, TENTHOUSANDTH), *amounts, *exchanges
