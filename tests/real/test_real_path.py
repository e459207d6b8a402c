"""The captures through the whole path, landed, built, gated and published once: the figures are those of their text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OWN_VARIABLES, run_module
from tests.real.golden import GOLDEN, Golden, measure
from tests.real.systems import FAU, FOX_2024, FOX_2025, FOX_DAY, SLURM_LIVE, systems
from warehouse.database import connect
from warehouse.home import Home
from warehouse.verdict import read_verdict

pytestmark = pytest.mark.real

#: recomputed from the job rows in test_slurm_captures.py; job 6 held an instance of a seventh of a card
SLURM_GPU_SECONDS = {
    "1": 10, "2": 10, "3": 28, "4": 4, "5": 3, "6": 6 / 7, "7": 132, "8": 57, "9": 10, "11": 0, "12": 99, "13": 0, "14": 0,
    "15": 0, "16": 4, "17": 4, "18": 4, "19": 4,
}  # fmt: skip
HELD_SECONDS = {FAU: 14_328_134, FOX_DAY: 140_399, FOX_2025: 3_360_033, FOX_2024: 3_007, SLURM_LIVE: 369 + 6 / 7}


@dataclass(frozen=True)
class Real:
    """The published captures and what they say of the golden figures."""

    home: Home
    measured: dict[str, int | Decimal]

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with connect(self.home.published_database, read_only=True) as connection:
            rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
            return rows


@pytest.fixture(scope="module")
def real(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    root = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        for name in OWN_VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("GPU_NET_HOME", str(root))
        for system in systems(real_data):
            assert system.land(real_data) == 0, f"{system.name} did not land whole"
        home = Home.from_environment()
    done = run_module(root, "warehouse", "run")
    assert done.returncode == 0, f"warehouse run left with {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return Real(home, measure(home))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_the_published_figure_is_the_one_worked_from_the_capture(real: Real, golden: Golden) -> None:
    measured = real.measured[golden.name]
    assert golden.agrees(measured), f"expected {golden.show(golden.expected)}, published {golden.show(measured)} {golden.unit}"


def test_runs_workloads_and_the_ledger_hold_the_same_hours(real: Real) -> None:
    for table in ("dim_runs", "mart_workload_gpu_hours_daily"):
        rows = real.ask(
            f"select cluster, sum(held_gpu_hours) * 3600 from {table} group by cluster having sum(held_gpu_hours) > 0"
        )
        held = {cluster: seconds for cluster, seconds in rows if cluster in HELD_SECONDS}
        assert held == pytest.approx(HELD_SECONDS, rel=1e-7), table


def test_each_job_of_the_live_slurm_holds_the_gpu_seconds_of_its_rows(real: Real) -> None:
    """GPUs a job shares with others of its node's pool are cut in whole microseconds, so a job may be some of them off."""
    rows = real.ask(f"select job_id, sum(held_gpu_hours) * 3600 from dim_runs where cluster = '{SLURM_LIVE}' group by job_id")
    assert dict(rows) == pytest.approx(SLURM_GPU_SECONDS, abs=1e-4)
    names = real.ask(f"select name from dim_runs where cluster = '{SLURM_LIVE}' and job_id = '3'")
    assert names == [("train|llama `70b`",)]


def test_a_cluster_of_which_only_sacct_is_known_has_implied_devices_and_sees_nothing(real: Real) -> None:
    clusters = f"('{FOX_DAY}', '{FOX_2025}', '{FOX_2024}', '{SLURM_LIVE}')"
    states = real.ask(f"select distinct state from fct_gpu_ledger_hourly where cluster in {clusters} order by state")
    assert states == [("suspended",), ("unobserved",)]
    wrong = real.ask(
        f"select gpu_id from dim_gpus where cluster in {clusters} and not gpu_id like cluster || '/' || node || '#%'"
    )
    assert wrong == []


def test_capacity_is_the_time_that_cards_were_held_or_between_two_jobs_close_by(real: Real) -> None:
    """Nothing is said of the cards that no job in the file held: what they did then is not known."""
    rows = real.ask(
        f"""select sum(case when run_id = 'unallocated' then gpu_hours end) / sum(gpu_hours)
        from fct_gpu_ledger_hourly where cluster = '{FAU}'"""
    )
    assert 0 < rows[0][0] < 0.01


def test_ten_lines_name_a_gpu_in_their_description_and_no_device_of_ours(real: Real) -> None:
    """What is in scope by its description alone is billed without telemetry; the rest is shown and never allocated.

    The sample gives effective costs in whole dollars beside billed costs with their cents: those in scope are worked out again.
    """
    rows = real.ask(
        "select line_role, count(*), sum(effective_cost), sum(delivered_effective_cost) from fct_billing_lines "
        "where billing_period_start >= '2024-01-01' group by line_role order by line_role"
    )
    of_others = Decimal("1.976514185860")
    assert rows == [("capacity", 10, Decimal("12.126483324"), Decimal(13)), ("out_of_scope", 990, of_others, of_others)]
    shown = real.ask(
        "select sum(out_of_scope_cost), sum(billed_without_telemetry_cost), sum(ledger_cost) from mart_cost_reconciliation_daily "
        "where usage_date >= '2024-01-01'"
    )
    assert shown == [(Decimal("1.976515"), Decimal("12.126483"), Decimal(0))]


def test_the_audits_looked_at_every_cluster_and_every_bill(real: Real) -> None:
    audited = {row[0] for row in real.ask("select cluster from audit_gpu_hours_conserved where holds")}
    assert audited == {row[0] for row in real.ask("select distinct cluster from fct_gpu_ledger_hourly")}
    assert len(audited) >= 36
    assert real.ask("select count(distinct provider_name) from audit_cost_reconciled where holds")[0][0] >= 3


def test_the_gate_lets_it_through_and_says_that_nothing_is_priced(real: Real) -> None:
    verdict = read_verdict(real.home)
    assert verdict is not None
    assert verdict.verdict == "publish"
    assert [check.check_id for check in verdict.checks if not check.success and check.severity == "critical"] == []
    assert any("priced" in check.check_id for check in verdict.checks if not check.success)


def test_landing_the_captures_again_changes_nothing(real: Real, real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NET_HOME", str(real.home.root))
    before = {path: path.stat().st_mtime_ns for path in real.home.raw.rglob("*.parquet")}
    for system in systems(real_data):
        system.land(real_data)
    assert {path: path.stat().st_mtime_ns for path in real.home.raw.rglob("*.parquet")} == before
