"""Compare two published files by SQL, reading only the days whose content differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from warehouse.differences.causes import find_causes
from warehouse.differences.figures import TABLES, Figure, FigureTable
from warehouse.differences.records import (
    BILL,
    CLUSTER,
    CORRECTED_BILL,
    GPU_HOURS,
    LATE_ROWS,
    MODEL,
    MONEY,
    MONEY_PER_MILLION,
    NEW_DAYS,
    RATIO,
    SEALED,
    SHAPE,
    SOFTWARE,
    TEAM,
    WORKLOAD,
    Cause,
    Differences,
    Move,
    TableChange,
)
from warehouse.differences.sides import Side, changed_days, opened
from warehouse.first_screen import NO_CLUSTER
from warehouse.publication.tables import DAY_COLUMNS, PublishedTable
from warehouse.sql import Sql, compose, identifier, joined, literal

#: a smaller change is the rounding of doubles (hours, ratios) or of the last cut (money)
LEAST = {GPU_HOURS: 1e-6, RATIO: 1e-9, MONEY: 5e-7, MONEY_PER_MILLION: 5e-7}
LEAST_ELSE = 1e-6
#: what can move a figure of the bill itself, and of the billed time; any cause may move the others
_BY_BILLS = (BILL, CORRECTED_BILL, NEW_DAYS, SOFTWARE)
MOVED_BY = dict.fromkeys(("billed_cost", "effective_cost"), _BY_BILLS) | dict.fromkeys(
    ("ledger_cost", "difference"), (*_BY_BILLS, LATE_ROWS)
)


def compare(before: Path, after: Path) -> Differences:
    """What moved from one published database to another; raises NoVersionError, duckdb.Error.

    A day whose hash is the same in both manifests is not read. Hashes of two DuckDB versions, or of a file without its
    manifest, cannot be compared: then both tables are hashed here.
    """
    with opened(before, after) as (older, newer):
        tables = tuple(_table_changes(older, newer))
        days_of = {change.table: change.days for change in tables}
        figure_days = tuple(sorted({day for spec in TABLES for day in days_of.get(spec.table, ())}))
        new_days = _new_days(older, figure_days)
        restated = tuple(day for day in figure_days if day not in set(new_days))
        moves: list[Move] = []
        not_compared: list[str] = []
        for spec in TABLES:
            if days_of.get(spec.table):
                whole = [day for day in days_of[spec.table] if day in set(restated)]
                moves.extend(_moves(older, newer, spec, days_of[spec.table], whole, set(new_days)))
            absent = [figure.name for figure in spec.figures if not _is_in_both(older, newer, spec, figure)]
            not_compared.extend(f"{spec.table}.{name}" for name in absent)
        causes = find_causes(older, newer, tables, figure_days, new_days)
        places = _places(older, newer)
        return Differences(
            before=older.record,
            after=newer.record,
            days=figure_days,
            new_days=new_days,
            tables=tables,
            moves=tuple(replace(move, why=_why(move, causes, places, restated)) for move in moves),
            causes=causes,
            not_compared=tuple(dict.fromkeys(not_compared)),
        )


def _table_changes(older: Side, newer: Side) -> Iterator[TableChange]:
    if older is newer:
        return
    is_comparable = (
        older.manifest is not None
        and newer.manifest is not None
        and older.manifest.duckdb_version == newer.manifest.duckdb_version
    )
    for name in sorted(older.tables.keys() | newer.tables.keys()):
        columns = [list(side.tables[name].columns) if name in side.tables else [] for side in (older, newer)]
        # a hash is over all columns, so that with other columns every day differs, and what moved is found by the figures
        contents = [side.contents(name, from_manifest=is_comparable) for side in (older, newer)]
        if contents[0] == contents[1] and columns[0] == columns[1]:
            continue
        yield TableChange(
            table=name,
            days=changed_days(*contents),
            rows_before=sum(count for count, _ in contents[0].values()),
            rows_after=sum(count for count, _ in contents[1].values()),
            is_new=name not in older.tables,
            is_gone=name not in newer.tables,
            columns_added=tuple(column for column in columns[1] if column not in columns[0]) if columns[0] else (),
            columns_removed=tuple(column for column in columns[0] if column not in columns[1]) if columns[1] else (),
        )


def _new_days(older: Side, days: Sequence[date]) -> tuple[date, ...]:
    """The days that the older version did not hold in full: those its data did not reach the end of."""
    through = older.record.data_through_at
    return tuple(day for day in days if through is None or day >= through.date())


def _is_in_both(older: Side, newer: Side, spec: FigureTable, figure: Figure) -> bool:
    return older.has(spec.table, figure.columns) and newer.has(spec.table, figure.columns)


def _moves(
    older: Side, newer: Side, spec: FigureTable, days: Sequence[date], restated: Sequence[date], new_days: set[date]
) -> Iterator[Move]:
    """Every figure of a table that differs, by day and member, and by member over the restated days."""
    present = [figure for figure in spec.figures if _is_in_both(older, newer, spec, figure)]
    for level, member in spec.levels.items():
        for is_money in (False, True):
            figures = [figure for figure in present if figure.is_by_currency == is_money]
            if not figures:
                continue
            sides = [_read(side, spec.table, member, figures, days, restated, is_money) for side in (older, newer)]
            for key in sorted(sides[0].keys() | sides[1].keys(), key=str):
                usage_date, name, currency = key
                values = [side.get(key, [None] * len(figures)) for side in sides]
                for figure, old, new in zip(figures, *values, strict=True):
                    if not _is_moved(figure.unit, old, new):
                        continue
                    day_count = 1 if usage_date else len(restated)
                    yield Move(
                        *(figure.name, figure.label, figure.unit, level, name, usage_date, day_count, usage_date in new_days),
                        *(currency, old, new),
                    )


#: (day or None for all restated ones, member, currency) → value per figure
_Values = dict[tuple[date | None, str, str], list[float | None]]


def _read(
    side: Side, table: str, member: Sql, figures: Sequence[Figure], days: Sequence[date], restated: Sequence[date], is_money: bool
) -> _Values:
    shape: PublishedTable = side.tables[table]
    assert shape.day_column == DAY_COLUMNS[0], "figures are of tables with a day"
    query = """select {day} as day, coalesce({member}, 'unknown') as member, {currency} as currency, {values}
        from {table} where {within} group by 1, 2, 3"""

    def grouped(day: Sql, within: Sequence[date]) -> list[tuple[Any, ...]]:
        return side.connection.execute(
            compose(
                query,
                day=day,
                member=member,
                currency=compose("coalesce(currency, 'unknown')") if is_money else literal(""),
                values=joined(", ", (compose("cast({value} as double)", value=figure.sql) for figure in figures)),
                table=side.table(table),
                within=shape.within([str(one) for one in within]),
            )
        ).fetchall()

    rows = grouped(identifier("usage_date"), days) + grouped(compose("cast(null as date)"), restated)
    return {(row[0], row[1], row[2]): list(row[3:]) for row in rows}


def _is_moved(unit: str, old: float | None, new: float | None) -> bool:
    if old is None and new is None:
        return False
    if unit not in (RATIO, MONEY_PER_MILLION):
        # a sum that is not there is a sum of nothing
        old, new = old or 0.0, new or 0.0
    if old is None or new is None:
        return True
    return not math.isclose(old, new, rel_tol=1e-12, abs_tol=LEAST.get(unit, LEAST_ELSE))


#: (level, member) → the clusters it is in
_Places = dict[tuple[str, str], set[str]]


def _places(older: Side, newer: Side) -> _Places:
    """Where the workloads, teams and models of both versions are."""
    found: _Places = {}
    for side in (older, newer):
        if side.has("dim_workloads", ("workload_id", "team", "model", "cluster")):
            query = compose("select workload_id, team, model, cluster from {table}", table=side.table("dim_workloads"))
            for workload_id, team, model, cluster in side.connection.execute(query).fetchall():
                for place in ((WORKLOAD, workload_id), (TEAM, team or "unknown"), (MODEL, model or "unknown")):
                    found.setdefault(place, set()).add(cluster)
    return found


def _why(move: Move, causes: Sequence[Cause], places: _Places, restated: Sequence[date]) -> tuple[str, ...]:
    """The kinds of the causes that touch a move: its day, its place, and hours only where the cause can move hours."""
    days = set(restated) if move.usage_date is None else {move.usage_date}
    # what nobody held is anywhere
    clusters = {move.member} if move.level == CLUSTER else places.get((move.level, move.member), set()) - {NO_CLUSTER}
    is_money = move.unit in (MONEY, MONEY_PER_MILLION)
    return tuple(
        dict.fromkeys(
            cause.kind
            for cause in causes
            if cause.kind not in (SHAPE, SEALED)
            and (not cause.days or days & set(cause.days))
            and (not cause.clusters or not clusters or clusters & set(cause.clusters))
            and (not cause.levels or move.level in cause.levels)
            and (is_money or not cause.is_money_only)
            and cause.kind in MOVED_BY.get(move.figure, (cause.kind,))
        )
    )
