"""Check rows against the landing shape: typed rows on one side, rejects with line and reason on the other.

Every collector's rows pass here, so that a table means the same whoever landed it. A row that breaks its schema is
rejected whole; a *reading* that a device could not give (`[N/A]`, a DCGM blank, NaN, a ratio of 1.29) becomes null,
with the reason in the row's `missing` map, because the rest of the row is still true.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl

from warehouse.landing_shape import CHOICES, ORDERED_INSTANTS, Column, Table

MALFORMED = "malformed"

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
#: a ratio up to here is rounding of the device; above it is wrong (semantics 4)
RATIO_CEILING = 1.02

_SECRET = re.compile(
    r"""(?ix) (bearer\s+|(?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|authorization)["']?\s*[=:]\s*["']?)
    [^\s"',;|]+ | \b(?:sk|pk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{8,} | \bAKIA[0-9A-Z]{12,}"""
)


@dataclass(frozen=True)
class Reject:
    """A row left out: where it stood, why, and its text with secrets redacted. `line` counts from 1; None: the file."""

    file: str
    line: int | None
    reason: str
    detail: str
    text: str = ""


@dataclass(frozen=True)
class Conformed:
    rows: pl.DataFrame
    rejects: list[Reject]


def redact(text: str, limit: int = 4000) -> str:
    """Blank out what looks like a key, a token or a password; cut at `limit` characters."""
    return _SECRET.sub(lambda match: (match.group(1) or "") + "[redacted]", text[:limit])


def parse_instant(text: str) -> datetime:
    """ISO 8601 with an offset, or a date (UTC midnight), as a naive UTC datetime; ValueError tells the remedy."""
    text = text.strip()
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return datetime.fromisoformat(text)
    if not re.match(r"\d{4}-\d{2}-\d{2}[T ]", text):
        raise ValueError(f"{text!r} is no ISO 8601 instant; write 2026-11-01T00:00:00Z")
    try:
        instant = datetime.fromisoformat(re.sub(r" ?UTC$", "Z", text))
    except ValueError:
        raise ValueError(f"{text!r} is no ISO 8601 instant; write 2026-11-01T00:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; write {text.replace(' ', 'T')}Z if it is UTC")
    return instant.astimezone(UTC).replace(tzinfo=None)


def pseudonym(user: str) -> str | None:
    """A user name as a keyed hash (`GPU_NET_USER_KEY`); None without a key, so that no name is landed."""
    key = os.environ.get("GPU_NET_USER_KEY")
    if not key:
        return None
    return "user-" + hmac.new(key.encode(), user.encode(), hashlib.sha256).hexdigest()[:16]


def conform(table: Table, frame: pl.DataFrame, file: str) -> Conformed:
    """Type the columns of `frame` as `table` says and split off the rows that break it.

    `frame` may hold texts, numbers, datetimes, lists; a column that is absent is null, one that the table does not
    name is left out. `line_number`, where present, is the row's line in `file`.
    """
    lines = _line_numbers(frame)
    problems: dict[int, str] = {}
    missing: dict[int, dict[str, str]] = {}
    typed: list[pl.Series] = []
    series: pl.Series
    for column in table.columns:
        if column.kind == "missing":
            continue
        series, bad, gaps = _typed(column, frame)
        for row, detail in bad.items():
            problems.setdefault(row, f"{column.name}: {detail}")
        for row, reason in gaps.items():
            missing.setdefault(row, {})[column.name] = reason
        for row, detail in _breaches(table, column, series):
            problems.setdefault(row, f"{column.name}: {detail}")
        typed.append(series)
    rows = pl.DataFrame(typed)
    if any(column.kind == "missing" for column in table.columns):
        rows = rows.with_columns(_missing_map(frame, missing).alias("missing"))
    for earlier, later in ORDERED_INSTANTS.get(table.name, ()):
        for row in rows.select((pl.col(later) < pl.col(earlier)).arg_true()).to_series():
            problems.setdefault(row, f"{later} lies before {earlier}")
    if table.name == "rate_cards":
        priced = rows["cost_per_gpu_hour"].is_not_null() | (
            rows["purchase_price"].is_not_null() & rows["depreciation_hours"].is_not_null()
        )
        for row in (~priced).arg_true():
            problems.setdefault(row, "cost_per_gpu_hour, or purchase_price with depreciation_hours, must be given")
    rows = rows.select(column.name for column in table.columns).with_columns(lines.alias("line_number"))
    if not problems:
        return Conformed(rows, [])
    rejects = [
        Reject(file, lines[row], MALFORMED, detail, redact(_row_text(frame, row))) for row, detail in sorted(problems.items())
    ]
    keep = pl.Series(row not in problems for row in range(frame.height))
    return Conformed(rows.filter(keep), rejects)


def _line_numbers(frame: pl.DataFrame) -> pl.Series:
    if "line_number" in frame.columns:
        return frame["line_number"].cast(pl.Int64)
    return pl.int_range(1, frame.height + 1, dtype=pl.Int64, eager=True)


def _row_text(frame: pl.DataFrame, row: int) -> str:
    values = {name: value for name, value in frame.row(row, named=True).items() if value is not None and name != "line_number"}
    return json.dumps(values, default=str, ensure_ascii=False)


Typed = tuple[pl.Series, dict[int, str], dict[int, str]]


def _typed(column: Column, frame: pl.DataFrame) -> Typed:
    """The column as its type, the rows whose value has no such type, the rows where the device had no answer."""
    if column.name not in frame.columns:
        return pl.Series(column.name, [None] * frame.height, dtype=column.polars_type), {}, {}
    raw = frame[column.name]
    if raw.dtype == pl.Null:
        return raw.cast(column.polars_type), {}, {}
    if raw.dtype in (pl.Categorical, pl.Enum):
        raw = raw.cast(pl.String)
    if column.kind in ("reading", "reading_integer"):
        return _readings(column, raw)
    if column.kind == "timestamp" and isinstance(raw.dtype, pl.Datetime | pl.Date):
        return _naive_utc(raw), {}, {}
    if column.kind in ("integer", "double") and raw.dtype.is_numeric():
        return _numbers(column, raw)
    if column.kind == "text" and raw.dtype == pl.String:
        stripped = raw.str.strip_chars()
        return stripped.set(stripped == "", None), {}, {}
    if column.kind == "boolean" and raw.dtype == pl.Boolean:
        return raw, {}, {}
    if column.kind == "histogram" and raw.dtype == column.polars_type:
        return raw, {}, {}
    return _each_distinct(column, raw)


def _naive_utc(raw: pl.Series) -> pl.Series:
    if isinstance(raw.dtype, pl.Datetime) and raw.dtype.time_zone:
        raw = raw.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return raw.cast(pl.Datetime("us"))


def _numbers(column: Column, raw: pl.Series) -> Typed:
    if raw.dtype.is_float():
        wrong = raw.is_nan() | raw.is_infinite()
        if column.kind == "integer":
            wrong = wrong | (raw != raw.round(0))
        wrong = wrong.fill_null(False)
        bad = {row: f"{raw[row]} is no {column.kind}" for row in wrong.arg_true()}
        raw = raw.set(wrong, None) if bad else raw
    series = raw.cast(column.polars_type, strict=False)
    bad_cast = (series.is_null() & raw.is_not_null()).arg_true()
    return series, {row: f"{raw[row]} is no {column.kind}" for row in bad_cast} | (bad if raw.dtype.is_float() else {}), {}


def _readings(column: Column, raw: pl.Series) -> Typed:
    """Numbers of a device: texts for a missing answer, DCGM blanks, NaN and impossible ratios are null with a reason."""
    bad: dict[int, str] = {}
    gaps: dict[int, str] = {}
    exact: pl.Series | None
    if raw.dtype == pl.String:
        text = raw.str.strip_chars()
        text = text.set(text == "", None)
        values = text.cast(pl.Float64, strict=False)
        for row in (values.is_null() & text.is_not_null()).arg_true():
            reason = MISSING_TEXTS.get(text[row].lower()) or ("not_supported" if re.match("<<<.*>>>", text[row]) else None)
            if reason:
                gaps[row] = reason
            else:
                bad[row] = f"{text[row]!r} is no number"
        exact = text.cast(pl.Int64, strict=False)
    elif raw.dtype.is_numeric():
        values = raw.cast(pl.Float64)
        exact = raw.cast(pl.Int64, strict=False) if raw.dtype.is_integer() else None
    else:
        return _each_distinct(column, raw)
    for row in _suspects(column.name, values).arg_true():
        reason = _unusable(column.name, values[row])
        if reason:
            gaps[row] = reason
    values = values.scatter(list(gaps), None) if gaps else values
    if column.kind == "reading":
        return values.alias(column.name), bad, gaps
    series = values.round(0).cast(pl.Int64, strict=False)
    if exact is not None:
        series = pl.select(pl.when(values.is_null()).then(None).otherwise(pl.coalesce(exact, series))).to_series()
    return series.alias(column.name), bad, gaps


def _suspects(name: str, values: pl.Series) -> pl.Series:
    """The rows that may be no reading: a mask that is cheap on millions of good ones."""
    ceiling = RATIO_CEILING if name.endswith("_ratio") else BLANK_INT32 if NARROW_READINGS.search(name) else BLANK_DOUBLE
    return (values.is_nan() | (values < 0) | (values > ceiling) | (values == ceiling)).fill_null(False)


def _unusable(name: str, value: float) -> str | None:
    """Why a number is no reading: semantics 4."""
    if math.isnan(value) or value < 0 or math.isinf(value):
        return "out_of_range"
    for first in (BLANK_INT64, BLANK_DOUBLE) + ((BLANK_INT32,) if NARROW_READINGS.search(name) else ()):
        if first <= value < first + 16 or (first == BLANK_INT64 and value >= first):
            return "not_permitted" if int(value) - int(first) == 3 else "not_supported"
    if NARROW_READINGS.search(name) and value >= BLANK_INT32:
        return "not_supported"
    if name.endswith("_ratio") and value > RATIO_CEILING:
        return "out_of_range"
    return None


def _each_distinct(column: Column, raw: pl.Series) -> Typed:
    """Parse each distinct value once; the general and slow way, for texts and nested values."""
    parse = _PARSERS[column.kind]
    parsed: dict[Any, Any] = {}
    values: list[Any] = []
    bad: dict[int, str] = {}
    for row, value in enumerate(raw.to_list()):
        if value is None or (isinstance(value, str) and not value.strip()):
            values.append(None)
            continue
        key = value if isinstance(value, str | int | float | bool | datetime | date | Decimal) else json.dumps(value, default=str)
        if key not in parsed:
            try:
                parsed[key] = parse(value)
            except (ValueError, TypeError, ArithmeticError, KeyError) as error:
                parsed[key] = error
        result = parsed[key]
        if isinstance(result, Exception):
            bad[row] = str(result)
            result = None
        values.append(result)
    return pl.Series(column.name, values, dtype=column.polars_type), bad, {}


def _parse_integer(value: Any) -> int:
    number = Decimal(str(value).strip())
    if not number.is_finite() or number != number.to_integral_value() or abs(number) >= 2**63:
        raise ValueError(f"{value!r} is no whole number")
    return int(number)


def _parse_double(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number")
    return number


def _parse_money(value: Any) -> Decimal:
    try:
        amount = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
        if not amount.is_finite():
            raise InvalidOperation
        return amount.quantize(Decimal("1e-12"))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no amount of up to 26 digits before the point") from None


def _parse_boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("true", "t", "1", "yes"):
        return True
    if text in ("false", "f", "0", "no"):
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _parse_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no ISO 8601 instant; write 2026-11-01T00:00:00Z")
    return parse_instant(value)


def _parse_json(value: Any) -> str:
    if isinstance(value, str):
        json.loads(value)
        return value
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def _parse_histogram(value: Any) -> list[dict[str, float]]:
    buckets = json.loads(value) if isinstance(value, str) else value
    if not isinstance(buckets, list):
        raise ValueError("a histogram is a list of {le_seconds, count}")
    return sorted(
        ({"le_seconds": float(bucket["le_seconds"]), "count": float(bucket["count"])} for bucket in buckets),
        key=lambda bucket: bucket["le_seconds"],
    )


def _parse_node_list(value: Any) -> str:
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    try:
        return ",".join(NodeSet(str(value)))
    except NodeSetException as error:
        raise ValueError(f"{value!r} is no node list: {error}") from None


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "text": lambda value: str(value).strip(),
    "user": lambda value: pseudonym(str(value)),
    "node_list": _parse_node_list,
    "json": _parse_json,
    "integer": _parse_integer,
    "reading": _parse_double,
    "reading_integer": _parse_integer,
    "double": _parse_double,
    "boolean": _parse_boolean,
    "money": _parse_money,
    "timestamp": _parse_timestamp,
    "histogram": _parse_histogram,
}


def _breaches(table: Table, column: Column, series: pl.Series) -> list[tuple[int, str]]:
    """Rows that break a bound, a closed list or the rule that a value must be there."""
    found: list[tuple[int, str]] = []
    if column.required:
        found += [(row, "missing, but required") for row in series.is_null().arg_true()]
    if column.at_least is not None:
        found += [(row, f"{series[row]} is below {column.at_least:g}") for row in (series < column.at_least).arg_true()]
    if column.above is not None:
        found += [(row, f"{series[row]} is not above {column.above:g}") for row in (series <= column.above).arg_true()]
    choices = CHOICES.get((table.name, column.name))
    if choices:
        wrong = (series.is_not_null() & ~series.is_in(sorted(choices))).arg_true()
        found += [(row, f"{series[row]!r} is none of {', '.join(sorted(choices))}") for row in wrong]
    return found


def _missing_map(frame: pl.DataFrame, found: dict[int, dict[str, str]]) -> pl.Series:
    """What the source said was missing, with what was found here, as JSON; null where nothing is."""
    given: Sequence[Any] = frame["missing"].to_list() if "missing" in frame.columns else []
    if not found and not any(given):
        return pl.Series("missing", [None] * frame.height, dtype=pl.String)
    maps: list[str | None] = []
    for row in range(frame.height):
        said = given[row] if row < len(given) else None
        if isinstance(said, str):
            try:
                said = json.loads(said)
            except ValueError:
                said = None
        both = {**{k: v for k, v in (said or {}).items() if v is not None}, **found.get(row, {})}
        maps.append(json.dumps(both, sort_keys=True) if both else None)
    return pl.Series("missing", maps, dtype=pl.String)
