"""A full disk: one line says so, nothing is torn, and the next run goes on. The disk is a small tmpfs, mounted by the test."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from collectors.__main__ import main as collect
from tests.conftest import PROJECT_ROOT, run_module
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.__main__ import main as warehouse
from warehouse.home import Home
from warehouse.landing.outcomes import current_files, landed_tables
from warehouse.publication.publications import versions

MIB = 1 << 20
#: the build takes a minute or two: `make chaos`
IS_LONG = bool(os.environ.get("GPU_NET_CHAOS"))
WORLD = PROJECT_ROOT / "tests" / "scenarios" / "four_gpus_for_two_hours_are_eight_gpu_hours" / "raw" / "runs.csv"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 256 MiB with the home on it; skipped where nothing may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: it takes the rights of root")
    for name in [name for name in os.environ if name.startswith("GPU_NET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPU_NET_HOME", str(place / "home"))
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    """Fill the disk but for so many bytes; the file that does it."""
    filler = disk / "filler"
    status = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize - leave))
    return filler


def refused(result: Result) -> str:
    """The one line that a command left with."""
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert os.strerror(errno.ENOSPC).lower() in lines[0].lower() or "space" in lines[0].lower()
    return lines[0]


def test_a_landing_on_a_full_disk_leaves_the_old_rows_and_works_when_there_is_room(disk: Path, tmp_path: Path) -> None:
    rows = tmp_path / "runs.csv"
    head, line = WORLD.read_text().splitlines()[:2]
    rows.write_text("\n".join([head, *(line.replace(",500,", f",{number},") for number in range(20_000))]) + "\n")
    run: Callable[[Path], Result] = lambda path: CliRunner().invoke(collect, ["import", "runs", str(path)])  # noqa: E731
    assert run(WORLD).exit_code == 0
    raw = Home.from_environment().raw
    before = landed_tables(raw)
    filler = fill(disk, leave=16 << 10)
    assert "nothing was landed; make room" in refused(run(rows))
    assert [record for record in landed_tables(raw) if record.status == "landed"] == before
    filler.unlink()
    assert run(rows).exit_code == 0
    assert sum(record.rows_landed for record in landed_tables(raw)) == 20_001
    listed = {str(raw / file) for _, file in current_files(landed_tables(raw))}
    assert {str(path) for path in raw.glob("import/runs/*/*")} == listed
    assert [path for path in (raw / ".staging").glob("*") if path.is_dir()] == []


def test_a_publication_on_a_full_disk_leaves_readers_what_they_have(disk: Path) -> None:
    place = Home.from_environment()
    allow(place, make_build(place))
    assert CliRunner().invoke(warehouse, ["publish"]).exit_code == 0
    # rows that do not pack, so that the new version is larger than what is left
    grow = "insert into dim_models select md5(i::varchar) || md5((i * 7)::varchar) from range(200000) as t(i)"
    allow(place, make_build(place, grow, number=2))
    filler = fill(disk, leave=2 * MIB)
    assert "readers keep what they have" in refused(CliRunner().invoke(warehouse, ["publish"]))
    with duckdb.connect(str(place.published_database), read_only=True) as connection:
        assert connection.execute("select build_id from publication").fetchall() == [("build-001",)]
    filler.unlink()
    assert CliRunner().invoke(warehouse, ["publish"]).exit_code == 0
    with duckdb.connect(str(place.published_database.resolve()), read_only=True) as connection:
        assert connection.execute("select build_id from publication").fetchall() == [("build-002",)]
    names = {version.name for version in versions(place.published)}
    assert {path.name for path in place.published.iterdir() if path.name.startswith((".tmp", "v"))} == names


def test_a_digest_on_a_full_disk_leaves_no_half_page(disk: Path) -> None:
    place = Home.from_environment()
    allow(place, make_build(place))
    assert CliRunner().invoke(warehouse, ["publish"]).exit_code == 0
    filler = fill(disk, leave=8 << 10)
    refused(CliRunner().invoke(warehouse, ["digest", "--date", "2025-03-02"]))
    assert [path.name for path in place.digests.rglob("*.tmp*")] == []
    filler.unlink()
    assert CliRunner().invoke(warehouse, ["digest", "--date", "2025-03-02"]).exit_code == 0
    assert "</html>" in (place.digests / "2025-03-02" / "fleet.html").read_text()


@pytest.mark.skipif(not IS_LONG, reason="a build on a full disk takes a minute: make chaos")
def test_a_build_on_a_full_disk_is_put_right_by_the_next(disk: Path) -> None:
    place = Home.from_environment()
    assert run_module(place.root, "collectors", "import", "runs", str(WORLD)).returncode == 0
    filler = fill(disk, leave=6 * MIB)
    failed = run_module(place.root, "warehouse", "build")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr.splitlines()[0]
    assert failed.stderr.startswith("build failed")
    assert "space" in failed.stderr.lower()
    filler.unlink()
    assert run_module(place.root, "warehouse", "run").returncode == 0
