"""What a published table becomes in PostgreSQL, and that no password is shown: no server is needed."""

from __future__ import annotations

import duckdb
import pytest
from click.testing import CliRunner

from tests.unit.expectations.fake_build import allow, make_build
from warehouse.home import Home
from warehouse.postgres.command import export_postgres_command, without_password
from warehouse.postgres.shape import DEFAULT_PATTERNS, CopiedTable, UnknownTableError, declared_keys, read_tables
from warehouse.publication import publish


def shape_of(*statements: str, patterns: tuple[str, ...] = ("mart_*",)) -> dict[str, CopiedTable]:
    with duckdb.connect() as source:
        for statement in statements:
            source.execute(statement)
        return {table.name: table for table in read_tables(source, patterns)}


def test_types_keep_their_meaning_and_the_rest_becomes_text() -> None:
    shape = shape_of(
        """create table mart_odd as select true as yes, 1::bigint as n, 1.5::decimal(38, 12) as money, 1.5::double as ratio,
            date '2026-11-01' as day, timestamp '2026-11-01' as at, 'x' as name, [1, 2] as many"""
    )
    assert shape["mart_odd"].columns == {
        **{"yes": "boolean", "n": "bigint", "money": "numeric(38, 12)", "ratio": "double precision"},
        **{"day": "date", "at": "timestamp", "name": "text", "many": "text"},
    }


def test_the_character_that_postgresql_has_not_is_left_out() -> None:
    with duckdb.connect() as source:
        source.execute("create table mart_odd as select 'a' || chr(0) || 'b' as name")
        (table,) = read_tables(source, ["mart_odd"])
        assert source.execute(table.select).fetchall() == [("ab",)]


def test_the_key_is_the_one_that_the_models_test_holds() -> None:
    assert declared_keys(["mart_gpu_net_daily", "publication"]) == {
        "mart_gpu_net_daily": ("usage_date", "cluster", "gpu_model", "currency")
    }


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ("('alder'), ('birch')", ("cluster",)),
        ("('alder'), ('alder')", ()),
        ("('alder'), (null)", ()),
        (f"('{'x' * 3000}')", ()),
    ],
    ids=["unique", "twice", "null", "too long for an index"],
)
def test_a_key_that_postgresql_would_refuse_is_none(rows: str, key: tuple[str, ...]) -> None:
    shape = shape_of(
        "create table dim_clusters (cluster varchar)", f"insert into dim_clusters values {rows}", patterns=("dim_*",)
    )
    assert shape["dim_clusters"].key == key


def test_comments_are_those_of_the_published_file() -> None:
    shape = shape_of(
        "create table mart_small as select 1 as net_ratio, 2 as other",
        "comment on table mart_small is 'Small. One row.'",
        "comment on column mart_small.net_ratio is 'What is left.'",
    )
    assert shape["mart_small"].comment == "Small. One row."
    assert shape["mart_small"].column_comments == {"net_ratio": "What is left."}


def test_a_pattern_that_names_nothing_is_an_error_that_lists_what_there_is(home: object) -> None:
    with pytest.raises(UnknownTableError, match=r"no published table is called fct_none; there are mart_a"):
        shape_of("create table mart_a as select 1 as one", patterns=("mart_*", "fct_none"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://grafana:s3cret%20word@db/gpu",
        "host=db user=grafana password=s3cret%20word",
        "host=db user=grafana password='s3cret word'",
        "postgresql://db/gpu?user=grafana&password=s3cret%20word&sslmode=require",
    ],
)
def test_a_password_is_taken_out_of_a_message(url: str) -> None:
    shown = without_password(f"could not connect with {url}, that is it", url)
    assert "s3cret" not in shown
    assert "***" in shown


def test_without_an_address_or_a_publication_or_with_a_password_that_tears_the_address_it_says_what_to_do(home: object) -> None:
    def run(**variables: str) -> tuple[int, str]:
        result = CliRunner().invoke(export_postgres_command, [], env={"GPU_NET_POSTGRES_URL": None, **variables})
        return result.exit_code, result.stderr

    assert run() == (2, "name the database: export GPU_NET_POSTGRES_URL=postgresql://USER:PASSWORD@HOST/DATABASE\n")
    for url in ("postgresql://u:pa@ss@h/d", "postgresql://u:pa/ss@h/d"):
        code, says = run(GPU_NET_POSTGRES_URL=url)
        assert code == 2
        assert "%40" in says
        assert "ss" not in says.replace("password", "").replace("GPU_NET_POSTGRES_URL", "")
    assert run(GPU_NET_POSTGRES_URL="postgresql://h/d")[1].startswith("nothing is published yet")
    own_home = Home.from_environment()
    allow(own_home, make_build(own_home))
    publish.publish(own_home)
    code, says = run(GPU_NET_POSTGRES_URL="postgresql://someone:s3cret@127.0.0.1:1/gpu")
    assert code == 1
    assert says.startswith("export-postgres failed, its readers keep what they have: ")
    assert "s3cret" not in says


def test_the_default_is_all_but_the_facts() -> None:
    assert DEFAULT_PATTERNS == ("mart_*", "dim_*", "audit_*")
