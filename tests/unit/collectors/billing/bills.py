"""Small bills written by hand, and what lands of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from collectors.billing.formats import NOTHING, Wish
from collectors.billing.parse import Bill, parse_csv
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

LINE: Mapping[str, str] = {
    "BilledCost": "1.5",
    "EffectiveCost": "1.25",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-10-01 00:00:00",
    "BillingPeriodEnd": "2026-11-01 00:00:00",
    "ChargePeriodStart": "2026-10-31 22:00:00",
    "ChargePeriodEnd": "2026-10-31 23:00:00",
    "ChargeCategory": "Usage",
    "ProviderName": "AWS",
    "BillingAccountId": "123456789012",
    "ResourceId": "arn:aws:ec2:us-west-2:1:instance/i-0abc",
}


def bill(*changes: Mapping[str, str], leave_out: Sequence[str] = ()) -> str:
    """A bill with one line per mapping, each `LINE` with those cells changed or added; a cell is empty if not given."""
    lines = [{**LINE, **change} for change in changes]
    names = [name for name in dict.fromkeys(name for line in lines for name in line) if name not in leave_out]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def save(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(*rows: Mapping[str, str], delimiter: str = ",") -> str:
    """CSV with a column per name that any row has."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), restval="", delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read(text: str, wish: Wish = NOTHING) -> Bill:
    return parse_csv(io.StringIO(text, newline=""), "bill.csv", wish)


def landed(parsed: Bill) -> list[dict[str, Any]]:
    """The rows as they land; none may be refused."""
    frame = parsed.frame.with_columns(pl.lit("d").alias("delivery_id"), pl.lit(datetime(2026, 11, 2)).alias("delivered_at"))
    conformed = conform(TABLES["billing_lines"], frame, parsed.file)
    assert not conformed.rejects
    assert not parsed.rejects
    return conformed.rows.to_dicts()


def values(row: Mapping[str, Any], *columns: str) -> tuple[Any, ...]:
    """Columns of a landed row, amounts as short as they can be written."""
    return tuple(float(row[column]) if isinstance(row[column], Decimal) else row[column] for column in columns)
