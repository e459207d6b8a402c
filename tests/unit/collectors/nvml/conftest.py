from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.collectors.nvml.harness import Host, compile_library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def host(library: Path, tmp_path: Path) -> Iterator[Host]:
    """A host of two healthy GPUs without GPM or MIG, until the test says otherwise."""
    made = Host(tmp_path / "home", library, tmp_path / "gpus")
    made.set("gpus 2")
    yield made
    if made.agent is not None:
        made.kill()
