"""The `control` schema of the build database: what a build is told, and what it remembers.

Told (written before dbt runs): landed_files, landing_columns, collection_runs, data_through,
days_landed, sealed_days, build_window.
Remembered (written after every node succeeded): builds, build_days, consumed, pending_days, and `…_built` tables: the
compact inputs as the last build held them, from which the next build sees what changed; and file_columns, what each file holds.
`late_rows` is remembered before: which rows came too late for their day is known from the landings alone, and counted while
their files are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl

from warehouse.database import connect
from warehouse.home import Home
from warehouse.landing.landings import Window
from warehouse.landing.outcomes import EXPIRED, LandedTable, current_files, outcome_frame
from warehouse.landing.shape import LINEAGE, TABLES
from warehouse.sql import Sql, compose, identifier

#: models whose rows the next build compares with, to find the days a change touches
REMEMBERED = (
    "int_run_changes",
    "int_hold_changes",
    "int_node_state_changes",
    "int_slot_name_changes",
    "int_usage_changes",
    "int_price_changes",
    "int_context_changes",
)

#: tables whose rows touch the days they lie in; the others are compared as intervals
DATED_TABLES = {
    "gpu_samples": ("interval_start_at", "interval_ms"),
    "gpu_inventory": ("seen_at", None),
    "gpu_processes": ("seen_at", None),
    "node_samples": ("interval_start_at", "interval_ms"),
    "inference_usage": ("interval_start_at", "interval_ms"),
    "inference_requests": ("started_at", None),
    "billing_lines": ("charge_period_start", None),
}


#: groups of tables whose rows cannot be of a time after their landing, and how far two clocks may differ
KNOWN_BY_CLOCKS = frozenset({"scheduler", "telemetry", "usage"})
CLOCK_TOLERANCE = timedelta(minutes=5)


@dataclass(frozen=True)
class Interrupted:
    """Whether the build that began last was killed or failed, and whether it was a full refresh."""

    is_one: bool
    was_full_refresh: bool


@contextmanager
def open_build_database(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """The build database, in UTC, with its control tables made."""
    with connect(home.build_database, read_only=False) as connection:
        connection.execute("create schema if not exists control")
        for statement in _SCHEMA:
            connection.execute(statement)
        yield connection


def _as_built(model: str) -> Sql:
    """The table of `control` that keeps what a model held when the last build ended."""
    return identifier(f"{model.removeprefix('int_')}_built")


_SCHEMA = (
    """create table if not exists control.builds (
        build_id varchar, started_at timestamp, finished_at timestamp, status varchar, version varchar,
        window_start_at timestamp, window_end_at timestamp, data_through_at timestamp, is_full_refresh boolean)""",
    "create table if not exists control.build_days (build_id varchar, usage_date date)",
    "create table if not exists control.consumed (collection_run_id varchar)",
    "create table if not exists control.pending_days (usage_date date)",
    "create table if not exists control.file_columns (path varchar, column_names varchar)",
    "create table if not exists control.workload_names_built (usage_date date, workload_id varchar, fingerprint varchar)",
    "create table if not exists control.devices_built (usage_date date, change_key varchar, fingerprint varchar)",
    """create table if not exists control.late_rows (
        collection_run_id varchar, table_name varchar, usage_date date, cluster varchar, rows_late bigint,
        landed_at timestamp)""",
    """create table if not exists control.build_window (
        build_id varchar, start_at timestamp, end_at timestamp, is_full_refresh boolean)""",
    # a home built before a model was remembered, and whose sealed days forbid a full refresh, has nothing to compare with
    *(
        compose(
            """create table if not exists control.{name} (
            change_key varchar, started_at timestamp, ended_at timestamp, fingerprint varchar)""",
            name=_as_built(model),
        )
        for model in REMEMBERED
    ),
)


def interrupted_build(connection: duckdb.DuckDBPyConnection) -> Interrupted:
    rows = connection.execute(
        """select is_full_refresh from control.build_window
        where build_id not in (select build_id from control.builds)"""
    ).fetchall()
    return Interrupted(bool(rows), any(row[0] for row in rows))


def sealed_days(landed: Sequence[LandedTable]) -> dict[str, datetime]:
    """The days whose samples have expired, and since when: what was worked out for them stays, but for money (semantics 11)."""
    sealed: dict[str, datetime] = {}
    for record in landed:
        if record.status == EXPIRED:
            for day in {_partition(file) for file in record.removed_files if "/gpu_samples/" in f"/{file}"}:
                sealed[day] = min(record.landed_at, sealed.get(day, record.landed_at))
    return dict(sorted(sealed.items()))


def owe_every_day(connection: duckdb.DuckDBPyConnection) -> None:
    """Let the next build replace every day that was ever built, one by one: what a full refresh does where days are sealed."""
    connection.execute("insert into control.pending_days select distinct usage_date from int_device_hours")


def has_pending_days(connection: duckdb.DuckDBPyConnection) -> bool:
    return bool(connection.execute("select count(*) from control.pending_days").fetchall()[0][0])


def not_consumed(connection: duckdb.DuckDBPyConnection, landed: Sequence[LandedTable]) -> list[LandedTable]:
    consumed = {row[0] for row in connection.execute("select collection_run_id from control.consumed").fetchall()}
    return [record for record in landed if record.collection_run_id not in consumed]


def write_inputs(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    landed: Sequence[LandedTable],
    fresh: Sequence[LandedTable],
    window: Window,
    *,
    build_id: str,
    full_refresh: bool,
) -> None:
    """Tell the models which files there are, through when each cluster is known, and which days have new rows."""
    _write_landed_files(connection, [(table, str(home.raw / file), _partition(file)) for table, file in current_files(landed)])
    columns = [
        (table.name, position, column.name, column.sql_type)
        for table in TABLES.values()
        for position, column in enumerate((*table.columns, *LINEAGE))
    ]
    _replace(
        connection, "landing_columns", pl.DataFrame(columns, ["table_name", "position", "column_name", "data_type"], orient="row")
    )
    runs = outcome_frame(home.raw)
    if runs is not None:
        _replace(connection, "collection_runs", runs)
    else:
        connection.execute(
            """create or replace table control.collection_runs (collection_run_id varchar, source varchar, cluster varchar,
            table_name varchar, status varchar, error varchar, source_version varchar, inputs varchar, window_start_at timestamp,
            window_end_at timestamp, data_through_at timestamp, started_at timestamp, landed_at timestamp, rows_landed bigint,
            rows_quarantined bigint, rejects varchar, gaps varchar, content_hash varchar, files varchar, removed_files varchar,
            clusters varchar)"""
        )
    sealed = sealed_days(landed)
    days = pl.DataFrame(list(sealed.items()), {"usage_date": pl.String, "sealed_at": pl.Datetime("us")}, orient="row")
    _replace(connection, "sealed_days", days.with_columns(pl.col("usage_date").str.to_date()))
    _count_late_rows(connection, home, landed, fresh, sealed)
    _write_data_through(connection, landed)
    connection.execute("delete from control.build_window")
    connection.execute(
        "insert into control.build_window values (?, ?, ?, ?)", [build_id, window.start_at, window.end_at, full_refresh]
    )
    if is_windowed(window):
        # until the window is built in full its days are owed: should this build be killed, the next one builds them
        connection.execute(_WINDOW_DAYS, [window.start_at, window.end_at])
    _write_days_landed(connection, home, fresh)


def _count_late_rows(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    landed: Sequence[LandedTable],
    fresh: Sequence[LandedTable],
    sealed: Mapping[str, datetime],
) -> None:
    """Count the rows of fresh landings that came for a day sealed before; money and reference tables are never late."""
    late: dict[str, set[str]] = {}
    for record in fresh:
        is_counted = record.table_name in TABLES and TABLES[record.table_name].group not in ("bills", "reference")
        days = {_partition(file) for file in record.files} & sealed.keys()
        if is_counted and any(record.landed_at > sealed[day] for day in days):
            late.setdefault(record.table_name, set()).add(record.collection_run_id)
    if not late:
        return
    partitions: dict[tuple[str, str], list[str]] = {}
    for table, file in current_files(landed):
        if table in late and _partition(file) in sealed:
            partitions.setdefault((table, _partition(file)), []).append(str(home.raw / file))
    for (table, day), paths in partitions.items():
        # a compaction may have merged the file that a landing wrote, but its rows keep the landing's id; the first count stands
        connection.execute(
            """insert into control.late_rows
            select collection_run_id, ?, ?::date, cluster, count(*), max(landed_at)
            from read_parquet(?, union_by_name = true)
            where
                landed_at > ?
                and collection_run_id in (select unnest(?))
                and collection_run_id not in (
                    select collection_run_id from control.late_rows where table_name = ? and usage_date = ?::date
                )
            group by collection_run_id, cluster""",
            [table, day, paths, sealed[day], sorted(late[table]), table, day],
        )


_WINDOW_DAYS = """
    insert into control.pending_days
    select unnest(generate_series(
        date_trunc('day', coalesce(?::timestamp, (select min(window_start_at) from control.collection_runs))),
        coalesce(?::timestamp, (select max(data_through_at) from control.data_through)) - interval 1 microsecond,
        interval 1 day
    ))::date"""


def is_windowed(window: Window) -> bool:
    """Whether a build was asked for named days, not for what changed."""
    return window.start_at is not None or window.end_at is not None


def _partition(file: str) -> str:
    return next(part[3:] for part in file.split("/") if part.startswith("dt="))


def _replace(connection: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame) -> None:
    connection.register("frame", frame.to_arrow())
    connection.execute(compose("create or replace table control.{table} as select * from frame", table=identifier(table)))
    connection.unregister("frame")


def _write_landed_files(connection: duckdb.DuckDBPyConnection, files: Sequence[tuple[str, str, str]]) -> None:
    """The files to read, each with the columns it lacks: what landed before a column was added to the landing shape holds none.

    The footer of a file is read once, when it is first told of.
    """
    paths = [path for _, path, _ in files]
    connection.execute("delete from control.file_columns where path not in (select unnest(?::varchar[]))", [paths])
    known = {row[0] for row in connection.execute("select path from control.file_columns").fetchall()}
    if unread := [path for path in paths if path not in known]:
        connection.execute(
            """insert into control.file_columns
            select file_name, array_to_string(list_sort(list(name)), ',') from parquet_schema(?) group by file_name""",
            [unread],
        )
    names = connection.execute("select path, column_names from control.file_columns").fetchall()
    shapes = {name: [column.name for column in (*table.columns, *LINEAGE)] for name, table in TABLES.items()}
    columns = {path: set(text.split(",")) for path, text in names}
    lacking = [
        (table, path, dt, ",".join(name for name in shapes.get(table, ()) if name not in columns[path]))
        for table, path, dt in files
    ]
    schema = dict.fromkeys(("table_name", "path", "dt", "lacking_columns"), pl.String)
    _replace(connection, "landed_files", pl.DataFrame(lacking, schema, orient="row"))


def _write_data_through(connection: duckdb.DuckDBPyConnection, landed: Sequence[LandedTable]) -> None:
    """Per cluster and group of tables, the end of the last successful window, for imports the last instant landed.

    What is stamped later than it was landed moves nothing: a host whose clock runs ahead would let runs hold on into the future.
    """
    through: dict[tuple[str, str], datetime] = {}
    for record in landed:
        if record.table_name not in TABLES or record.status != "landed":
            continue
        for cluster, instant in record.through.items():
            if instant:
                key = (cluster, TABLES[record.table_name].group)
                known = datetime.fromisoformat(instant)
                if key[1] in KNOWN_BY_CLOCKS:
                    known = min(known, record.landed_at + CLOCK_TOLERANCE)
                through[key] = max(known, through.get(key, known))
    rows = [(cluster, group, instant) for (cluster, group), instant in sorted(through.items())]
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "cluster": pl.String,
        "table_group": pl.String,
        "data_through_at": pl.Datetime("us"),
    }
    _replace(connection, "data_through", pl.DataFrame(rows, schema, orient="row"))


def _write_days_landed(connection: duckdb.DuckDBPyConnection, home: Home, fresh: Sequence[LandedTable]) -> None:
    connection.execute("create or replace table control.days_landed (table_name varchar, usage_date date)")
    # files that a compaction has merged since are gone from the list, and so are read where they were merged into
    paths: dict[str, list[str]] = {}
    for record in fresh:
        if record.status == "landed":
            paths.setdefault(record.table_name, []).extend(str(home.raw / file) for file in record.files)
    for table, (time, interval) in DATED_TABLES.items():
        existing = [path for path in paths.get(table, []) if (home.raw / path).exists()]
        gone = [path for path in paths.get(table, []) if not (home.raw / path).exists()]
        if existing:
            first = last = identifier(time)
            if interval:
                end = "{start} + to_milliseconds({interval}) - interval 1 microsecond"
                last = compose(end, start=first, interval=identifier(interval))
            insert = compose(
                """insert into control.days_landed
                select distinct ?, unnest([cast({first} as date), cast({last} as date)]) from read_parquet(?)""",
                first=first,
                last=last,
            )
            connection.execute(insert, [table, existing])
        for path in gone:
            connection.execute("insert into control.days_landed values (?, ?), (?, ?::date + 1)", [table, _partition(path)] * 2)
    connection.execute("insert into control.days_landed select 'pending', usage_date from control.pending_days")


#: what a day was built with, for the days just built; other days keep what they were built with
_REMEMBERED_DAYS = (
    """delete from control.workload_names_built
    where ? or usage_date in (select usage_date from int_days_touched where not is_sealed)""",
    """insert into control.workload_names_built
    select usage_date, workload_id, fingerprint from int_workloads_named_daily
    where ? or usage_date in (select usage_date from int_days_touched where not is_sealed)""",
    """delete from control.devices_built
    where ? or usage_date in (select usage_date from int_days_touched where not is_sealed)""",
    """insert into control.devices_built
    select distinct hours.usage_date, hours.cluster || '/' || hours.gpu_id as change_key, coalesce(changes.fingerprint, '')
    from int_device_hours as hours
    left join int_device_changes as changes on hours.cluster || '/' || hours.gpu_id = changes.change_key
    where ? or hours.usage_date in (select usage_date from int_days_touched where not is_sealed)""",
)


def _remember_days(connection: duckdb.DuckDBPyConnection, full_refresh: bool) -> None:
    """What the workloads and devices of the days just built are known as."""
    for statement in _REMEMBERED_DAYS:
        connection.execute(statement, [full_refresh])


def record_build(
    connection: duckdb.DuckDBPyConnection,
    *,
    build_id: str,
    started_at: datetime,
    version: str,
    window: Window,
    full_refresh: bool,
    consumed: Sequence[LandedTable],
) -> int:
    """Remember a build that succeeded, in one transaction; the number of days it replaced."""
    finished_at = datetime.now(UTC).replace(tzinfo=None)
    connection.execute("begin")
    connection.execute(
        """insert into control.builds
        select ?, ?, ?, 'succeeded', ?, ?, ?, (select max(data_through_at) from control.data_through), ?""",
        [build_id, started_at, finished_at, version, window.start_at, window.end_at, full_refresh],
    )
    days = identifier("int_device_hours" if full_refresh else "int_days_touched")
    insert = "insert into control.build_days select ?, usage_date from (select distinct usage_date from {days})"
    connection.execute(compose(insert, days=days), [build_id])
    connection.execute("delete from control.pending_days where usage_date in (select usage_date from int_days_touched)")
    _remember_days(connection, full_refresh)
    if not is_windowed(window):
        connection.execute("delete from control.pending_days")
        if full_refresh:
            connection.execute("delete from control.consumed")
        connection.executemany(
            "insert into control.consumed values (?)",
            [[run] for run in {record.collection_run_id for record in consumed}] or [[""]],
        )
        for model in REMEMBERED:
            remember = "create or replace table control.{name} as select * from {model}"
            connection.execute(compose(remember, name=_as_built(model), model=identifier(model)))
    elif window.end_at is not None:
        # what is not known to end was taken to end with the window: the next build puts the window's last day right
        connection.execute(
            """insert into control.pending_days select cast(?::timestamp - interval 1 microsecond as date)
            where ?::timestamp < (select max(data_through_at) from control.data_through)""",
            [window.end_at, window.end_at],
        )
    connection.execute("commit")
    count = connection.execute("select count(*) from control.build_days where build_id = ?", [build_id]).fetchall()[0][0]
    connection.execute("checkpoint")
    return int(count)
