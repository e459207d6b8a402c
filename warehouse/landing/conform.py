"""Check rows against the landing shape: typed rows on one side, rejects with line and reason on the other.

Every collector's rows pass here, so that a table means the same whoever landed it. A row that breaks its schema is
rejected whole; a *reading* that a device could not give (`[N/A]`, a DCGM blank, NaN, a ratio of 1.29) becomes null,
with the reason in the row's `missing` map, because the rest of the row is still true. Conforming rows that conform
changes nothing.

Work is done on whole columns, since a day of a thousand GPUs has 8.64 million rows; only what a column operation
cannot read goes value by value through `warehouse.landing.values`, each distinct value once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from warehouse.landing.masking import mask, mask_column
from warehouse.landing.readings import RATIO_CEILING, nulls, read_readings
from warehouse.landing.shape import CHOICES, ORDERED_INSTANTS, Column, Table
from warehouse.landing.values import NOT_PARSED, PARSERS, parse_instant, pseudonym, redact

__all__ = ["MALFORMED", "RATIO_CEILING", "Conformed", "Reject", "conform", "parse_instant", "pseudonym", "redact"]

MALFORMED = "malformed"
OUT_OF_RANGE = "out_of_range"

#: labels and tags have some thousand bytes; a text of more would only fill every file and page after it
LONGEST_TEXT = 1_000_000
#: groups of tables whose rows say what was measured, and so cannot be of a time to come
MEASURED = frozenset({"telemetry", "usage"})
#: a clock that is wrong by minutes is told and put right (semantics 4), one that is wrong by more tells no time at all
FUTURE_LIMIT = timedelta(days=1)

#: microseconds since 1970 of the years that a Python datetime can hold
FIRST_INSTANT, LAST_INSTANT = -62_135_596_800_000_000, 253_402_300_799_999_999


@dataclass(frozen=True)
class Reject:
    """A row left out: where it stood, why, and its text, secrets redacted. `line` counts from 1; None: the file."""

    file: str
    line: int | None
    reason: str
    detail: str
    text: str = ""

    def __post_init__(self) -> None:
        # a detail quotes the value that it is about
        object.__setattr__(self, "detail", mask(redact(self.detail)))


@dataclass(frozen=True)
class Conformed:
    rows: pl.DataFrame
    rejects: list[Reject]


@dataclass(frozen=True)
class _Typed:
    """A column as its type; the rows whose value has no such type; per row, why the device had no answer."""

    values: pl.Series
    bad: Mapping[int, str] = field(default_factory=dict)
    gaps: pl.Series | None = None


def conform(table: Table, frame: pl.DataFrame, file: str) -> Conformed:
    """Type the columns of `frame` as `table` says and split off the rows that break it.

    `frame` may hold texts, numbers, datetimes, lists; a column that is absent is null, one that the table does not
    name is left out. `line_number`, where present, is the row's line in `file`.
    """
    lines = _line_numbers(frame)
    problems: dict[int, str] = {}
    gaps: dict[str, pl.Series] = {}
    columns: list[pl.Series] = []
    for column in table.columns:
        if column.kind == "missing":
            continue
        typed = _typed(column, frame, null_text=table.group == "bills")
        for row, detail in {**_breaches(table, column, typed.values, typed.bad), **typed.bad}.items():
            problems.setdefault(row, f"{column.name}: {detail}")
        if typed.gaps is not None:
            gaps[column.name] = typed.gaps
        columns.append(_masked(table, column, typed.values).alias(column.name))
    rows = pl.DataFrame(columns)
    if any(column.kind == "missing" for column in table.columns):
        rows = rows.with_columns(_missing_map(frame, gaps))
    for row, detail in _inconsistencies(table, rows):
        problems.setdefault(row, detail)
    rows = rows.select(column.name for column in table.columns).with_columns(lines)
    if not problems:
        return Conformed(rows, [])
    numbers = sorted(problems)
    texts = _row_texts(table, frame[numbers])
    rejects = [Reject(file, lines[row], MALFORMED, problems[row], text) for row, text in zip(numbers, texts, strict=True)]
    keep = pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True).scatter(numbers, False)
    return Conformed(rows.filter(keep), rejects)


def without_future(table: Table, conformed: Conformed, file: str, now: datetime) -> Conformed:
    """Split off what was measured in a future that no clock at `now` can have seen."""
    rows, limit = conformed.rows, now + FUTURE_LIMIT
    if table.group not in MEASURED or not rows.height or (last := rows[table.time].max()) is None or last <= limit:  # type: ignore[operator]
        return conformed
    ahead = rows.filter(pl.col(table.time) > limit)
    detail = f"{table.time} lies more than a day after the landing, {now:%Y-%m-%dT%H:%MZ}; is the clock of its host right?"
    texts = _row_texts(table, ahead)
    found = [Reject(file, line, OUT_OF_RANGE, detail, text) for line, text in zip(ahead["line_number"], texts, strict=True)]
    return Conformed(rows.filter(pl.col(table.time) <= limit), [*conformed.rejects, *found])


def _line_numbers(frame: pl.DataFrame) -> pl.Series:
    counted = pl.int_range(1, frame.height + 1, dtype=pl.Int64, eager=True).alias("line_number")
    if "line_number" in frame.columns and frame["line_number"].dtype.is_integer():
        return frame["line_number"].cast(pl.Int64, strict=False)
    return counted


def _row_texts(table: Table, frame: pl.DataFrame) -> list[str]:
    """The rows as JSON, for the quarantine: of the table's own columns only, since others may hold a prompt or a key."""
    kinds = {column.name: column.kind for column in table.columns}
    texts = []
    shown = pl.DataFrame([_without_times(frame[name]) for name in frame.columns if name in kinds])
    for row in shown.iter_rows(named=True):
        values = {
            name: pseudonym(str(value)) if kinds[name] == "user" else value for name, value in row.items() if value is not None
        }
        texts.append(redact(json.dumps(values, default=str, ensure_ascii=False)))
    return texts or [""] * frame.height


