"""The page about clients: each example runs as it stands, in the client's own environment where `make bi-clients` has made it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT
from tests.integration.clients.campaign import CLIENTS, clean
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.home import Home
from warehouse.publication import publish

pytestmark = pytest.mark.integration

PAGE = (PROJECT_ROOT / "dbt_project" / "dashboards" / "README.md").read_text()
FILE = "/srv/gpu-net/published/current/gpu_net.duckdb"
#: heading → the client whose environment runs its example
RUN_BY = {"Python": "duckdb", "pandas": "pandas", "Polars": "polars", "SQLAlchemy": "sqlalchemy", "JavaScript": "node"}


def example(heading: str) -> str:
    found = re.search(rf"^## {heading}\n.*?```(?:python|js)\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("raw"))
    allow(home, make_build(home))
    publish.publish(home)
    return home.published_database


def test_every_client_has_an_example() -> None:
    headings = re.findall(r"^## (.*)\n(?:(?!^## ).*\n)*?```(?:python|js)$", PAGE, re.MULTILINE)
    assert set(headings) == set(RUN_BY)


@pytest.mark.parametrize("heading", RUN_BY)
def test_an_example_runs_as_it_stands(heading: str, database: Path, tmp_path: Path) -> None:
    client = next(client for client in CLIENTS if client.name == RUN_BY[heading])
    if not client.is_there:
        pytest.skip(f"{client.name} is not installed: `make bi-clients` does that")
    code = example(heading)
    assert FILE in code
    if client.name == "node":
        script = client.folder / "example.mjs"
        command = ["node", script.name]
    else:
        script = tmp_path / "example.py"
        command = [client.command[0] if client.packages else sys.executable, str(script)]
    script.write_text(code.replace(FILE, str(database)))
    try:
        cwd = client.folder if client.name == "node" else tmp_path
        done = subprocess.run(command, cwd=cwd, env=clean(), capture_output=True, text=True, timeout=120, check=False)
    finally:
        script.unlink()
    assert done.returncode == 0, done.stderr[-1000:]
    assert re.search(r"c1|vision|v000001", done.stdout), done.stdout
