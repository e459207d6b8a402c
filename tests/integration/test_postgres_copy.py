"""The copy in a real PostgreSQL: equal to the published file, and whole for readers that loop while it is replaced."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from tests.integration.postgres_server import PASSWORD, PROGRAMS, REASON, postgres_server
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.home import Home
from warehouse.postgres.command import export_postgres_command
from warehouse.publication import publish
from warehouse.sql import compose

postgresql = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")

pytestmark = [pytest.mark.integration, pytest.mark.skipif(PROGRAMS is None, reason=REASON)]

#: `make bi-clients` asks for fifty
SWAPS = int(os.environ.get("GPU_NET_TEST_PUBLICATIONS", "8"))
#: one number in three tables; a reader that sees two of them has seen a mixture
NUMBERED = (
    "update fct_gpu_ledger_hourly set energy_kwh = {n}",
    "update mart_gpu_net_daily set energy_kwh = {n}",
    "update mart_gpu_idle_time_daily set longest_idle_minutes = {n}",
)
ALL_TABLES = ("--tables", "*")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server on which nothing was copied yet."""
    monkeypatch.setenv("GPU_NET_POSTGRES_URL", server)
    yield server
    ask(server, "drop schema if exists gpu_net cascade")


@pytest.fixture
def published(home: object) -> Home:
    own_home = Home.from_environment()
    publish_number(own_home, 1)
    return own_home


def publish_number(home: Home, number: int, *statements: str) -> None:
    numbered = [statement.format(n=number) for statement in NUMBERED]
    allow(home, make_build(home, *numbered, *statements, number=number))
    assert publish.publish(home).status == publish.PUBLISHED