def _typed(column: Column, frame: pl.DataFrame, null_text: bool) -> _Typed:
    if column.name not in frame.columns:
        return _Typed(nulls(frame.height, column.polars_type))
    raw = frame[column.name]
    if raw.null_count() == frame.height:
        return _Typed(nulls(frame.height, column.polars_type))
    if isinstance(raw.dtype, pl.Categorical | pl.Enum):
        raw = raw.cast(pl.String)
    if raw.dtype == pl.Binary:
        with suppress(pl.exceptions.ComputeError):  # bytes that are no UTF-8 are told one by one
            raw = raw.cast(pl.String)
    if column.kind != "timestamp" or not isinstance(raw.dtype, pl.Datetime | pl.Date):
        raw = _without_times(raw)
    if raw.dtype == pl.String:
        raw = _trimmed(raw, null_text)
    kind = column.kind
    if kind in ("reading", "reading_integer"):
        if raw.dtype.is_decimal() or raw.dtype == pl.Boolean:
            raw = raw.cast(pl.Float64)
        elif raw.dtype != pl.String and not _is_plain_number(raw):
            texts = [None if value is None else str(value).encode("utf-8", "replace").decode() for value in raw.to_list()]
            raw = _trimmed(pl.Series(texts, dtype=pl.String), null_text)
        return _Typed(*read_readings(column, raw))
    if kind == "timestamp":
        if isinstance(raw.dtype, pl.Datetime | pl.Date):
            return _instants(raw)
        if raw.dtype == pl.String:
            return _instants_from_text(column, raw)
    if kind in ("integer", "double"):
        if raw.dtype == pl.String:
            return _numbers_from_text(column, raw)
        if _is_plain_number(raw):
            return _numbers(column, raw)
    if (kind == "text" and raw.dtype == pl.String) or (kind == "boolean" and raw.dtype == pl.Boolean):
        return _Typed(raw)
    if kind == "text" and raw.dtype.is_integer():
        return _Typed(raw.cast(pl.String))
    return _each_distinct(column, raw)


def _masked(table: Table, column: Column, values: pl.Series) -> pl.Series:
    """Texts that people wrote, without credentials and people; readings of devices have none."""
    if column.kind not in ("text", "json", "node_list") or table.group == "telemetry":
        return values
    return mask_column(values, is_json=column.kind == "json")


def _is_plain_number(raw: pl.Series) -> bool:
    return raw.dtype.is_integer() or raw.dtype in (pl.Float32, pl.Float64)


def _trimmed(raw: pl.Series, null_text: bool) -> pl.Series:
    """Texts without white space around them; empty ones, and in bills the text NULL, are null."""
    trimmed = raw.str.strip_chars()
    empty = trimmed.str.len_bytes() == 0
    if null_text:
        empty = empty | (trimmed.str.to_lowercase() == "null")
    return trimmed.set(empty, None) if empty.any() else trimmed


