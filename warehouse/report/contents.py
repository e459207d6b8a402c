"""What the report holds, as numbers: columns of whole numbers, which compress well, and the lists that they point into.

Everything is a sum of published rows. GPU-hours come in millionths of an hour, money in millionths of its currency, as the
published columns hold them; where workloads are told apart in ten-thousandths of an hour and of the currency. What the states
mean for GPU Net comes as flags beside them, so that the page sums and divides and decides nothing.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import duckdb

from warehouse.digest import words
from warehouse.digest.figures import BEFORE_HELD, COMMITMENT, OUT_OF_SERVICE, PRODUCTIVE, UNOBSERVED, waterfall_order
from warehouse.first_screen import COVERAGE_FLOOR
from warehouse.publication.relations import ECONOMICS, WATERFALL, WATERFALL_REPORTING
from warehouse.report.chargeback import read_chargeback
from warehouse.report.columns import MICRO, TENTHOUSANDTH, Lists, Members, clean, to_columns, to_whole
from warehouse.report.exchange import EXCHANGE, read_reporting_currency, sum_reported, to_exchange
from warehouse.report.holders import read_holders
from warehouse.report.idle_map import read_map
from warehouse.report.sizes import MOST_COVERAGE_ROWS, MOST_ECONOMICS_ROWS, first_that_fits
from warehouse.sql import compose, identifier

Contents = dict[str, Any]


def read_contents(connection: duckdb.DuckDBPyConnection, first: date, last: date) -> Contents:
    """Everything that the page charts, of the days `first` to `last`."""
    lists = Lists()
    reporting = read_reporting_currency(connection)
    states = _states(connection)
    places = {state["state"]: place for place, state in enumerate(states)}
    contents: Contents = {
        "first": f"{first}",
        "days": (last - first).days + 1,
        "coverage_floor": COVERAGE_FLOOR,
        "reporting": None if reporting is None else clean(reporting, 12),
        "states": states,
        "fleet": _fleet(connection, lists, places, first, reporting),
        **read_holders(connection, lists, places, first, last, reporting),
        "map": read_map(connection, lists, places, last),
        "economics": _economics(connection, lists, first, last),
        "chargeback": read_chargeback(connection, lists, reporting),
        "coverage": _coverage(connection, lists, first, last),
    }
    return contents | {
        "clusters": lists.clusters.values,
        "teams": lists.teams.values,
        "currencies": lists.currencies.values,
    }


def _states(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The states in the waterfall's order, with what they are for GPU Net."""
    rows = connection.execute("select state, label, state_order, is_ghost, definition from dim_states").fetchall()
    rows.sort(key=lambda row: waterfall_order(row[0], row[2]))
    return [
        {
            "state": state,
            "label": label,
            "definition": definition,
            "is_ghost": is_ghost,
            "is_capacity": state != COMMITMENT,
            "is_in_service": state not in (OUT_OF_SERVICE, COMMITMENT),
            "is_held": state not in (*BEFORE_HELD, COMMITMENT),
            "is_unobserved": state == UNOBSERVED,
            "is_productive": state == PRODUCTIVE,
        }
        for state, label, _, is_ghost, definition in rows
    ]


def _fleet(
    connection: duckdb.DuckDBPyConnection, lists: Lists, states: dict[str, int], first: date, reporting: str | None
) -> dict[str, list[Any]]:
    """Hours and money by cluster, state, currency and day: all that the headline, the waterfall and the trend are made of."""
    rows = connection.execute(
        compose(
            """select usage_date, cluster, state, priced_currency, sum(gpu_hours), sum(cost), {reported} from {waterfall}
            where usage_date >= ? group by all order by all""",
            waterfall=WATERFALL_REPORTING if reporting else WATERFALL,
            reported=sum_reported(reporting),
        ),
        [first],
    ).fetchall()
    return to_columns(
        ("cluster", "state", "currency", "day", "hours", "cost", *([EXCHANGE] if reporting else [])),
        [
            (
                *(lists.cluster(cluster), states[state], lists.currency(currency), (day - first).days),
                *(to_whole(hours, MICRO), to_whole(cost, MICRO)),
                *([to_exchange(cost, reported, MICRO)] if reporting else []),
            )
            for day, cluster, state, currency, hours, cost, reported in rows
        ],
    )


def _economics(connection: duckdb.DuckDBPyConnection, lists: Lists, first: date, last: date) -> Contents:
    """What tokens and requests cost, by day, workload, model and currency; money in millionths, None where there is no price."""
    since = _since(connection, "mart_unit_economics_daily", first, last, MOST_ECONOMICS_ROWS)
    rows = connection.execute(
        compose(
            """select usage_date, cluster, workload_id, workload, model, currency, coalesce(tokens_all, 0),
                coalesce(request_count, 0), held_gpu_hours, null_reason, list_provider, list_model, cost_per_million_tokens,
                cost_per_thousand_requests, list_cost_per_million_tokens
            from {economics} where usage_date between ? and ?
            order by tokens_all desc nulls last, workload_id, model""",
            economics=ECONOMICS,
        ),
        [since, last],
    ).fetchall()
    services, reasons = Members(), Members()
    columns = []
    for day, *who, tokens, requests, hours, reason, listed_by, listed, per_million, per_thousand, list_price in rows:
        cluster, workload_id, workload, model, currency = who
        service = {
            "model": clean(model),
            "workload": clean(workload),
            "cluster": lists.cluster(cluster),
            "currency": clean(currency, 12),
            "list": f"{clean(listed)} of {clean(listed_by or 'unknown')}" if listed else None,
        }
        columns.append(
            (
                *(services.place((workload_id, model, currency), service), (day - first).days, tokens, requests),
                to_whole(hours, TENTHOUSANDTH),
                *(None if price is None else to_whole(price, MICRO) for price in (per_million, per_thousand, list_price)),
                reasons.place(reason or "", words.reason_words(reason or "")),
            )
        )
    names = ("service", "day", "tokens", "requests", "hours", "per_million", "per_thousand", "list_per_million", "reason")
    return {
        "since": (since - first).days,
        "services": services.values,
        "reasons": reasons.values,
        "rows": to_columns(names, columns),
    }


def _since(connection: duckdb.DuckDBPyConnection, table: str, first: date, last: date, most: int) -> date:
    """The day from which the rows of a table up to `last` are at most `most`."""
    counts = connection.execute(
        compose("select usage_date, count(*) from {table} where usage_date between ? and ? group by 1", table=identifier(table)),
        [first, last],
    ).fetchall()
    return first_that_fits(counts, most) or first


def _coverage(connection: duckdb.DuckDBPyConnection, lists: Lists, first: date, last: date) -> Contents:
    """How much of the time held each source observed, and what it landed, by day; hours None for one that observes none."""
    since = _since(connection, "mart_data_coverage_daily", first, last, MOST_COVERAGE_ROWS)
    rows = connection.execute(
        """select usage_date, cluster, source, expected_hours, covered_hours, rows_landed, rows_quarantined
        from mart_data_coverage_daily where usage_date between ? and ?""",
        [since, last],
    ).fetchall()
    sources = Members()
    columns = [
        (
            *(lists.cluster(cluster), sources.place(source, clean(source)), (day - first).days),
            *(None if hours is None else to_whole(hours, TENTHOUSANDTH) for hours in (expected, covered)),
            *(landed or 0, quarantined or 0),
        )
        for day, cluster, source, expected, covered, landed, quarantined in rows
    ]
    return {
        "since": (since - first).days,
        "sources": sources.values,
        "rows": to_columns(("cluster", "source", "day", "expected", "covered", "landed", "quarantined"), columns),
    }
