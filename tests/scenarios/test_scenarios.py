"""Every scenario's published tables say what its README works out by hand. One build serves all."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.scenarios.worlds import Scenario, differences, read_rows, scenarios

CASES = [(scenario, path) for scenario in scenarios() for path in scenario.expected_files]


@pytest.mark.parametrize(("scenario", "expected"), CASES, ids=[f"{scenario.name}-{path.stem}" for scenario, path in CASES])
def test_the_published_table_says_what_was_worked_by_hand(
    published: duckdb.DuckDBPyConnection, scenario: Scenario, expected: Path
) -> None:
    assert differences(published, scenario, expected) == []


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_works_its_numbers_by_hand_and_names_what_it_expects(scenario: Scenario) -> None:
    assert len((scenario.folder / "README.md").read_text().split()) >= 20
    assert scenario.raw_files
    assert scenario.expected_files


def test_a_gpu_belongs_to_one_scenario() -> None:
    """All are built together, and a card of two worlds would be one that moved."""
    owners: dict[str, set[str]] = {}
    for scenario in scenarios():
        for path in scenario.raw_files:
            for row in read_rows(path):
                if row.get("gpu_uuid"):
                    owners.setdefault(row["gpu_uuid"], set()).add(scenario.name)
    assert {gpu: names for gpu, names in owners.items() if len(names) > 1} == {}


def test_every_hour_of_every_scenario_is_in_exactly_one_state(published: duckdb.DuckDBPyConnection) -> None:
    """A device that is in inventory for a whole hour has an hour's microseconds in the ledger, never more."""
    over = published.execute(
        """
        select hour_start_at, gpu_id, sum(gpu_microseconds)
        from main.fct_gpu_ledger_hourly
        group by all
        having sum(gpu_microseconds) > 3600000000 or min(gpu_microseconds) <= 0
        """
    ).fetchall()
    assert over == []
