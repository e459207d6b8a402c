"""The columns of `billing_lines` that a bill fills, and the values FOCUS allows in them."""

from __future__ import annotations

from collections.abc import Mapping

from warehouse.landing.shape import TABLES

TABLE = TABLES["billing_lines"]
#: filled by the collector, not read from the bill
DELIVERY_COLUMNS = ("delivery_id", "delivered_at")
COLUMNS = tuple(column.name for column in TABLE.columns if column.name not in DELIVERY_COLUMNS)
REQUIRED = tuple(column.name for column in TABLE.columns if column.required and column.name not in DELIVERY_COLUMNS)
#: digits behind the point that an amount keeps when it lands
SCALE = 12

#: columns whose values FOCUS fixes; another spelling of the same word is put right
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "charge_category": ("Usage", "Purchase", "Tax", "Credit", "Adjustment"),
    "charge_class": ("Correction",),
    "commitment_discount_status": ("Used", "Unused"),
}


def focus_name(column: str) -> str:
    """`billed_cost` as FOCUS writes it: `BilledCost`."""
    return "".join(word.capitalize() for word in column.split("_"))
