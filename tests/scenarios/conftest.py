"""One build of every scenario, for all tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.conftest import OWN_VARIABLES, run_module
from tests.scenarios.worlds import land, scenarios


@pytest.fixture(scope="session")
def built_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all scenarios were landed, built, gated and published once."""
    home = tmp_path_factory.mktemp("scenarios")
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN_VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("GPU_NET_HOME", str(home))
        land(scenarios())
    # what a build works on is kept, so that audits can be measured again
    done = run_module(home, "warehouse", "run", GPU_NET_SCRATCH_DATABASE="~/scratch.duckdb")
    assert done.returncode == 0, f"warehouse run left with {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return home


@pytest.fixture(scope="session")
def published(built_home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published database of all scenarios."""
    with duckdb.connect(str(built_home / "published" / "current" / "gpu_net.duckdb"), read_only=True) as connection:
        yield connection
