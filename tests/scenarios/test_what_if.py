"""The what-if command prices as the build does: with the cards that are landed, nothing would be different."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.scenarios.worlds import read_rows, scenarios
from warehouse.home import Home
from warehouse.landing.landings import Window
from warehouse.landing.shape import TABLES
from warehouse.what_if import what_if


def test_with_the_landed_cards_nothing_would_be_different(
    built_home: Path, published: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Every group that cards price alone (purchase, energy, PUE, dates, the most specific first) costs what the build says."""
    names = [column.name for column in TABLES["rate_cards"].columns]
    cards = [
        row for scenario in scenarios() for path in scenario.raw_files if path.stem == "rate_cards" for row in read_rows(path)
    ]
    lines = [",".join(row.get(name) or "" for name in names) for row in cards]
    file = tmp_path / "cards.csv"
    file.write_text("\n".join([",".join(names), *lines]) + "\n")
    answer = what_if(Home(built_home, built_home / "raw"), file, Window(None, None))
    carded = published.execute(
        """select cluster, gpu_model, currency from fct_gpu_ledger_hourly group by all
        having bool_and(cost_source = 'rate_card')"""
    ).fetchall()
    differences = {(*line.group, line.currency): line.difference for line in answer.by_model}
    assert len(carded) > 20
    assert {group: differences[group] for group in carded if differences[group] != 0} == {}
