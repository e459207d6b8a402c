"""Readers in every client that is installed loop while versions are published; `make bi-clients` installs and reads them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.clients.campaign import CLIENTS, SUPERSET, Client, run
from warehouse.home import Home

pytestmark = pytest.mark.integration

PUBLICATIONS = int(os.environ.get("GPU_NET_TEST_PUBLICATIONS", "5"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("clients")
    home = Home(folder / "home", folder / "home" / "raw")
    return run(home, [client for client in CLIENTS if client.is_there], PUBLICATIONS, folder)


@pytest.mark.parametrize("client", [*CLIENTS, SUPERSET], ids=lambda client: client.name)
def test_a_client_sees_whole_versions_and_no_error(client: Client, seen: dict[str, dict[str, Any]]) -> None:
    if client.name not in seen:
        pytest.skip(f"{client.name} is not installed: `make bi-{'superset' if client == SUPERSET else 'clients'}` does that")
    found = seen[client.name]
    assert found["errors"] == 0, found["first_error"]
    assert found["mixed"] == 0
    assert found["reads"] >= found["seen"] >= 2


def test_a_mixture_would_be_noticed(tmp_path: Path) -> None:
    """A reader of a file whose tables are of two publications counts every answer as mixed."""
    import duckdb

    from tests.integration.clients.campaign import publish_number

    home = Home(tmp_path / "home", tmp_path / "home" / "raw")
    publish_number(home, 1)
    with duckdb.connect(str(home.published_database)) as connection:
        connection.execute("update mart_gpu_net_daily set energy_kwh = 7")
    found = run_once(home, tmp_path)
    assert found["errors"] == 0
    assert found["mixed"] == found["reads"] > 0


def run_once(home: Home, folder: Path) -> dict[str, Any]:
    import json
    import subprocess
    import time

    stop = folder / "stop"
    reader = subprocess.Popen(
        [*CLIENTS[0].command, str(home.published_database), str(stop)], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("stop.*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.touch()
    found: dict[str, Any] = json.loads(reader.communicate(timeout=60)[0])
    return found
