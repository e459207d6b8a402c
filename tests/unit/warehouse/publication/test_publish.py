"""Publishing a build made by hand: one version at a time, equal to the build, or the last good one untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from tests.unit.expectations.fake_build import allow, build_and_publish, make_build, published, rows_of
from warehouse.database import WarehouseLockedError, locked
from warehouse.home import Home
from warehouse.publication import publications, publish
from warehouse.publication.publications import current_version, versions
from warehouse.publication.publish import HELD, PUBLISHED, UNCHANGED
from warehouse.publication.tables import UnpublishableTypeError

#: the storage version in a file's header that DuckDB 1.2 reads at most
HIGHEST_OF_1_2 = 65
MAKE_NIGHT_IDLE = "update fct_gpu_ledger_hourly set energy_kwh = energy_kwh + {n} where usage_date = '2025-03-02'"


@pytest.fixture
def built(home: Path) -> Home:
    return Home.from_environment()


def test_a_first_publication_holds_the_build_and_one_row_about_itself(built: Home) -> None:
    outcome = build_and_publish(built)
    assert (outcome.status, outcome.publication_id) == (PUBLISHED, "v000001")
    row = published(
        built,
        """select publication_id, build_id, published_at > data_through_at, data_through_at::varchar, checks_passed,
            checks_warned, version from publication""",
    )
    assert row == [("v000001", "build-001", True, "2025-03-04 00:00:00", 1, 1, "v")]
    assert published(built, "select table_name, check_id, success from gate_results order by 1") == [
        ("fct_gpu_ledger_hourly", "keys", True),
        ("mart_data_coverage_daily", "fresh", False),
    ]
    shown, made = rows_of(built.published_database), rows_of(built.build_database)
    assert shown.keys() == {name for name in made if not name.startswith("int_")} | {"publication", "gate_results"}
    assert all(shown[name] == made[name] for name in shown.keys() & made.keys())


def test_readers_of_any_version_and_user_can_open_it(built: Home) -> None:
    build_and_publish(built)
    current = built.published / "current"
    assert current.readlink() == Path("v000001")
    assert not list(current.glob("*.wal"))
    assert oct(current.stat().st_mode & 0o777) == "0o755"
    assert oct(built.published_database.stat().st_mode & 0o777) == "0o644"
    with duckdb.connect() as connection:
        connection.execute(f"attach '{built.published_database}' as shown (read_only)")
        tags = connection.execute(
            "select tags['storage_version'] from duckdb_databases() where database_name = 'shown'"
        ).fetchall()
    assert tags == [("v1.2.0+",)]
    # the file's header says the same without DuckDB: 12 bytes of checksum and magic, then the version, 64 before 1.2, 65 for it,
    # more for later ones; a client reads no file whose number is above its own
    header = built.published_database.read_bytes()[:20]
    assert header[8:12] == b"DUCK"
    assert int.from_bytes(header[12:20], "little") <= HIGHEST_OF_1_2


def test_duckdb_1_2_reads_it(built: Home, tmp_path: Path) -> None:
    """Skipped where the package index cannot be reached."""
    build_and_publish(built)
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "old"), "duckdb==1.2.2"]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        pytest.skip("duckdb 1.2.2 could not be installed")
    code = """import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    print(duckdb.__version__, connection.execute("select publication_id from publication").fetchone()[0])"""
    reader = subprocess.run(
        [sys.executable, "-c", code, str(built.published_database)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "old")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert reader.stdout.split() == ["1.2.2", "v000001"]


def test_types_that_old_clients_cannot_read_are_published_as_others(built: Home) -> None:
    odd = """create table mart_odd_daily as select date '2025-03-01' as usage_date, 1::hugeint as big,
        timestamptz '2025-03-01 02:00:00+00' as zoned, '{}'::json as text"""
    build_and_publish(built, odd)
    assert published(built, "select typeof(big), typeof(zoned), typeof(text), zoned::varchar from mart_odd_daily") == [
        ("BIGINT", "TIMESTAMP", "VARCHAR", "2025-03-01 02:00:00")
    ]


def test_a_type_that_nothing_stands_for_is_refused_with_its_column(built: Home) -> None:
    allow(built, make_build(built, "create table mart_odd_daily as select 1::variant as anything"))
    with pytest.raises(UnpublishableTypeError, match=r"mart_odd_daily\.anything"):
        publish.publish(built)


def test_touched_days_give_the_same_as_a_full_copy(built: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second version comes from a clone of the first with what differs replaced, the third is written anew."""
    build_and_publish(built)
    changes = [
        MAKE_NIGHT_IDLE.format(n=1),
        "delete from fct_gpu_ledger_hourly where usage_date = '2025-03-03'",
        "insert into fct_gpu_ledger_hourly select * replace (date '2025-02-01' as usage_date) from fct_gpu_ledger_hourly limit 3",
        "insert into fct_gpu_ledger_hourly select * replace (null as usage_date) from fct_gpu_ledger_hourly limit 2",
        "update dim_gpus set pci_bus_id = '0000:02:00.0' where gpu_id = 'GPU-2'",
        "delete from fct_gpu_idle_spans",
        "update mart_gpu_net_daily set cost = cost + 1 where usage_date = '2025-03-01'",
    ]
    written_anew: list[str] = []
    real = publish.copy_anew
    monkeypatch.setattr(
        publish, "copy_anew", lambda connection, table: written_anew.append(table.name) or real(connection, table)
    )
    assert build_and_publish(built, *changes, number=2).publication_id == "v000002"
    assert written_anew == []
    cloned = rows_of(built.published_database)
    assert build_and_publish(built, number=3, full_refresh=True).status == UNCHANGED
    allow(built, make_build(built, number=4, full_refresh=True))
    assert publish.publish(built, force=True).publication_id == "v000003"
    assert "fct_gpu_ledger_hourly" in written_anew
    anew = rows_of(built.published_database)
    for name in anew.keys() - {"publication"}:
        assert cloned[name] == anew[name], name
    assert anew["fct_gpu_ledger_hourly"] == rows_of(built.build_database)["fct_gpu_ledger_hourly"]


