"""The recipes of CONTRIBUTING: each ends with a test that fails until its last step is done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectors.__main__ import COMMANDS
from tests.conftest import PROJECT_ROOT

RECIPES = (PROJECT_ROOT / "CONTRIBUTING.md").read_text()
#: packages that are no source: rows already in the landing shape, what readers of metrics text share, the made-up fleet
SHARED = {"tables", "metrics", "simulate"}
#: collectors that run as a service on each host: no DAG starts them, the build finds what they land
SERVICES = {"nvml"}
SOURCES = sorted(
    path.name for path in (PROJECT_ROOT / "collectors").iterdir() if (path / "__init__.py").exists() and path.name not in SHARED
)
PUBLISHED = sorted(
    path
    for folder in ("dimensions", "facts", "marts", "audits")
    for path in (PROJECT_ROOT / "dbt_project" / "models" / folder).rglob("*.sql")
)


def test_there_are_sources_and_published_tables_to_look_at() -> None:
    assert {"billing", "dcgm", "slurm"} <= set(SOURCES)
    assert len(PUBLISHED) >= 20


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_has_its_parts_its_tests_and_an_asset(source: str) -> None:
    parts = {path.stem for path in (PROJECT_ROOT / "collectors" / source).glob("*.py")}
    # parse.py is several modules where a source has several forms; client.py is there where one asks a process or the network
    assert "collect" in parts
    assert len(parts) > 3
    assert COMMANDS[source.replace("_", "-")].startswith(f"collectors.{source}.collect:")
    assert list((PROJECT_ROOT / "tests" / "unit" / "collectors" / source).glob("test_*.py"))
    steps = (PROJECT_ROOT / "dags" / "gpu_net_steps.py").read_text()
    assert source in SERVICES or f'Asset("raw_{source}")' in steps


@pytest.mark.parametrize("source", SOURCES)
def test_only_the_client_of_a_source_touches_processes_and_the_network(source: str) -> None:
    outside = re.compile(r"^\s*(import|from) (subprocess|socket|urllib\.request|http|requests)\b", re.MULTILINE)
    for path in (PROJECT_ROOT / "collectors" / source).glob("*.py"):
        if path.name != "client.py":
            assert not outside.search(path.read_text()), path


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda path: path.stem)
def test_a_published_table_has_a_suite(model: Path) -> None:
    assert (PROJECT_ROOT / "expectations" / "suites" / f"{model.stem}.py").exists()


def test_the_recipes_name_files_and_tests_that_exist() -> None:
    named = {name for name in re.findall(r"`([\w./]+/[\w./]*(?:::\w+)?)`", RECIPES) if "<" not in name}
    assert len(named) >= 12
    for name in named:
        path, _, test = name.partition("::")
        assert (PROJECT_ROOT / path).exists(), path
        assert not test or f"def {test}(" in (PROJECT_ROOT / path).read_text(), name


def test_the_changelog_keeps_a_place_for_numbers_that_moved() -> None:
    assert "### Numbers that moved" in (PROJECT_ROOT / "CHANGELOG.md").read_text()
