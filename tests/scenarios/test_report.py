"""What the report charges, of every scenario's real marts: each choice adds up to the same, and that is the marts'."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.unit.warehouse.report.test_report import contents_of
from warehouse.report.chargeback import BASES, HELD_UNUSED, LINES

MICRO = 10**6
#: month and currency → amounts on the three bases, in millionths
Sums = dict[tuple[str, str | None], tuple[int, ...]]


@pytest.fixture(scope="module")
def contents(built_home: Path) -> dict[str, Any]:
    return contents_of(built_home / "published" / "report.html")


def summed(contents: dict[str, Any], *parts: dict[str, list[Any]], key: str | None = None, more: str = "") -> dict[Any, Any]:
    """The cells of parts by month and currency (and `key`); with `more` what the exchange adds, in the reporting currency."""
    sums: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for cells in parts:
        for i, month in enumerate(cells["month"]):
            currency = contents["currencies"][cells["currency"][i]] if cells["currency"][i] >= 0 else None
            at = (month, currency) if key is None else (month, currency, cells[key][i])
            for place, basis in enumerate(BASES):
                sums[at][place] += cells[basis][i] + (cells[f"{basis}{more}"][i] or 0 if more else 0)
    return {at: tuple(amounts) for at, amounts in sums.items()}


def micros(*amounts: Decimal | None) -> tuple[int, ...]:
    return tuple(int((amount or 0) * MICRO) for amount in amounts)


def test_every_choice_charges_the_same_and_what_the_monthly_mart_charges(
    contents: dict[str, Any], published: duckdb.DuckDBPyConnection
) -> None:
    marts: Sums = {
        (month, currency if currency != "unknown" else None): micros(*amounts)
        for month, currency, *amounts in published.execute(
            """select strftime(month_start_date, '%Y-%m'), currency, sum(allocation_cost), sum(usage_cost), sum(fully_loaded_cost)
            from mart_team_chargeback_monthly where cost_line = 'held' group by all"""
        ).fetchall()
    }
    assert len({currency for _, currency in marts}) > 2, "several currencies, and time without a price"
    choices = contents["chargeback"]["choices"]
    assert set(choices) == {"team", "application", "model", "workload"}
    for choice, found in choices.items():
        assert summed(contents, found["rows"]) == marts, choice
        assert len(found["members"]) > 1


def test_each_team_is_charged_what_the_monthly_mart_charges_it(
    contents: dict[str, Any], published: duckdb.DuckDBPyConnection
) -> None:
    teams = contents["chargeback"]["choices"]["team"]
    found: dict[Any, Any] = defaultdict(lambda: (0, 0, 0))
    for (month, currency, member), amounts in summed(contents, teams["rows"], key="member").items():
        found[month, currency, teams["members"][member]["name"]] = amounts
    marts = {
        (month, None if currency == "unknown" else currency, team): micros(*amounts)
        for month, currency, team, *amounts in published.execute(
            """select strftime(month_start_date, '%Y-%m'), currency, team, allocation_cost, usage_cost, fully_loaded_cost
            from mart_team_chargeback_monthly where cost_line = 'held'"""
        ).fetchall()
    }
    # names that a page cleans, or cuts, are in the other test's sums
    plain = {at: amounts for at, amounts in marts.items() if at[2].isascii() and at[2].isprintable() and len(at[2]) < 60}
    assert len(plain) > 10
    assert {at: found[at] for at in plain} == plain


def test_on_every_basis_the_rows_add_up_to_the_whole_month(
    contents: dict[str, Any], published: duckdb.DuckDBPyConnection
) -> None:
    """The whole is the ledger with the bill's lines without time: what the reconciliation closes on."""
    charged = contents["chargeback"]
    found = summed(contents, charged["choices"]["model"]["rows"], charged["lines"])
    whole = {
        (month, None if currency == "unknown" else currency): int((cost or 0) * MICRO)
        for month, currency, cost in published.execute(
            "select strftime(usage_date, '%Y-%m'), currency, sum(cost) from mart_cost_allocation_daily group by all"
        ).fetchall()
    }
    assert set(found) == set(whole)
    for at, amounts in found.items():
        assert amounts[:2] == (whole[at], whole[at]), at
        # what is loaded is shared out by hour and rounded
        assert amounts[2] == pytest.approx(whole[at], abs=0.01 * MICRO), at
    lines = set(charged["lines"]["line"])
    assert lines == set(LINES), "each line of nobody is there, and has its words"


def test_money_in_the_reporting_currency_is_the_marts(contents: dict[str, Any], published: duckdb.DuckDBPyConnection) -> None:
    reporting = contents["reporting"]
    assert reporting is not None
    fleet = contents["fleet"]
    rows = range(len(fleet["day"]))
    found = sum(
        fleet["cost"][i] + fleet["exchange"][i] for i in rows if fleet["currency"][i] >= 0 and fleet["exchange"][i] is not None
    )
    (marts,) = published.execute("select sum(cost_reporting) from mart_ghost_capacity_daily").fetchall()[0]
    assert found == int(marts * MICRO)
    unconverted = {
        contents["currencies"][fleet["currency"][i]] for i in rows if fleet["currency"][i] >= 0 and fleet["exchange"][i] is None
    }
    assert unconverted, "a currency without a rate is not counted as nothing"
    lines = contents["chargeback"]["lines"]
    charged = {
        (month, contents["currencies"][currency], line): None if exchange is None else amount + exchange
        for month, currency, line, amount, exchange in zip(
            *(lines[name] for name in ("month", "currency", "line", "allocation", "allocation_exchange")), strict=True
        )
        if currency >= 0 and line != HELD_UNUSED
    }
    monthly = {
        (month, currency, line): None if amount is None else int(amount * MICRO)
        for month, currency, line, amount in published.execute(
            """select strftime(month_start_date, '%Y-%m'), currency, cost_line, cost_reporting from mart_team_chargeback_monthly
            where cost_line <> 'held' and currency <> 'unknown'"""
        ).fetchall()
    }
    assert charged == monthly
    assert any(currency != reporting and amount is not None for (_, currency, _), amount in charged.items())
    assert None in charged.values()
    held = contents["chargeback"]["choices"]["team"]["rows"]
    known = [i for i, exchange in enumerate(held["allocation_exchange"]) if exchange is not None and held["currency"][i] >= 0]
    (marts,) = published.execute(
        "select sum(allocation_cost_reporting) from mart_team_chargeback_monthly where cost_line = 'held'"
    ).fetchall()[0]
    assert sum(held["allocation"][i] + held["allocation_exchange"][i] for i in known) == int(marts * MICRO)
