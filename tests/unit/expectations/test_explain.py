"""`python -m expectations explain` on a build made by hand, and the page of the verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from expectations import data_docs
from expectations.__main__ import main
from expectations.explain import explain
from tests.unit.expectations.fake_build import FIRST_BUILD_AT, make_build
from warehouse.database import locked
from warehouse.home import Home
from warehouse.verdict import HOLD, Check, Verdict, write_verdict


@pytest.fixture
def built(home: object) -> Home:
    return Home.from_environment()


def said(home: Home, *checks: Check) -> Verdict:
    """A verdict about the build with these checks."""
    verdict = Verdict("build-001", HOLD, FIRST_BUILD_AT, "", checks)
    write_verdict(home, verdict)
    return verdict


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_the_offending_rows_come_with_their_keys_and_the_sentence(built: Home) -> None:
    make_build(built, "update fct_gpu_ledger_hourly set energy_kwh = 'inf' where gpu_id = 'GPU-2' and usage_date = '2025-03-02'")
    (found,) = explain(built, "numbers_finite", "fct_gpu_ledger_hourly", limit=5)
    assert (found.count, len(found.rows)) == (24, 5)
    # the key first, then what the rule is about, nothing else
    key = ("hour_start_at", "slot_id", "run_id", "state", "state_reason", "signal_source", "cost_source", "currency")
    assert found.columns == (*key, "gpu_hours", "energy_kwh")
    assert {row["slot_id"] for row in found.records} == {"GPU-2"}
    assert "poisons every sum" in found.message
    assert len(explain(built, "numbers_finite", "fct_gpu_ledger_hourly", whole_rows=True)[0].columns) == 19


@pytest.mark.parametrize(
    ("statement", "check", "row"),
    [
        ("insert into {t} select * from {t} where gpu_id = 'GPU-2' limit 1", "key_unique", {"slot_id": "GPU-2"}),
        ("update {t} set run_id = 'c1/9' where run_id = 'c1/1'", "run_id_in_dim_runs", {"run_id": "c1/9"}),
        ("update {t} set cost_source = 'guess'", "cost_source_in_closed_list", {"cost_source": "guess"}),
        ("update {t} set gpu_model = 'B999'", "keys_in_dimensions", {"key_column": "gpu_model", "value": "B999"}),
        ("alter table {t} drop column energy_kwh", "promised_columns", {"missing_column": "energy_kwh"}),
        ("update {t} set is_ghost = not is_ghost", "is_ghost_as_in_dim_states", {"is_ghost": False, "state": "idle_compute"}),
    ],
)
def test_every_kind_of_rule_shows_its_rows(built: Home, statement: str, check: str, row: dict[str, object]) -> None:
    make_build(built, statement.format(t="fct_gpu_ledger_hourly"))
    (found,) = explain(built, f"fct_gpu_ledger_hourly.{check}", limit=200)
    assert any(row.items() <= record.items() for record in found.records)


def test_without_a_table_those_in_which_it_failed_are_explained(built: Home) -> None:
    make_build(built, "insert into fct_billing_lines select * from fct_billing_lines")
    said(
        built,
        Check("key_unique", "fct_billing_lines", "critical", False, "3 rows", 3, "Twice."),
        Check("key_unique", "dim_gpus", "critical", True, "0 rows", 0, "Twice."),
    )
    assert [(found.table, found.count) for found in explain(built, "key_unique")] == [("fct_billing_lines", 3)]
    shown = run("key_unique")
    assert shown.exit_code == 0
    assert "fct_billing_lines: key_unique (critical)" in shown.stdout
    assert "Two rows have the same line_id" in shown.stdout
    records = json.loads(run("key_unique", "--json", "--limit", "1").stdout)
    assert (records[0]["count"], list(records[0]["rows"][0])) == (3, ["line_id"])


def test_checks_of_the_build_itself_are_told_without_rows(built: Home) -> None:
    make_build(built)
    said(built, Check("dbt_nodes_succeeded", "build", "critical", False, "sums_close (fail)", 1, "A dbt test failed."))
    shown = run("dbt_nodes_succeeded")
    assert shown.exit_code == 0
    assert "A dbt test failed." in shown.stdout
    assert "sums_close (fail)" in shown.stdout


def test_what_is_not_there_is_said_with_the_nearest_name(built: Home) -> None:
    assert "nothing is built yet" in run("key_unique").stderr
    make_build(built)
    said(built, Check("key_unique", "dim_gpus", "critical", True, "0 rows", 0, "Twice."))
    wrong = run("keys_unique")
    assert wrong.exit_code == 2
    assert "there is no check 'keys_unique'; did you mean key_unique?" in wrong.stderr
    assert "no row of the build breaks it now" in run("key_unique", "--table", "dim_gpus").stdout
    with locked(built):
        assert "another build" in run("key_unique", "--table", "dim_gpus").stderr


def test_the_page_of_a_verdict_needs_no_network_and_runs_nothing_of_the_data(built: Home) -> None:
    nasty = "<script>alert(1)</script>\u202e'); drop table x; --"
    verdict = said(
        Home.from_environment().create(),
        Check("key_unique", "fct_billing_lines", "critical", False, nasty, 3, f"Two rows are one: {nasty}"),
        Check("sources_are_fresh", "mart_data_coverage_daily", "warning", False, "1 rows", 1, "A source is silent."),
        Check("values_0_to_1", "dim_gpus", "critical", True, "0 rows", 0, "Arithmetic."),
    )
    done = CliRunner().invoke(main, ["docs"])
    assert done.exit_code == 0, done.output
    page = Path(done.stdout.strip())
    assert page == data_docs.page_path(built)
    html = page.read_text()
    assert html == data_docs.render(verdict)
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w+|<script|@import|url\(", html)
    assert "\u202e" not in html
    assert all(name in html for name in ("fct_billing_lines", "sources_are_fresh", "A source is silent.", "values_0_to_1"))
    assert html.index("Two rows are one") < html.index("A source is silent.")
    assert "python -m expectations explain key_unique --table fct_billing_lines" in html


def test_there_is_no_page_without_a_verdict(home: object) -> None:
    none = CliRunner().invoke(main, ["docs"])
    assert (none.exit_code, none.stderr) == (1, "docs: there is no verdict yet: run `python -m expectations`\n")
