"""Land a log in this process: quicker than a process for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from collectors.requests.collect import requests
from tests.unit.collectors.requests.logs import Land, rows


@pytest.fixture
def land(home: Path, tmp_path: Path) -> Land:
    """`land(text or bytes, *options, file=…)` → exit code, all that was said, the rows."""

    def run(data: str | bytes, *options: str, file: str = "log.jsonl") -> tuple[int, str, list[dict[str, object]]]:
        path = tmp_path / file
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        done = CliRunner().invoke(requests, [str(path), "--cluster", "c1", *options])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output, rows(home)

    return run
