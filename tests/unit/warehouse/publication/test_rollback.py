"""Going back to an older version: one step for readers, later versions kept, and nothing comes back by itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from tests.unit.expectations.fake_build import allow, make_build
from warehouse.database import locked
from warehouse.differences import previous_and_current
from warehouse.home import Home
from warehouse.publication import publications
from warehouse.publication.publications import current_version, versions
from warehouse.publication.publish import PUBLISHED, UNCHANGED, PublishOutcome, publish, publish_command
from warehouse.publication.rollback import RECORD, RollbackError, read_rollbacks, roll_back, rollback_command, withdrawn_versions
from warehouse.status import read_steps, read_versions

MORE_ENERGY = "update fct_gpu_ledger_hourly set energy_kwh = energy_kwh + 1 where usage_date = '2025-03-02'"


@pytest.fixture(scope="module")
def first_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two versions, made once."""
    root = tmp_path_factory.mktemp("two") / "home"
    made = Home(root, root / "raw")
    build_and_publish(made, number=1)
    build_and_publish(made, number=2)
    return root


@pytest.fixture
def two(home: Path, first_two: Path) -> Home:
    """A home of the test's own with these versions; the build's change time is kept, since the verdict rests on it."""
    shutil.copytree(first_two, home, symlinks=True)
    return Home.from_environment()


def build_and_publish(home: Home, number: int, statement: str = MORE_ENERGY) -> PublishOutcome:
    allow(home, make_build(home, *([statement] if number > 1 else []), number=number, full_refresh=False))
    return publish(home)


def shown(home: Home) -> str:
    with duckdb.connect(str(home.published_database), read_only=True) as connection:
        ((publication_id,),) = connection.execute("select publication_id from publication").fetchall()
    return str(publication_id)


def test_readers_see_the_version_before_and_later_ones_stay(two: Home) -> None:
    rollback = roll_back(two)
    assert (rollback.from_version, rollback.to_version, rollback.builds) == ("v000002", "v000001", ("build-002",))
    assert shown(two) == "v000001"
    assert [version.name for version in versions(two.published)] == ["v000001", "v000002"]
    assert withdrawn_versions(two.published) == {"v000002"}


def test_what_was_rolled_back_is_not_published_again_but_a_newer_build_is(two: Home) -> None:
    roll_back(two)
    again = publish(two)
    assert (again.status, again.publication_id) == (UNCHANGED, "v000001")
    assert "build build-002 was rolled back from v000002 to v000001" in again.message
    assert CliRunner().invoke(publish_command, []).exit_code == 0
    newer = build_and_publish(two, number=3)
    assert (newer.status, newer.publication_id) == (PUBLISHED, "v000003")
    assert shown(two) == "v000003"
    # what readers saw before it is the first: the second was taken back
    assert [version.name for version in previous_and_current(two)] == ["v000001", "v000003"]


def test_force_publishes_it_all_the_same_under_the_next_number(two: Home) -> None:
    roll_back(two)
    assert (publish(two, force=True).publication_id, shown(two)) == ("v000003", "v000003")
    assert publish(two).status == UNCHANGED


def test_a_build_whose_rows_were_published_by_an_older_one_stays_back_as_well(two: Home) -> None:
    """The third build changed nothing, so that the second version showed it: its rows are the ones taken back."""
    allow(two, make_build(two, number=3, full_refresh=False))
    assert publish(two).status == UNCHANGED
    assert set(roll_back(two).builds) == {"build-002", "build-003"}
    assert publish(two).status == UNCHANGED
    assert shown(two) == "v000001"


def test_a_later_version_is_gone_forward_to(two: Home) -> None:
    build_and_publish(two, number=3)
    roll_back(two, "v1")
    assert withdrawn_versions(two.published) == {"v000002", "v000003"}
    assert roll_back(two, "3").builds == ()
    assert shown(two) == "v000003"
    assert withdrawn_versions(two.published) == {"v000002"}
    # the version before is the one that was not taken back
    assert roll_back(two).to_version == "v000001"


def test_a_rollback_that_is_killed_before_the_link_is_none(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(version: publications.Version) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(publications, "release", die)
        with pytest.raises(KeyboardInterrupt):
            roll_back(two)
    assert (two.published / RECORD).exists()
    assert read_rollbacks(two.published) == []
    assert withdrawn_versions(two.published) == set()
    assert build_and_publish(two, number=3).status == PUBLISHED
    assert [version.name for version in previous_and_current(two)] == ["v000002", "v000003"]


def test_a_damaged_version_is_not_shown(two: Home) -> None:
    with duckdb.connect(str(versions(two.published)[0].database)) as connection:
        connection.execute("delete from fct_billing_lines")
    with pytest.raises(RollbackError, match=r"v000001 does not hold what was published as it \(fct_billing_lines\)"):
        roll_back(two)
    versions(two.published)[0].database.write_bytes(b"half")
    with pytest.raises(RollbackError, match="v000001 cannot be read"):
        roll_back(two)
    assert shown(two) == "v000002"


def test_the_command_says_what_it_did_or_why_not(home: Path) -> None:
    run = CliRunner().invoke
    made = Home.from_environment()
    assert "nothing is published yet" in run(rollback_command, []).stderr
    build_and_publish(made, number=1)
    assert "there is no version before v000001; versions kept: v000001" in run(rollback_command, []).stderr
    build_and_publish(made, number=2)
    assert "there is no version 'v9'; versions kept: v000001, v000002" in run(rollback_command, ["v9"]).stderr
    assert "readers see v000002 already" in run(rollback_command, ["v000002"]).stderr
    with locked(made):
        assert "another build, gate or publication is running" in run(rollback_command, []).stderr
    done = run(rollback_command, [])
    assert done.exit_code == 0
    assert "readers see v000001, they saw v000002" in done.stdout
    assert "python -m warehouse diff v000001 v000002" in done.stdout


def test_status_shows_the_versions_and_the_rollback(two: Home) -> None:
    roll_back(two)
    rows = read_versions(two)
    assert [(row.publication_id, row.state, str(row.data_through_at)) for row in rows] == [
        ("v000002", "rolled back", "2025-03-04 00:00:00"),
        ("v000001", "current", "2025-03-04 00:00:00"),
    ]
    assert all(row.bytes > 100_000 for row in rows)
    step = next(step for step in read_steps(two) if step.step == "publication")
    assert (step.state, step.remedy) == ("v000001 of build build-001, rolled back from v000002", "")


@pytest.mark.parametrize("text", ["2", "0", "many", "-4"])
def test_a_number_of_versions_that_makes_no_sense_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GPU_NET_PUBLICATIONS_KEPT", text)
    result = CliRunner().invoke(publish_command, [])
    assert result.exit_code == 1
    assert f"GPU_NET_PUBLICATIONS_KEPT={text}: give a whole number of at least 3" in result.stderr


def test_as_many_versions_stay_as_the_environment_says(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NET_PUBLICATIONS_KEPT", "4")
    for number in (3, 4, 5):
        build_and_publish(two, number=number)
    assert [version.name for version in versions(two.published)] == ["v000002", "v000003", "v000004", "v000005"]
    monkeypatch.delenv("GPU_NET_PUBLICATIONS_KEPT")
    build_and_publish(two, number=6)
    assert [version.number for version in versions(two.published)] == [4, 5, 6]
    # what readers see stays, however old
    roll_back(two, "v4")
    make_build(two, number=7)
    assert current_version(two.published) == versions(two.published)[0]
    record = json.loads((two.published / RECORD).read_text())
    assert [entry["to_version"] for entry in record] == ["v000004"]
