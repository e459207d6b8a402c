"""A host with made-up GPUs: the stand-in library compiled from C, and the real command on it in a process of its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import PROJECT_ROOT, clean_environment

SOURCE = Path(__file__).with_name("fake_nvml.c")
INTERVAL_MS = 500
Row = dict[str, Any]


def compile_library(folder: Path) -> Path:
    """The stand-in for libnvidia-ml.so.1, in a folder of its own."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler for its stand-in of libnvidia-ml.so.1")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE)], check=True)
    return folder


@dataclass
class Host:
    """`state` steers the stand-in; an agent started with `start` runs until `stop` or `kill`."""

    home: Path
    library: Path
    state: Path
    agent: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def set(self, *lines: str) -> None:
        """What the GPUs are from now on."""
        temporary = self.state.with_suffix(".new")
        temporary.write_text("\n".join(lines) + "\n")
        temporary.rename(self.state)

    def environment(self) -> dict[str, str]:
        found = clean_environment(self.home)
        return found | {"LD_LIBRARY_PATH": str(self.library), "FAKE_NVML": str(self.state)} | self.variables

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "collectors", "nvml", "--cluster", "c", "--node", "n", *arguments]
        return subprocess.run(
            command, cwd=PROJECT_ROOT, env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )

    def start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "collectors", "nvml", "--cluster", "c", "--node", "n"]
        command += ["--interval", str(INTERVAL_MS / 1000), *arguments]
        log = (self.home.parent / "agent.log").open("a")
        self.agent = subprocess.Popen(command, cwd=PROJECT_ROOT, env=self.environment(), stdout=log, stderr=log, text=True)
        log.close()

    def log(self) -> str:
        return (self.home.parent / "agent.log").read_text()

    def stop(self) -> int:
        """End the agent as a service manager does; its exit code."""
        assert self.agent is not None
        self.agent.send_signal(signal.SIGTERM)
        code = self.agent.wait(60)
        self.agent = None
        return code

    def kill(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()
        self.agent = None

    def spooled(self) -> list[Path]:
        return sorted((self.home / "state" / "nvml").glob("*/*.jsonl"))

    def wait_until(self, seen: Callable[[str], bool], seconds: float = 30) -> None:
        """Wait until what is spooled (as text) shows something."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if seen("".join(path.read_text() for path in self.spooled() if path.exists())):
                return
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds} s\n{self.log()}")

    def rows(self, table: str) -> list[Row]:
        paths = sorted((self.home / "raw" / "nvml" / table).glob("dt=*/*.parquet"))
        return pl.read_parquet(paths).to_dicts() if paths else []


def is_gap(row: Row) -> bool:
    return row["sm_active_ratio"] is None and row["graphics_engine_active_ratio"] is None and row["gpu_utilization_ratio"] is None


def series(rows: list[Row]) -> dict[str, list[Row]]:
    """The samples of each slot (the last digits of its UUIDs), in time order."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["interval_start_at"]):
        name = row["gpu_uuid"][-1] + ("" if row["slot_uuid"] is None else f"/{row['slot_uuid'][-1]}")
        found.setdefault(name, []).append(row)
    return found


def milliseconds(row: Row) -> tuple[int, int]:
    """Start and end of a sample, in ms since 1970."""
    start = round(row["interval_start_at"].replace(tzinfo=UTC).timestamp() * 1000)
    return start, start + row["interval_ms"]


def assert_tiled(rows: list[Row]) -> None:
    """Every millisecond from the first to the last is told once: nothing twice, nothing not at all."""
    for earlier, later in pairwise(rows):
        assert milliseconds(earlier)[1] == milliseconds(later)[0], (earlier, later)


def covered_ms(rows: list[Row]) -> int:
    return sum(row["interval_ms"] for row in rows if not is_gap(row))


def gap_ms(rows: list[Row]) -> int:
    return sum(row["interval_ms"] for row in rows if is_gap(row))
