"""Every unit of money on a bill in scope stands in exactly one line."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from tests.unit.dbt.money.world import DAY, DEVICE_COST_MODELS, RECONCILIATION_MODELS, World

HOUR = timedelta(hours=1)
TOMORROW = DAY + timedelta(days=1)


def carry_into_ledger(world: World) -> None:
    """Every device-hour's cost as one ledger row."""
    world.connection.execute(
        """
        delete from fct_gpu_ledger_hourly;
        insert into fct_gpu_ledger_hourly by name
        select
            hour_start_at, usage_date, cluster, gpu_id, gpu_id as slot_id, 'r' as run_id, 'w' as workload_id, gpu_model,
            'productive' as state, cost_source, currency, cost, 3600000000 as gpu_microseconds
        from int_device_hour_costs
        """
    )


def reconcile(world: World) -> list[dict[str, Any]]:
    world.build(*DEVICE_COST_MODELS)
    carry_into_ledger(world)
    world.build(*RECONCILIATION_MODELS)
    return world.rows("select * from mart_cost_reconciliation_daily order by usage_date, billing_account_id, currency")


def amounts(row: dict[str, Any]) -> dict[str, Decimal]:
    return {name.removesuffix("_cost"): value for name, value in row.items() if name.endswith("_cost") and value != 0}


def test_usage_and_tax_are_an_invoice_of_120_and_a_cost_of_100(world: World) -> None:
    """Case D04."""
    world.add_device("g1", "i-1", range(24))
    world.add_line("100")
    world.add_line("20", category="Tax", resource=None)
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 120, "effective": 100, "ledger": 100}
    assert row["difference"] == 0


def test_a_commitment_is_paid_once(world: World) -> None:
    """Case D03, for a day: bought for 24, each hour 0.75 used and 0.25 unused."""
    world.add_device("g1", "i-1", range(24))
    world.add_line("0", billed="24", category="Purchase", resource=None, commitment_discount_id="ri-1")
    for hour in range(24):
        at = DAY + timedelta(hours=hour)
        commitment = {"billed": "0", "at": at, "lasts": HOUR, "commitment_discount_id": "ri-1"}
        world.add_line("0.75", commitment_discount_status="Used", **commitment)
        world.add_line("0.25", commitment_discount_status="Unused", resource=None, **commitment)
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 24, "effective": 24, "ledger": 18, "non_time": 6}
    assert row["difference"] == 0


def test_a_purchase_whose_effective_cost_the_provider_fills_in_is_not_paid_twice(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_line("8760", category="Purchase", resource=None, commitment_discount_id="ri-1")
    world.add_line("24", billed="0", commitment_discount_id="ri-1", commitment_discount_status="Used")
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 8760, "effective": 24, "ledger": 24}


def test_two_currencies_are_two_rows_and_the_lesser_of_a_device_hour_is_no_time(world: World) -> None:
    """Case D05."""
    world.add_device("g1", "i-1", [0])
    world.add_line("100", lasts=HOUR)
    world.add_line("90", lasts=HOUR, billing_currency="EUR")
    eur, usd = reconcile(world)
    assert amounts(eur) == {"billed": 90, "effective": 90, "non_time": 90}
    assert amounts(usd) == {"billed": 100, "effective": 100, "ledger": 100}
    assert (eur["difference"], usd["difference"]) == (0, 0)


def test_a_line_without_device_time_is_billed_without_telemetry_line_by_line(world: World) -> None:
    world.add_device("g1", "i-1", range(12))
    for hour in range(24):
        world.add_line("1", at=DAY + timedelta(hours=hour), lasts=HOUR)
    world.add_line("5", resource="i-gone", sku_id="p5.48xlarge")
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 29, "effective": 29, "ledger": 12, "billed_without_telemetry": 17}


def test_what_is_out_of_scope_is_shown_and_takes_no_part(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_line("10")
    world.add_line("70", resource="bucket")
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 10, "effective": 10, "ledger": 10, "out_of_scope": 70}


def test_credits_and_the_rest_of_a_nodes_price_are_non_time_lines(world: World) -> None:
    world.set_variable("gpu_cost_share", 0.4)
    world.add_device("g1", "i-1", range(24))
    world.add_line("10")
    world.add_line("-3", category="Credit")
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 7, "effective": 7, "ledger": 4, "non_time": 3}


def test_a_line_over_two_days_falls_to_both_by_device_time_on_both_sides(world: World) -> None:
    world.add_device("g1", "i-1", range(12, 30))
    world.add_line("18", lasts=timedelta(days=2))
    first, second = reconcile(world)
    assert amounts(first) == {"billed": 12, "effective": 12, "ledger": 12}
    assert amounts(second) == {"billed": 6, "effective": 6, "ledger": 6}


def test_a_line_over_two_days_without_devices_falls_to_its_calendar_hours(world: World) -> None:
    world.add_line("40", at=DAY + timedelta(hours=18), lasts=timedelta(hours=24), resource="i-9", sku_id="p5.48xlarge")
    first, second = reconcile(world)
    assert amounts(first) == {"billed": 10, "effective": 10, "billed_without_telemetry": 10}
    assert amounts(second) == {"billed": 30, "effective": 30, "billed_without_telemetry": 30}


