"""`kill -9` at any moment of a landing or a compaction: a reader sees the old rows or the new ones, never a part.

`GPU_NET_KILLS` sets how often each is killed (20 unless told); the moments are spread over the whole run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.warehouse.landing.test_landings import samples
from warehouse.home import Home
from warehouse.landing import leftovers
from warehouse.landing.compaction import compact
from warehouse.landing.landings import Landing
from warehouse.landing.outcomes import current_files, landed_tables, outcome_files

KILLS = int(os.environ.get("GPU_NET_KILLS", "20"))

#: a landing in many small steps, so that a moment taken at random falls between two of them
LAND = """
import sys
from pathlib import Path
import polars as pl
from warehouse.landing import writer as landing_writer
from warehouse.home import Home
from warehouse.landing.landings import Landing
landing_writer.FILE_ROWS = 50
rows = pl.read_parquet(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
pieces = (rows[start : start + 50] for start in range(0, rows.height, 50))
Landing(Home.from_environment()).land("test", {"gpu_samples": pieces}, content="new")
"""

COMPACT = """
import sys
from datetime import timedelta
from warehouse.landing.compaction import compact, compact_outcomes
from warehouse.home import Home
home = Home.from_environment()
print("ready", flush=True)
sys.stdin.readline()
is_now = "now" in sys.argv
compact(home, target_rows=100, delete_now=is_now)
compact_outcomes(home.raw, at_least=2, **({"grace": timedelta(0)} if is_now else {}))
"""


def run_and_kill(home: Path, script: str, *arguments: str, after: float | None) -> float:
    """Run the script, once it has imported what it needs, and kill it `after` seconds; return how long it lived."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=PROJECT_ROOT,
        env=clean_environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    started = time.monotonic()
    process.stdin.write("go\n")
    process.stdin.flush()
    if after is None:
        assert process.wait(timeout=120) == 0
    else:
        try:
            process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    process.stdin.close()
    process.stdout.close()
    return time.monotonic() - started


def seen(home: Home) -> pl.DataFrame:
    """(device, minute) of every row that a reader of the outcome records sees; rows seen twice are there twice."""
    files = [home.raw / file for _, file in current_files(landed_tables(home.raw))]
    frame = pl.read_parquet(files, hive_partitioning=False) if files else pl.DataFrame(schema=["gpu_uuid", "interval_start_at"])
    return frame.select("gpu_uuid", "interval_start_at").sort("gpu_uuid", "interval_start_at")


@pytest.mark.timeout(600)
def test_a_landing_killed_at_any_moment_leaves_the_old_rows_or_the_new(home: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pl.concat([samples(400, gpu="GPU-2"), samples(400, day="2026-11-02", gpu="GPU-2")]).write_parquet(rows)
    lasts = run_and_kill(tmp_path / "trial", LAND, str(rows), after=None)
    landing = Landing(Home.from_environment())
    landing.land("test", {"gpu_samples": samples(10)})
    old = seen(landing.home)
    committed = killed = 0
    for attempt in range(KILLS):
        run_and_kill(home, LAND, str(rows), after=lasts * (attempt + 0.5) / KILLS)
        now = seen(landing.home)
        if not now.equals(old):
            # all of it is there, once
            assert now.height == old.height + 800
            assert now.is_duplicated().sum() == 0
            committed += 1
            # back to the old state, so that the next kill meets a landing again
            # (a temporary one that a kill left is no record)
            for path in outcome_files(landing.home.raw, "test"):
                if pl.read_parquet(path)["rows_landed"].sum() == 800:
                    path.unlink()
            assert seen(landing.home).equals(old)
        else:
            killed += 1
    assert killed, f"every one of {KILLS} landings got through before it was killed"

    run_and_kill(home, LAND, str(rows), after=None)
    healed = seen(landing.home)
    assert healed.height == old.height + 800
    assert list((landing.home.raw / ".staging").iterdir()) == []
    # the killed ones wrote the same names as the last, so nothing of theirs is left over
    listed = {file for _, file in current_files(landed_tables(landing.home.raw))}
    on_disk = {str(path.relative_to(landing.home.raw)) for path in landing.home.raw.glob("test/gpu_samples/*/*")}
    assert on_disk == listed
    run_and_kill(home, LAND, str(rows), after=None)
    assert seen(landing.home).equals(healed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("deletes", ["later", "now"])
def test_a_compaction_killed_at_any_moment_loses_and_doubles_nothing(
    home: Path, tmp_path: Path, deletes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(root: Path) -> Landing:
        landing = Landing(Home(root, root / "raw"))
        for gpu in range(12):
            landing.land("test", {"gpu_samples": samples(40, gpu=f"GPU-{gpu}")})
        return landing

    fill(tmp_path / "trial")
    lasts = run_and_kill(tmp_path / "trial", COMPACT, deletes, after=None)
    landing = fill(home)
    rows = seen(landing.home)
    for attempt in range(KILLS):
        # new small files, or there would be nothing to do after the first compaction that got through
        for _ in range(2):
            landing.land("test", {"gpu_samples": samples(5, gpu=f"GPU-{100 + attempt}-{_}")})
        rows = pl.concat([rows, *(seen_of(f"GPU-{100 + attempt}-{_}") for _ in range(2))]).sort("gpu_uuid", "interval_start_at")
        run_and_kill(home, COMPACT, deletes, after=lasts * (attempt + 0.5) / KILLS)
        assert seen(landing.home).equals(rows)

    monkeypatch.setattr(leftovers, "STALE_SECONDS", -1)
    compact(landing.home, delete_now=True)
    assert seen(landing.home).equals(rows)
    listed = {file for _, file in current_files(landed_tables(landing.home.raw))}
    on_disk = {str(path.relative_to(landing.home.raw)) for path in landing.home.raw.glob("*/gpu_samples/*/*")}
    assert on_disk == listed


def seen_of(gpu: str) -> pl.DataFrame:
    """What `seen` shows of five samples of one device."""
    instants = samples(5, gpu=gpu)["interval_start_at"].str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us")
    return pl.DataFrame({"gpu_uuid": [gpu] * 5, "interval_start_at": instants})
