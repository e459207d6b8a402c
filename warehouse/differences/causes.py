"""Why numbers moved, read from the two files: what landed, was billed, priced, named or sealed between them.

A cause names the days with other rows that it touches; a day of a landing's window whose rows are the same in both versions was
not moved by it, and is not named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from warehouse.differences.records import (
    BILL,
    CORRECTED_BILL,
    LATE_ROWS,
    MODEL,
    NEW_DAYS,
    PRICES,
    RULES,
    SEALED,
    SHAPE,
    SOFTWARE,
    TEAM,
    WORKLOAD,
    Cause,
    TableChange,
    days_text,
)
from warehouse.differences.sides import Side
from warehouse.first_screen import NO_CLUSTER
from warehouse.landing.shape import TABLES
from warehouse.sql import Sql, compose, identifier, joined, literal, literals

RUNS, BILLS, LEDGER, WORKLOADS = "fct_collection_runs", "fct_billing_lines", "fct_gpu_ledger_hourly", "dim_workloads"
BILLING, CONFIG = "billing", "config"
NOT_DATED = tuple(sorted(table.name for table in TABLES.values() if table.group in ("bills", "reference")))
#: what a workload rule decides: under which name time stands, and how it is judged
NAMED_BY_RULE, JUDGED_BY_RULE = ("workload", "application", "team", "model"), ("kind", "latency_target_p95_seconds")
#: so many of a list are named
MOST_NAMED = 3


def find_causes(
    older: Side, newer: Side, tables: Sequence[TableChange], days: Sequence[date], new_days: Sequence[date]
) -> tuple[Cause, ...]:
    """Every cause that the data shows, new time first; none for two versions with the same rows."""
    if not tables and older.record.version == newer.record.version:
        return ()
    changed = {change.table: change for change in tables}
    finders: tuple[Callable[[], Iterator[Cause]], ...] = (
        lambda: _new_time(older, newer, new_days),
        lambda: _late_landings(older, newer, days, new_days) if RUNS in changed else iter(()),
        lambda: _bills(older, newer, days) if BILLS in changed else iter(()),
        lambda: _prices(older, newer, changed[LEDGER].days) if LEDGER in changed else iter(()),
        lambda: _rules(older, newer) if WORKLOADS in changed else iter(()),
        lambda: _sealed(older, newer) if RUNS in changed else iter(()),
        lambda: _software(older, newer),
        lambda: _shape(tables),
    )
    return tuple(cause for finder in finders for cause in finder())


def _new_time(older: Side, newer: Side, new_days: Sequence[date]) -> Iterator[Cause]:
    if new_days:
        through = [
            f"{side.record.data_through_at:%Y-%m-%d %H:%M}" if side.record.data_through_at else "–" for side in (older, newer)
        ]
        text = f"data reaches to {through[1]} UTC, it reached to {through[0]}: {days_text(new_days)} not whole before"
        yield Cause(NEW_DAYS, text, tuple(new_days))


def _late_landings(older: Side, newer: Side, days: Sequence[date], new_days: Sequence[date]) -> Iterator[Cause]:
    """Landings that speak of days which the older version held in full, by source and cluster."""
    columns = ("collection_run_id", "source", "cluster", "status", "window_start_at", "window_end_at", "rows_landed", "landed_at")
    if not (older.has(RUNS, columns) and newer.has(RUNS, columns)):
        return
    # a landing of prices or bills alone is told by what it did to them
    told = "exists (select 1 from unnest(string_split(landing_tables, ',')) as names (name) where name not in ({names}))"
    is_dated = compose(told, names=literals(NOT_DATED)) if newer.has(RUNS, ("landing_tables",)) else literal(True)
    query = compose(
        """select source, cluster, window_start_at, coalesce(window_end_at, window_start_at), rows_landed, landed_at
        from {after} as runs
        anti join {before} as before on runs.collection_run_id = before.collection_run_id
        where status = 'landed' and rows_landed > 0 and source not in ({others}) and {is_dated}
        order by source, cluster, landed_at""",
        after=newer.table(RUNS),
        before=older.table(RUNS),
        others=literals((BILLING, CONFIG)),
        is_dated=is_dated,
    )
    rows = newer.connection.execute(query).fetchall()
    restated = [day for day in days if day not in set(new_days)]
    found: dict[tuple[str, str], tuple[int, int, set[date]]] = {}
    for source, cluster, start_at, end_at, count, _ in rows:
        # a landing that names no window may be of any day
        touched = set(restated) if start_at is None else {day for day in restated if _overlaps(day, start_at, end_at)}
        if touched:
            landings, landed, before = found.get((source, cluster), (0, 0, set()))
            found[source, cluster] = (landings + 1, landed + count, before | touched)
    for (source, cluster), (landings, landed, touched) in found.items():
        where = f" for {cluster}" if cluster not in ("unknown", "unallocated") else ""
        plural = "landing" if landings == 1 else "landings"
        text = (
            f"{landings} {plural} of {source}{where} ({landed:,} rows) whose windows reach back to {days_text(sorted(touched))}"
        )
        yield Cause(LATE_ROWS, text, tuple(sorted(touched)), (cluster,) if where else ())


def _overlaps(day: date, start_at: datetime, end_at: datetime) -> bool:
    start = datetime.combine(day, datetime.min.time())
    return start_at < start + timedelta(days=1) and (end_at > start or start_at >= start)


def _bills(older: Side, newer: Side, days: Sequence[date]) -> Iterator[Cause]:
    """Deliveries of bills that are new: a first bill for days without one, a corrected one for days whose lines it replaced."""
    columns = (
        *("line_id", "provider_name", "billing_account_id", "delivery_id", "charge_period_start"),
        *("billing_currency", "effective_cost"),
    )
    if not (older.has(BILLS, columns) and newer.has(BILLS, columns)):
        return
    query = compose(
        """with gone as (
            select provider_name, billing_account_id, cast(charge_period_start as date) as usage_date, billing_currency,
                count(*) as line_count, sum(effective_cost) as cost
            from {before} as lines
            anti join {after} as after on lines.line_id = after.line_id
            group by all
        ), came as (
            select provider_name, billing_account_id, cast(charge_period_start as date) as usage_date, billing_currency,
                count(*) as line_count, sum(effective_cost) as cost,
                list(distinct delivery_id order by delivery_id) as deliveries
            from {after} as lines
            anti join {before} as before on lines.line_id = before.line_id
            group by all
        ), billed_before as (
            select distinct provider_name, billing_account_id, cast(charge_period_start as date) as usage_date,
                billing_currency, true as was_billed
            from {before}
        )
        select provider_name, billing_account_id, billing_currency, usage_date, coalesce(came.line_count, 0),
            coalesce(gone.line_count, 0), coalesce(came.cost, 0) - coalesce(gone.cost, 0), coalesce(came.deliveries, []),
            coalesce(was_billed, false) as is_corrected
        from came full join gone using (provider_name, billing_account_id, usage_date, billing_currency)
        left join billed_before using (provider_name, billing_account_id, usage_date, billing_currency)
        order by all""",
        before=older.table(BILLS),
        after=newer.table(BILLS),
    )
    rows = newer.connection.execute(query).fetchall()
    groups: dict[tuple[str, str, str, bool], list[tuple[Any, ...]]] = {}
    for provider, account, currency, *rest, is_corrected in rows:
        groups.setdefault((provider, account, currency, is_corrected), []).append(tuple(rest))
    for (provider, account, currency, is_corrected), found in groups.items():
        charged = sorted({row[0] for row in found})
        deliveries = sorted({delivery for row in found for delivery in row[4]})
        cost = sum(row[3] for row in found)
        lines, replaced = sum(row[1] for row in found), sum(row[2] for row in found)
        name = f"{provider} {account}: {_named(deliveries, 'delivery', 'deliveries')}, {lines:,} lines for {days_text(charged)}"
        if is_corrected:
            text = f"{name} in place of {replaced:,}, effective cost {cost:+,.2f} {currency}"
            touched = _touched(charged, days)
            yield Cause(CORRECTED_BILL, text, touched, _billed_clusters(newer, touched), is_money_only=True)
        else:
            # the days after it are estimated from it until their own bill comes
            touched = _touched([day for day in days if day >= charged[0]], days)
            text = f"{name}, effective cost {cost:,.2f} {currency}"
            yield Cause(BILL, text, touched, _billed_clusters(newer, touched), is_money_only=True)


def _billed_clusters(side: Side, days: Sequence[date]) -> tuple[str, ...]:
    """The clusters whose time has a price by bill on these days; empty (any) where the file cannot say."""
    if not days or not side.has(LEDGER, ("usage_date", "cluster", "cost_source")):
        return ()
    within = side.tables[LEDGER].within([str(day) for day in days])
    query = compose(
        """select distinct cluster from {ledger}
        where cost_source in ('billing', 'estimate') and {within} order by 1""",
        ledger=side.table(LEDGER),
        within=within,
    )
    rows = side.connection.execute(query).fetchall()
    # what a bill has for no device stands under no cluster
    return (*(row[0] for row in rows), NO_CLUSTER) if rows else ()


def _prices(older: Side, newer: Side, days: Sequence[date]) -> Iterator[Cause]:
    """Days on which the same time has another price: by cluster and source of the price, hours equal and money not."""
    columns = ("usage_date", "cluster", "gpu_model", "cost_source", "currency", "gpu_hours", "cost")
    if not days or not (older.has(LEDGER, columns) and newer.has(LEDGER, columns)):
        return

    def priced(side: Side) -> Sql:
        return compose(
            """(select usage_date, cluster, gpu_model, cost_source, currency, sum(gpu_hours) as gpu_hours, sum(cost) as cost
            from {ledger} where {within} group by all)""",
            ledger=side.table(LEDGER),
            within=side.tables[LEDGER].within([str(day) for day in days]),
        )

    query = compose(
        """select cost_source, cluster, list(distinct usage_date order by usage_date),
            list(distinct gpu_model order by gpu_model)
        from {before} as old inner join {after} as new
            using (usage_date, cluster, gpu_model, cost_source, currency)
        where abs(old.gpu_hours - new.gpu_hours) < 1e-6 and abs(old.cost - new.cost) > 0.000001 and cost_source <> 'billing'
        group by all order by all""",
        before=priced(older),
        after=priced(newer),
    )
    rows = newer.connection.execute(query).fetchall()
    words = {"rate_card": "the rate card in force", "estimate": "the bill that estimates follow"}
    for source, cluster, touched, models in rows:
        priced_models = _named(models, "model", "models")
        text = f"{words.get(source, source)} has another price for {priced_models} of {cluster}: {days_text(touched)}"
        yield Cause(PRICES, text, tuple(touched), (cluster,), is_money_only=True)


def _rules(older: Side, newer: Side) -> Iterator[Cause]:
    """Workloads that are called, owned or judged otherwise, and runs that belong to another one."""
    for columns, words, levels in (
        (NAMED_BY_RULE, "another name, application, team or model", (TEAM, WORKLOAD, MODEL)),
        (JUDGED_BY_RULE, "another kind or latency target, by which idle time is judged", ()),
    ):
        shared = [column for column in columns if older.has(WORKLOADS, (column,)) and newer.has(WORKLOADS, (column,))]
        if not shared or not (
            older.has(WORKLOADS, ("workload_id", "cluster")) and newer.has(WORKLOADS, ("workload_id", "cluster"))
        ):
            continue
        query = compose(
            """select new.workload_id, new.cluster
            from {before} as old inner join {after} as new on old.workload_id = new.workload_id
            where {moved} order by 1""",
            before=older.table(WORKLOADS),
            after=newer.table(WORKLOADS),
            moved=joined(" or ", (_differs(column) for column in shared)),
        )
        rows = newer.connection.execute(query).fetchall()
        if rows:
            names = _named([row[0] for row in rows], "workload", "workloads")
            yield Cause(RULES, f"{names}: {words}", clusters=tuple(sorted({row[1] for row in rows})), levels=levels)
    runs = ("run_id", "cluster", "workload_id")
    if older.has("dim_runs", runs) and newer.has("dim_runs", runs):
        query = compose(
            """select old.workload_id || ' → ' || new.workload_id as moved, new.cluster, count(*)
            from {before} as old inner join {after} as new on old.run_id = new.run_id
            where old.workload_id <> new.workload_id group by all order by count(*) desc, moved""",
            before=older.table("dim_runs"),
            after=newer.table("dim_runs"),
        )
        rows = newer.connection.execute(query).fetchall()
        if rows:
            text = f"{sum(row[2] for row in rows):,} runs belong to another workload: {_named([row[0] for row in rows], '', '')}"
            yield Cause(RULES, text, clusters=tuple(sorted({row[1] for row in rows})))


def _differs(column: str) -> Sql:
    return compose("old.{column} is distinct from new.{column}", column=identifier(column))


def _sealed(older: Side, newer: Side) -> Iterator[Cause]:
    """Samples that expired meanwhile, and rows that came too late for a day whose samples had."""
    columns = ("collection_run_id", "source", "status", "rows_late")
    if not (older.has(RUNS, columns) and newer.has(RUNS, columns)):
        return
    query = compose(
        """select coalesce(sum(runs.rows_late - coalesce(before.rows_late, 0)), 0),
            count(*) filter (where runs.status = 'expired' and before.collection_run_id is null)
        from {after} as runs left join {before} as before on runs.collection_run_id = before.collection_run_id""",
        after=newer.table(RUNS),
        before=older.table(RUNS),
    )
    late, expired = newer.connection.execute(query).fetchall()[0]
    if late > 0:
        text = f"{late:,} rows came for days that are sealed: counted as late, they moved nothing"
        yield Cause(SEALED, text, is_money_only=True)
    if expired:
        yield Cause(SEALED, "samples expired: their days are sealed, and only money moves there from now on", is_money_only=True)


def _software(older: Side, newer: Side) -> Iterator[Cause]:
    if older.record.version != newer.record.version:
        yield Cause(SOFTWARE, f"other rules or models: {older.record.version} → {newer.record.version}; every day was built anew")


def _shape(tables: Sequence[TableChange]) -> Iterator[Cause]:
    new = [change.table for change in tables if change.is_new]
    gone = [change.table for change in tables if change.is_gone]
    added = [f"{change.table}.{column}" for change in tables for column in change.columns_added]
    removed = [f"{change.table}.{column}" for change in tables for column in change.columns_removed]
    for names, words in ((new, "new table"), (gone, "table gone"), (added, "new column"), (removed, "column gone")):
        if names:
            yield Cause(SHAPE, f"{words}: {_named(names, '', '')}")


def _touched(wanted: Sequence[date], days: Sequence[date]) -> tuple[date, ...]:
    """Those of the days that have other rows, else all of them: an empty list would say any day."""
    return tuple(day for day in wanted if day in set(days)) or tuple(wanted)


def _named(names: Sequence[str], one: str, many: str) -> str:
    """`3 models A, B, C`, long lists cut."""
    shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    word = one if len(names) == 1 else many
    return f"{word} {shown}".strip()