def test_days_of_builds_that_were_never_published_are_not_lost(built: Home) -> None:
    build_and_publish(built)
    make_build(built, MAKE_NIGHT_IDLE.format(n=1), number=2, full_refresh=False)
    build_and_publish(built, "update dim_gpus set node = 'n2'", number=3)
    assert rows_of(built.published_database)["fct_gpu_ledger_hourly"] == rows_of(built.build_database)["fct_gpu_ledger_hourly"]


def test_changed_columns_and_new_tables_are_published(built: Home) -> None:
    build_and_publish(built)
    build_and_publish(
        built, "alter table dim_gpus add column colour varchar", "create table dim_new as select 1 as one", number=2
    )
    assert published(built, "select count(colour) from dim_gpus") == [(0,)]
    assert published(built, "select one from dim_new") == [(1,)]
    build_and_publish(built, "drop table dim_new", number=3)
    assert "dim_new" not in rows_of(built.published_database)


def test_a_published_file_that_was_tampered_with_heals(built: Home) -> None:
    build_and_publish(built)
    with duckdb.connect(str(built.published_database)) as connection:
        connection.execute("delete from fct_billing_lines")
    build_and_publish(built, MAKE_NIGHT_IDLE.format(n=1), number=2)
    assert published(built, "select count(*) from fct_billing_lines") == [(3,)]


def test_an_unchanged_build_is_not_published_again_unless_forced(built: Home) -> None:
    build_and_publish(built)
    assert publish.publish(built).status == UNCHANGED
    # another build that changed nothing
    assert build_and_publish(built, number=2).status == UNCHANGED
    assert "build-002 is published already" in publish.publish(built).message
    forced = publish.publish(built, force=True)
    assert (forced.status, forced.publication_id) == (PUBLISHED, "v000002")
    assert published(built, "select build_id from publication") == [("build-002",)]


@pytest.mark.parametrize("force", [False, True])
def test_a_held_build_leaves_the_last_good_version(built: Home, force: bool) -> None:
    build_and_publish(built)
    before = rows_of(built.published_database)
    allow(built, make_build(built, "delete from fct_billing_lines", number=2), verdict="hold")
    outcome = publish.publish(built, force=force)
    assert (outcome.status, outcome.publication_id) == (HELD, "v000001")
    assert "Two rows are one." in outcome.message
    assert rows_of(built.published_database) == before


def test_a_verdict_about_another_build_is_refused(built: Home) -> None:
    build_and_publish(built)
    make_build(built, MAKE_NIGHT_IDLE.format(n=1), number=2)
    outcome = publish.publish(built)
    assert outcome.status == HELD
    assert "the verdict is about build build-001, the last build is build-002" in outcome.message


def test_a_verdict_about_another_state_of_the_file_is_refused(built: Home) -> None:
    allow(built, make_build(built))
    with duckdb.connect(str(built.build_database)) as connection:
        connection.execute("delete from fct_billing_lines")
    assert "written to after the gate" in publish.publish(built).message


def test_what_was_not_built_judged_or_ended_is_held(built: Home) -> None:
    assert "nothing is built yet" in publish.publish(built).message
    build_id = make_build(built)
    assert "the gate has not seen build build-001" in publish.publish(built).message
    with duckdb.connect(str(built.build_database)) as connection:
        connection.execute("update control.build_window set build_id = 'build-002'")
    allow(built, build_id)
    assert "failed or was killed" in publish.publish(built).message
    assert current_version(built.published) is None


