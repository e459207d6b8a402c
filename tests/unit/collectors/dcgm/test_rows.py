from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.dcgm.parse import parse_scrape
from collectors.dcgm.rows import to_rows
from collectors.metrics.counters import grown_within, increases
from collectors.mig import card_slices, compute_slices
from tests.unit.collectors.dcgm.scrapes import ENERGY, GRAPHICS, SLICE, SM, UTIL, WHOLE, scrape
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

NOON = datetime(2026, 11, 1, 12)
MINUTE = timedelta(minutes=1)


def landed(*scrapes: tuple[datetime, str], table: str = "gpu_samples") -> list[dict[str, Any]]:
    """The rows as they land: parsed, put in order and conformed."""
    readings = [reading for at, text in scrapes for reading in parse_scrape(text.encode(), f"{at}", at=at).readings]
    parsed = to_rows(readings, cluster="c", interval=MINUTE)
    frame = parsed.frames().get(table, pl.DataFrame())
    conformed = conform(TABLES[table], frame, "a") if frame.height else None
    assert conformed is None or not conformed.rejects
    return conformed.rows.to_dicts() if conformed else []


def one(values: Mapping[str, float | str], labels: dict[str, str] = WHOLE, table: str = "gpu_samples") -> dict[str, Any]:
    (row,) = landed((NOON, scrape(values, labels)), table=table)
    return row


def test_percent_becomes_a_ratio_and_a_ratio_stays_one_whatever_the_help_says() -> None:
    row = one({UTIL: 70, SM: 0.999892, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.25, "DCGM_FI_PROF_DRAM_ACTIVE": 0.5})
    assert row["gpu_utilization_ratio"] == pytest.approx(0.7, abs=1e-12)
    assert (row["sm_active_ratio"], row["tensor_active_ratio"], row["dram_active_ratio"]) == (0.999892, 0.25, 0.5)


def test_memory_is_bytes_and_rates_over_the_interval_are_bytes() -> None:
    row = one({"DCGM_FI_DEV_FB_USED": 100, "DCGM_FI_DEV_FB_FREE": 900, "DCGM_FI_PROF_PCIE_RX_BYTES": 1_000})
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (100 << 20, 1000 << 20)
    assert row["pcie_rx_bytes"] == 60_000


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ({"FB_TOTAL": 15109, "FB_RESERVED": 15109}, 15109),
        ({"FB_USED": 0, "FB_FREE": 15109, "FB_RESERVED": 15109}, 15109),  # reserved is a copy of the total
        ({"FB_USED": 10, "FB_FREE": 80, "FB_RESERVED": 10}, 100),
        ({"FB_USED": 10, "FB_FREE": 80, "FB_TOTAL": 50}, 90),
        ({"FB_USED": 10}, None),
        ({"FB_USED": 10, "FB_FREE": 9223372036854775794}, None),
    ],
)
def test_memory_in_total_rests_on_the_fields_that_can_be_true(memory: dict[str, float], expected: int | None) -> None:
    row = one({SM: 0.5} | {f"DCGM_FI_DEV_{name}": value for name, value in memory.items()})
    assert row["memory_total_bytes"] == (None if expected is None else expected << 20)


@pytest.mark.parametrize("blank", [9223372036854775794, 9.223372036854775794e18, 2147483634, 140737488355330.0])
@pytest.mark.parametrize(
    ("field", "column"),
    [
        (UTIL, "gpu_utilization_ratio"),
        (SM, "sm_active_ratio"),
        ("DCGM_FI_DEV_FB_USED", "memory_used_bytes"),
        ("DCGM_FI_DEV_POWER_USAGE", "power_watts"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "clock_event_reasons"),
        ("DCGM_FI_DEV_XID_ERRORS", "xid"),
    ],
)
def test_a_blank_is_null_with_a_reason_in_every_unit(field: str, column: str, blank: float) -> None:
    """C01 and C07: DCGM's blanks are no measurements; scaled by 1 % or by 1 MiB they would pass for some."""
    row = one({GRAPHICS: 0.5, field: blank})
    assert row[column] is None
    assert f'"{column}": "not_supported"' in row["missing"]
    assert row["graphics_engine_active_ratio"] == 0.5


def test_what_may_not_be_read_says_so_and_nan_is_out_of_range() -> None:
    """C02: a reading without an answer is a gap, never 0."""
    row = one({UTIL: 2147483635, SM: "NaN", "DCGM_FI_DEV_GPU_TEMP": -5})
    assert (row["gpu_utilization_ratio"], row["sm_active_ratio"], row["temperature_celsius"]) == (None, None, None)
    assert row["missing"] == (
        '{"gpu_utilization_ratio": "not_permitted", "sm_active_ratio": "out_of_range", "temperature_celsius": "out_of_range"}'
    )


