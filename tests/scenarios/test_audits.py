"""Every audit is measured again from what the build left, with a fault planted where its promise could break."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

MODELS = Path(__file__).resolve().parents[2] / "dbt_project" / "models" / "audits"

#: (what is wrong, the statement that makes it so, the audit that must see it)
FAULTS = [
    ("a device lost half its hour", "update int_device_hours set inventory_us = inventory_us / 2", "audit_gpu_hours_conserved"),
    (
        "a cent was lost",
        "update mart_cost_reconciliation_daily set difference = difference + 0.02",
        "audit_cost_reconciled",
    ),
    (
        "a run held more than the scheduler gave it",
        "update fct_gpu_ledger_hourly set gpu_microseconds = gpu_microseconds + 60000000 where state = 'productive'",
        "audit_held_time_allocated",
    ),
    (
        "a claim held nothing",
        "delete from int_slot_holds where run_id = (select min(run_id) from int_slot_holds where slot_id <> gpu_id)",
        "audit_held_time_allocated",
    ),
    (
        "a run nobody told of took over",
        "update fct_gpu_ledger_hourly set run_id = 'nobody/1' where run_id <> 'unallocated'",
        "audit_held_time_allocated",
    ),
    (
        "a node down was held",
        "update fct_gpu_ledger_hourly set state = 'productive', run_id = 'x' where state = 'out_of_service'",
        "audit_out_of_service_not_held",
    ),
    (
        "a device that worked is said to be down",
        "update int_gpu_state_spans set state = 'down' where state = 'in_service'",
        "audit_out_of_service_not_held",
    ),
    (
        "a slice more than a card has",
        "update int_gpu_layouts set slot_fraction = slot_fraction * 8 / 7 where card_slices > 1",
        "audit_slot_fractions_whole",
    ),
    ("a card without slots", "delete from int_gpu_layouts where card_slices = 1", "audit_slot_fractions_whole"),
    (
        "a negative hour",
        "update fct_gpu_ledger_hourly set gpu_microseconds = -gpu_microseconds where state = 'productive'",
        "audit_ledger_rows_sound",
    ),
    (
        "held time of nobody",
        "update fct_gpu_ledger_hourly set run_id = 'unallocated' where state = 'productive'",
        "audit_ledger_rows_sound",
    ),
    ("two holders of all of a slot", "update int_held_spans set share = share * 2", "audit_ledger_rows_sound"),
    (
        "more covered than held",
        "update scratch.int_held_hours_divided set covered_us = held_us + 60000000",
        "audit_ledger_rows_sound",
    ),
    (
        "a state that nobody declared",
        "update fct_gpu_ledger_hourly set state = 'napping' where state = 'productive'",
        "audit_ledger_rows_sound",
    ),
    *(
        (
            f"{column} of {table} is off",
            f"update {table} set {column} = {column} + 1e-9 where {column} > 0",
            "audit_hours_agree_across_marts",
        )
        for table, column in [
            ("mart_workload_gpu_hours_daily", "held_gpu_hours"),
            ("mart_workload_gpu_hours_daily", "ghost_gpu_hours"),
            ("mart_ghost_capacity_daily", "gpu_hours"),
            ("mart_gpu_net_daily", "capacity_gpu_hours"),
            ("mart_gpu_net_daily", "unobserved_gpu_hours"),
        ]
    ),
    ("a lost card-day", "update mart_gpu_idle_time_daily set held_hours = 0", "audit_hours_agree_across_marts"),
    ("a lost state", "delete from mart_ghost_capacity_daily where state = 'idle_compute'", "audit_hours_agree_across_marts"),
    ("a millionth too much", "update fct_gpu_ledger_hourly set cost = cost + 0.000001", "audit_ledger_cost_conserved"),
    ("a price of another source", "update fct_gpu_ledger_hourly set cost_source = 'guess'", "audit_ledger_cost_conserved"),
    (
        "money that nobody was charged",
        "update mart_workload_gpu_hours_daily set fully_loaded_cost = fully_loaded_cost - 1",
        "audit_cost_bases_closed",
    ),
    (
        "used for more than it was held",
        "update mart_workload_gpu_hours_daily set usage_cost = allocation_cost + 1",
        "audit_cost_bases_closed",
    ),
    ("a step that is gone", "delete from mart_ghost_capacity_daily where state = 'unallocated'", "audit_waterfall_closed"),
    (
        "an unused commitment forgotten",
        "delete from mart_ghost_capacity_daily where state = 'commitment_unused'",
        "audit_waterfall_closed",
    ),
    (
        "idleness charged to another run",
        "update fct_gpu_idle_spans set run_id = 'somebody/else'",
        "audit_idle_spans_held",
    ),
    (
        "idleness after the end of the run",
        "update fct_gpu_idle_spans set ended_at = ended_at + interval 10 minute, idle_minutes = idle_minutes + 10",
        "audit_idle_spans_held",
    ),
    (
        "a suspension forgotten",
        "update fct_gpu_ledger_hourly set state = 'productive' where state = 'suspended'",
        "audit_suspended_time_shared",
    ),
    ("tokens counted twice", "update fct_inference_hourly set output_tokens = output_tokens * 2", "audit_inference_counted"),
    (
        "a request that nobody counted",
        "update fct_inference_hourly set request_count = request_count - 1",
        "audit_inference_counted",
    ),
    ("an hour without its row", "delete from fct_inference_hourly", "audit_inference_counted"),
    (
        "a model charged for nothing",
        "update mart_unit_economics_daily set held_gpu_hours = held_gpu_hours / 2",
        "audit_unit_economics_closed",
    ),
    (
        "tokens that were not served",
        "update mart_unit_economics_daily set output_tokens = output_tokens + 1",
        "audit_unit_economics_closed",
    ),
    (
        "energy used twice",
        "update fct_gpu_ledger_hourly set energy_kwh = energy_kwh * 2 where energy_kwh > 0",
        "audit_energy_conserved",
    ),
    (
        "more energy than the samples have",
        "update mart_telemetry_quality_daily set energy_kwh = energy_kwh / 2",
        "audit_energy_conserved",
    ),
    ("an hour without its energy", "update int_device_hours set energy_joules = 0", "audit_energy_conserved"),
    ("a minute that was lost", "delete from int_gpu_minutes_rolled_up where reading_count > 0", "audit_samples_counted"),
    (
        "a minute of two minutes",
        "update int_gpu_minutes_rolled_up set covered_us = 120000000",
        "audit_samples_counted",
    ),
]


@pytest.fixture(scope="module")
def build(built_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A copy of the build, to plant faults in."""
    copies = tmp_path_factory.mktemp("audits")
    for name in ("gpu_net.duckdb", "scratch.duckdb"):
        shutil.copy(built_home / "build" / name, copies)
    with duckdb.connect(str(copies / "gpu_net.duckdb")) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(f"attach '{copies / 'scratch.duckdb'}' as scratch")
        yield connection