def test_a_second_publication_at_once_is_locked_out(built: Home) -> None:
    allow(built, make_build(built))
    with locked(built):
        with pytest.raises(WarehouseLockedError, match="another build, gate or publication is running"):
            publish.publish(built)
        result = CliRunner().invoke(publish.publish_command, [])
    assert result.exit_code == 1
    assert "another build, gate or publication is running" in result.stderr


def test_a_version_that_is_not_the_build_is_not_shown(built: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    build_and_publish(built)
    allow(built, make_build(built, MAKE_NIGHT_IDLE.format(n=1), number=2))
    real = publish.copy_anew

    def forget_a_table(connection: duckdb.DuckDBPyConnection, table: publish.PublishedTable) -> None:
        real(connection, table)
        connection.execute("delete from target.main.fct_billing_lines") if table.name == "fct_billing_lines" else None

    monkeypatch.setattr(publish, "copy_anew", forget_a_table)
    monkeypatch.setattr(publish, "replace_buckets", lambda *_: 0)
    with pytest.raises(publish.PublishError, match="fct_billing_lines"):
        publish.publish(built)
    assert current_version(built.published).name == "v000001"  # type: ignore[union-attr]
    assert [version.name for version in versions(built.published)] == ["v000001"]


def test_what_killed_publications_left_is_swept(built: Home) -> None:
    build_and_publish(built)
    (built.published / ".tmp-dead").mkdir()
    (built.published / ".tmp-dead" / "gpu_net.duckdb").write_text("half")
    (built.published / ".tmp-link").symlink_to("v000009")
    (built.published / "v000002").mkdir()  # whole, but the link was never set
    build_and_publish(built, MAKE_NIGHT_IDLE.format(n=1), number=2)
    assert sorted(path.name for path in built.published.iterdir()) == ["current", "report.html", "v000001", "v000002"]
    assert published(built, "select publication_id, build_id from publication") == [("v000002", "build-002")]


def test_old_versions_expire_but_three_month_ends_and_the_current_one(built: Home) -> None:
    for number in range(1, 7):
        build_and_publish(built, MAKE_NIGHT_IDLE.format(n=number), number=number)
    names = [version.name for version in versions(built.published)]
    assert names == ["v000004", "v000005", "v000006"]
    manifest = versions(built.published)[0].path / "manifest.json"
    published_at = versions(built.published)[0].manifest.published_at
    manifest.write_text(manifest.read_text().replace(published_at, "2025-01-31T12:00:00"))
    publications.release(versions(built.published)[1])
    build_and_publish(built, MAKE_NIGHT_IDLE.format(n=7), number=7)
    build_and_publish(built, MAKE_NIGHT_IDLE.format(n=8), number=8)
    assert [version.name for version in versions(built.published)] == ["v000004", "v000006", "v000007", "v000008"]


def test_the_current_version_never_expires(built: Home) -> None:
    for number in (1, 2, 3):
        build_and_publish(built, MAKE_NIGHT_IDLE.format(n=number), number=number)
    publications.release(versions(built.published)[0])
    for name in ("v000004", "v000005"):
        folder = versions(built.published)[-1].path
        shutil.copytree(folder, built.published / name)
    assert publications.expire(built.published) == ["v000002"]
    assert current_version(built.published) == versions(built.published)[0]


def test_a_copied_folder_still_opens(built: Home, tmp_path: Path) -> None:
    build_and_publish(built)
    built.published.rename(tmp_path / "elsewhere")
    with duckdb.connect(str(tmp_path / "elsewhere" / "current" / "gpu_net.duckdb"), read_only=True) as connection:
        assert connection.execute("select count(*) from publication").fetchall() == [(1,)]


def test_the_command_publishes_or_exits_3(built: Home) -> None:
    run = CliRunner().invoke
    held = run(publish.publish_command, [])
    assert held.exit_code == 3
    assert "readers keep nothing" in held.stderr
    allow(built, make_build(built))
    done = run(publish.publish_command, [])
    assert done.exit_code == 0, done.output
    with duckdb.connect(str(built.published / "current" / "gpu_net.duckdb"), read_only=True) as connection:
        ((tables,),) = connection.execute(
            "select count(*) from duckdb_tables() where table_name not in ('publication', 'gate_results')"
        ).fetchall()
    assert done.stdout.startswith(f"published: v000001: {tables} tables, ")
    assert run(publish.publish_command, []).stdout.startswith("unchanged: ")
    assert run(publish.publish_command, ["--force"]).stdout.startswith("published: v000002")