def test_activity_above_one_is_rejected_and_the_next_signal_stays() -> None:
    """A07: a slice reported SM activity 1.294."""
    row = one({SM: 1.294, GRAPHICS: 0.97}, SLICE)
    assert (row["sm_active_ratio"], row["graphics_engine_active_ratio"]) == (None, 0.97)
    assert row["missing"] == '{"sm_active_ratio": "out_of_range"}'


def test_a_single_scrape_stands_for_the_interval_before_it_and_has_no_energy() -> None:
    row = one({SM: 0.5, ENERGY: 6890956})
    assert (row["interval_start_at"], row["interval_ms"]) == (NOON - MINUTE, 60_000)
    assert row["energy_joules"] is None


def test_scrapes_of_one_call_stand_for_the_time_since_the_one_before_at_most_two_and_a_half_intervals() -> None:
    times = [NOON, NOON + timedelta(seconds=30), NOON + timedelta(minutes=10)]
    rows = landed(*((at, scrape({SM: 0.5})) for at in reversed(times)))
    assert [(row["interval_start_at"], row["interval_ms"]) for row in rows] == [
        (NOON - MINUTE, 60_000),
        (NOON, 30_000),
        (NOON + timedelta(minutes=7, seconds=30), 150_000),
    ]


def test_energy_is_what_the_counter_grew_by_and_a_reset_counts_from_zero() -> None:
    rows = landed(
        *(
            (NOON + MINUTE * number, scrape({ENERGY: value}))
            for number, value in enumerate((1_000_000, 1_200_000, 50_000, 150_000))
        )
    )
    assert [row["energy_joules"] for row in rows] == [None, 200.0, 50.0, 100.0]


def test_a_single_reading_that_drops_and_comes_back_is_left_out_and_nothing_is_lost() -> None:
    rows = landed(
        *((NOON + MINUTE * number, scrape({ENERGY: value})) for number, value in enumerate((100_000, 0, 160_000, 200_000)))
    )
    assert [row["energy_joules"] for row in rows] == [None, 30.0, 30.0, 40.0]


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=12))
def test_increases_are_never_negative_and_of_a_counter_without_drops_add_up_to_its_growth(values: list[int]) -> None:
    points = [(NOON + MINUTE * number, float(value)) for number, value in enumerate(values)]
    assert all(increase.amount >= 0 for increase in increases(points))
    rising = [(at, float(value)) for (at, _), value in zip(points, sorted(values), strict=True)]
    found = increases(rising)
    parts = [grown_within(found, start, end) for (start, _), (end, _) in pairwise(rising)]
    assert sum(part for part in parts if part is not None) == pytest.approx(max(values) - min(values))


def test_an_inventory_record_describes_the_slot() -> None:
    labels = SLICE | {"GPU_I_PROFILE": "1c.2g.10gb", "DCGM_FI_DRIVER_VERSION": "520.56.06", "pci_bus_id": "00000000:3B:00.0"}
    row = one(
        {"DCGM_FI_DEV_FB_USED": 13, "DCGM_FI_DEV_FB_FREE": 9843, "DCGM_FI_DEV_POWER_MGMT_LIMIT": 400}, labels, "gpu_inventory"
    )
    assert {name: row[name] for name in ("node", "gpu_uuid", "slot_uuid", "mig_profile", "compute_slices", "card_slices")} == {
        "node": "node7",
        "gpu_uuid": "GPU-1",
        "slot_uuid": "GPU-1/gi7",
        "mig_profile": "2g.10gb",
        "compute_slices": 2,
        "card_slices": 7,
    }
    assert (row["gpu_model"], row["memory_total_bytes"], row["power_limit_watts"]) == ("NVIDIA A100-SXM4-40GB", 9856 << 20, 400.0)
    assert (row["driver_version"], row["pci_bus_id"], row["seen_at"]) == ("520.56.06", "00000000:3B:00.0", NOON)


def test_inventory_is_repeated_only_when_the_layout_of_the_device_changes() -> None:
    split = "\n".join(scrape({GRAPHICS: 0.1}, SLICE | {"GPU_I_ID": number}) for number in ("7", "8"))
    texts = [scrape({SM: 0.1}), scrape({SM: 0.2}), split, split, scrape({SM: 0.3})]
    rows = landed(*((NOON + MINUTE * number, text) for number, text in enumerate(texts)), table="gpu_inventory")
    assert [
        (row["seen_at"], row["slot_uuid"]) for row in sorted(rows, key=lambda row: (row["seen_at"], row["slot_uuid"] or ""))
    ] == [
        (NOON, None),
        (NOON + 2 * MINUTE, "GPU-1/gi7"),
        (NOON + 2 * MINUTE, "GPU-1/gi8"),
        (NOON + 4 * MINUTE, None),
    ]


