"""The exported dashboard against the contracts of the tables it reads: no Superset is needed to see that a column is gone."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from click.testing import CliRunner

from tests.conftest import PROJECT_ROOT
from warehouse.superset import command, serve

ASSETS = PROJECT_ROOT / "dbt_project" / "dashboards" / "superset"
MODELS = PROJECT_ROOT / "dbt_project" / "models"
#: what a publication writes beside the models' tables
OF_PUBLISH = (
    """create table publication (publication_id varchar, build_id varchar, published_at timestamp, data_through_at timestamp,
    checks_passed bigint, checks_warned bigint, version varchar)""",
    """create table gate_results (check_id varchar, table_name varchar, severity varchar, success boolean, observed varchar,
    unexpected_count bigint, message varchar, checked_at timestamp)""",
)


@cache
def exported(kind: str) -> dict[str, dict[str, Any]]:
    """The YAML files of a kind (`datasets`, `charts`, …) by their uuid."""
    found = [yaml.safe_load(path.read_text()) for path in sorted((ASSETS / kind).rglob("*.yaml"))]
    assert len({one["uuid"] for one in found}) == len(found)
    return {one["uuid"]: one for one in found}


@pytest.fixture(scope="module")
def contracts() -> Any:
    """A database in which every published table is empty and has the columns of its contract."""
    with duckdb.connect() as connection:
        for path in MODELS.rglob("*.yml"):
            for model in yaml.safe_load(path.read_text()).get("models", []):
                if re.match(r"(dim|fct|mart|audit)_", model["name"]):
                    columns = ", ".join(f"{column['name']} {column['data_type']}" for column in model["columns"])
                    connection.execute(f"create table {model['name']} ({columns})")
        for statement in OF_PUBLISH:
            connection.execute(statement)
        yield connection


@pytest.mark.parametrize("uuid", exported("datasets"), ids=lambda uuid: exported("datasets")[uuid]["table_name"])
def test_a_dataset_reads_columns_that_are_promised(uuid: str, contracts: duckdb.DuckDBPyConnection) -> None:
    dataset = exported("datasets")[uuid]
    source = f"({dataset['sql']})" if dataset["sql"] else dataset["table_name"]
    found = contracts.sql(f"select * from {source} as rows")
    missing = {column["column_name"] for column in dataset["columns"]} - set(found.columns)
    assert not missing
    for metric in dataset["metrics"]:
        contracts.execute(f"select {metric['expression']} from {source} as rows")


@pytest.mark.parametrize("uuid", exported("charts"), ids=lambda uuid: exported("charts")[uuid]["slice_name"])
def test_a_chart_names_columns_and_metrics_of_its_dataset(uuid: str) -> None:
    chart = exported("charts")[uuid]
    dataset = exported("datasets")[chart["dataset_uuid"]]
    known = {column["column_name"] for column in dataset["columns"]} | {metric["metric_name"] for metric in dataset["metrics"]}
    params = chart["params"]
    named: list[Any] = [params.get("metric"), params.get("x_axis"), params.get("timeseries_limit_metric")]
    for key in ("metrics", "groupby", "all_columns"):
        named += params[key] if isinstance(params.get(key), list) else [params.get(key)]
    named += [term["subject"] for term in params.get("adhoc_filters", []) if term["expressionType"] == "SIMPLE"]
    assert {name for name in named if name} <= known


def test_the_dashboard_shows_every_chart_once_and_its_filters_are_there() -> None:
    (dashboard,) = exported("dashboards").values()
    shown = [
        part["meta"]["uuid"] for part in dashboard["position"].values() if isinstance(part, dict) and part["type"] == "CHART"
    ]
    assert sorted(shown) == sorted(exported("charts"))
    for one in dashboard["metadata"]["native_filter_configuration"]:
        for target in (target for target in one["targets"] if target):
            dataset = exported("datasets")[target["datasetUuid"]]
            assert target["column"]["name"] in {column["column_name"] for column in dataset["columns"]}


def test_money_of_several_currencies_is_never_added() -> None:
    amount = re.compile(r"sum\((?:case [^()]*then )?\w*cost\w*(?: end)?\)")
    for dataset in exported("datasets").values():
        for metric in dataset["metrics"]:
            if amount.search(metric["expression"]):
                assert "count(distinct case when" in metric["expression"], (dataset["table_name"], metric["metric_name"])
                assert "then currency end) <= 1" in metric["expression"]


def test_a_metric_is_the_ratio_of_sums_of_its_mart(contracts: duckdb.DuckDBPyConnection) -> None:
    """Two days of one GPU, one of them mostly unobserved: no mean of ratios, and no GPU Net below the floor of coverage."""
    (dataset,) = (one for one in exported("datasets").values() if one["table_name"] == "mart_gpu_net_daily")
    metrics = {metric["metric_name"]: metric["expression"] for metric in dataset["metrics"]}
    rows = """(values (24.0, 0.0, 24.0, 0.0, 12.0), (8.0, 4.0, 4.0, {unobserved}, 4.0)) as days (capacity_gpu_hours,
        out_of_service_gpu_hours, held_gpu_hours, unobserved_gpu_hours, productive_gpu_hours)"""

    def ask(metric: str, unobserved: float) -> Any:
        return contracts.execute(f"select {metrics[metric]} from {rows.format(unobserved=unobserved)}").fetchone()[0]  # type: ignore[index]

    assert ask("gpu_net", 0.0) == pytest.approx(16 / 28)
    assert ask("gpu_net", 2.0) is None
    assert (ask("gpu_net_low", 2.0), ask("gpu_net_high", 2.0)) == (pytest.approx(16 / 28), pytest.approx(18 / 28))


def test_the_address_of_this_machines_file_is_put_in_and_never_kept() -> None:
    assets = serve.read_assets(ASSETS, Path("/srv/gpu net/published/current/gpu_net.duckdb"))
    (database,) = (yaml.safe_load(text) for name, text in assets.items() if name.startswith("databases/"))
    assert database["sqlalchemy_uri"] == "duckdb:////srv/gpu%20net/published/current/gpu_net.duckdb?access_mode=read_only"
    kept = [path for path in ASSETS.rglob("*.yaml") if serve.PLACEHOLDER in path.read_text()]
    assert [path.parent.name for path in kept] == ["databases"]


def test_without_a_publication_it_says_what_to_do_and_down_without_a_server_is_no_error(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    result = CliRunner().invoke(command.main, ["up"])
    assert result.exit_code == 1
    assert "nothing is published in" in result.stderr
    assert CliRunner().invoke(command.main, ["down"]).stdout == "Superset is not running here\n"


def test_a_process_that_only_has_the_number_of_ours_is_not_ended(tmp_path: Path) -> None:
    import os

    (tmp_path / "server.json").write_text(json.dumps({"pid": os.getpid(), "created": 1.0, "port": 1}))
    assert command.Server.load(tmp_path) is None


def test_the_exposure_names_the_tables_that_the_dashboard_reads() -> None:
    exposures = yaml.safe_load((MODELS / "exposures.yml").read_text())["exposures"]
    (declared,) = (one["depends_on"] for one in exposures if one["name"] == "dashboard")
    read = {
        name
        for one in exported("datasets").values()
        for name in re.findall(r"\b(?:dim|fct|mart|audit)_\w+", one["sql"] or one["table_name"])
    }
    assert {f"ref('{name}')" for name in read} == set(declared)
