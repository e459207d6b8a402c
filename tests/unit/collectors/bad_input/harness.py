"""Run a collector on a damaged file, and hold it to what every collector promises."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from click.testing import CliRunner

from collectors.__main__ import main
from collectors.command import FAILED, LANDED, QUARANTINED, WRONG_USAGE
from tests.unit.collectors.bad_input.inputs import Input
from warehouse.home import Home
from warehouse.landing.outcomes import landed_tables

#: a RAM disk where there is one: an example writes and syncs a dozen small files
FAST_FOLDER = next((str(path) for path in [Path("/dev/shm")] if path.is_dir()), None)


@dataclass(frozen=True)
class Result:
    """What a command did: its exit code, what it said, rows landed and left out, by table."""

    code: int
    said: str
    landed: dict[str, int]
    quarantined: int
    failures: int
    rows: dict[str, list[dict[str, object]]]


def collect(item: Input, data: bytes, *, file: str | None = None) -> Result:
    """Land `data` under the input's name into a home of its own; raises AssertionError where a promise is broken.

    The promises: one of the four exit codes and never another exception; a failure says why and what helps on stderr, and
    leaves an outcome record but no rows; quarantined rows are in the quarantine; landing it again changes nothing.
    """
    with home_of_its_own() as home:
        path = home.root / (file or item.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        result = _run(item, path, home)
        if result.code in (LANDED, QUARANTINED):
            before = _files(home)
            again = _run(item, path, home)
            assert again.code == result.code, f"landed again with {again.code}: {again.said}"
            assert _files(home) == before, "landing it again changed the files"
        return result


@contextmanager
def home_of_its_own() -> Iterator[Home]:
    with TemporaryDirectory(dir=FAST_FOLDER) as folder, _environment(folder):
        yield Home.from_environment()
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir(exist_ok=True)


@contextmanager
def _environment(folder: str) -> Iterator[None]:
    import os

    names = ("GPU_NET_HOME", "GPU_NET_LANDING", "GPU_NET_CLUSTER", "GPU_NET_USER_KEY")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ["GPU_NET_HOME"] = folder
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _run(item: Input, path: Path, home: Home) -> Result:
    done = CliRunner().invoke(main, item.call(path))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"{type(done.exception).__name__}: {done.exception}") from done.exception
    assert done.exit_code in (LANDED, FAILED, WRONG_USAGE, QUARANTINED), done.output
    records = landed_tables(home.raw)
    landed = {record.table_name: record.rows_landed for record in records if record.rows_landed}
    quarantined = sum(record.rows_quarantined for record in records)
    failures = sum(record.status == "failed" for record in records)
    if done.exit_code in (FAILED, WRONG_USAGE):
        assert done.stderr.strip(), "failed without a word"
        assert "Traceback" not in done.output
        assert not landed, "failed, but landed rows"
    if done.exit_code == FAILED:
        assert failures, "failed without an outcome record"
        assert path.name in done.stderr, f"the message does not name the file: {done.stderr}"
    if done.exit_code == QUARANTINED:
        assert quarantined
        assert list(home.quarantine.rglob("*.parquet"))
    rows = {name: _rows(home, name) for name in landed}
    return Result(done.exit_code, done.output, landed, quarantined, failures, rows)


def _files(home: Home) -> dict[str, bytes]:
    found = {}
    for root in (home.raw, home.quarantine):
        for path in sorted(root.rglob("*.parquet")):
            found[str(path.relative_to(home.root))] = path.read_bytes()
    return found


def _rows(home: Home, table: str) -> list[dict[str, object]]:
    lineage = ["collection_run_id", "landed_at", "line_number", "delivery_id", "delivered_at"]
    frame = pl.read_parquet(sorted(home.raw.glob(f"*/{table}/dt=*/*.parquet")), hive_partitioning=False)
    return sorted(frame.drop(lineage, strict=False).to_dicts(), key=repr)
