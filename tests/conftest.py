"""What many tests need: a home of their own, the commands, and the captures that are not part of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[1]
REAL_DATA = PROJECT_ROOT.parent / "shared" / "data" / "real"

# beside other workers a second thread of Polars mostly waits for its turn, and with it every operation on a small frame
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

#: variables of a developer's shell that must not steer a test
OWN_VARIABLES = tuple(name for name in os.environ if name.startswith("GPU_NET_") and name != "GPU_NET_HOME")


def clean_environment(home: Path, **variables: str) -> dict[str, str]:
    """This process's environment with `GPU_NET_HOME` set to `home`, `variables`, and none else of the project's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPU_NET_")}
    return kept | {"GPU_NET_HOME": str(home), "TZ": "America/New_York"} | variables


def run_module(home: Path, *arguments: str, timeout_seconds: float = 1800, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m <arguments>` against `home` in the project root; a session zone that is not UTC is part of the test."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=PROJECT_ROOT,
        env=clean_environment(home, **variables),
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `GPU_NET_HOME`, set in this process's environment as well."""
    root = tmp_path / "home"
    for name in OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPU_NET_HOME", str(root))
    return root


@pytest.fixture
def run_cli(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_cli("collectors", "import", …)` runs `python -m collectors import …` against the test's own home."""

    def run(*arguments: str, timeout_seconds: float = 1800) -> subprocess.CompletedProcess[str]:
        return run_module(home, *arguments, timeout_seconds=timeout_seconds)

    return run


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The captures; a test that asks for them is skipped where they are absent."""
    if not REAL_DATA.is_dir():
        pytest.skip("the real captures are not part of this repository")
    return REAL_DATA
