"""FOCUS columns (1.0 to 1.2) ↔ the columns of `billing_lines`, and the values FOCUS allows in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warehouse.landing_shape import TABLES

TABLE = TABLES["billing_lines"]
#: filled by the collector, not read from the bill
DELIVERY_COLUMNS = ("delivery_id", "delivered_at")
COLUMNS = tuple(column.name for column in TABLE.columns if column.name not in DELIVERY_COLUMNS)
REQUIRED = tuple(column.name for column in TABLE.columns if column.required and column.name not in DELIVERY_COLUMNS)
INSTANTS = tuple(column.name for column in TABLE.columns if column.kind == "timestamp" and column.name in COLUMNS)

#: columns whose values FOCUS fixes; another spelling of the same word is put right
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "charge_category": ("Usage", "Purchase", "Tax", "Credit", "Adjustment"),
    "charge_class": ("Correction",),
    "commitment_discount_status": ("Used", "Unused"),
}


def focus_name(column: str) -> str:
    """`billed_cost` as FOCUS writes it: `BilledCost`."""
    return "".join(word.capitalize() for word in column.split("_"))


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_KEY = {_key(column): column for column in COLUMNS}


@dataclass(frozen=True)
class Header:
    """Which position of a row holds which landing column, and what the bill has besides."""

    positions: Mapping[str, int]
    extra: Sequence[str]
    ignored: Sequence[str]
    lacking: Sequence[str]


def read_header(names: Sequence[str]) -> Header:
    """Match column names whatever their case, spaces or underscores; the first of two that match counts.

    `ignored` are a provider's own columns (`x_…`), `extra` the others without a place in the landing shape, `lacking`
    the required ones that are not there.
    """
    positions: dict[str, int] = {}
    extra: list[str] = []
    ignored: list[str] = []
    for position, name in enumerate(names):
        column = _BY_KEY.get(_key(name))
        if column is not None and column not in positions:
            positions[column] = position
        elif name.strip().lower().startswith("x_"):
            ignored.append(name.strip())
        elif name.strip():
            extra.append(name.strip())
    return Header(positions, extra, ignored, [column for column in REQUIRED if column not in positions])
