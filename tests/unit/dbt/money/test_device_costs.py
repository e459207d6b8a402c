"""What a device-hour costs, and on whose word."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.dbt.money.world import DAY, DEVICE_COST_MODELS, World

HOUR = timedelta(hours=1)


def costs(world: World, group: str = "gpu_id") -> dict[Any, tuple[str, Decimal | None]]:
    world.build(*DEVICE_COST_MODELS)
    assert world.value("select count(*) from int_device_hour_costs") == world.value("select count(*) from int_device_hours")
    rows = world.rows(
        f"select {group} as what, string_agg(distinct cost_source, '+' order by cost_source) as source, sum(cost) as cost"
        " from int_device_hour_costs group by what"
    )
    return {row["what"]: (row["source"], row["cost"]) for row in rows}


def test_a_nodes_price_is_spread_over_its_devices_to_the_last_micro_unit(world: World) -> None:
    for gpu in ("g1", "g2", "g3"):
        world.add_device(gpu, "i-1", range(24))
    world.add_line("100.000001")
    by_device = costs(world)
    assert sum(cost or 0 for _, cost in by_device.values()) == Decimal("100.000001")
    rows = world.rows("select cost from int_device_hour_costs order by hour_start_at, gpu_id")
    # 100,000,001 / 72 = 1,388,888 and 65 units left, one each to the earliest
    assert [row["cost"] for row in rows] == [Decimal("1.388889")] * 65 + [Decimal("1.388888")] * 7


def test_a_refund_is_spread_as_exactly_as_a_charge(world: World) -> None:
    for gpu in ("g1", "g2", "g3"):
        world.add_device(gpu, "i-1", [0])
    world.add_line("-5", lasts=HOUR)
    assert sorted(cost or 0 for _, cost in costs(world).values()) == [
        Decimal("-1.666667"),
        Decimal("-1.666667"),
        Decimal("-1.666666"),
    ]


def test_device_time_decides_and_not_the_calendar(world: World) -> None:
    world.add_device("g1", "i-1", [0, 1, 2])
    world.add_device("g2", "i-1", [0], minutes=60)
    world.add_line("4", lasts=4 * HOUR)
    assert costs(world) == {"g1": ("billing", 3), "g2": ("billing", 1)}


def test_a_line_over_two_days_falls_to_the_days_by_device_time(world: World) -> None:
    world.add_device("g1", "i-1", [*range(12, 24), *range(24, 30)])
    world.add_line("18", lasts=timedelta(days=2))
    assert costs(world, "usage_date") == {DAY.date(): ("billing", 12), (DAY + timedelta(days=1)).date(): ("billing", 6)}


def test_of_a_month_only_what_has_elapsed_is_recognised() -> None:
    world = World(through=DAY + timedelta(days=3))
    world.add_device("g1", "i-1", range(72))
    world.add_line("310", lasts=timedelta(days=31))
    assert costs(world, "usage_date") == {(DAY + timedelta(days=day)).date(): ("billing", 10) for day in range(3)}


def test_lines_of_a_millionth_are_added_before_they_are_rounded(world: World) -> None:
    world.add_device("g1", "i-1", [0])
    for _ in range(1000):
        world.add_line("0.0000004", lasts=HOUR)
    assert costs(world) == {"g1": ("billing", Decimal("0.0004"))}


def test_the_days_unit_cost_rests_on_the_corrected_amount(world: World) -> None:
    """Case D02."""
    world.add_device("g1", "i-1", range(24))
    world.add_line("100")
    world.add_line("-20", billing_month=datetime(2025, 11, 1), charge_class="Correction", delivery_id="d2")
    assert costs(world) == {"g1": ("billing", 80)}


def test_a_share_of_the_nodes_price_may_be_its_gpus(world: World) -> None:
    world.set_variable("gpu_cost_share", 0.4)
    world.add_device("g1", "i-1", [0])
    world.add_line("10", lasts=HOUR)
    assert costs(world) == {"g1": ("billing", 4)}


def test_two_currencies_are_never_added(world: World) -> None:
    """Case D05: USD 100 and EUR 100 are not 200, in one device-hour one of them stands."""
    world.add_device("g1", "i-1", [0])
    world.add_line("100", lasts=HOUR)
    world.add_line("90", lasts=HOUR, billing_currency="EUR")
    assert costs(world) == {"g1": ("billing", 100)}
    assert world.value("select currency from int_device_hour_costs") == "USD"
    outside = world.one("select currency, cost from int_device_hour_billing_costs where not is_in_ledger")
    assert outside == {"currency": "EUR", "cost": 90}


def test_the_bill_beats_the_rate_card(world: World) -> None:
    world.add_device("g1", "i-1", [0])
    world.add_device("g2", None, [0])
    world.add_rate_card(cost_per_gpu_hour="9")
    world.add_line("2", lasts=HOUR)
    assert costs(world) == {"g1": ("billing", 2), "g2": ("rate_card", 9)}


def test_a_price_of_nothing_is_a_price_and_no_price_is_null(world: World) -> None:
    world.add_device("g1", None, [0])
    world.add_device("g2", None, [0], gpu_model="Somebody Else's")
    world.add_rate_card(cost_per_gpu_hour="0")
    assert costs(world) == {"g1": ("rate_card", 0), "g2": ("unpriced", None)}
    assert world.value("select currency from int_device_hour_costs where gpu_id = 'g2'") == "unknown"


def test_the_most_specific_card_in_force_prices_the_hour(world: World) -> None:
    world.add_device("both", None, [0])
    world.add_device("cluster", None, [0], provider="gcp")
    world.add_device("provider", None, [0], cluster="b")
    world.add_device("neither", None, [0], cluster="b", provider="oci")
    world.add_rate_card(cost_per_gpu_hour="1")
    world.add_rate_card(cost_per_gpu_hour="2", provider="AWS")
    world.add_rate_card(cost_per_gpu_hour="3", cluster="a")
    world.add_rate_card(cost_per_gpu_hour="4", cluster="a", provider="aws")
    world.add_rate_card(cost_per_gpu_hour="99", cluster="a", provider="aws", valid_to=DAY)
    assert {gpu: cost for gpu, (_, cost) in costs(world).items()} == {"both": 4, "cluster": 3, "provider": 2, "neither": 1}


def test_the_card_in_force_at_the_start_of_the_hour_prices_all_of_it(world: World) -> None:
    world.add_device("g1", None, [0, 1])
    world.add_rate_card(cost_per_gpu_hour="1")
    world.add_rate_card(cost_per_gpu_hour="2", valid_from=DAY + timedelta(minutes=30))
    assert costs(world, "hour_start_at") == {DAY: ("rate_card", 1), DAY + HOUR: ("rate_card", 2)}


def test_own_hardware_costs_its_purchase_its_place_and_its_energy(world: World) -> None:
    """26,280 over 26,280 h + 0.50 + 0.7 kWh x 0.30 x 1.4 = 1 + 0.5 + 0.294; half an hour is half of each."""
    card = {
        "purchase_price": "26280",
        "depreciation_hours": 26280,
        "hosting_cost_per_hour": "0.5",
        "energy_price_per_kwh": "0.30",
        "pue": 1.4,
    }
    world.add_device("measured", None, [0], energy_kwh=0.7)
    world.add_device("half", None, [0], energy_kwh=0.35, minutes=30)
    world.add_device("unmeasured", None, [0])
    world.add_rate_card(**card)
    assert {gpu: cost for gpu, (_, cost) in costs(world).items()} == {
        "measured": Decimal("1.794"),
        "half": Decimal("0.897"),
        "unmeasured": Decimal("1.5"),
    }
    assert world.rows("select gpu_id from int_device_hour_costs where is_energy_left_out") == [{"gpu_id": "unmeasured"}]


def test_a_device_billed_before_is_estimated_after_the_delivered_through_date(world: World) -> None:
    world.add_device("g1", "i-1", range(48))
    world.add_device("g2", "i-1", range(48))
    world.add_rate_card(cost_per_gpu_hour="9")
    world.add_line("48")
    assert costs(world, "usage_date") == {DAY.date(): ("billing", 48), (DAY + timedelta(days=1)).date(): ("estimate", 48)}


def test_an_estimate_rests_on_the_device_hours_that_carry_a_bill(world: World) -> None:
    world.add_device("g1", "i-1", range(72))
    world.add_line("24")
    for hour in range(6):
        world.add_line("3", at=DAY + timedelta(days=1, hours=hour), lasts=HOUR)
    # the second day is billed for six hours only: 3 an hour
    assert costs(world, "usage_date") == {
        DAY.date(): ("billing", 24),
        (DAY + timedelta(days=1)).date(): ("billing+estimate", 6 * 3 + 18 * 3),
        (DAY + timedelta(days=2)).date(): ("estimate", 72),
    }


def test_a_resource_without_billed_device_hours_is_estimated_by_its_sku(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_device("g2", "i-2", range(24, 48))
    world.add_line("24", sku_id="p5.48xlarge")
    world.add_line("50", resource="i-2", sku_id="p5.48xlarge")
    assert costs(world) == {"g1": ("billing", 24), "g2": ("estimate", 24)}
    assert world.value("select distinct cost_basis from int_device_hour_costs where gpu_id = 'g2'") == "sku"


def test_no_rate_is_invented_for_what_was_never_billed_or_before_its_first_bill(world: World) -> None:
    world.add_device("never", "i-9", range(24, 48))
    world.add_device("before", "i-1", range(48))
    world.add_line("24", at=DAY + timedelta(days=1))
    assert costs(world, "gpu_id || ' ' || (usage_date - date '2025-10-01')") == {
        "before 0": ("unpriced", None),
        "before 1": ("billing", 24),
        "never 1": ("unpriced", None),
    }


def test_an_estimate_is_replaced_when_the_bill_comes(world: World) -> None:
    world.add_device("g1", "i-1", range(48))
    world.add_line("24")
    assert costs(world) == {"g1": ("billing+estimate", 48)}
    world.add_line("30", at=DAY + timedelta(days=1), delivery_id="d2")
    assert costs(world) == {"g1": ("billing", 54)}


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_doubling_every_price_doubles_every_cost(share: float) -> None:
    def total(factor: int) -> dict[Any, tuple[str, Decimal | None]]:
        world = World()
        world.set_variable("gpu_cost_share", share)
        world.add_device("billed", "i-1", range(48))
        world.add_device("own", None, range(48), energy_kwh=0.6)
        world.add_line(str(Decimal("17.3") * factor))
        world.add_rate_card(
            purchase_price=30000 * factor, depreciation_hours=26000, energy_price_per_kwh=Decimal("0.3") * factor, pue=1.3
        )
        return costs(world, "gpu_id || cost_source")

    once, twice = total(1), total(2)
    assert once.keys() == twice.keys()
    for what, (source, cost) in once.items():
        assert cost is not None
        assert twice[what][0] == source
        # each of 24 hours is rounded to the micro-unit
        assert twice[what][1] == pytest.approx(2 * cost, abs=Decimal("0.000048"))


def test_an_unused_commitment_is_spread_over_its_hours(world: World) -> None:
    world.add_device("g1", "i-1", range(24))
    world.add_line("24", commitment_discount_id="ri-1", commitment_discount_status="Used")
    world.add_line("10", resource=None, commitment_discount_id="ri-1", commitment_discount_status="Unused")
    world.build(*DEVICE_COST_MODELS)
    hours = world.rows("select cost from int_commitment_unused_hours order by hour_start_at")
    assert [row["cost"] for row in hours] == [Decimal("0.416667")] * 16 + [Decimal("0.416666")] * 8


def test_a_price_that_lands_later_fills_the_days_before(world: World) -> None:
    """Case D08: the cost of day 1 is null until the price is known, then filled by the rebuild of the days it is in force."""
    world.add_device("g1", None, range(48))
    assert costs(world) == {"g1": ("unpriced", None)}
    world.add_rate_card(cost_per_gpu_hour="2", valid_from=DAY - timedelta(days=900), valid_to=DAY + timedelta(hours=24))
    world.build("int_exchange_rates", "int_price_changes")
    change = world.one("select started_at, ended_at from int_price_changes")
    assert change == {"started_at": DAY - timedelta(days=900), "ended_at": DAY + timedelta(days=1)}
    world.rebuild_days(DAY.date(), models=DEVICE_COST_MODELS)
    rows = world.rows("select usage_date, sum(cost) as cost from int_device_hour_costs group by usage_date order by usage_date")
    assert [row["cost"] for row in rows] == [48, None]
