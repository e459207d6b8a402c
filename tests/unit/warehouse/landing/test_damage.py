"""Landed files that a disk or a hand has damaged: named with the remedy, left out, and mended by landing again."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.__main__ import main as collect
from warehouse.control import not_consumed, open_build_database, write_inputs
from warehouse.home import Home
from warehouse.landing import damage, leftovers
from warehouse.landing.compaction import compact
from warehouse.landing.landings import LandingError, Window
from warehouse.landing.outcomes import current_files, is_inside, landed_tables

SAMPLES = "cluster,node,gpu_uuid,interval_start_at,interval_ms,sm_active_ratio\n"


def land(folder: Path, *gpus: str) -> Home:
    for gpu in gpus:
        path = folder / f"{gpu}.csv"
        path.write_text(SAMPLES + f"c1,n1,{gpu},2026-11-01T00:00:00Z,60000,0.5\n")
        assert CliRunner().invoke(collect, ["import", "gpu_samples", str(path)]).exit_code == 0
    return Home.from_environment()


def files_of(home: Home) -> list[str]:
    return [file for _, file in current_files(landed_tables(home.raw))]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def break_footer(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(len(data) - 12) + data[-8:])


def other(path: Path) -> None:
    path.write_text("<html>404 not found</html>")


@pytest.mark.parametrize(
    ("harm", "said"),
    [(cut, "cut off"), (empty, "is empty"), (break_footer, "broken footer"), (other, "no Parquet"), (Path.unlink, "is gone")],
)
def test_a_damaged_file_is_named_and_left_out_and_the_rest_is_told_to_the_models(
    home: Path, tmp_path: Path, harm: object, said: str
) -> None:
    place = land(tmp_path, "GPU-1", "GPU-2")
    bad, good = files_of(place)
    harm(place.raw / bad)  # type: ignore[operator]
    with open_build_database(place) as connection:
        found = damage.find_damaged(connection, place.raw, files_of(place))
        assert list(found) == [bad]
        (message,) = damage.messages(place.raw, found)
        assert said in message
        assert bad in message
        assert "land its input again" in message
        landed = damage.without(landed_tables(place.raw), found)
        write_inputs(
            connection, place, landed, not_consumed(connection, landed), Window(None, None), build_id="b", full_refresh=True
        )
        assert connection.execute("select path from control.landed_files").fetchall() == [(str(place.raw / good),)]


@pytest.mark.parametrize("harm", [cut, empty, Path.unlink])
def test_landing_the_same_input_again_mends_a_damaged_file(home: Path, tmp_path: Path, harm: object) -> None:
    place = land(tmp_path, "GPU-1", "GPU-2")
    before = {file: (place.raw / file).read_bytes() for file in files_of(place)}
    harm(place.raw / files_of(place)[0])  # type: ignore[operator]
    land(tmp_path, "GPU-1")
    assert set(files_of(place)) == before.keys()
    assert all(damage.fault_of(place.raw / file) is None for file in before)
    assert pl.read_parquet([place.raw / file for file in before])["gpu_uuid"].sort().to_list() == ["GPU-1", "GPU-2"]


def test_a_file_that_a_compaction_took_is_not_landed_again(home: Path, tmp_path: Path) -> None:
    place = land(tmp_path, "GPU-1", "GPU-2")
    compact(place, delete_now=True)
    merged = files_of(place)
    land(tmp_path, "GPU-1")
    assert files_of(place) == merged


def test_compaction_leaves_a_damaged_file_and_merges_the_others(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = land(tmp_path, "GPU-1", "GPU-2", "GPU-3")
    bad = files_of(place)[0]
    cut(place.raw / bad)
    outcome = compact(place)
    assert [merge.files_before for merge in outcome.merges] == [2]
    assert bad in files_of(place)
    assert bad in caplog.text


def test_a_damaged_record_is_named_and_costs_its_landing_only(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that could not be read once stopped every command; and files that no record lists are deleted after a day."""
    place = land(tmp_path, "GPU-1", "GPU-2")
    records = sorted((place.raw / "import" / "collection_runs").rglob("*.parquet"))
    every = set((place.raw / "import" / "gpu_samples").rglob("*.parquet"))
    cut(records[0])
    with caplog.at_level(logging.WARNING):
        assert len(files_of(place)) == 1
    assert records[0].name in caplog.text
    assert "land its input again" in caplog.text
    monkeypatch.setattr(leftovers, "STALE_SECONDS", -1)
    with pytest.raises(LandingError, match="Nothing was compacted"):
        compact(place)
    assert leftovers.delete_leftovers(place, grace=leftovers.GRACE) == 0
    assert every == set((place.raw / "import" / "gpu_samples").rglob("*.parquet"))
    land(tmp_path, "GPU-1", "GPU-2")
    assert len(files_of(place)) == 2


