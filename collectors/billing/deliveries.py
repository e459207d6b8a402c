"""Which deliveries of a bill have landed, and when a new one counts as delivered."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from warehouse.landing.outcomes import current_files, landed_tables

_COLUMNS = ("provider_name", "billing_account_id", "delivery_id", "delivered_at")
#: the sources that land bills
_SOURCES = ("billing", "import")


def landed_deliveries(raw: Path) -> pl.DataFrame:
    """Provider, account, delivery and its time of every bill landed below `raw`, a row each."""
    frames = [
        pl.read_parquet(raw / file, columns=list(_COLUMNS)).unique()
        for source in _SOURCES
        for table, file in current_files(landed_tables(raw, source))
        if table == "billing_lines" and (raw / file).exists()
    ]
    empty = pl.DataFrame(schema=dict.fromkeys(_COLUMNS[:3], pl.String) | {"delivered_at": pl.Datetime("us")})
    return pl.concat([empty, *frames]).unique(maintain_order=True)


def delivery_time(bill: pl.DataFrame, delivery_id: str, newest_usage_end: datetime, landed: pl.DataFrame) -> datetime:
    """When a delivery counts as delivered, if nobody said: it follows from the bill and from what landed before.

    A bill does not carry the time of its delivery. It gets the end of its newest usage, or, where a delivery of the
    same provider and account counts as later than that, one second more than the latest of them: what is landed later
    replaces what was landed before. A delivery that has landed keeps its time, so that landing it again changes nothing.
    """
    again = landed.filter(pl.col("delivery_id") == delivery_id)["delivered_at"]
    if again.len():
        return _latest(again)
    accounts = bill.select(pl.col("provider_name", "billing_account_id").cast(pl.String)).unique()
    before = landed.join(accounts, on=accounts.columns, how="semi")["delivered_at"]
    if before.len() and _latest(before) >= newest_usage_end:
        return _latest(before) + timedelta(seconds=1)
    return newest_usage_end


def _latest(times: pl.Series) -> datetime:
    latest = times.max()
    assert isinstance(latest, datetime)
    return latest
