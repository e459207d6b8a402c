"""The newest whole day against the last weeks: three weeks made by hand, and each fault told in its rule alone."""

from __future__ import annotations

import pytest

from expectations.gate import check_tables, tables_of
from tests.unit.expectations.fake_build import make_build
from warehouse.database import connect
from warehouse.home import Home
from warehouse.verdict import Check

LEDGER, COVERAGE = "fct_gpu_ledger_hourly", "mart_data_coverage_daily"
#: the three days of the fake build, 1 to 3 March, as they are and once more for so many weeks before
_WEEKS = """insert into {table} by name select facts.* replace ({columns})
    from {table} as facts, range(1, {weeks}) as weeks (number)"""
_DAYS = """insert into {table} by name select facts.* replace ({columns})
    from {table} as facts, range(1, 7) as days (number) where usage_date = '2025-03-01'"""
_DAY = "usage_date - cast({days} * number as integer) as usage_date"
_SHIFTS = {LEDGER: _DAY + ", hour_start_at - to_days({days} * number) as hour_start_at", COVERAGE: _DAY}
LAST = "usage_date = '2025-03-03'"
#: (what is wrong, the statement that makes it so, the rule that must notice, alone)
FAULTS = [
    (
        "two thirds of the day are missing",
        "delete from fct_gpu_ledger_hourly where {last} and hour(hour_start_at) >= 8",
        "hours_as_in_last_weeks",
    ),
    (
        "a cluster is gone from one day to the next",
        "update fct_gpu_ledger_hourly set cluster = 'unknown' where {last}",
        "hours_as_in_last_weeks",
    ),
    (
        "three times the hours",
        "insert into fct_gpu_ledger_hourly select ledger.* from fct_gpu_ledger_hourly as ledger, range(2) where {last}",
        "hours_as_in_last_weeks",
    ),
    (
        "a day without work",
        "update fct_gpu_ledger_hourly set state = 'idle_compute' where {last} and state = 'productive'",
        "states_as_in_last_weeks",
    ),
    (
        "readings of a worse source",
        "update fct_gpu_ledger_hourly set signal_source = 'gpu_utilization' where {last} and signal_source = 'sm_active'",
        "signals_as_in_last_weeks",
    ),
    (
        "a reason that never was",
        "update fct_gpu_ledger_hourly set state_reason = 'draining' where {last} and state = 'unallocated'"
        " and hour(hour_start_at) < 6",
        "no_new_kinds_of_time",
    ),
    (
        "most hosts silent",
        "update mart_data_coverage_daily set rows_landed = 20 where {last}",
        "rows_as_in_last_weeks",
    ),
    (
        "readings ten times as often",
        "update mart_data_coverage_daily set rows_landed = 1000 where {last}",
        "rows_as_in_last_weeks",
    ),
]
RULES = {
    (LEDGER, "hours_as_in_last_weeks"),
    (LEDGER, "states_as_in_last_weeks"),
    (LEDGER, "signals_as_in_last_weeks"),
    (LEDGER, "no_new_kinds_of_time"),
    (COVERAGE, "rows_as_in_last_weeks"),
}


def weeks(number: int) -> list[str]:
    """Statements that give both tables so many weeks of days, each like the ones there are."""
    statements = []
    for table, shift in _SHIFTS.items():
        statements.append(_DAYS.format(table=table, columns=shift.format(days=1)))
        statements.append(f"delete from {table} where usage_date < date '2025-03-03' - 6")
        if number > 1:
            statements.append(_WEEKS.format(table=table, columns=shift.format(days=7), weeks=number))
    return statements


@pytest.fixture
def built(home: object) -> Home:
    return Home.from_environment()


def checks(home: Home, *statements: str) -> dict[tuple[str, str], Check]:
    """What the rules of history see in a build changed by the statements."""
    make_build(home, *statements)
    with connect(home.build_database, read_only=True) as connection:
        tables = [table for table in tables_of(connection) if table.name in (LEDGER, COVERAGE)]
    found = {(check.table, check.check_id): check for check in check_tables(home, tables)}
    assert found.keys() >= RULES
    return {key: found[key] for key in RULES}


def failed(found: dict[tuple[str, str], Check]) -> set[str]:
    assert all(check.severity == "warning" and len(check.message.split()) > 12 for check in found.values())
    return {name for (_, name), check in found.items() if not check.success}


def test_too_little_history_passes_and_says_how_much_there_is(built: Home) -> None:
    """A first day must be publishable; the build by hand has three, of which two lie before the newest."""
    found = checks(built, f"update {COVERAGE} set rows_landed = 5 where {LAST}")
    assert failed(found) == set()
    assert {check.observed for check in found.values()} == {"2 days of history, needs 14"}


def test_days_like_the_last_weeks_pass(built: Home) -> None:
    found = checks(built, *weeks(4))
    assert failed(found) == set()
    assert {check.observed for check in found.values()} == {"0 rows, 27 days of history"}


@pytest.mark.parametrize(("what", "statement", "rule"), FAULTS, ids=[fault[0].replace(" ", "_") for fault in FAULTS])
def test_a_day_unlike_the_last_weeks_is_a_warning_of_its_rule_alone(built: Home, what: str, statement: str, rule: str) -> None:
    found = checks(built, *weeks(4), statement.format(last=LAST))
    assert failed(found) == {rule}, what
    (observed,) = [check.observed for (_, name), check in found.items() if name == rule]
    assert "usage_date=2025-03-03 cluster=c1" in observed


def test_a_day_that_is_not_over_is_not_compared(built: Home) -> None:
    half = (
        "insert into fct_gpu_ledger_hourly by name select * replace (date '2025-03-04' as usage_date,"
        " hour_start_at + interval 1 day as hour_start_at) from fct_gpu_ledger_hourly where {last} limit 5"
    )
    assert failed(checks(built, *weeks(4), half.format(last=LAST))) == set()


def test_a_cluster_that_is_new_is_left_alone(built: Home) -> None:
    """It was idle on its first day and works on its second: that is no drift."""
    first, second = (
        "insert into fct_gpu_ledger_hourly by name select * replace ('unknown' as cluster, 'GPU-1' as gpu_id)"
        " from fct_gpu_ledger_hourly where usage_date = '2025-03-02' and gpu_id = 'GPU-2'",
        "insert into fct_gpu_ledger_hourly by name select * replace ('unknown' as cluster)"
        " from fct_gpu_ledger_hourly where usage_date = '2025-03-03' and state = 'productive'",
    )
    assert failed(checks(built, *weeks(4), first, second)) == set()
