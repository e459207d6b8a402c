"""The report's tables that need no clicking: what the gate found, whether bills close, and what the words mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import duckdb

from warehouse.digest import words

#: passed checks are counted by table; of failed ones this many are shown in full
MOST_FAILURES = 50
_GLOSSARY_TABLE = "mart_gpu_net_daily"
#: column of `mart_gpu_net_daily` → how the page calls it
_GLOSSARY = {
    "capacity_gpu_hours": "Capacity",
    "held_gpu_hours": "Held",
    "unobserved_gpu_hours": "Unobserved",
    "coverage_ratio": "Coverage",
    "productive_gpu_hours": "Productive",
    "gpu_net_ratio": "GPU Net",
    "gpu_net_ratio_low": "GPU Net, low end",
    "gpu_net_ratio_high": "GPU Net, high end",
    "ghost_gpu_hours": "Ghost capacity",
    "ghost_cost": "Ghost cost",
}


@dataclass(frozen=True)
class FailedCheck:
    table: str
    check: str
    severity: str
    message: str
    observed: str


@dataclass(frozen=True)
class Bill:
    """How the days of one account close: `open_days` have no final bill yet, or one that the ledger does not explain."""

    provider: str
    account: str
    currency: str
    closed_days: int
    open_days: int
    first_date: date
    last_date: date
    effective_cost: str
    ledger_cost: str
    not_time_cost: str
    difference: str


@dataclass(frozen=True)
class Tables:
    """`passed` are (table, how many checks); `glossary` (word, what it means, formula)."""

    failed: Sequence[FailedCheck]
    passed: Sequence[tuple[str, int]]
    bills: Sequence[Bill]
    glossary: Sequence[tuple[str, str, str]]

    @property
    def passed_in_all(self) -> int:
        return sum(count for _, count in self.passed)


def read_tables(connection: duckdb.DuckDBPyConnection) -> Tables:
    """The tables of an open published database."""
    failed = connection.execute(
        """select table_name, check_id, severity, message, observed from gate_results where not success
        order by severity, table_name, check_id limit ?""",
        [MOST_FAILURES],
    ).fetchall()
    passed = connection.execute(
        "select table_name, count(*) from gate_results where success group by table_name order by table_name"
    ).fetchall()
    return Tables(
        failed=[FailedCheck(*(words.clean(value or "", 400) for value in row)) for row in failed],
        passed=[(words.clean(table), count) for table, count in passed],
        bills=_bills(connection),
        glossary=_glossary(connection),
    )


def _bills(connection: duckdb.DuckDBPyConnection) -> list[Bill]:
    rows = connection.execute(
        """select provider_name, billing_account_id, currency, count(*) filter (is_closed), count(*) filter (not is_closed),
            min(usage_date), max(usage_date), sum(effective_cost), sum(ledger_cost),
            sum(non_time_cost + billed_without_telemetry_cost + out_of_scope_cost), sum(difference)
        from mart_cost_reconciliation_daily group by all order by all"""
    ).fetchall()
    return [
        Bill(
            *(words.clean(provider), words.clean(account), words.clean(currency, 12), closed, still_open, first, last),
            *map(_money, amounts),
        )
        for provider, account, currency, closed, still_open, first, last, *amounts in rows
    ]


def _money(amount: Decimal | None) -> str:
    return f"{amount:,.2f}" if amount is not None else "–"


def _glossary(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """What the words mean, as the data dictionary says it."""
    rows = connection.execute(
        "select column_name, description, formula from data_dictionary where table_name = ?", [_GLOSSARY_TABLE]
    ).fetchall()
    said = {name: (description or "", formula or "") for name, description, formula in rows}
    return [(word, *said[column]) for column, word in _GLOSSARY.items() if column in said]
