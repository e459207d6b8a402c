"""`kill -9` at random moments of publishing, while readers look: they see the old version or the new one, whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.expectations.fake_build import allow, make_build
from warehouse.home import Home
from warehouse.publication.publications import current_version, versions

#: more of them in a long run: GPU_NET_CRASHES=300
CRASHES = int(os.environ.get("GPU_NET_CRASHES", "15"))
SEED = int(os.environ.get("GPU_NET_CRASH_SEED", "20250301"))

#: as other people's clients do: open read-only, look, close; every answer as [build of each table that says so]
READER = """
import json, sys, time, duckdb
answers, errors, deadline = 0, [], time.monotonic() + 600
query = '''select (select build_id from publication), (select count(*) from publication),
    (select min(node) from dim_gpus), (select max(node) from dim_gpus),
    (select min(team) from mart_ghost_capacity_daily where usage_date = '2025-03-02'),
    (select max(team) from mart_ghost_capacity_daily where usage_date = '2025-03-02'),
    (select count(*) from fct_gpu_ledger_hourly)'''
while time.monotonic() < deadline and not __import__("pathlib").Path(sys.argv[2]).exists():
    try:
        with duckdb.connect(sys.argv[1], read_only=True) as connection:
            build, rows, *said, ledger_rows = connection.execute(query).fetchall()[0]
        answers += 1
        if rows != 1 or set(said) != {build} or ledger_rows != 216:
            errors.append([build, rows, said, ledger_rows])
    except Exception as error:
        errors.append(repr(error))
    time.sleep(0.02)
print(json.dumps([answers, errors]))
"""


def change_everything(number: int) -> list[str]:
    """Every build signs a whole table and one day of another: an answer that mixes versions shows."""
    build_id = f"build-{number:03d}"
    return [
        f"update dim_gpus set node = '{build_id}'",
        f"update mart_ghost_capacity_daily set team = '{build_id}' where usage_date = '2025-03-02'",
    ]


def start_publishing(home: Home) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "warehouse", "publish"]
    return subprocess.Popen(command, cwd=PROJECT_ROOT, env=clean_environment(home.root), stderr=subprocess.PIPE)


def shown_build(home: Home) -> str:
    with duckdb.connect(str(home.published_database), read_only=True) as connection:
        return str(connection.execute("select build_id from publication").fetchall()[0][0])


def test_readers_see_one_whole_version_whenever_publishing_is_killed(home: Path, tmp_path: Path) -> None:
    place, chance = Home.from_environment(), random.Random(SEED)
    allow(place, make_build(place, *change_everything(1)))
    started = time.monotonic()
    assert start_publishing(place).wait() == 0
    usual_seconds = time.monotonic() - started
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", READER, str(place.published_database), str(stop)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    killed = 0
    try:
        for number in range(2, CRASHES + 2):
            before = shown_build(place)
            allow(place, make_build(place, *change_everything(number), number=number, full_refresh=number % 3 == 0))
            publishing = start_publishing(place)
            time.sleep(chance.uniform(0.3, 1.1) * usual_seconds)
            publishing.send_signal(signal.SIGKILL)
            killed += publishing.wait() == -signal.SIGKILL
            current = current_version(place.published)
            assert current is not None
            assert shown_build(place) in (before, f"build-{number:03d}")
            assert current.manifest.build_id == shown_build(place)
        # whatever the last kill left, the next publication works and cleans up
        allow(place, make_build(place, *change_everything(CRASHES + 2), number=CRASHES + 2, full_refresh=False))
        publishing = start_publishing(place)
        assert publishing.wait() == 0, publishing.stderr and publishing.stderr.read()
    finally:
        stop.touch()
        reports = [json.loads(reader.communicate()[0]) for reader in readers]
    assert shown_build(place) == f"build-{CRASHES + 2:03d}"
    assert {path.name for path in place.published.iterdir()} == {
        "current",
        "report.html",
        *(version.name for version in versions(place.published)),
    }
    assert killed >= CRASHES // 3, "the kills came too late to try anything"
    for answers, errors in reports:
        assert errors == []
        assert answers > CRASHES
