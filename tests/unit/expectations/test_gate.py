"""The gate on a build made by hand: what is right passes, and every planted fault holds publication."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from expectations import suites
from expectations.__main__ import main
from expectations.gate import NothingBuiltError, check_tables, judge, missing_tables, tables_of
from expectations.rules import Table
from tests.unit.expectations.fake_build import FIRST_BUILD_AT, make_build, write_run_results
from warehouse.database import WarehouseLockedError, connect, locked
from warehouse.home import Home
from warehouse.verdict import Verdict, database_state, read_verdict, verdict_path

#: (what is wrong, the statement that makes it so, table and rule that must notice)
FAULTS = [
    ("a doubled ledger row", "insert into {t} select * from {t} limit 1", "fct_gpu_ledger_hourly", "key_unique"),
    ("a key without a value", "update {t} set slot_id = null where gpu_id = 'GPU-2'", "fct_gpu_ledger_hourly", "key_not_null"),
    ("an hour without a model", "update {t} set gpu_model = null", "fct_gpu_ledger_hourly", "no_nulls"),
    (
        "an unknown state",
        "update {t} set state = 'napping' where state = 'productive'",
        "fct_gpu_ledger_hourly",
        "state_in_dim_states",
    ),
    ("an unknown reason", "update {t} set state_reason = 'bored'", "fct_gpu_ledger_hourly", "state_reason_in_dim_states"),
    ("a ghost that is none", "update {t} set is_ghost = not is_ghost", "fct_gpu_ledger_hourly", "is_ghost_as_in_dim_states"),
    ("a price from nowhere", "update {t} set cost_source = 'guess'", "fct_gpu_ledger_hourly", "cost_source_in_closed_list"),
    ("an unpriced price", "update {t} set cost_source = 'unpriced'", "fct_gpu_ledger_hourly", "no_cost_means_unpriced"),
    ("an unknown signal", "update {t} set signal_source = 'vibes'", "fct_gpu_ledger_hourly", "signal_source_in_closed_list"),
    ("hours that are not a number", "update {t} set gpu_hours = 'nan'", "fct_gpu_ledger_hourly", "numbers_finite"),
    ("infinite energy", "update {t} set energy_kwh = 'inf'", "fct_gpu_ledger_hourly", "numbers_finite"),
    ("negative hours", "update {t} set gpu_hours = -gpu_hours", "fct_gpu_ledger_hourly", "values_0_to_1"),
    (
        "hours unlike microseconds",
        "update {t} set gpu_hours = gpu_hours / 2",
        "fct_gpu_ledger_hourly",
        "hours_are_the_microseconds",
    ),
    (
        "a device with more than its hour",
        "update {t} set gpu_microseconds = 3600000001 where gpu_id = 'GPU-2'",
        "fct_gpu_ledger_hourly",
        "device_hour_at_most_one_hour",
    ),
    (
        "an hour shifted by a session zone",
        "update {t} set hour_start_at = hour_start_at + interval 30 minute",
        "fct_gpu_ledger_hourly",
        "hour_start_is_a_full_hour",
    ),
    ("a run nobody knows", "update {t} set run_id = 'c1/9' where run_id = 'c1/1'", "fct_gpu_ledger_hourly", "run_id_in_dim_runs"),
    ("a lost device", "delete from dim_gpus where gpu_id = 'GPU-2'", "fct_gpu_ledger_hourly", "gpu_id_in_dim_gpus"),
    ("a lost slot", "delete from dim_slots where gpu_id = 'GPU-2'", "fct_gpu_ledger_hourly", "slot_id_in_dim_slots"),
    (
        "a lost workload",
        "delete from {t} where workload_id = 'unallocated'",
        "dim_workloads",
        "fct_gpu_ledger_hourly.workload_id_in_dim_workloads",
    ),
    ("a lost state", "delete from {t} where state = 'throttled'", "dim_states", "every_state_is_there"),
    ("a kind nobody knows", "update {t} set kind = 'magic'", "dim_workloads", "kind_in_closed_list"),
    ("a line in no role", "update {t} set line_role = 'gift'", "fct_billing_lines", "line_role_in_closed_list"),
    ("a line twice", "insert into {t} select * from {t}", "fct_billing_lines", "key_unique"),
    ("a closed day that differs", "update {t} set difference = 0.02", "mart_cost_reconciliation_daily", "closed_days_reconcile"),
    ("money an audit misses", "update {t} set holds = false", "audit_cost_reconciled", "holds"),
    ("an audit that cannot say", "update {t} set holds = null", "audit_gpu_hours_conserved", "holds"),
    (
        "a day without an audit",
        "delete from {t} where usage_date = '2025-03-02'",
        "audit_gpu_hours_conserved",
        "every_ledger_day_audited",
    ),
    (
        "a mart without a day",
        "delete from {t} where usage_date = '2025-03-02'",
        "mart_gpu_net_daily",
        "capacity_is_that_of_the_ledger",
    ),
    ("capacity that grew", "update {t} set capacity_gpu_hours = 99", "mart_gpu_net_daily", "capacity_gpu_hours_is_sum_of_parts"),
    ("a ratio above one", "update {t} set gpu_net_ratio = 1.5", "mart_gpu_net_daily", "values_0_to_1"),
    ("an interval upside down", "update {t} set gpu_net_ratio_low = 0.9", "mart_gpu_net_daily", "interval_is_in_order"),
    ("money lost in the waterfall", "update {t} set cost = cost - 1", "mart_ghost_capacity_daily", "steps_add_up_to_the_ledger"),
    (
        "a workload's lost day",
        "delete from {t} where usage_date = '2025-03-02'",
        "mart_workload_gpu_hours_daily",
        "held_hours_are_those_of_the_ledger",
    ),
    (
        "free time explained that the ledger does not strand",
        "insert into {t} values ('2025-03-02', 'c1', 'c1/n1', 'n1', '2025-03-02', '2025-03-03', 'cpu', 0, 0, 8, 8, 24)",
        "fct_node_stranded_spans",
        "is_stranded_in_the_ledger",
    ),
    (
        "a node counted twice",
        "update {t} set unallocated_gpu_hours = 9",
        "mart_queue_pressure_hourly",
        "unallocated_is_part_of_capacity",
    ),
    ("a yield against nothing", "update {t} set best_hour_count = 0", "mart_work_yield_daily", "a_yield_has_its_best"),
    (
        "goodput of nobody",
        "update {t} set goodput_gpu_hours = 99",
        "mart_workload_gpu_hours_daily",
        "goodput_is_part_of_held_time",
    ),
    ("goodput of no GPU", "update {t} set goodput_gpu_hours = 99", "mart_gpu_net_daily", "goodput_is_part_of_held_time"),
    ("a wait of nobody", "update {t} set started_run_count = 0", "mart_queue_pressure_hourly", "waits_are_of_runs_that_began"),
    ("energy from nowhere", "update {t} set energy_kwh = 99", "mart_power_and_thermal_daily", "energy_is_that_of_the_ledger"),
    ("a device that joins lost", "delete from {t} where gpu_id = 'GPU-2'", "mart_fleet_inventory", "every_device_is_there"),
    (
        "samples moved for no reason",
        "update {t} set corrected_minutes = 6",
        "fct_node_clock_offsets",
        "only_skewed_clocks_are_corrected",
    ),
    ("a span of no length", "update {t} set ended_at = started_at", "fct_gpu_idle_spans", "ends_after_its_start"),
    (
        "a bucket that overlaps the next",
        "update {t} set above_seconds = 0 where isinf(le_seconds)",
        "fct_inference_latency_hourly",
        "buckets_follow_each_other",
    ),
    (
        "a bucket without an end",
        "update {t} set le_seconds = 'nan' where isinf(le_seconds)",
        "fct_inference_latency_hourly",
        "boundary_is_a_number",
    ),
    (
        "a card that waits for a quieter one",
        "update {t} set activity_ratio = 0.99",
        "fct_unbalanced_spans",
        "a_sibling_was_busier",
    ),
    ("a stretch with a hole", "update {t} set unbalanced_minutes = 15", "fct_unbalanced_spans", "as_many_minutes_as_the_span"),
    ("more lost than there was", "update {t} set unbalanced_gpu_hours = 1", "fct_unbalanced_spans", "no_more_than_the_span"),
    ("a slice and a reason", "update {t} set null_reason = 'preallocated'", "fct_oversized_daily", "a_profile_or_a_reason"),
    ("a slice as large as the slot", "update {t} set fit_ratio = 1", "fct_oversized_daily", "the_profile_is_smaller"),
    ("a reason nobody knows", "update {t} set null_reason = 'mood'", "fct_oversized_daily", "null_reason_in_closed_list"),
    (
        "more replicas needed than kept",
        "update {t} set needed_replica_count = 3",
        "fct_replica_demand_hourly",
        "needed_at_most_kept",
    ),
    (
        "surplus of a service that misses its target",
        "update {t} set silent_reason = 'latency_missed', overprovisioned_gpu_hours = 1",
        "fct_replica_demand_hourly",
        "a_silent_rule_takes_nothing",
    ),
    (
        "surplus that the ledger does not know",
        "update {t} set overprovisioned_gpu_hours = 1",
        "fct_replica_demand_hourly",
        "hours_are_those_of_the_ledger",
    ),
    (
        "a workload's lost hour",
        "delete from {t} where hour_start_at = timestamp '2025-03-02'",
        "mart_workload_behavior_hourly",
        "held_hours_are_those_of_the_ledger",
    ),
    (
        "activity that nothing covers",
        "update {t} set signal_source = 'none'",
        "mart_workload_behavior_hourly",
        "no_figure_without_coverage",
    ),
    (
        "a bottleneck without a reason",
        "update {t} set spectrum = 'bottlenecked'",
        "mart_workload_spectrum_hourly",
        "a_reason_where_bottlenecked_and_only_there",
    ),
    (
        "a missed target that nobody minds",
        "update {t} set is_latency_missed = true",
        "mart_workload_spectrum_hourly",
        "a_missed_target_is_no_fit",
    ),
    (
        "an unseen hour that is judged",
        "update {t} set coverage_ratio = 0",
        "mart_workload_spectrum_hourly",
        "nothing_is_said_of_the_unseen",
    ),
    (
        "a charge that is not the ledger's",
        "update {t} set cost = cost + 0.000001 where cost_line = 'unallocated'",
        "mart_cost_allocation_daily",
        "lines_add_up_to_the_ledger",
    ),
    (
        "a split that loses money",
        "update {t} set fully_loaded_cost = fully_loaded_cost - 0.000001 where cost_line = 'held'",
        "mart_cost_allocation_daily",
        "bases_are_those_of_the_workloads",
    ),
    (
        "a credit nobody was given",
        "update mart_cost_reconciliation_daily set non_time_cost = -5",
        "mart_cost_allocation_daily",
        "lines_add_up_to_the_bill",
    ),
    ("a line nobody knows", "update {t} set cost_line = 'misc'", "mart_cost_allocation_daily", "cost_line_in_closed_list"),
    (
        "an unpriced charge",
        "update {t} set currency = 'unknown' where cost_line = 'held'",
        "mart_cost_allocation_daily",
        "unpriced_lines_have_no_cost",
    ),
    (
        "a month unlike its days",
        "update {t} set cost = cost * 2",
        "mart_team_chargeback_monthly",
        "months_add_up_to_days",
    ),
    (
        "a closed month with an estimate",
        "update {t} set estimate_cost = 1",
        "mart_team_chargeback_monthly",
        "a_closed_month_has_no_estimate",
    ),
    (
        "an adapter of no model",
        "insert into {t} by name select usage_date, workload_id, 'llama' as model, 'sql' as adapter, currency,"
        " 1 as request_count, 10 as tokens_all, 1 as held_gpu_hours, 1 as allocation_cost"
        " from mart_workload_gpu_hours_daily limit 1",
        "mart_adapter_unit_economics_daily",
        "adapters_add_up_to_their_model",
    ),
    (
        "a mart of a cluster nobody knows",
        "update {t} set cluster = 'c9'",
        "mart_ghost_capacity_daily",
        "keys_in_dimensions",
    ),
    (
        "a slot of another build",
        "update {t} set slot_id = 'GPU-9' where slot_id = 'GPU-1'",
        "fct_oversized_daily",
        "keys_in_dimensions",
    ),
    ("a model without its facts", "update {t} set gpu_model = 'B999'", "mart_gpu_net_daily", "keys_in_dimensions"),
    ("a column that is gone", "alter table {t} drop column idle_cost", "mart_gpu_idle_time_daily", "promised_columns"),
    ("a table that is gone", "drop table {t}", "mart_unit_economics_daily", "table_is_there"),
    ("a table nobody vouches for", "create table {t} as select 1 as one", "mart_surprise_daily", "has_a_suite"),
]

#: faults that let a build through, with a note
WARNINGS = [
    ("update mart_data_coverage_daily set last_landed_at = '2025-02-01'", "mart_data_coverage_daily", "sources_are_fresh"),
    ("update mart_data_coverage_daily set covered_hours = 12", "mart_data_coverage_daily", "held_time_is_covered"),
    (
        "update mart_cost_reconciliation_daily set billed_without_telemetry_cost = effective_cost * 0.06,"
        " non_time_cost = -effective_cost * 0.06;"
        "insert into mart_unmatched_costs_daily by name select *, 'unknown' as node,"
        " 'billed_without_telemetry' as mismatch, 'l1' as line_id, 'unknown' as gpu_id, 'unknown' as cluster"
        " from (select usage_date, provider_name, billing_account_id, currency, billed_without_telemetry_cost as cost"
        " from mart_cost_reconciliation_daily)",
        "mart_cost_reconciliation_daily",
        "billed_devices_are_known",
    ),
    ("update mart_workload_gpu_hours_daily set priced_gpu_hours = 1", "mart_workload_gpu_hours_daily", "held_hours_are_priced"),
    ("update fct_collection_runs set status = 'failed'", "fct_collection_runs", "sources_can_be_read"),
    ("update fct_collection_runs set rows_quarantined = 20", "fct_collection_runs", "few_rows_quarantined"),
    ("update fct_node_clock_offsets set is_skewed = true", "fct_node_clock_offsets", "clocks_agree"),
    (
        "update mart_telemetry_quality_daily set flags = 'energy_disagrees'",
        "mart_telemetry_quality_daily",
        "energy_and_power_agree",
    ),
    (
        "insert into int_exchange_rates values ('USD', 'EUR', 0.9, '2025-03-02', '9999-12-31');"
        "update mart_cost_allocation_daily set cost_reporting = 0.9 * cost where usage_date >= '2025-03-02'",
        "mart_cost_allocation_daily",
        "currencies_have_rates",
    ),
    (
        "update mart_work_yield_daily set usage_date = '1970-01-01' where usage_date = '2025-03-02'",
        "mart_work_yield_daily",
        "days_in_dim_date",
    ),
    (
        "update fct_billing_lines set effective_cost_method = 'rounded'",
        "fct_billing_lines",
        "effective_costs_are_not_rounded",
    ),
    ("delete from data_dictionary where column_name = 'gpu_id'", "data_dictionary", "every_column_described"),
]


@pytest.fixture
def built(home: Path) -> Home:
    return Home.from_environment()


@dataclass(frozen=True)
class Failed:
    """The failed checks of a verdict as (table, rule)."""

    critical: set[tuple[str, str]]
    warning: set[tuple[str, str]]

    @classmethod
    def of(cls, verdict: Verdict) -> Failed:
        found: dict[str, set[tuple[str, str]]] = {"critical": set(), "warning": set()}
        for check in verdict.checks:
            if not check.success:
                found[check.severity].add((check.table, check.check_id))
        return cls(**found)


def failing(home: Home, table: str) -> set[tuple[str, str]]:
    """The critical rules that fail in one table of the build."""
    with connect(home.build_database, read_only=True) as connection:
        tables = tables_of(connection)
    checks = [*missing_tables(tables), *check_tables(home, [shape for shape in tables if shape.name == table])]
    return {(check.table, check.check_id) for check in checks if not check.success and check.severity == "critical"}


def test_a_right_build_is_published_without_a_word(built: Home) -> None:
    build_id = make_build(built)
    verdict = judge(built)
    assert Failed.of(verdict) == Failed(set(), set())
    assert (verdict.verdict, verdict.build_id) == ("publish", build_id)
    assert verdict.database_state == database_state(built)
    assert read_verdict(built) == verdict
    names = [(check.table, check.check_id) for check in verdict.checks]
    assert {table for table, _ in names} >= set(suites.required_tables())
    assert len(set(names)) == len(names)
    # the file is let go: a build can start at once
    make_build(built, number=2)


@pytest.mark.parametrize(("what", "statement", "table", "rule"), FAULTS, ids=[fault[0].replace(" ", "_") for fault in FAULTS])
def test_a_planted_fault_is_critical(built: Home, what: str, statement: str, table: str, rule: str) -> None:
    make_build(built, statement.format(t=table))
    where, _, name = rule.rpartition(".")
    assert (where or table, name) in failing(built, where or table)


@pytest.mark.parametrize("audit", [table for table in suites.required_tables() if table.startswith("audit_")])
@pytest.mark.parametrize("answer", ["false", "null"])
def test_an_audit_that_does_not_hold_is_critical_and_says_what_to_do(built: Home, audit: str, answer: str) -> None:
    make_build(built, f"update {audit} set holds = {answer} where usage_date = '2025-03-02'")
    assert failing(built, audit) == {(audit, "holds")}
    with connect(built.build_database, read_only=True) as connection:
        shape = next(table for table in tables_of(connection) if table.name == audit)
    message = next(check.message for check in check_tables(built, [shape]) if check.check_id == "holds")
    assert len(message.split()) >= 12


def test_a_critical_failure_holds_publication(built: Home) -> None:
    make_build(built, "insert into fct_billing_lines select * from fct_billing_lines")
    verdict = judge(built)
    critical = Failed.of(verdict).critical
    assert ("fct_billing_lines", "key_unique") in critical
    assert {table for table, _ in critical} == {"fct_billing_lines", "mart_invoices_monthly"}
    assert (verdict.verdict, verdict.failed) == ("hold", len(critical))


def test_a_warning_lets_the_build_through_with_a_note(built: Home) -> None:
    make_build(built, *(statement for statement, _, _ in WARNINGS))
    verdict = judge(built)
    assert Failed.of(verdict) == Failed(set(), {(table, rule) for _, table, rule in WARNINGS})
    assert (verdict.verdict, verdict.warned) == ("publish", len(WARNINGS))
    assert all(len(check.message) > 20 for check in verdict.checks)
    (rates,) = [check for check in verdict.checks if check.check_id == "currencies_have_rates"]
    assert rates.observed == "1 rows: currency=USD first_day=2025-03-01 last_day=2025-03-01"


def test_empty_optional_tables_are_fine_and_their_rules_count(built: Home) -> None:
    empty = ("fct_billing_lines", "mart_cost_reconciliation_daily", "audit_cost_reconciled", "fct_gpu_idle_spans")
    empty += ("fct_unbalanced_spans", "fct_oversized_daily", "mart_unmatched_costs_daily", "mart_invoices_monthly")
    make_build(built, *(f"delete from {table}" for table in empty))
    verdict = judge(built)
    assert verdict.verdict == "publish"
    assert {check.table for check in verdict.checks} >= set(empty)


def test_a_build_of_nothing_is_held(built: Home) -> None:
    make_build(
        built, *(f"delete from {table}" for table in ("fct_gpu_ledger_hourly", "fct_billing_lines", "fct_inference_hourly"))
    )
    verdict = judge(built)
    assert ("build", "something_was_built") in Failed.of(verdict).critical
    assert "nothing to publish" in next(check.message for check in verdict.checks if not check.success)


def test_a_suite_that_evaluates_nothing_holds(built: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    make_build(built)
    real: Callable[[Table], object] = suites.suite_of
    monkeypatch.setattr(suites, "suite_of", lambda table: [] if table.name == "mart_gpu_net_daily" else real(table))
    assert Failed.of(judge(built)).critical == {("mart_gpu_net_daily", "something_was_evaluated")}


def test_a_warning_that_cannot_be_evaluated_holds(built: Home) -> None:
    make_build(built, "alter table mart_data_coverage_daily rename column last_landed_at to landed_at")
    assert ("mart_data_coverage_daily", "sources_are_fresh") in failing(built, "mart_data_coverage_daily")


@pytest.mark.parametrize("status", ["error", "fail", "runtime error", "skipped"])
def test_a_dbt_node_that_did_not_succeed_holds(built: Home, status: str) -> None:
    make_build(built)
    write_run_results(built, sums_close=status)
    verdict = judge(built)
    assert Failed.of(verdict).critical == {("build", "dbt_nodes_succeeded")}
    assert "sums_close" in next(check.observed for check in verdict.checks if not check.success)


def test_dbt_results_that_are_missing_old_empty_or_broken_hold(built: Home) -> None:
    make_build(built)
    results = built.build / "dbt" / "target" / "run_results.json"
    write_run_results(built, generated_at=FIRST_BUILD_AT)
    assert Failed.of(judge(built)).critical == {("build", "dbt_results_are_of_this_build")}
    results.write_text('{"metadata": {"generated_at": "2025-03-05T00:00:00Z"}, "results": []}')
    assert Failed.of(judge(built)).critical == {("build", "dbt_results_are_there")}
    results.write_text("{")
    assert Failed.of(judge(built)).critical == {("build", "dbt_results_are_there")}
    results.unlink()
    assert Failed.of(judge(built)).critical == {("build", "dbt_results_are_there")}


def test_a_build_that_was_begun_and_did_not_end_holds(built: Home) -> None:
    make_build(built)
    with connect(built.build_database, read_only=False) as connection:
        connection.execute("update control.build_window set build_id = 'build-002'")
    assert Failed.of(judge(built)).critical == {("build", "last_build_succeeded")}


def test_a_build_recorded_as_failed_holds(built: Home) -> None:
    make_build(built, status="failed")
    assert Failed.of(judge(built)).critical == {("build", "last_build_succeeded")}


def test_a_gate_that_cannot_look_leaves_no_verdict(built: Home) -> None:
    with pytest.raises(NothingBuiltError, match="python -m warehouse build"):
        judge(built)
    make_build(built)
    judge(built)
    built.build_database.write_bytes(b"no database" * 1000)
    with pytest.raises(Exception, match="not a valid DuckDB"):
        judge(built)
    assert not verdict_path(built).exists()


def test_the_gate_waits_for_no_build(built: Home) -> None:
    make_build(built)
    with locked(built), pytest.raises(WarehouseLockedError, match="another build"):
        judge(built)


def test_the_command_exits_0_or_3_and_says_why(built: Home) -> None:
    def run() -> Result:
        return CliRunner().invoke(main, [])

    nothing = run()
    assert (nothing.exit_code, nothing.stderr) == (3, "hold: nothing is built yet: run `python -m warehouse build`\n")
    make_build(built, "update mart_data_coverage_daily set covered_hours = 12")
    passed = run()
    assert passed.exit_code == 0, passed.output
    assert "warning: mart_data_coverage_daily: held_time_is_covered" in passed.stdout
    make_build(built, "insert into fct_billing_lines select * from fct_billing_lines", number=2)
    held = run()
    assert held.exit_code == 3
    assert "critical: fct_billing_lines: key_unique: 3 rows: line_id=" in held.stderr
    assert "gate: hold build build-002" in held.stdout
    # what holds publication comes last, with the command that shows its rows
    assert held.stderr.splitlines()[-1].startswith("the rows: python -m expectations explain ")
    assert held.stderr.splitlines()[-2].startswith("    ")


def test_suites_do_not_load_great_expectations_when_they_are_imported() -> None:
    """It takes seconds; a DAG file or a command's help must not wait for it."""
    for module in (Path(suites.__file__).parent).glob("*.py"):
        imported = {
            name.name if isinstance(node, ast.Import) else str(node.module)
            for node in ast.parse(module.read_text()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        assert not {name for name in imported if name.startswith(("great_expectations", "expectations.engine"))}, module.name
