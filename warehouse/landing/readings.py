"""Readings of a device: what is no answer becomes null with a reason (semantics 4)."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl

from warehouse.landing.shape import Column

#: what tools print where a device has no answer → the reason
MISSING_TEXTS = {
    "n/a": "not_supported",
    "[n/a]": "not_supported",
    "not supported": "not_supported",
    "[not supported]": "not_supported",
    "-": "not_supported",
    "[unknown error]": "not_supported",
    "[insufficient permissions]": "not_permitted",
    "insufficient permissions": "not_permitted",
    "nan": "out_of_range",
}
#: DCGM's blanks (dcgm_structs.h): the first of sixteen values; +1 not found, +2 not supported, +3 not permissioned
BLANK_INT64 = 0x7FFFFFFFFFFFFFF0
BLANK_DOUBLE = 140737488355328.0
BLANK_INT32 = 0x7FFFFFF0
#: readings that can never reach the 32-bit blank; 30 GiB is a valid memory reading, so memory is not among them
NARROW_READINGS = re.compile(r"_ratio$|_mhz$|_celsius$|_watts$|^clock_event_reasons$|^xid$")
#: a ratio up to here is rounding of the device; above it is wrong
RATIO_CEILING = 1.02

_BLANK_TEXT = re.compile("<<<.*>>>")

Readings = tuple[pl.Series, dict[int, str], pl.Series | None]


def read_readings(column: Column, raw: pl.Series) -> Readings:
    """A column of numbers or trimmed texts: the readings, the rows that hold no number, the reasons of the gaps."""
    bad: dict[int, str] = {}
    reasons: dict[int, str] = {}
    exact: pl.Series | None = None
    if raw.dtype == pl.String:
        values = raw.cast(pl.Float64, strict=False)
        exact = raw.cast(pl.Int64, strict=False)
        for row in (values.is_null() & raw.is_not_null()).arg_true().to_list():
            reason = _reason_of_text(raw[row])
            if reason:
                reasons[row] = reason
            else:
                bad[row] = f"{raw[row]!r} is no number"
    else:
        values = raw.cast(pl.Float64)
        exact = raw.cast(pl.Int64, strict=False) if raw.dtype.is_integer() else None
    for row in _suspects(column.name, values):
        value = exact[row] if exact is not None and exact[row] is not None else values[row]
        reason = _reason_of_number(column.name, value)
        if reason:
            reasons[row] = reason
    if reasons:
        values = values.scatter(list(reasons), None)
    gaps = None
    if reasons:
        gaps = nulls(len(raw), pl.String).scatter(list(reasons), list(reasons.values()))
    if column.kind == "reading":
        return values, bad, gaps
    if exact is not None and exact.null_count() == raw.null_count():
        return (exact.scatter(list(reasons), None) if reasons else exact), bad, gaps
    whole = values.round(0).cast(pl.Int64, strict=False)
    if exact is not None:
        whole = pl.select(pl.when(values.is_not_null()).then(pl.coalesce(exact, whole))).to_series()
    return whole, bad, gaps


def _suspects(name: str, values: pl.Series) -> list[int]:
    """The rows that may be no reading; on good columns the least and the largest value tell that there are none."""
    ceiling = RATIO_CEILING if name.endswith("_ratio") else BLANK_INT32 if NARROW_READINGS.search(name) else BLANK_DOUBLE
    low, high = values.min(), values.max()
    if not values.is_nan().any() and (low is None or (low >= 0 and high < ceiling)):  # type: ignore[operator]
        return []
    return (values.is_nan() | (values < 0) | (values >= ceiling)).fill_null(False).arg_true().to_list()


def _reason_of_text(text: str) -> str | None:
    return MISSING_TEXTS.get(text.lower()) or ("not_supported" if _BLANK_TEXT.fullmatch(text) else None)


def _reason_of_number(name: str, value: float) -> str | None:
    """Why a number is no reading, None where it is one."""
    if math.isnan(value) or value < 0 or math.isinf(value):
        return "out_of_range"
    if value >= BLANK_INT64:
        return _reason_of_blank(value - BLANK_INT64)
    if BLANK_DOUBLE <= value < BLANK_DOUBLE + 16:
        return _reason_of_blank(value - BLANK_DOUBLE)
    if NARROW_READINGS.search(name) and value >= BLANK_INT32:
        return _reason_of_blank(value - BLANK_INT32)
    return "out_of_range" if name.endswith("_ratio") and value > RATIO_CEILING else None


def _reason_of_blank(offset: float) -> str:
    return "not_permitted" if offset == 3 else "not_supported"


def nulls(height: int, dtype: Any) -> pl.Series:
    """A column without a value; `pl.repeat` starts the query engine for each, a hundred times as dear."""
    return pl.Series([None], dtype=dtype).new_from_index(0, height)
