"""Keys are asked for once, when all is built: one that is none fails the build and is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warehouse import build, control
from warehouse.home import Home
from warehouse.landing.landings import Window

pytestmark = pytest.mark.integration


@pytest.fixture
def prepared(home: Path) -> Home:
    """A home in which dbt may run."""
    place = Home.from_environment().create()
    with control.open_build_database(place) as connection:
        control.write_inputs(connection, place, [], [], Window(None, None), build_id="keys", full_refresh=True)
    return place


def test_a_key_that_is_none_fails_the_build_and_is_named(prepared: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that the catalogue lists twice is two rows of one key."""
    project = tmp_path / "dbt_project"
    shutil.copytree(build.DBT_PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    monkeypatch.setattr(build, "DBT_PROJECT", project)
    monkeypatch.setattr(build, "PARSED", project / "target" / "partial_parse.msgpack")
    build.run_dbt(prepared, full_refresh=True, select=["gpu_models"])
    catalogue = project / "seeds" / "gpu_models.csv"
    lines = catalogue.read_text().splitlines()
    catalogue.write_text("\n".join([*lines, lines[-1]]) + "\n")
    with pytest.raises(build.BuildFailedError, match=r"rows of one key, or without one: gpu_models \(\w+\): 1"):
        build.run_dbt(prepared, full_refresh=True, select=["gpu_models"])