def _instants(raw: pl.Series) -> _Typed:
    """Datetimes as naive UTC microseconds: those with a zone are moved to UTC, those without are UTC (landing shape)."""
    unit = raw.dtype.time_unit if isinstance(raw.dtype, pl.Datetime) else "day"
    physical = raw.to_physical().cast(pl.Int64)
    scaled, limit = {
        "ns": (physical // 1000, None),
        "us": (physical, None),
        "ms": (physical * 1000, 2**63 // 1000),
        "day": (physical * 86_400_000_000, 2**63 // 86_400_000_000),
    }[unit or "us"]
    outside = (scaled < FIRST_INSTANT) | (scaled > LAST_INSTANT)
    if limit is not None:
        outside = outside | (physical.abs() >= limit)
    bad = dict.fromkeys(outside.arg_true().to_list(), "a time outside the years 1 to 9999")
    return _Typed((scaled.set(outside, None) if bad else scaled).cast(pl.Datetime("us")), bad)


def _without_times(raw: pl.Series) -> pl.Series:
    """Times as texts: a file may hold some that Python has none for, and turning those into objects ends the process."""
    if not raw.dtype.is_temporal():
        return raw
    written = raw.to_physical().cast(pl.String)
    if not isinstance(raw.dtype, pl.Datetime | pl.Date):
        return written
    instants = _instants(raw).values.dt.strftime("%Y-%m-%d %H:%M:%S%.f")
    return pl.select(pl.coalesce(instants, written).alias(raw.name)).to_series()


def _instants_from_text(column: Column, raw: pl.Series) -> _Typed:
    """The usual form at column speed; every other one, and what is no instant, value by value."""
    distinct = raw.unique()
    if len(distinct) * 2 < len(raw):
        # many devices are read at one time: parse it once
        return _joined(raw, distinct, _instants_from_text(column, distinct))
    usual = raw.str.contains(r"^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?Z$").fill_null(False)
    read = raw.set(~usual, None).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us", strict=False)
    # the year 0000 is none of Python's
    read = read.set(read.dt.year() < 1, None)
    return _with_others(column, raw, read)


def _numbers_from_text(column: Column, raw: pl.Series) -> _Typed:
    read = raw.cast(column.polars_type, strict=False)
    if column.kind == "double":
        read = read.set(~read.is_finite(), None)
    return _with_others(column, raw, read)


def _with_others(column: Column, raw: pl.Series, read: pl.Series) -> _Typed:
    """What a column operation left null although a value is there, read value by value."""
    others = (read.is_null() & raw.is_not_null()).arg_true()
    if not len(others):
        return _Typed(read)
    slow = _each_distinct(column, raw.gather(others))
    rows = others.to_list()
    return _Typed(read.scatter(others, slow.values), {rows[position]: detail for position, detail in slow.bad.items()})


def _numbers(column: Column, raw: pl.Series) -> _Typed:
    good = raw
    if raw.dtype.is_float():
        wrong = ~raw.is_finite()
        if column.kind == "integer":
            wrong = wrong | (raw != raw.round(0))
        good = raw.set(wrong, None)
    series = good.cast(column.polars_type, strict=False)
    lost = (series.is_null() & raw.is_not_null()).arg_true()
    noun = "whole number" if column.kind == "integer" else "finite number"
    return _Typed(series, {row: f"{raw[row]} is no {noun}" for row in lost.to_list()})


def _each_distinct(column: Column, raw: pl.Series) -> _Typed:
    """Parse each distinct value once; the general and slow way, for texts of many forms and nested values."""
    parse = PARSERS[column.kind]
    if raw.dtype == column.polars_type and column.kind == "histogram":
        return _Typed(raw) if _is_tidy_histogram(raw) else _parsed(column, raw.to_list(), parse)
    if raw.dtype != pl.String:
        return _parsed(column, raw.to_list(), parse)
    distinct = raw.unique()
    return _joined(raw, distinct, _parsed(column, distinct.to_list(), parse))


def _joined(raw: pl.Series, distinct: pl.Series, typed: _Typed) -> _Typed:
    """What the distinct values were read as, brought to every row."""
    details = pl.Series([typed.bad.get(row) for row in range(len(distinct))], dtype=pl.String)
    table = pl.DataFrame([distinct.alias("raw"), typed.values.alias("value"), details.alias("detail")])
    # a left join keeps the order of the rows, and null meets nothing
    joined = raw.alias("raw").to_frame().join(table, on="raw", how="left", maintain_order="left")
    wrong = joined["detail"].is_not_null().arg_true() if typed.bad else pl.Series(dtype=pl.UInt32)
    return _Typed(joined["value"], dict(zip(wrong.to_list(), joined["detail"].gather(wrong).to_list(), strict=True)))


def _parsed(column: Column, raw: list[Any], parse: Any) -> _Typed:
    values: list[Any] = []
    bad: dict[int, str] = {}
    for row, value in enumerate(raw):
        try:
            parsed = None if value is None or (isinstance(value, str) and not value.strip()) else parse(value)
        except NOT_PARSED as error:
            parsed = None
            bad[row] = f"no {column.name} given" if isinstance(error, KeyError) else str(error)[:300]
        values.append(parsed)
    return _Typed(pl.Series(column.name, values, dtype=column.polars_type), bad)


def _is_tidy_histogram(raw: pl.Series) -> bool:
    """Whether every histogram is sorted, with numbers for bounds and finite counts of at least 0."""
    frame = raw.alias("h").to_frame()
    bound, count = pl.element().struct.field("le_seconds"), pl.element().struct.field("count")
    tidy = bound.is_not_null() & bound.is_not_nan() & count.is_finite() & (count >= 0)
    is_sorted = frame.select((pl.col("h").list.eval(bound.diff().fill_null(0.0).fill_nan(0.0) >= 0).list.all()).all()).item()
    return bool(is_sorted and frame.select(pl.col("h").list.eval(tidy.fill_null(False)).list.all().all()).item())


def _breaches(table: Table, column: Column, series: pl.Series, bad: Mapping[int, str]) -> dict[int, str]:
    """Rows that break a bound, a closed list or the rule that a value must be there."""
    found: dict[int, str] = {}
    if column.required and series.null_count():
        found |= dict.fromkeys(series.is_null().arg_true().to_list(), "missing, but required")
    if column.at_least is not None:
        found |= {row: f"{series[row]} is below {column.at_least:g}" for row in (series < column.at_least).arg_true().to_list()}
    if column.above is not None:
        found |= {row: f"{series[row]} is not above {column.above:g}" for row in (series <= column.above).arg_true().to_list()}
    if series.dtype == pl.String and int(series.str.len_bytes().max() or 0) > LONGEST_TEXT:  # type: ignore[arg-type]
        longer = (series.str.len_bytes() > LONGEST_TEXT).arg_true().to_list()
        found |= dict.fromkeys(longer, f"a text of more than {LONGEST_TEXT:,} bytes, which no column holds")
    choices = CHOICES.get((table.name, column.name))
    if choices:
        wrong = (series.is_not_null() & ~series.is_in(sorted(choices))).arg_true()
        found |= {row: f"{series[row]!r} is none of {', '.join(sorted(choices))}" for row in wrong.to_list()}
    return found


def _inconsistencies(table: Table, rows: pl.DataFrame) -> list[tuple[int, str]]:
    """Rows whose columns contradict each other."""
    found: list[tuple[int, str]] = []
    for earlier, later in ORDERED_INSTANTS.get(table.name, ()):
        wrong = rows.select((pl.col(later) < pl.col(earlier)).arg_true()).to_series()
        found += [(row, f"{later} lies before {earlier}") for row in wrong.to_list()]
    if table.name == "rate_cards":
        priced = rows["cost_per_gpu_hour"].is_not_null() | (
            rows["purchase_price"].is_not_null() & rows["depreciation_hours"].is_not_null()
        )
        detail = "cost_per_gpu_hour, or purchase_price with depreciation_hours, must be given"
        found += [(row, detail) for row in (~priced).arg_true().to_list()]
    return found


def _missing_map(frame: pl.DataFrame, found: Mapping[str, pl.Series]) -> pl.Series:
    """What the source said was missing, with what was found here, as JSON; null where nothing is.

    Rows differ in few combinations of reasons, so each combination is written once and joined back.
    """
    nothing = nulls(frame.height, pl.String).alias("missing")
    said = _said_missing(frame["missing"]) if "missing" in frame.columns else nothing
    if not found and said.null_count() == frame.height:
        return nothing
    causes = pl.DataFrame([said.alias("said"), *(reasons.alias(f"found {name}") for name, reasons in found.items())])
    distinct = causes.unique(maintain_order=True)
    texts = []
    for given, *reasons in distinct.iter_rows():
        both = _reasons(given) | {name: reason for name, reason in zip(found, reasons, strict=True) if reason}
        texts.append(json.dumps(both, sort_keys=True) if both else None)
    table = distinct.with_columns(pl.Series("missing", texts, dtype=pl.String))
    return causes.join(table, on=causes.columns, how="left", nulls_equal=True, maintain_order="left")["missing"]


def _said_missing(raw: pl.Series) -> pl.Series:
    if raw.dtype == pl.String:
        return raw
    texts = [None if value is None else json.dumps(value, default=str) for value in raw.to_list()]
    return pl.Series("missing", texts, dtype=pl.String)


def _reasons(text: str | None) -> dict[str, Any]:
    """A `missing` map as given; what is no JSON object says nothing."""
    try:
        said = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return {name: reason for name, reason in said.items() if reason is not None} if isinstance(said, dict) else {}