def measured_again(build: duckdb.DuckDBPyConnection, built_home: Path, audit: str) -> list[bool | None]:
    """Whether each row of the audit holds, by its compiled SQL."""
    (compiled,) = (built_home / "build" / "dbt" / "target" / "compiled").rglob(f"{audit}.sql")
    return [row[0] for row in build.execute(f"select holds from ({compiled.read_text()}) as audit").fetchall()]


@pytest.mark.parametrize(("what", "statement", "audit"), FAULTS, ids=[fault[0].replace(" ", "_") for fault in FAULTS])
def test_an_audit_sees_a_planted_fault(
    build: duckdb.DuckDBPyConnection, built_home: Path, what: str, statement: str, audit: str
) -> None:
    build.execute("begin")
    try:
        build.execute(statement)
        assert False in measured_again(build, built_home, audit), what
    finally:
        build.execute("rollback")


@pytest.mark.parametrize("audit", sorted(path.stem for path in MODELS.glob("*.sql")))
def test_every_audit_holds_on_every_scenario_and_is_planted_a_fault(
    build: duckdb.DuckDBPyConnection, built_home: Path, audit: str
) -> None:
    held = measured_again(build, built_home, audit)
    assert held
    assert set(held) == {True}
    assert audit in {name for _, _, name in FAULTS}