def test_a_file_that_is_broken_inside_is_found_by_reading_it(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    rows = "".join(f"c1,n1,GPU-{number},2026-11-01T00:00:00Z,60000,0.{number}\n" for number in range(5000))
    path.write_text(SAMPLES + rows)
    CliRunner().invoke(collect, ["import", "gpu_samples", str(path)])
    place = Home.from_environment()
    (file,) = files_of(place)
    data = bytearray((place.raw / file).read_bytes())
    data[100:2000] = os.urandom(1900)
    (place.raw / file).write_bytes(data)
    assert damage.fault_of(place.raw / file) is None
    assert list(damage.unreadable(place.raw, [file])) == [file]


@pytest.mark.parametrize(
    ("name", "is_good"),
    [
        ("import/runs/dt=2026-11-01/a.parquet", True),
        ("../runs/dt=2026-11-01/a.parquet", False),
        ("import/../dt=2026-11-01/a.parquet", False),
        ("import/runs/dt=2026-11-01/..", False),
        ("/etc/runs/dt=2026-11-01/a.parquet", False),
        ("import/runs/dt=2026-11-01/a\0.parquet", False),
        ("import/runs/dt=x/a.parquet", False),
        ("import/runs/dt=2026-11-01/b/a.parquet", False),
        ("..\\runs/runs/dt=2026-11-01/a.parquet", False),
    ],
)
def test_a_record_names_files_of_the_landing_root_only(name: str, is_good: bool) -> None:
    assert is_inside(name) == is_good


def test_a_record_that_names_other_files_brings_none_of_them(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hosts that land over a shared folder could otherwise have any Parquet file of the build's account read, or deleted."""
    place = land(tmp_path, "GPU-1")
    (record,) = (place.raw / "import" / "collection_runs").rglob("*.parquet")
    outside = tmp_path / "secret.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(outside)
    forged = pl.read_parquet(record).with_columns(
        collection_run_id=pl.lit("forged"),
        files=pl.lit(f'["../../{outside.name}", "{outside}"]'),
        removed_files=pl.lit(f'["../../{outside.name}"]'),
    )
    forged.write_parquet(record.with_name("forged.parquet"))
    assert len(files_of(place)) == 1
    assert "outside of the landing root" in caplog.text
    assert leftovers.delete_leftovers(place, grace=-leftovers.GRACE) == 0
    assert outside.exists()


def test_what_killed_writers_left_beside_mails_and_state_goes_when_it_is_old(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Home.from_environment().create()
    left = [folder / f".tmp-{'0' * 32}-page.html" for folder in (place.build, place.digests, place.config, place.state)]
    for path in (*left, place.config / ".tmp-by-hand"):
        path.write_text("half")
    assert leftovers.delete_leftovers(place, grace=leftovers.GRACE) == 0
    monkeypatch.setattr(leftovers, "STALE_SECONDS", -1)
    assert leftovers.delete_leftovers(place, grace=leftovers.GRACE) == 4
    assert [path.name for path in place.config.iterdir()] == [".tmp-by-hand"]
