"""Who is charged what: the lines of the ledger and of the bill, by team, application and model."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.unit.dbt.money.world import DAY, DEVICE_COST_MODELS, RECONCILIATION_MODELS, UNIT_COST_MODELS, World

ALLOCATION_MODELS = (
    "int_consumer_weights_daily",
    "int_cost_allocation_daily",
    *RECONCILIATION_MODELS[: RECONCILIATION_MODELS.index("mart_cost_reconciliation_daily") + 1],
    "int_cost_lines_daily",
    "mart_cost_allocation_daily",
    "mart_team_chargeback_monthly",
)


def billed_world() -> World:
    """One device, billed 24.00 for four hours of use, 1.00 of a commitment left unused, a credit of −2, a node never seen."""
    world = World()
    world.add_device("g1", "i-1", range(4))
    commitment: dict[str, Any] = {"commitment_discount_id": "c-1", "lasts": timedelta(hours=4)}
    world.add_line("24", **(commitment | {"commitment_discount_status": "Used"}))
    world.add_line("1", resource=None, **(commitment | {"commitment_discount_status": "Unused"}))
    world.add_line("-2", category="Credit", lasts=timedelta(hours=4))
    world.add_line("7", resource="i-2", sku_id="p5.48xlarge", resource_type="p5.48xlarge", lasts=timedelta(hours=4))
    world.build(*DEVICE_COST_MODELS)
    chat = world.add_service("chat", hours=4)
    for hour in range(4):
        held = (
            ((chat, "productive", 30), ("unallocated", "unallocated", 30)) if hour < 2 else (("unallocated", "unallocated", 60),)
        )
        world.add_ledger("g1", hour, *held)
    return world


def lines(world: World) -> dict[str, dict[str, Any]]:
    rows = world.rows("select * from mart_cost_allocation_daily order by all")
    return {row["cost_line"]: row for row in rows}


def test_every_unit_of_money_of_a_bill_is_in_one_line() -> None:
    world = billed_world()
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    charged = lines(world)
    assert {line: row["cost"] for line, row in charged.items()} == {
        "held": Decimal(6),
        "unallocated": Decimal(18),
        "commitment_unused": Decimal(1),
        "non_time": Decimal(-2),
        "billed_without_telemetry": Decimal(7),
    }
    assert sum(row["cost"] for row in charged.values()) == world.value(
        "select sum(effective_cost) from mart_cost_reconciliation_daily"
    )


def test_what_nobody_could_carry_stays_fully_loaded_with_its_own_line() -> None:
    """Two of four hours have a holder: he carries 6.00 of free time and 0.50 of the commitment; 12.00 and 0.50 stay."""
    world = billed_world()
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    charged = lines(world)
    assert charged["held"]["fully_loaded_cost"] == Decimal("12.5")
    assert charged["unallocated"]["fully_loaded_cost"] == Decimal(12)
    assert charged["commitment_unused"]["fully_loaded_cost"] == Decimal("0.5")
    assert charged["unallocated"]["allocation_cost"] == 0
    assert (charged["held"]["held_gpu_hours"], charged["unallocated"]["gpu_hours"]) == (1.0, 3.0)


def test_a_shared_service_is_charged_by_the_weighted_tokens_of_the_log_and_adds_up() -> None:
    """10 $ over three equal teams: 3.333333, 3.333333 and 3.333334, never 9.999999."""
    world = World()
    world.add_device("g1", None, range(1))
    world.build(*DEVICE_COST_MODELS)
    chat = world.add_service("chat", hours=1)
    world.add_ledger("g1", 0, (chat, "productive", 60), cost="10")
    for number, team in enumerate(["red", "green", None]):
        world.add(
            "stg_landing__inference_requests",
            cluster="a",
            request_id=f"r{number}",
            started_at=DAY,
            workload="chat",
            team=team,
            model="m",
            prompt_tokens=1000,
            output_tokens=10,
        )
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    rows = world.rows("select team, cost, held_gpu_hours from mart_cost_allocation_daily order by team")
    assert [row["team"] for row in rows] == ["green", "red", "unknown"]
    assert sorted(row["cost"] for row in rows) == [Decimal("3.333333"), Decimal("3.333333"), Decimal("3.333334")]
    assert abs(sum(row["held_gpu_hours"] for row in rows) - 1) < 1e-9


def test_a_month_is_closed_by_its_bills_and_only_when_it_is_over() -> None:
    world = billed_world()
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    month = "select bool_and(is_closed) from mart_team_chargeback_monthly where month_start_date = date '2025-10-01'"
    assert world.value(month) is False  # no later month has begun
    november = datetime(2025, 11, 1)
    world.add(
        "int_device_hours",
        hour_start_at=november,
        usage_date=november.date(),
        cluster="a",
        node="n",
        gpu_id="g1",
        gpu_model="NVIDIA H100 80GB HBM3",
        provider="aws",
        provider_resource_id="i-1",
        is_implied=False,
        inventory_us=3_600_000_000,
    )
    world.connection.execute("delete from control__data_through")
    world.add("control__data_through", cluster="a", table_group="telemetry", data_through_at=november + timedelta(hours=1))
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g1", 31 * 24, ("unallocated", "unallocated", 60))
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    assert world.value(month) is False  # the account is delivered through 1 October only
    world.add_line("1", at=datetime(2025, 10, 31), lasts=timedelta(days=1), resource="i-1")
    world.build(*DEVICE_COST_MODELS, *UNIT_COST_MODELS, *ALLOCATION_MODELS)
    assert world.value(month) is True
    estimated = world.one(f"select * from mart_team_chargeback_monthly where month_start_date = date '{date(2025, 11, 1)}'")
    assert estimated["is_closed"] is False


def test_a_month_of_two_rates_is_added_day_by_day_and_says_nothing_without_one_of_them() -> None:
    """4 EUR a day; worth 1.10 USD on the first day and 1.20 on the second: 9.20 USD. Without a first rate it is unknown."""
    world = World()
    world.add_device("g1", "i-1", range(48))
    for day in range(2):
        world.add_line("4", at=DAY + timedelta(days=day), billing_currency="EUR")
    world.build(*DEVICE_COST_MODELS)
    for hour in range(48):
        world.add_ledger("g1", hour, ("unallocated", "unallocated", 60))
    rate: dict[str, Any] = {"currency": "EUR", "reporting_currency": "USD", "landed_at": DAY}
    world.add("stg_landing__exchange_rates", rate=1.2, valid_from=DAY + timedelta(days=1), **rate)
    month = "select cost, cost_reporting, fully_loaded_cost_reporting, reporting_currency from mart_team_chargeback_monthly"
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    assert [*world.one(month).values()] == [8, None, None, "unknown"]
    days = "select cost_reporting, reporting_currency from mart_cost_allocation_daily order by usage_date"
    assert [[*row.values()] for row in world.rows(days)] == [[None, "unknown"], [Decimal("4.8"), "USD"]]
    world.add("stg_landing__exchange_rates", rate=1.1, valid_from=DAY, **rate)
    world.build(*UNIT_COST_MODELS, *ALLOCATION_MODELS)
    assert [*world.one(month).values()] == [8, Decimal("9.2"), Decimal("9.2"), "USD"]