@pytest.mark.parametrize(
    ("profile", "slices"), [("1g.5gb", 1), ("1c.2g.10gb", 2), ("7g.80gb", 7), ("1g.10gb+me", 1), ("", None), ("whole", None)]
)
def test_slices_of_a_profile_are_those_of_its_gpu_instance(profile: str, slices: int | None) -> None:
    assert compute_slices(profile) == slices


@pytest.mark.parametrize(
    ("model", "slices"),
    [
        ("NVIDIA A30", 4),
        ("NVIDIA A100-SXM4-40GB", 7),
        ("NVIDIA H200 NVL", 7),
        ("NVIDIA B200", 7),
        ("NVIDIA GH200 480GB", 7),
        ("Tesla T4", None),
    ],
)
def test_slices_of_a_card_follow_its_model(model: str, slices: int | None) -> None:
    assert card_slices(model) == slices


def test_growth_that_no_gpu_can_have_is_left_out() -> None:
    """A counter that jumps by 400 MJ in a minute is wrong, whatever made it jump."""
    values = (1_000_000, 401_000_000_000, 401_000_020_000)
    rows = landed(*((NOON + MINUTE * number, scrape({ENERGY: value})) for number, value in enumerate(values)))
    assert [row["energy_joules"] for row in rows] == [None, None, 20.0]


def test_two_fields_for_one_column_fill_it_with_the_first_that_has_a_value() -> None:
    row = one({"DCGM_FI_DEV_POWER_USAGE": 140737488355330.0, "DCGM_FI_DEV_POWER_USAGE_INSTANT": 312.5})
    assert (row["power_watts"], row["missing"]) == (312.5, None)
    both = one({"DCGM_FI_DEV_POWER_USAGE": 300, "DCGM_FI_DEV_POWER_USAGE_INSTANT": 312.5})
    assert both["power_watts"] == 300.0


def test_throughput_that_nvml_measured_is_in_kilobytes_a_second() -> None:
    row = one({"DCGM_FI_DEV_PCIE_TX_THROUGHPUT": 5, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": 7, "DCGM_FI_PROF_PCIE_RX_BYTES": 9})
    assert (row["pcie_tx_bytes"], row["pcie_rx_bytes"]) == (5 * 1000 * 60, 9 * 60)


def test_fields_renamed_by_the_naming_standard_of_dcgm_4_6_fill_the_same_columns() -> None:
    """New names end in a unit that is not always the value's: GPU_UTIL_RATIO is a percentage as before."""
    old = {
        GRAPHICS: 0.5,
        SM: 0.4,
        UTIL: 70,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.3,
        "DCGM_FI_PROF_DRAM_ACTIVE": 0.2,
        "DCGM_FI_DEV_POWER_USAGE": 300,
        "DCGM_FI_DEV_GPU_TEMP": 60,
        "DCGM_FI_DEV_XID_ERRORS": 31,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 4,
    }
    new = {
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": 0.5,
        "DCGM_FI_PROF_SM_UTIL_RATIO": 0.4,
        "DCGM_FI_DEV_GPU_UTIL_RATIO": 70,
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO": 0.3,
        "DCGM_FI_PROF_DRAM_UTIL_RATIO": 0.2,
        "DCGM_FI_DEV_BOARD_POWER_WATTS": 300,
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS": 60,
        "DCGM_FI_DEV_XID_ERROR": 31,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4,
    }
    assert one(old) == one(new)
    labels = {"UUID": "GPU-1", "Hostname": "n", "DCGM_FI_DEV_GPU_NAME": "NVIDIA B200", "DCGM_FI_DEV_BOARD_SERIAL": "17"}
    described = one({"DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": 1000}, labels, table="gpu_inventory")
    assert (described["gpu_model"], described["serial"], described["power_limit_watts"]) == ("NVIDIA B200", "17", 1000.0)


def test_what_was_counted_over_the_interval_stands_over_what_was_measured_at_its_end() -> None:
    def counted(active: float, elapsed: float, sent: float) -> str:
        cycles = {"DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL": active, "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL": elapsed}
        return scrape(cycles | {"DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL": sent, "DCGM_FI_PROF_PCIE_TX_BYTES": 5, SM: 0.9})

    texts = [counted(100, 1000, 7000), counted(500, 2000, 8000), counted(2500, 3000, 8000), counted(3000, 4000, 9000)]
    rows = landed(*((NOON + MINUTE * number, text) for number, text in enumerate(texts)))
    # the first has nothing to count from, and more cycles than there were are nonsense
    assert [row["sm_active_ratio"] for row in rows] == [0.9, 0.4, 0.9, 0.5]
    assert [row["pcie_tx_bytes"] for row in rows] == [300, 1000, 0, 1000]
