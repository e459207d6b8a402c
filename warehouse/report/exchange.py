"""Money of several currencies as one: in the reporting currency of the configured rates, which is the marts' to convert.

Beside an amount stands what its exchange adds to it, which is nothing where it is in that currency already, and None where no
rate is in force: the page's sum of the two is the marts' `…_reporting`.
"""

from __future__ import annotations

from decimal import Decimal

import duckdb

from warehouse.report.columns import to_whole
from warehouse.sql import Sql, compose

#: the column of a part's cells that holds it
EXCHANGE = "exchange"


def read_reporting_currency(connection: duckdb.DuckDBPyConnection) -> str | None:
    """The currency into which money of another one is converted; None where there is no such money, or no rate."""
    row = connection.execute(
        """select max(reporting_currency) from mart_cost_allocation_daily
        where cost_reporting is not null and currency <> 'unknown' and currency <> reporting_currency"""
    ).fetchone()
    return row[0] if row else None


def sum_reported(reporting: str | None) -> Sql:
    """The sum of a relation's `cost_reporting`; null where nothing is converted, or where a part has no rate."""
    if reporting is None:
        return compose("cast(null as decimal(38, 6))")
    return compose("case when count(cost) = count(cost_reporting) then sum(cost_reporting) end")


def to_exchange(amount: Decimal | None, reported: Decimal | None, scale: int) -> int | None:
    """What the exchange adds, in so many parts of `scale`; None without a rate, or without an amount."""
    if amount is None or reported is None:
        return None
    return to_whole(reported, scale) - to_whole(amount, scale)
