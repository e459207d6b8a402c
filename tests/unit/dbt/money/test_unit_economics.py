"""What tokens and requests cost."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.dbt.money.world import DAY, DEVICE_COST_MODELS, UNIT_COST_MODELS, World


def serving_world(*hourly_costs: str | None, workload: str = "chat") -> World:
    """One service on one GPU; what each of its hours costs (None: no price)."""
    world = World()
    world.add_device("g1", None, range(len(hourly_costs)))
    world.build(*DEVICE_COST_MODELS)
    workload_id = world.add_service(workload, hours=len(hourly_costs))
    for hour, cost in enumerate(hourly_costs):
        world.add_ledger("g1", hour, (workload_id, "productive", 60), cost=cost)
    return world


def economics(world: World) -> list[dict[str, Any]]:
    world.build(*UNIT_COST_MODELS)
    return world.rows("select * from mart_unit_economics_daily order by usage_date, workload_id, model, currency")


def test_blended_input_and_output_cost_of_a_million_tokens() -> None:
    """Case E04 and semantics 8: 3.20 $, 12,000,000 prompt tokens of which 50,000 cached, 3,000,000 output, equal phases."""
    world = serving_world("3.20")
    world.add_usage(
        job_id="j1",
        prompt_tokens=12_000_000,
        cached_prompt_tokens=50_000,
        output_tokens=3_000_000,
        prefill_seconds=900.0,
        decode_seconds=900.0,
    )
    (row,) = economics(world)
    assert row["cost_per_million_tokens"] == Decimal("0.213333")
    assert row["cost_per_million_input_tokens"] == Decimal("0.133891")
    assert row["cost_per_million_output_tokens"] == Decimal("0.533333")
    assert row["token_cost_method"] == "phase_time"
    assert row["null_reason"] is None


def test_cost_per_token_is_a_ratio_of_sums() -> None:
    """Case E06: 4 $ for 1 M tokens and 4 $ for 9 M are 0.80, not 2.22."""
    world = serving_world("4", "4")
    world.add_usage(minute=0, job_id="j1", output_tokens=1_000_000)
    world.add_usage(minute=60, job_id="j1", output_tokens=9_000_000)
    (row,) = economics(world)
    assert row["cost_per_million_tokens"] == Decimal("0.8")


def test_two_dollars_fifty_an_hour_at_fifty_tokens_a_second() -> None:
    """Case D13: 13.8889, where 0.14 has been printed."""
    world = serving_world("2.50")
    world.add_usage(job_id="j1", output_tokens=50 * 3600)
    (row,) = economics(world)
    assert row["cost_per_million_tokens"] == Decimal("13.888889")
    assert row["tokens_per_gpu_hour"] == 180_000


def test_a_hundred_dollars_for_ten_million_tokens_whatever_the_tax(world: World) -> None:
    """Case D04."""
    world.add_device("g1", "i-1", [0])
    world.add_line("100", lasts=timedelta(hours=1))
    world.add_line("20", category="Tax", resource=None)
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g1", 0, (world.add_service(hours=1), "productive", 60))
    world.add_usage(job_id="j1", output_tokens=10_000_000)
    (row,) = economics(world)
    assert row["cost_per_million_tokens"] == 10


def test_without_tokens_the_cost_stays_and_the_ratio_is_null() -> None:
    """Case E05: DuckDB would say infinity."""
    world = serving_world("2.00")
    world.add_usage(job_id="j1", prompt_tokens=0, output_tokens=0)
    (row,) = economics(world)
    assert row["allocation_cost"] == 2
    assert row["cost_per_million_tokens"] is None
    assert row["cost_per_request"] is None
    assert row["null_reason"] == "no_tokens"


def test_a_service_that_no_telemetry_speaks_of_keeps_its_cost() -> None:
    world = serving_world("2.00")
    (row,) = economics(world)
    assert (row["model"], row["allocation_cost"], row["null_reason"]) == ("m", 2, "no_tokens")


def test_idle_hours_are_part_of_what_tokens_cost() -> None:
    world = serving_world("4", "4")
    world.add_usage(minute=0, job_id="j1", output_tokens=1_000_000)
    (row,) = economics(world)
    assert row["cost_per_million_tokens"] == 8


def test_an_output_token_weighs_two_and_a_half_prompt_tokens_where_phases_are_not_timed() -> None:
    world = serving_world("7")
    world.add_usage(job_id="j1", prompt_tokens=1_000_000, output_tokens=1_000_000)
    (row,) = economics(world)
    assert (row["cost_per_million_input_tokens"], row["cost_per_million_output_tokens"]) == (2, 5)
    assert row["token_cost_method"] == "weighted_tokens"


def test_an_hour_without_tokens_follows_the_split_of_the_days_other_hours() -> None:
    world = serving_world("7", "7")
    world.add_usage(minute=0, job_id="j1", prompt_tokens=1_000_000, output_tokens=1_000_000)
    (row,) = economics(world)
    assert (row["cost_per_million_input_tokens"], row["cost_per_million_output_tokens"]) == (4, 10)


def test_hours_split_by_different_methods_say_mixed() -> None:
    world = serving_world("7", "10")
    world.add_usage(minute=0, job_id="j1", prompt_tokens=1_000_000, output_tokens=1_000_000)
    world.add_usage(
        minute=60, job_id="j1", prompt_tokens=1_000_000, output_tokens=1_000_000, prefill_seconds=4.0, decode_seconds=6.0
    )
    (row,) = economics(world)
    assert (row["cost_per_million_input_tokens"], row["cost_per_million_output_tokens"]) == (3, Decimal("5.5"))
    assert row["token_cost_method"] == "mixed"


def test_embeddings_have_no_output_to_pay_for() -> None:
    world = serving_world("2")
    world.add_usage(job_id="j1", prompt_tokens=1_000_000, output_tokens=0)
    (row,) = economics(world)
    assert row["cost_per_million_input_tokens"] == 2
    assert row["cost_per_million_output_tokens"] is None
    assert row["null_reason"] is None


def test_requests_cost_by_all_and_by_the_successful_ones() -> None:
    world = serving_world("9")
    world.add_usage(job_id="j1", request_count=1000, failed_request_count=100, output_tokens=1)
    (row,) = economics(world)
    assert row["cost_per_request"] == Decimal("0.009")
    assert row["cost_per_thousand_requests"] == 10
    assert row["requests_per_gpu_hour"] == 1000


def test_the_three_bases_stand_beside_each_other() -> None:
    world = World()
    world.add_device("g1", None, [0])
    world.add_device("g2", None, [0])
    world.build(*DEVICE_COST_MODELS)
    workload_id = world.add_service(hours=1)
    world.add_ledger("g1", 0, (workload_id, "productive", 15), (workload_id, "idle_compute", 45), cost="4")
    world.add_ledger("g2", 0, ("unallocated", "unallocated", 60), cost="4")
    world.add_usage(job_id="j1", output_tokens=1_000_000)
    (row,) = economics(world)
    assert (row["allocation_cost"], row["usage_cost"], row["fully_loaded_cost"]) == (4, 1, 8)
    assert row["cost_per_million_tokens"] == 4
    assert row["usage_cost_per_million_tokens"] == 1
    assert row["fully_loaded_cost_per_million_tokens"] == 8


def test_below_ninety_five_percent_priced_nothing_is_said_per_token() -> None:
    world = serving_world(*["1"] * 9)
    world.add_device("g2", None, [0])
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g2", 0, ("a/-/chat", "productive", 60))
    world.add_usage(minute=60, job_id="j1", output_tokens=1_000_000)
    usd, unknown = economics(world)
    assert (usd["held_gpu_hours"], usd["priced_gpu_hours"], usd["allocation_cost"]) == (9, 9, 9)
    assert (unknown["held_gpu_hours"], unknown["priced_gpu_hours"], unknown["allocation_cost"]) == (1, 0, None)
    assert [row["null_reason"] for row in (usd, unknown)] == ["unpriced", "unpriced"]
    assert usd["cost_per_million_tokens"] is None


def test_cost_and_tokens_are_those_of_the_hours_that_are_wholly_priced() -> None:
    world = serving_world(*["1"] * 24)
    world.add_device("g2", None, [0])
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g2", 0, ("a/-/chat", "productive", 60))
    for hour in range(24):
        world.add_usage(minute=60 * hour, job_id="j1", output_tokens=1_000_000)
    usd, unknown = economics(world)
    # 24 of 25 GPU-hours are priced; the first hour is left out, its tokens with it
    assert usd["cost_per_million_tokens"] == 1
    assert usd["output_tokens"] + unknown["output_tokens"] == 24_000_000
    assert (unknown["cost_per_million_tokens"], unknown["null_reason"]) == (None, "unpriced")


def test_hours_and_tokens_are_not_repeated_per_currency() -> None:
    world = serving_world("2")
    world.add_device("g2", None, [0])
    world.build(*DEVICE_COST_MODELS)
    world.add_ledger("g2", 0, ("a/-/chat", "productive", 60), cost="3")
    world.connection.execute("update fct_gpu_ledger_hourly set currency = 'EUR' where gpu_id = 'g2'")
    world.add_usage(job_id="j1", request_count=3, output_tokens=1_000_001)
    eur, usd = economics(world)
    assert (eur["held_gpu_hours"], usd["held_gpu_hours"]) == (1, 1)
    assert eur["output_tokens"] + usd["output_tokens"] == 1_000_001
    assert eur["request_count"] + usd["request_count"] == 3
    assert (eur["cost_per_million_tokens"], usd["cost_per_million_tokens"]) == (
        pytest.approx(Decimal(6), abs=Decimal("0.0001")),
        pytest.approx(Decimal(4), abs=Decimal("0.0001")),
    )


def test_models_on_one_server_share_its_hours_and_money_by_phase_time() -> None:
    world = serving_world("1.000001")
    world.add_usage(job_id="j1", model="big", output_tokens=10, prefill_seconds=100.0, decode_seconds=500.0)
    world.add_usage(job_id="j1", model="small", output_tokens=1_000, prefill_seconds=100.0, decode_seconds=200.0)
    big, small = economics(world)
    assert (big["allocation_cost"], small["allocation_cost"]) == (Decimal("0.666667"), Decimal("0.333334"))
    assert big["held_gpu_hours"] == pytest.approx(2 / 3)
    assert big["held_gpu_hours"] + small["held_gpu_hours"] == pytest.approx(1)


def test_models_share_by_weighted_tokens_where_one_of_them_is_not_timed() -> None:
    world = serving_world("10")
    world.add_usage(job_id="j1", model="big", prompt_tokens=500, output_tokens=100, prefill_seconds=1.0, decode_seconds=1.0)
    world.add_usage(job_id="j1", model="small", output_tokens=100)
    big, small = economics(world)
    assert (big["allocation_cost"], small["allocation_cost"]) == (Decimal("7.5"), Decimal("2.5"))


def test_an_hour_in_which_no_model_worked_follows_the_day() -> None:
    world = serving_world("4", "4")
    world.add_usage(job_id="j1", model="big", output_tokens=300)
    world.add_usage(job_id="j1", model="small", output_tokens=100)
    big, small = economics(world)
    assert (big["allocation_cost"], small["allocation_cost"]) == (6, 2)


def test_usage_of_nobody_has_tokens_and_no_cost() -> None:
    world = World()
    world.build(*DEVICE_COST_MODELS)
    world.add_usage(output_tokens=7)
    (row,) = economics(world)
    assert (row["output_tokens"], row["held_gpu_hours"], row["allocation_cost"]) == (7, 0, None)
    assert (row["currency"], row["null_reason"]) == ("unknown", "unpriced")


def test_without_any_telemetry_the_tables_are_there_and_empty() -> None:
    world = World()
    world.build(*DEVICE_COST_MODELS)
    assert economics(world) == []
    assert world.value("select count(*) from fct_inference_hourly") == 0


def test_a_list_price_in_another_currency_is_compared_at_the_rate_of_the_day() -> None:
    """4 $ for 1 M tokens against 5 EUR and 4.20 CHF: at 1.10 $ and none 5.50 $; a franc at 1.20 $ makes it 5.04 $."""
    world = serving_world("4")
    world.add_usage(job_id="j1", output_tokens=1_000_000)
    listed: dict[str, Any] = {"model": "m", "valid_from": DAY, "landed_at": DAY}
    world.add("stg_landing__list_prices", provider="p", currency="EUR", output_cost_per_million_tokens=Decimal(5), **listed)
    world.add("stg_landing__list_prices", provider="q", currency="CHF", output_cost_per_million_tokens=Decimal("4.2"), **listed)
    (row,) = economics(world)
    assert (row["list_cost"], row["allocation_cost_reporting"], row["reporting_currency"]) == (None, None, "unknown")
    rate: dict[str, Any] = {"reporting_currency": "USD", "valid_from": DAY, "landed_at": DAY}
    world.add("stg_landing__exchange_rates", currency="EUR", rate=1.1, **rate)
    (row,) = economics(world)
    assert (row["list_cost"], row["list_currency"], row["cost_to_list_ratio"]) == (Decimal("5.5"), "EUR", pytest.approx(4 / 5.5))
    assert (row["allocation_cost_reporting"], row["reporting_currency"]) == (4, "USD")
    world.add("stg_landing__exchange_rates", currency="CHF", rate=1.2, **rate)
    (row,) = economics(world)
    assert (row["list_cost"], row["list_currency"], row["list_provider"]) == (Decimal("5.04"), "CHF", "q")


def histogram(*buckets: tuple[float, float]) -> list[dict[str, float]]:
    return [{"le_seconds": boundary, "count": count} for boundary, count in buckets]


def test_percentiles_come_from_merged_histograms() -> None:
    """100 quick and 100 slow answers: the p50 is where they meet, not the mean of two p50s."""
    world = serving_world("1")
    world.add_usage(
        job_id="j1", minute=0, lasts=30, latency_histogram=histogram((1, 100), (2, 100), (4, 100), (float("inf"), 100))
    )
    world.add_usage(job_id="j1", minute=30, lasts=30, latency_histogram=histogram((1, 0), (2, 0), (4, 100), (float("inf"), 100)))
    (row,) = economics(world)
    assert row["latency_p50_seconds"] == 1.0
    assert row["latency_p95_seconds"] == pytest.approx(2 + 2 * 90 / 100)
    assert row["latency_p99_seconds"] == pytest.approx(2 + 2 * 98 / 100)


def test_histograms_with_other_boundaries_merge_along_straight_lines() -> None:
    world = serving_world("1")
    world.add_usage(job_id="j1", server="s1", latency_histogram=histogram((2, 100)))
    world.add_usage(job_id="j1", server="s2", latency_histogram=histogram((1, 50), (2, 100)))
    (row,) = economics(world)
    # up to 1 s: 50 of the first, taken halfway through its bucket, and 50 of the second
    assert row["latency_p50_seconds"] == 1.0


def test_a_percentile_above_the_last_boundary_is_not_known() -> None:
    world = serving_world("1")
    world.add_usage(job_id="j1", latency_histogram=histogram((1, 90), (float("inf"), 100)))
    (row,) = economics(world)
    assert row["latency_p50_seconds"] == pytest.approx(50 / 90)
    assert row["latency_p95_seconds"] is None


def test_without_histograms_the_gateway_tells_the_latency() -> None:
    world = serving_world("1")
    for number in range(1, 102):
        world.add(
            "stg_landing__inference_requests",
            cluster="a",
            request_id=str(number),
            started_at=DAY,
            workload="chat",
            model="m",
            output_tokens=1,
            latency_ms=number * 10.0,
        )
    (row,) = economics(world)
    assert row["latency_p50_seconds"] == pytest.approx(0.51)
    assert row["latency_p95_seconds"] == pytest.approx(0.96)


def test_adapters_that_only_the_gateway_names_share_what_the_servers_count() -> None:
    """The server counts 300 + 100 tokens of the model; the log names two adapters, by weight 3 : 1 (semantics 8)."""
    world = serving_world("4")
    world.add_usage(job_id="j1", request_count=4, prompt_tokens=300, output_tokens=100)
    for number, (adapter, prompt) in enumerate([("legal", 300), (None, 100)]):
        world.add(
            "stg_landing__inference_requests",
            cluster="a",
            request_id=f"r{number}",
            started_at=DAY,
            workload="chat",
            model="m",
            adapter=adapter,
            prompt_tokens=prompt,
        )
    (model,) = economics(world)
    rows = world.rows("select * from mart_adapter_unit_economics_daily order by adapter")
    assert [(row["adapter"], row["allocation_cost"], row["prompt_tokens"]) for row in rows] == [
        ("legal", Decimal(3), 225),
        ("none", Decimal(1), 75),
    ]
    for measure in ("request_count", "output_tokens", "tokens_all", "allocation_cost", "fully_loaded_cost"):
        assert sum(row[measure] for row in rows) == model[measure], measure


def test_adapters_share_the_energy_and_the_cost_of_input_and_output() -> None:
    """8 $ and 0.8 kWh; by weighted tokens 300 : 100 · (2.5 + 0.5): `sql` has 6 $, all of it input, the model 2 $, 5 to 1."""
    world = serving_world("8")
    world.connection.execute("update fct_gpu_ledger_hourly set energy_kwh = 0.8")
    world.add_usage(job_id="j1", adapter="sql", prompt_tokens=900_000, output_tokens=0)
    world.add_usage(job_id="j1", prompt_tokens=50_000, output_tokens=100_000)
    world.build(*UNIT_COST_MODELS)
    model, adapter = world.rows("select * from mart_adapter_unit_economics_daily order by adapter")
    assert (adapter["adapter"], adapter["allocation_cost"], model["allocation_cost"]) == ("sql", 6, 2)
    assert (adapter["energy_kwh"], model["energy_kwh"]) == (pytest.approx(0.6), pytest.approx(0.2))
    assert adapter["energy_kwh_per_million_tokens"] == pytest.approx(0.6 / 0.9)
    assert (adapter["cost_per_million_input_tokens"], adapter["cost_per_million_output_tokens"]) == (Decimal("6.666667"), None)
    assert model["cost_per_million_input_tokens"] == round(Decimal(2) / 6 / Decimal("0.05"), 6)
    assert model["cost_per_million_output_tokens"] == round(Decimal(2) * 5 / 6 / Decimal("0.1"), 6)


def test_a_model_without_adapters_has_no_row_of_adapters() -> None:
    world = serving_world("4")
    world.add_usage(job_id="j1", request_count=4, prompt_tokens=300, output_tokens=100)
    economics(world)
    assert world.rows("select * from mart_adapter_unit_economics_daily") == []


def test_energy_of_half_the_time_is_no_energy_per_token() -> None:
    """0.5 kWh of one of two hours: the kWh stay, per token would be half of the truth."""
    world = serving_world("4", "4")
    world.add_usage(job_id="j1", lasts=120, prompt_tokens=1_000_000)
    world.connection.execute("update fct_gpu_ledger_hourly set energy_kwh = 0.5 where hour_start_at = timestamp '2025-10-01'")
    (row,) = economics(world)
    assert (row["energy_kwh"], row["energy_measured_gpu_hours"]) == (0.5, 1.0)
    assert row["energy_kwh_per_million_tokens"] is None
    assert row["co2e_grams"] is None
    world.connection.execute("update fct_gpu_ledger_hourly set energy_kwh = 0.5")
    world.add("stg_landing__carbon_intensities", cluster="a", grams_co2e_per_kwh=300, pue=1.2, valid_from=DAY)
    (row,) = economics(world)
    assert (row["energy_kwh_per_million_tokens"], row["co2e_grams"]) == (1.0, 360.0)