def test_of_a_months_unused_commitment_the_elapsed_part_is_recognised() -> None:
    world = World(through=DAY + timedelta(days=1))
    world.add_device("g1", "i-1", range(24))
    world.add_line("0", commitment_discount_id="ri-1", commitment_discount_status="Used")
    world.add_line(
        "31", lasts=timedelta(days=31), resource=None, commitment_discount_id="ri-1", commitment_discount_status="Unused"
    )
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 1, "effective": 1, "non_time": 1}


def test_days_are_closed_through_the_last_whole_day_of_usage(world: World) -> None:
    world.add_device("g1", "i-1", range(48))
    world.add_line("10")
    world.add_line("3", at=TOMORROW, lasts=6 * HOUR)
    rows = reconcile(world)
    assert [row["is_closed"] for row in rows] == [True, False]
    assert [row["usage_date"] for row in world.rows("select * from audit_cost_reconciled")] == [DAY.date()]


def test_money_that_the_ledger_loses_or_invents_does_not_hold(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_device("g2", "i-2", range(24))
    world.add_line("24")
    world.add_line("24", resource="i-2", billing_account_id="456")
    reconcile(world)
    world.connection.execute(
        "update fct_gpu_ledger_hourly set cost = cost - 0.01 where gpu_id = 'g1' and hour(hour_start_at) < 2"
    )
    world.connection.execute(
        "update fct_gpu_ledger_hourly set cost = cost + 0.01 where gpu_id = 'g2' and hour(hour_start_at) < 1"
    )
    world.build(*RECONCILIATION_MODELS)
    audit = {row["billing_account_id"]: row for row in world.rows("select * from audit_cost_reconciled")}
    assert (audit["123"]["difference"], audit["123"]["holds"]) == (Decimal("0.02"), False)
    assert (audit["456"]["difference"], audit["456"]["holds"]) == (Decimal("-0.01"), True)


def test_ledger_rows_that_no_charge_explains_show_as_a_difference(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_line("24")
    reconcile(world)
    world.connection.execute("update fct_gpu_ledger_hourly set gpu_id = 'somebody else' where hour(hour_start_at) < 4")
    world.build(*RECONCILIATION_MODELS)
    rows = {row["billing_account_id"]: row["difference"] for row in world.rows("select * from mart_cost_reconciliation_daily")}
    assert rows == {"123": 4, "unknown": -4}


def test_rebuilding_the_repriced_days_equals_a_full_refresh(world: World) -> None:
    """A month's line falls to its days by the device-time of all of them: a device seen late on one day reprices all."""
    world.add("control__days_landed", table_name="gpu_samples", usage_date=TOMORROW.date())
    world.add_device("g1", "i-1", range(60))
    world.add_line("310", lasts=timedelta(days=31))
    world.add_line("24", resource="i-2")
    world.add_device("g2", "i-2", range(60))
    world.build(*DEVICE_COST_MODELS)
    world.add_device("g3", "i-1", range(24, 48))
    world.add("int_days_touched", usage_date=TOMORROW.date())
    repriced = {row["usage_date"] for row in world.rows(world.sql("{{ days_repriced('int_days_touched') }}"))}
    assert repriced == {date(2025, 10, day) for day in (1, 2, 3)}
    world.rebuild_days(*repriced, models=DEVICE_COST_MODELS)
    rebuilt = world.rows("select * from int_device_hour_costs order by all")
    world.build(*DEVICE_COST_MODELS)
    assert rebuilt == world.rows("select * from int_device_hour_costs order by all")


def test_a_landed_bill_reprices_the_days_that_were_estimated_from_the_one_before(world: World) -> None:
    world.add_device("g1", "i-1", range(72))
    world.add_line("24")
    world.build(*DEVICE_COST_MODELS)
    world.add_line("48", at=TOMORROW, delivery_id="d2")
    world.add("control__days_landed", table_name="billing_lines", usage_date=TOMORROW.date())
    world.add("int_days_touched", usage_date=TOMORROW.date())
    world.build(
        "int_billing_lines_current",
        "int_billing_resources_matched",
        "int_billing_lines_classified",
        "int_billing_delivered_through",
    )
    repriced = {row["usage_date"] for row in world.rows(world.sql("{{ days_repriced('int_days_touched') }}"))}
    assert repriced == {date(2025, 10, 2), date(2025, 10, 3)}
    world.rebuild_days(*repriced, models=DEVICE_COST_MODELS)
    days = world.rows("select usage_date, sum(cost) as cost from int_device_hour_costs group by usage_date order by usage_date")
    assert [row["cost"] for row in days] == [24, 48, 48]


def test_a_difference_names_its_resources_and_their_lines(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_device("g2", "arn:aws:ec2:us-east-1:9:instance/i-2", range(24))
    world.add_line("30", charge_description="sound")
    world.add_line("25", resource="i-2", charge_description="apart")
    world.add_line("-1", resource="i-2", charge_description="apart")
    reconcile(world)
    assert world.one("select resources_apart, line_ids, holds from audit_cost_reconciled") == {
        "resources_apart": "",
        "line_ids": "",
        "holds": True,
    }
    world.connection.execute("update fct_gpu_ledger_hourly set cost = cost / 2 where gpu_id = 'g2'")
    world.build(*RECONCILIATION_MODELS)
    audit = world.one("select resources_apart, line_ids, holds, difference from audit_cost_reconciled")
    assert (audit["resources_apart"], audit["holds"], audit["difference"]) == ("i-2", False, 12)
    lines = {row["line_id"]: row for row in world.rows("select * from fct_billing_lines")}
    named = [lines[line_id] for line_id in audit["line_ids"].split(",")]
    assert sorted(row["effective_cost"] for row in named) == [-1, 25]
    assert {row["charge_description"] for row in named} == {"apart"}


def test_what_did_not_match_is_listed_line_by_line_and_what_ran_without_a_bill_device_by_device(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_device("g2", None, range(6, 24), minutes=30)
    world.add_line("19.2")
    world.add_line("40", at=DAY + timedelta(hours=18), lasts=24 * HOUR, resource="I-9", sku_id="p5.48xlarge")
    world.add_line("-4", at=DAY + timedelta(hours=18), lasts=24 * HOUR, resource="i-9", sku_id="p5.48xlarge")
    world.add_line("7", resource=None, sku_id="p4d.24xlarge", charge_description="no resource")
    rows = reconcile(world)
    listed = world.rows("select * from mart_unmatched_costs_daily order by usage_date, mismatch, cost")
    found = [
        (row["usage_date"], row["mismatch"], row["resource_id"], row["gpu_id"], row["cost"], row["gpu_hours"]) for row in listed
    ]
    today, tomorrow, billed = DAY.date(), TOMORROW.date(), "billed_without_telemetry"
    assert found == [
        (today, billed, "i-9", "unknown", -1, None),
        (today, billed, "unknown", "unknown", 7, None),
        (today, billed, "I-9", "unknown", 10, None),
        (today, "unpriced", "unknown", "g2", None, 9.0),
        (tomorrow, billed, "i-9", "unknown", -3, None),
        (tomorrow, billed, "I-9", "unknown", 30, None),
    ]
    assert sum(row["billed_without_telemetry_cost"] for row in rows) == 43


def test_a_charge_that_begins_within_an_hour_falls_to_the_parts_of_both(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_line("6", at=DAY + timedelta(hours=13, minutes=40), lasts=HOUR)
    (row,) = reconcile(world)
    assert amounts(row) == {"billed": 6, "effective": 6, "ledger": 6}
    costs = world.rows("select hour(hour_start_at) as h, cost from int_device_hour_billing_costs order by 1")
    assert [(cost["h"], cost["cost"]) for cost in costs] == [(13, 2), (14, 4)]


def test_two_currencies_are_added_at_the_rate_of_their_day_once_somebody_gives_one(world: World) -> None:
    """Case D05: USD 100 and EUR 100; at 1.08 on the first day and 1.10 from the second on."""
    rates = [("EUR", 1.08, DAY - timedelta(days=9)), ("EUR", 1.10, TOMORROW), ("GBP", 1.3, DAY - timedelta(days=3))]
    world.add_device("g1", "i-1", range(48))
    world.add_device("g2", "i-2", range(48))
    for at in (DAY, TOMORROW):
        world.add_line("100", at=at)
        world.add_line("100", at=at, resource="i-2", billing_currency="EUR")
        world.add_line("2", at=at, resource="i-1", billing_currency="JPY")
    assert {row["effective_cost_reporting"] for row in reconcile(world)} == {None}
    for currency, rate, since in rates:
        world.add(
            "stg_landing__exchange_rates", currency=currency, reporting_currency="usd", rate=rate, valid_from=since, landed_at=DAY
        )
    rows = reconcile(world)
    assert [
        (row["currency"], row["effective_cost"], row["effective_cost_reporting"], row["reporting_currency"]) for row in rows
    ] == [
        ("EUR", 100, 108, "USD"),
        ("JPY", 2, None, "unknown"),
        ("USD", 100, 100, "USD"),
        ("EUR", 100, 110, "USD"),
        ("JPY", 2, None, "unknown"),
        ("USD", 100, 100, "USD"),
    ]


def test_a_rate_that_was_taken_back_is_in_force_at_no_time(world: World) -> None:
    since = DAY - timedelta(days=1)
    for currency, ends in (("EUR", since), ("CHF", None)):
        world.add(
            "stg_landing__exchange_rates",
            currency=currency,
            reporting_currency="USD",
            rate=1.1,
            valid_from=since,
            valid_to=ends,
            landed_at=DAY,
        )
    world.build("int_exchange_rates")
    assert [row["currency"] for row in world.rows("select currency from int_exchange_rates order by 1")] == ["CHF", "USD"]
