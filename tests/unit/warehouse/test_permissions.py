"""Who may read what under `GPU_NET_HOME`: everyone the published files, nobody but the owner the rest; nobody else may write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from tests.unit.expectations.fake_build import allow, make_build
from warehouse.__main__ import main
from warehouse.home import Home
from warehouse.landing.landings import Landing
from warehouse.publication import publications
from warehouse.publication.publish import publish

CHANGE = "update mart_ghost_capacity_daily set team = 'changed' where usage_date = '2025-03-02'"


@pytest.fixture(autouse=True)
def careless_shell() -> Iterator[None]:
    """A umask that lets everyone write, so that nothing is right by chance."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, str]:
    """Every file and folder below `root`, and `root` itself, with its mode; links have none of their own."""
    return {
        str(path.relative_to(root)): oct(path.stat().st_mode & 0o777)
        for path in (root, *root.rglob("*"))
        if not path.is_symlink()
    }


def too_open(home: Home) -> dict[str, str]:
    """What anyone but the owner may write to, or read outside of `published`; and what readers cannot read inside of it."""
    found = {}
    for name, mode in modes(home.root).items():
        path, bits = home.root / name, int(mode, 8)
        if path == home.root:
            wanted = 0o711
        elif path.is_relative_to(home.published):
            wanted = 0o755 if path.is_dir() else 0o644
        elif path.parent in (home.root, home.digests, home.build) or path.is_file():
            wanted = 0o700 if path.is_dir() else 0o600
        else:
            continue
        if bits != wanted and not (wanted == 0o600 and bits & 0o077 == 0):
            found[name] = f"{mode}, not {oct(wanted)}"
    return found


def samples() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "cluster": ["c"], "node": ["n"], "gpu_uuid": ["GPU-1"], "interval_start_at": ["2026-11-01T00:00:00Z"],
            "interval_ms": [60000], "sm_active_ratio": ["high"],
        }
    )  # fmt: skip


def test_everything_that_is_written_has_the_mode_that_is_promised(home: Path) -> None:
    """Landed, quarantined, built, judged, published, cloned, published anew, mailed and prepared: the tree is walked after it."""
    place = Home.from_environment()
    Landing(place).land("test", {"gpu_samples": samples()})
    allow(place, make_build(place))
    assert publish(place).status == "published"
    assert too_open(place) == {}
    allow(place, make_build(place, CHANGE, number=2, full_refresh=False))
    assert publish(place).status == "published"
    assert publications.current_version(place.published).manifest.copies_since_rewrite == 1  # type: ignore[union-attr]
    for command in (["digest"], ["init"], ["compact", "--older-than-hours", "0"], ["retention"], ["status"]):
        assert CliRunner().invoke(main, command).exit_code in (0, 1), command
    assert list(place.quarantine.rglob("*.parquet"))
    assert too_open(place) == {}


def test_files_that_others_put_beside_the_database_are_opened_with_it(home: Path) -> None:
    place = Home.from_environment().create()
    with publications.new_version(place.published) as folder:
        assert folder.stat().st_mode & 0o077 == 0, "what is not finished yet is nobody's to read"
        (folder / "parquet" / "mart").mkdir(parents=True)
        for name in ("gpu_net.duckdb", "report.html", "parquet/mart/day.parquet"):
            (folder / name).write_text("x")
        (folder / "latest").symlink_to("report.html")
        version = publications.seal(folder, "v000001")
    assert set(modes(version.path).values()) == {"0o755", "0o644"}
    assert too_open(place) == {}


def test_a_version_that_was_shown_again_keeps_its_mode(home: Path) -> None:
    """As a rollback does: the link moves to an older version, whose mark may have gone."""
    place = Home.from_environment()
    for number, statements in enumerate([(), (CHANGE,)], start=1):
        allow(place, make_build(place, *statements, number=number))
        publish(place)
    first = publications.versions(place.published)[0]
    (first.path / publications.RELEASED).unlink()
    publications.release(first)
    publications.sweep(place.published)
    assert publications.current_version(place.published) == first
    assert too_open(place) == {}


def test_a_landing_root_elsewhere_keeps_the_readers_that_its_owner_gave_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents land as root and the build reads as another account: a private file in a shared folder would be lost to it."""
    shared = home.parent / "shared"
    shared.mkdir(mode=0o2750)
    shared.chmod(0o2750)
    monkeypatch.setenv("GPU_NET_LANDING", str(shared))
    Landing(Home.from_environment()).land("test", {"gpu_samples": samples().with_columns(sm_active_ratio=pl.lit(0.5))})
    (landed,) = (shared / "test" / "gpu_samples").rglob("*.parquet")
    assert landed.stat().st_mode & 0o777 == 0o640
    assert landed.parent.stat().st_mode & 0o777 == 0o750
    # what lies in the home itself is behind private folders all the same
    private = {path.name: path.stat().st_mode & 0o077 for path in home.iterdir() if path.name != "published"}
    assert "quarantine" in private
    assert not any(private.values()), private
