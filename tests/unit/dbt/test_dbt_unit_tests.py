"""Run the dbt unit tests that stand in the models' YAML, on a warehouse in which nothing has landed.

One dbt process builds every model, empty, and runs its unit tests before it. The empty database then also shows whether
the YAML tells the truth: the columns it describes are the columns there are, with their types.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from warehouse import control
from warehouse.build import DBT_PROJECT, dbt_environment
from warehouse.home import Home
from warehouse.landing.landings import Window


@dataclass(frozen=True)
class EmptyBuild:
    """The databases, `results` of dbt by unique id, the `nodes` of its manifest, and what it printed."""

    database: Path
    scratch: Path
    results: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Mapping[str, Any]]
    output: str

    def of_type(self, resource_type: str) -> dict[str, Mapping[str, Any]]:
        return {name: result for name, result in self.results.items() if name.startswith(f"{resource_type}.")}


@pytest.fixture(scope="module")
def empty_build(tmp_path_factory: pytest.TempPathFactory) -> EmptyBuild:
    root = tmp_path_factory.mktemp("home")
    home = Home(root, root / "raw").create()
    with control.open_build_database(home) as connection:
        control.write_inputs(connection, home, [], [], Window(None, None), build_id="empty", full_refresh=True)
        connection.execute("create table int_renamed_since as select 1 as one")
        connection.execute("create view int_removed_since as select one from int_renamed_since")
    target = home.build / "dbt" / "target"
    command = [
        *(str(Path(sys.executable).with_name("dbt")), "--no-use-colors", "build", "--full-refresh"),
        *("--project-dir", str(DBT_PROJECT), "--profiles-dir", str(DBT_PROJECT)),
        *("--target-path", str(target), "--log-path", str(home.build / "dbt" / "logs")),
        *("--exclude-resource-type", "test"),
    ]
    environment = dbt_environment(home) | {"GPU_NET_SCRATCH_DATABASE": "~/scratch.duckdb"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    results = target / "run_results.json"
    assert results.exists(), f"dbt did not begin:\n{finished.stdout}{finished.stderr}"
    manifest = json.loads((target / "manifest.json").read_text())
    return EmptyBuild(
        database=home.build_database,
        scratch=home.build / "scratch.duckdb",
        results={result["unique_id"]: result for result in json.loads(results.read_text())["results"]},
        nodes=manifest["nodes"] | manifest["unit_tests"],
        output=finished.stdout,
    )


def test_every_unit_test_in_yaml_holds(empty_build: EmptyBuild) -> None:
    ran = empty_build.of_type("unit_test")
    written = {name for name in empty_build.nodes if name.startswith("unit_test.")}
    assert written, "no YAML holds a unit test"
    assert set(ran) == written
    failures = [f"{name}: {result['message']}" for name, result in ran.items() if result["status"] != "pass"]
    assert not failures, "\n".join([*failures, empty_build.output])


def test_every_model_builds_where_nothing_has_landed(empty_build: EmptyBuild) -> None:
    failures = [
        f"{name}: {result['status']} {result['message']}"
        for kind in ("model", "seed")
        for name, result in empty_build.of_type(kind).items()
        if result["status"] != "success"
    ]
    assert not failures, "\n".join(failures)


def test_what_no_model_makes_any_more_is_dropped(empty_build: EmptyBuild) -> None:
    made = {node["alias"] for node in empty_build.nodes.values() if node["resource_type"] in ("model", "seed")}
    with duckdb.connect(str(empty_build.database), read_only=True) as connection:
        query = "select table_name from information_schema.tables where table_schema = 'main'"
        there = {row[0] for row in connection.execute(query).fetchall()}
    assert there
    assert there <= made


def test_the_columns_described_are_the_columns_there_are(empty_build: EmptyBuild) -> None:
    faults = []
    with duckdb.connect(str(empty_build.database), read_only=True) as connection:
        connection.execute(f"attach '{empty_build.scratch}' as scratch (read_only)")
        for name, result in empty_build.of_type("model").items():
            if result["status"] != "success":
                continue
            node = empty_build.nodes[name]
            rows = connection.execute(f"describe {node['database']}.main.{node['alias']}").fetchall()
            there = [(row[0], _plain(row[1])) for row in rows]
            told = [(column["name"], _plain(column["data_type"])) for column in node["columns"].values()]
            if sorted(there) != sorted(told):
                faults.append(f"{node['name']}: only there {_less(there, told)}, only described {_less(told, there)}")
    assert not faults, "\n".join(faults)


def _plain(kind: str) -> str:
    return kind.lower().replace(" ", "").replace('"', "")


def _less(some: list[tuple[str, str]], others: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [one for one in some if one not in others]