def export(*arguments: str) -> str:
    result = CliRunner().invoke(export_postgres_command, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def ask(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement, all of them in one transaction."""
    rows: list[tuple[Any, ...]] = []
    with closing(postgresql.connect(url)) as connection:
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                with suppress(postgresql.Error):
                    rows = cursor.fetchall()
        connection.commit()
    return rows


def test_the_copy_has_the_rows_types_keys_and_comments_of_the_published_file(published: Home, url: str) -> None:
    assert export(*ALL_TABLES).startswith("copied v000001, data through 2025-03-04 00:00 UTC: ")
    with duckdb.connect(str(published.published_database), read_only=True) as source:
        names = [name for (name,) in source.execute("select table_name from duckdb_tables()").fetchall()]
        for name in names:
            rows = source.execute(f"select * from {name}").fetchall()
            # the driver gives a numeric as text
            ours = [[str(value) if isinstance(value, Decimal) else value for value in row] for row in rows]
            theirs = [list(row) for row in ask(url, f"select * from gpu_net.{name}")]
            assert sorted(map(repr, theirs)) == sorted(map(repr, ours)), name
    types = dict(
        ask(
            url,
            """select column_name, data_type from information_schema.columns
            where table_schema = 'gpu_net' and table_name = 'mart_gpu_net_daily'""",
        )
    )
    assert {types[name] for name in ("cost", "capacity_gpu_hours", "usage_date")} == {"numeric", "double precision", "date"}
    key = ask(
        url,
        """select string_agg(column_name, ',' order by ordinal_position) from information_schema.key_column_usage
        where constraint_schema = 'gpu_net' and table_name = 'mart_gpu_net_daily'""",
    )
    assert key == [("usage_date,cluster,gpu_model,currency",)]
    said = ask(
        url, "select obj_description('gpu_net.mart_gpu_net_daily'::regclass), col_description('gpu_net.dim_gpus'::regclass, 1)"
    )
    assert said[0][0]
    assert said[0][1] == "What it means."
    said = ask(url, "select obj_description('gpu_net.copied_tables'::regclass)")
    assert said == [("Which version each table is of. One row per table that GPU Net copied.",)]
    assert len(ask(url, "select 1 from gpu_net.copied_tables where publication_id = 'v000001'")) == len(names)


def test_a_copy_that_is_there_is_not_made_again(published: Home, url: str) -> None:
    export()
    assert export().startswith("unchanged: v000001")
    assert export("--force").startswith("copied v000001")
    publish_number(published, 2)
    assert export().startswith("copied v000002")


def test_grants_views_and_indexes_of_others_stay(published: Home, url: str) -> None:
    export()
    ask(
        url,
        "drop role if exists grafana",
        "create role grafana login password 'other'",
        "grant usage on schema gpu_net to grafana",
        "grant select on all tables in schema gpu_net to grafana",
        "alter default privileges in schema gpu_net grant select on tables to grafana",
        "create view public.net as select usage_date, energy_kwh from gpu_net.mart_gpu_net_daily",
        "create index net_by_cluster on gpu_net.mart_gpu_net_daily (cluster)",
    )
    publish_number(
        published, 2, "alter table mart_gpu_net_daily add column colour varchar", "create table mart_new as select 1 as one"
    )
    export()
    reader = url.replace(f"owner:{PASSWORD.replace(' ', '%20')}", "grafana:other")
    try:
        assert ask(reader, "select distinct energy_kwh, colour from gpu_net.mart_gpu_net_daily") == [(2.0, None)]
        assert ask(reader, "select one from gpu_net.mart_new") == [(1,)]
        with pytest.raises(postgresql.Error, match="permission denied"):
            ask(reader, "delete from gpu_net.mart_new")
        assert ask(url, "select distinct energy_kwh from public.net") == [(2.0,)]
        assert ask(url, "select 1 from pg_indexes where indexname = 'net_by_cluster'") == [(1,)]
    finally:
        ask(url, "drop view public.net", "drop owned by grafana", "drop role grafana")


def test_columns_keys_and_tables_follow_the_published_ones(published: Home, url: str) -> None:
    export()
    publish_number(
        published,
        2,
        "alter table mart_gpu_net_daily alter column energy_kwh type decimal(18, 6)",
        "alter table mart_gpu_net_daily drop column gpu_model",
        "drop table mart_gpu_idle_time_daily",
    )
    export()
    assert ask(url, "select distinct energy_kwh::text from gpu_net.mart_gpu_net_daily") == [("2.000000",)]
    assert (
        ask(url, "select 1 from information_schema.columns where table_name = 'mart_gpu_net_daily' and column_name = 'gpu_model'")
        == []
    )
    assert ask(url, "select 1 from pg_constraint where conname = 'mart_gpu_net_daily_pkey'") == []
    assert ask(url, "select to_regclass('gpu_net.mart_gpu_idle_time_daily') is null") == [(True,)]
    # what is not named any more leaves the copy, so that all of it is of one version
    export("--tables", "mart_gpu_net_daily")
    left = [name for (name,) in ask(url, "select tablename::text from pg_tables where schemaname = 'gpu_net' order by 1")]
    assert left == ["copied_tables", "data_dictionary", "gate_results", "mart_gpu_net_daily", "publication"]


def test_a_table_that_someone_else_made_is_not_touched(published: Home, url: str) -> None:
    ask(url, "create schema gpu_net", "create table gpu_net.dim_date as select 1 as mine")
    result = CliRunner().invoke(export_postgres_command, [])
    assert result.exit_code == 1
    assert "schema gpu_net has tables that GPU Net did not make: dim_date" in result.stderr
    assert ask(url, "select mine from gpu_net.dim_date") == [(1,)]


def test_a_wrong_password_is_refused_and_not_shown(published: Home, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NET_POSTGRES_URL", url.replace("s3cret%20word", "wr0ng%20word"))
    result = CliRunner().invoke(export_postgres_command, [])
    assert result.exit_code == 1
    assert "password authentication failed" in result.stderr
    assert "wr0ng" not in result.output


ONE_STATEMENT = (
    """select (select split_part(build_id, '-', 2)::integer from gpu_net.publication), min(ledger.energy_kwh),
        max(ledger.energy_kwh), min(net.energy_kwh), max(net.energy_kwh),
        (select min(longest_idle_minutes) from gpu_net.mart_gpu_idle_time_daily), count(*) > 0
    from gpu_net.fct_gpu_ledger_hourly as ledger join gpu_net.mart_gpu_net_daily as net using (usage_date)""",
)
ONE_SNAPSHOT = (
    "set transaction isolation level repeatable read",
    "select split_part(build_id, '-', 2)::integer, 1 from gpu_net.publication",
    "select min(energy_kwh), max(energy_kwh), count(*) > 0 from gpu_net.fct_gpu_ledger_hourly",
    "select min(energy_kwh), max(energy_kwh), count(*) > 0 from gpu_net.mart_gpu_net_daily",
    "select min(longest_idle_minutes), max(longest_idle_minutes), count(*) > 0 from gpu_net.mart_gpu_idle_time_daily",
)
THROUGH_A_VIEW = ("select min(a), max(a), min(b), max(b), count(*) > 0 from public.both_numbers",)
KINDS = {"one statement": ONE_STATEMENT, "one snapshot": ONE_SNAPSHOT, "through a view": THROUGH_A_VIEW}


class Reader(threading.Thread):
    """Asks until it is told to stop, each time anew or on one connection."""

    def __init__(self, url: str, kind: str, *, reconnects: bool) -> None:
        super().__init__(daemon=True)
        self.url, self.kind, self.reconnects = url, kind, reconnects
        self.stopping = threading.Event()
        self.reads, self.mixed, self.errors, self.seen = 0, 0, [], set()  # type: ignore[var-annotated]

    def run(self) -> None:
        connection = None
        while not self.stopping.is_set():
            try:
                connection = connection or postgresql.connect(self.url)
                numbers = set(self.ask(connection))
                self.reads += 1
                self.mixed += len(numbers) != 1
                self.seen |= numbers
            except postgresql.Error as error:
                self.errors.append(str(error))
            # a reader without a pause would measure who gets the processor
            time.sleep(0.02)
            if connection and (self.reconnects or self.errors):
                connection.close()
                connection = None

    def ask(self, connection: Any) -> Iterator[float]:
        for statement in KINDS[self.kind]:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                if statement.startswith("select"):
                    (*numbers, has_rows) = cursor.fetchall()[0]
                    assert has_rows
                    yield from map(float, numbers)
        connection.commit()


def test_readers_see_the_old_version_or_the_new_one_while_it_is_swapped(published: Home, url: str) -> None:
    export(*ALL_TABLES)
    ask(
        url,
        """create view public.both_numbers as
        select ledger.energy_kwh as a, net.energy_kwh as b
        from gpu_net.fct_gpu_ledger_hourly as ledger join gpu_net.mart_gpu_net_daily as net using (usage_date)""",
    )
    readers = [Reader(url, kind, reconnects=kind == "one statement") for kind in KINDS]
    readers += [Reader(url, "one statement", reconnects=False)]
    for reader in readers:
        reader.start()
    try:
        for number in range(2, SWAPS + 2):
            # each third version has a column more, or one less: readers have the table open that must change
            change = {0: ["alter table mart_gpu_net_daily add column colour varchar"]}.get(number % 6, [])
            change = {3: ["alter table mart_gpu_net_daily drop column if exists colour"]}.get(number % 6, change)
            publish_number(published, number, *change)
            export(*ALL_TABLES)
    finally:
        for reader in readers:
            reader.stopping.set()
        for reader in readers:
            reader.join(60)
        ask(url, "drop view public.both_numbers")
    for reader in readers:
        print(f"{reader.kind:15} reconnects={reader.reconnects!s:5} {reader.reads} reads, {len(reader.seen)} versions")
        assert reader.errors == []
        assert reader.mixed == 0
        assert reader.reads > SWAPS
        assert len(reader.seen) > SWAPS / 2


def test_a_copy_that_is_killed_changes_nothing_and_the_next_one_heals(published: Home, url: str) -> None:
    from warehouse.postgres import copy as copying

    export(*ALL_TABLES)
    publish_number(published, 2, "alter table mart_gpu_net_daily add column colour varchar")
    real, sent = copying._send, []

    def die(source: Any, target: Any, schema: str, table: Any) -> int:
        if len(sent) == 8:
            # the server loses its client, as when the process is killed
            ((number,),) = copying._fetch(target, compose("select pg_backend_pid()"))
            ask(url, f"select pg_terminate_backend({number})")
            time.sleep(0.2)
        sent.append(table.name)
        return real(source, target, schema, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "_send", die)
        failed = CliRunner().invoke(export_postgres_command, ALL_TABLES)
    assert failed.exit_code == 1
    assert "its readers keep what they have" in failed.stderr
    assert ask(url, "select distinct energy_kwh from gpu_net.mart_gpu_net_daily") == [(1.0,)]
    assert export(*ALL_TABLES).startswith("copied v000002")
    assert ask(url, "select distinct energy_kwh, colour from gpu_net.mart_gpu_net_daily") == [(2.0, None)]
