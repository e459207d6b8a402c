"""What moved between two versions made by hand: figures, days, causes, and files that do not have the same columns."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from tests.unit.expectations.fake_build import allow, make_build
from warehouse.differences import Differences, Move, NoVersionError, compare, find_file, previous_and_current, sides
from warehouse.differences.command import change_text, diff_command, value_text
from warehouse.differences.records import days_text, largest_first
from warehouse.home import Home
from warehouse.publication import publications
from warehouse.publication.publish import publish
from warehouse.publication.tables import contents_of, published_tables

SECOND = date(2025, 3, 2)
LEDGER_COST = "update fct_gpu_ledger_hourly set cost = cost * 1.5, cost_source = '{source}' where usage_date = '2025-03-02'"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published version, made once: two GPUs of one node for three days."""
    root = tmp_path_factory.mktemp("first")
    made = Home(root, root / "raw")
    windows = "alter table fct_collection_runs add column {column} timestamp"
    allow(made, make_build(made, *(windows.format(column=column) for column in ("window_start_at", "window_end_at"))))
    assert publish(made).publication_id == "v000001"
    return made.published / "v000001"


@pytest.fixture
def built(home: Path, first: Path) -> Home:
    """A home with that version published."""
    made = Home.from_environment().create()
    shutil.copytree(first, made.published / first.name)
    publications.release(publications.versions(made.published)[0])
    return made


def released(home: Home, *statements: str) -> Path:
    """The database of a new version: a copy of the last, changed by the statements, with the manifest that it then has."""
    last = publications.versions(home.published)[-1]
    folder = home.published / publications.next_name(home.published)
    shutil.copytree(last.path, folder)
    with duckdb.connect(str(folder / publications.DATABASE)) as connection:
        for statement in (*statements, f"update publication set publication_id = '{folder.name}'"):
            connection.execute(statement)
        tables = published_tables(connection, "gpu_net")
        contents = {table.name: contents_of(connection, "gpu_net", table) for table in tables}
    columns = {table.name: table.columns for table in tables}
    replace(last.manifest, publication_id=folder.name, columns=columns, contents=contents).write(folder)
    publications.release(publications.versions(home.published)[-1])
    return folder / publications.DATABASE


def before(home: Home) -> Path:
    """The database of the version before the current one."""
    return publications.versions(home.published)[-2].database


def moved(home: Home, *statements: str) -> Differences:
    """The differences that the statements make to the last version."""
    after = released(home, *statements)
    return compare(before(home), after)


def only(moves: list[Move], figure: str) -> Move:
    (move,) = [move for move in moves if move.figure == figure]
    return move


def kinds(differences: Differences) -> list[str]:
    return [cause.kind for cause in differences.causes]


def test_figures_move_by_what_was_changed_and_no_others_do(built: Home) -> None:
    """Of 48 GPU-hours a day 16 are productive; on one of three days 4 more are."""
    differences = moved(
        built,
        "update mart_gpu_net_daily set productive_gpu_hours = productive_gpu_hours + 4, ghost_gpu_hours = ghost_gpu_hours - 4"
        " where usage_date = '2025-03-02'",
    )
    assert differences.days == differences.restated_days == (SECOND,)
    assert {(move.figure, move.level) for move in differences.moves} == {
        (figure, level)
        for figure in ("gpu_net_ratio", "gpu_net_ratio_low", "gpu_net_ratio_high", "productive_gpu_hours", "ghost_gpu_hours")
        for level in ("fleet", "cluster")
    }
    productive = only(differences.headlines, "productive_gpu_hours")
    assert (productive.before, productive.after, productive.change) == pytest.approx((16, 20, 4))
    net = only(differences.headlines, "gpu_net_ratio")
    assert (net.before, net.after) == (pytest.approx(16 / 48), pytest.approx(20 / 48))
    assert only(differences.of("cluster"), "ghost_gpu_hours").member == "c1"
    assert [move.usage_date for move in differences.of("fleet", by_day=True, figure="gpu_net_ratio")] == [SECOND]


