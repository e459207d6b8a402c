"""Allocation, usage and fully loaded cost of workloads."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from tests.unit.dbt.money.world import DEVICE_COST_MODELS, World

Bases = dict[str, tuple[Decimal, Decimal, Decimal]]


def bases(world: World, where: str = "true") -> Bases:
    world.build("int_ledger_cost_bases_hourly")
    rows = world.rows(
        f"""
        select workload_id, sum(allocation_cost) as allocation, sum(usage_cost) as usage, sum(fully_loaded_cost) as loaded
        from int_ledger_cost_bases_hourly where {where} group by workload_id
        """
    )
    return {row["workload_id"]: (row["allocation"], row["usage"], row["loaded"]) for row in rows}


def priced_world(price: str = "2", gpus: tuple[str, ...] = ("g1",), hours: int = 1, **device: Any) -> World:
    world = World()
    for gpu in gpus:
        world.add_device(gpu, None, range(hours), **device)
    world.add_rate_card(cost_per_gpu_hour=price)
    world.build(*DEVICE_COST_MODELS)
    return world


def test_ten_hours_at_two_dollars_busy_for_three_of_them() -> None:
    world = priced_world(hours=10)
    for hour in range(10):
        world.add_ledger("g1", hour, ("a/-/w", "productive" if hour < 3 else "idle_compute", 60))
    assert bases(world) == {"a/-/w": (20, 6, 20)}
    assert world.value("select sum(cost) from fct_gpu_ledger_hourly where state <> 'productive'") == 14


def test_what_nobody_held_is_loaded_onto_the_holders_of_the_hour_by_their_allocation() -> None:
    world = priced_world(gpus=("g1", "g2", "g3", "g4"))
    world.add_ledger("g1", 0, ("a/-/v", "productive", 60))
    world.add_ledger("g2", 0, ("a/-/w", "productive", 45), ("unallocated", "unallocated", 15))
    world.add_ledger("g3", 0, ("unallocated", "unallocated", 60))
    world.add_ledger("g4", 0, ("unallocated", "out_of_service", 60))
    found = bases(world)
    # the pool of 4.50 is shared 2.00 : 1.50
    assert found["a/-/v"] == (2, 2, Decimal("4.571429"))
    assert found["a/-/w"] == (Decimal("1.5"), Decimal("1.5"), Decimal("3.428571"))
    assert sum(loaded for _, _, loaded in found.values()) == 8


def test_in_an_hour_without_holders_the_cost_stays_unallocated() -> None:
    world = priced_world(hours=2)
    world.add_ledger("g1", 0, ("unallocated", "unallocated", 60))
    world.add_ledger("g1", 1, ("a/-/w", "productive", 60))
    assert bases(world) == {"unallocated": (0, 0, 2), "a/-/w": (2, 2, 2)}


def test_another_gpu_model_or_cluster_does_not_pay_for_idle_capacity() -> None:
    world = World()
    world.add_device("g1", None, [0])
    world.add_device("g2", None, [0], gpu_model="L4")
    world.add_device("g3", None, [0], cluster="b")
    world.add_rate_card(cost_per_gpu_hour="2")
    world.add_rate_card(cost_per_gpu_hour="1", gpu_model="L4")
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g1", 0, ("a/-/w", "productive", 60))
    world.add_ledger("g2", 0, ("unallocated", "unallocated", 60))
    world.add_ledger("g3", 0, ("unallocated", "unallocated", 60))
    assert bases(world) == {"a/-/w": (2, 2, 2), "unallocated": (0, 0, 3)}


def test_borrowed_time_is_loaded_onto_the_holders_of_its_slot() -> None:
    """One GPU time-sliced by 4 at 0.9, one pod: 0.25 held, 0.65 borrowed, 0.10 unallocated."""
    world = priced_world(price="4", gpus=("g1", "g2"))
    world.add_ledger("g1", 0, ("a/-/pod", "productive", 15), ("unallocated", "borrowed", 39), ("unallocated", "unallocated", 6))
    world.add_ledger("g2", 0, ("a/-/other", "productive", 60))
    # 1.00 held + 2.60 borrowed + a fifth of the 0.40 nobody asked for
    assert bases(world) == {
        "a/-/pod": (1, 1, Decimal("3.68")),
        "a/-/other": (4, 4, Decimal("4.32")),
    }


def test_borrowed_time_falls_to_several_holders_by_their_shares() -> None:
    world = priced_world(price="4")
    world.add_ledger("g1", 0, ("a/-/x", "productive", 10), ("a/-/y", "productive", 20), ("unallocated", "borrowed", 30))
    found = bases(world)
    assert found["a/-/x"] == (Decimal("0.666667"), Decimal("0.666667"), Decimal("1.333334"))
    assert sum(loaded for _, _, loaded in found.values()) == 4


def test_unused_commitments_are_loaded_onto_the_same_provider_and_stay_where_nothing_is_allocated(world: World) -> None:
    world.add_device("g1", "i-1", [0, 1])
    world.add_device("g2", None, [0, 1], provider="on-premises", gpu_model="L4")
    world.add_rate_card(cost_per_gpu_hour="1", gpu_model="L4")
    world.add_line("4", lasts=timedelta(hours=2), commitment_discount_id="ri-1", commitment_discount_status="Used")
    world.add_line(
        "1", lasts=timedelta(hours=2), resource=None, commitment_discount_id="ri-1", commitment_discount_status="Unused"
    )
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g1", 0, ("a/-/cloud", "productive", 60))
    world.add_ledger("g1", 1, ("unallocated", "unallocated", 60))
    for hour in (0, 1):
        world.add_ledger("g2", hour, ("a/-/own", "productive", 60))
    assert bases(world) == {
        "a/-/cloud": (2, 2, Decimal("2.5")),
        "a/-/own": (2, 2, 2),
        "unallocated": (0, 0, Decimal("2.5")),
    }
    left = world.one("select cluster, fully_loaded_cost from int_ledger_cost_bases_hourly where cluster = 'unallocated'")
    assert left == {"cluster": "unallocated", "fully_loaded_cost": Decimal("0.5")}


def test_time_without_a_price_has_hours_and_no_cost() -> None:
    world = World()
    world.add_device("g1", None, [0])
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g1", 0, ("a/-/w", "productive", 60))
    assert bases(world) == {"a/-/w": (None, None, None)}
    assert world.value("select currency || held_us from int_ledger_cost_bases_hourly") == "unknown3600000000"


def test_all_fully_loaded_costs_add_up_to_the_ledger_and_the_unused_commitments(world: World) -> None:
    for gpu in ("g1", "g2", "g3"):
        world.add_device(gpu, "i-1", range(5))
    world.add_line("10.000001", lasts=timedelta(hours=5), commitment_discount_id="ri-1", commitment_discount_status="Used")
    world.add_line(
        "0.777777", lasts=timedelta(hours=5), resource=None, commitment_discount_id="ri-1", commitment_discount_status="Unused"
    )
    world.build(*DEVICE_COST_MODELS)
    for hour in range(5):
        world.add_ledger("g1", hour, ("a/-/x", "productive", 60))
        world.add_ledger("g2", hour, ("a/-/y", "idle_compute", 60))
        world.add_ledger("g3", hour, ("unallocated", "unallocated", 60))
    assert sum(loaded for _, _, loaded in bases(world).values()) == Decimal("10.777778")