def test_days_whose_content_is_the_same_are_not_read(built: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifests hold the hash of every day: with them no table is hashed again."""
    after = released(built, "update mart_gpu_net_daily set cost = cost + 1 where usage_date = '2025-03-02'")
    files = before(built), after
    hashed: list[str] = []
    real = sides.contents_of
    monkeypatch.setattr(
        sides, "contents_of", lambda connection, catalog, table: hashed.append(table.name) or real(connection, catalog, table)
    )
    with_manifests = compare(*files)
    assert not hashed
    assert [change.days for change in with_manifests.tables] == [(SECOND,)]
    (files[0].parent / publications.MANIFEST).unlink()
    assert compare(*files) == with_manifests
    assert "mart_gpu_net_daily" in hashed


def test_money_that_a_corrected_bill_moved_says_so_and_hours_do_not(built: Home) -> None:
    differences = moved(
        built,
        "update fct_billing_lines set line_id = line_id || '-2', delivery_id = 'd2', effective_cost = effective_cost * 1.5"
        " where charge_period_start = timestamp '2025-03-02'",
        LEDGER_COST.format(source="billing"),
        "update mart_gpu_net_daily set cost = cost * 1.5, held_gpu_hours = held_gpu_hours - 1 where usage_date = '2025-03-02'",
    )
    assert kinds(differences) == ["corrected bill"]
    assert "delivery d2, 1 lines for 2025-03-02 in place of 1, effective cost +48.00 USD" in differences.causes[0].text
    assert only(differences.headlines, "cost").why == ("corrected bill",)
    assert only(differences.headlines, "held_gpu_hours").why == ()


def test_a_first_bill_is_none_that_corrects(built: Home) -> None:
    released(built, "delete from fct_billing_lines where charge_period_start = timestamp '2025-03-02'")
    differences = moved(
        built,
        "insert into fct_billing_lines select * replace ('n' as line_id, timestamp '2025-03-02' as charge_period_start) from"
        " fct_billing_lines limit 1",
        LEDGER_COST.format(source="billing"),
    )
    assert kinds(differences) == ["first bill"]


def test_another_price_for_the_same_hours_is_a_price_change(built: Home) -> None:
    released(built, LEDGER_COST.format(source="rate_card"))
    differences = moved(built, LEDGER_COST.format(source="rate_card"))
    assert [(cause.kind, cause.days, cause.clusters) for cause in differences.causes] == [("prices", (SECOND,), ("c1",))]


def test_late_rows_are_landings_that_reach_back_to_days_that_changed(built: Home) -> None:
    landing = (
        "insert into fct_collection_runs select * replace ('{run}' as collection_run_id, timestamp '{start}' as window_start_at,"
        " timestamp '{end}' as window_end_at) from fct_collection_runs limit 1"
    )
    differences = moved(
        built,
        landing.format(run="late", start="2025-03-02 04:00", end="2025-03-02 05:00"),
        landing.format(run="of another day", start="2025-03-01", end="2025-03-02"),
        "update mart_gpu_net_daily set productive_gpu_hours = productive_gpu_hours - 1 where usage_date = '2025-03-02'",
    )
    assert [(cause.kind, cause.days, cause.clusters) for cause in differences.causes] == [("late rows", (SECOND,), ("c1",))]
    assert differences.causes[0].text == "1 landing of import for c1 (100 rows) whose windows reach back to 2025-03-02"
    assert only(differences.of("cluster"), "productive_gpu_hours").why == ("late rows",)


def test_a_day_that_was_not_over_is_new_and_stands_apart_from_restated_ones(built: Home) -> None:
    add = "insert into mart_gpu_net_daily select * replace (date '2025-03-04' as usage_date) from mart_gpu_net_daily limit 1"
    differences = moved(built, add, "update mart_gpu_net_daily set cost = cost + 1 where usage_date = '2025-03-02'")
    assert (differences.new_days, differences.restated_days) == ((date(2025, 3, 4),), (SECOND,))
    assert kinds(differences) == ["new days"]
    assert [move.figure for move in differences.headlines] == ["cost"]
    capacity = differences.of("fleet", by_day=True, figure="capacity_gpu_hours")
    assert [(move.before, round(move.change, 6), move.is_new_day, move.why) for move in capacity] == [
        (None, 48, True, ("new days",))
    ]


def test_a_workload_of_another_team_is_a_rule_change(built: Home) -> None:
    differences = moved(
        built,
        "update dim_workloads set team = 'robots' where workload_id = 'c1/train'",
        "update mart_workload_gpu_hours_daily set team = 'robots'",
    )
    assert kinds(differences) == ["workload rules"]
    teams = {move.member: round(move.change, 6) for move in differences.of("team", figure="held_gpu_hours")}
    assert teams == {"vision": -72, "robots": 72}


def test_rows_that_came_too_late_for_a_sealed_day_are_said_and_move_nothing(built: Home) -> None:
    added = moved(
        built,
        "alter table fct_collection_runs add column rows_late bigint",
        "update fct_collection_runs set rows_late = 7",
    )
    # a column that only the newer file has cannot tell what grew
    assert kinds(added) == ["tables"]
    later = moved(built, "update fct_collection_runs set rows_late = 12")
    assert [(cause.kind, cause.text.split(" came")[0]) for cause in later.causes] == [("sealed", "5 rows")]


def test_other_rules_are_said_even_where_no_figure_moved(built: Home) -> None:
    differences = moved(built, "update dim_gpus set node = 'n2'", "update publication set version = 'v2'")
    assert kinds(differences) == ["software"]
    assert differences.moves == ()


def test_files_with_other_tables_and_columns_are_compared_by_what_they_share(built: Home) -> None:
    differences = moved(
        built,
        "drop table mart_unit_economics_daily",
        "alter table mart_gpu_net_daily drop column ghost_cost",
        "alter table mart_gpu_net_daily add column novelty double",
        "create table mart_surprise_daily as select date '2025-03-02' as usage_date, 1 as one",
        "update mart_gpu_net_daily set cost = cost + 1 where usage_date = '2025-03-02'",
    )
    assert {move.figure for move in differences.moves} == {"cost"}
    texts = [cause.text for cause in differences.causes]
    assert texts == [
        "new table: mart_surprise_daily",
        "table gone: mart_unit_economics_daily",
        "new column: mart_gpu_net_daily.novelty",
        "column gone: mart_gpu_net_daily.ghost_cost",
    ]
    assert differences.not_compared == (
        "mart_gpu_net_daily.ghost_cost",
        "mart_unit_economics_daily.cost_per_million_tokens",
        "mart_unit_economics_daily.tokens_all",
    )


def test_a_version_is_the_same_as_itself(built: Home) -> None:
    file = released(built)
    differences = compare(file, file)
    assert (differences.days, differences.tables, differences.moves, differences.causes) == ((), (), (), ())


def test_versions_are_found_by_name_number_and_path(built: Home, tmp_path: Path) -> None:
    with pytest.raises(NoVersionError, match="v000001 is the only version kept"):
        previous_and_current(built)
    second = released(built, "update mart_gpu_net_daily set cost = cost + 1")
    first = before(built)
    assert [version.database for version in previous_and_current(built)] == [first, second]
    assert find_file(built, "v000001") == find_file(built, "1") == first
    assert find_file(built, "current") == second
    copy = Path(shutil.copy(first, tmp_path / "kept.duckdb"))
    assert find_file(built, str(copy)) == copy.resolve()
    with pytest.raises(NoVersionError, match=r"versions in .*: v000001, v000002"):
        find_file(built, "v7")
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("create table something as select 1 as one")
    with pytest.raises(NoVersionError, match="no published database"):
        compare(tmp_path / "other.duckdb", second)


def test_the_command_prints_why_and_what_the_largest_first(built: Home) -> None:
    moved(built, "update mart_gpu_net_daily set cost = cost + (usage_date - date '2025-02-28')")
    shown = CliRunner().invoke(diff_command, ["--limit", "2"])
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("from v000001: build build-001, published")
    assert lines[1].startswith("to   v000002: build build-001, published")
    days = [line.split()[0] for line in lines if line.strip().startswith("2025-03-0") and "Cost" in line]
    assert days == ["2025-03-03", "2025-03-02"]
    assert "and 1 more: --limit 3" in shown.stdout
    record = json.loads(CliRunner().invoke(diff_command, ["v1", "v2", "--json"]).stdout)
    assert record["restated_days"] == ["2025-03-01", "2025-03-02", "2025-03-03"]
    (whole,) = [move for move in record["moves"] if move["level"] == "fleet" and move["usage_date"] is None]
    assert (whole["figure"], whole["change"]) == ("cost", pytest.approx(6))


def test_other_rows_without_another_figure_are_no_moves(built: Home) -> None:
    released(
        built, "update mart_gpu_net_daily set goodput_ratio = 0.4", "alter table mart_gpu_net_daily add column novelty double"
    )
    shown = CliRunner().invoke(diff_command, [])
    assert "1 tables hold other rows or columns; no headline figure moved" in shown.stdout
    assert "new column: mart_gpu_net_daily.novelty" in shown.stdout


def test_the_command_names_what_is_not_there(home: Path) -> None:
    result = CliRunner().invoke(diff_command, [])
    assert (result.exit_code, result.stderr) == (1, "diff: nothing is published yet: run `python -m warehouse run`\n")


def test_texts_carry_units_and_signs() -> None:
    ratio = Move("gpu_net_ratio", "GPU Net", "ratio", "fleet", "all", None, 1, False, "", 0.5, 0.55)
    assert (value_text(ratio, ratio.before), change_text(ratio)) == ("50.00%", "+5.00 points")
    money = Move("cost", "Cost", "currency", "fleet", "all", None, 1, False, "USD", 1000.0, 1100.0)
    assert change_text(money) == "+100.00 USD (+10.0%)"
    gone = Move("held_gpu_hours", "Held", "gpu_h", "team", "a", None, 1, False, "", 4.0, None)
    assert (value_text(gone, None), gone.change, gone.share) == ("–", -4.0, 1.0)
    assert largest_first([ratio, gone, money]) == [money, gone, ratio]
    assert days_text([date(2025, 3, 1), date(2025, 3, 3)]) == "2 days of 2025-03-01 to 2025-03-03"
