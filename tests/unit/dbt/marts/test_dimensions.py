"""The calendar, the states, and the dimensions that name what landed."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.unit.dbt.harness import Harness
from tests.unit.dbt.marts.inputs import give

#: semantics 5, in order
STATES = {
    "out_of_service": False,
    "unallocated": True,
    "borrowed": False,
    "suspended": True,
    "unobserved": False,
    "overprovisioned": True,
    "unbalanced": True,
    "pipeline_waiting": True,
    "reserved_memory": True,
    "idle_compute": True,
    "throttled": True,
    "oversized": True,
    "underfilled": True,
    "productive": False,
    "commitment_unused": True,
}


def test_the_calendar_has_one_meaning_of_week_and_month(harness: Harness) -> None:
    """Case D14: every day against Python's own ISO calendar, whatever zone the session is in (case F10)."""
    rows = harness.run("dim_date")
    assert len(rows) == 10_000
    for number, row in enumerate(rows):
        day = date(2010, 1, 4) + timedelta(days=number)
        year, week, weekday = day.isocalendar()
        assert row["usage_date"] == day
        assert (row["week"], row["day_of_week"], row["day_name"]) == (f"{year}-W{week:02d}", weekday, f"{day:%A}")
        assert row["week_start_date"] == day - timedelta(days=weekday - 1)
        assert (row["month"], row["month_start_date"]) == (f"{day:%Y-%m}", day.replace(day=1))
        assert row["month_end_date"] == (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        assert row["quarter"] == f"{day.year}-Q{(day.month + 2) // 3}"


def test_states_are_those_of_the_semantics_in_their_order(harness: Harness) -> None:
    give(harness)
    rows = harness.rows("select * from dim_states order by state_order")
    assert {row["state"]: row["is_ghost"] for row in rows} == STATES
    assert [row["state"] for row in rows] == list(STATES)
    assert [row["state_order"] for row in rows] == list(range(1, 16))


@pytest.mark.parametrize(
    ("landed", "catalogue_model", "memory_gib"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", 80),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 80),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL", 94),
        ("NVIDIA H200", "NVIDIA H200", 141),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 40),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe", 80),
        ("a100_80", "NVIDIA A100-SXM4-80GB", 80),
        ("a100", "NVIDIA A100", None),
        ("NVIDIA RTX A1000", "unknown", None),
        ("A10", "NVIDIA A10", 24),
        ("NVIDIA A10G", "NVIDIA A10G", 24),
        ("a40", "NVIDIA A40", 48),
        ("NVIDIA L4", "NVIDIA L4", 24),
        ("NVIDIA L40S", "NVIDIA L40S", 48),
        ("Tesla T4", "Tesla T4", 16),
        ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB", 32),
        ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2080 Ti", 11),
        ("NVIDIA GeForce RTX 2080 SUPER", "NVIDIA GeForce RTX 2080 SUPER", 8),
        ("AMD Instinct MI300X", "AMD Instinct MI300X", 192),
    ],
)
def test_names_find_their_catalogue_entry(harness: Harness, landed: str, catalogue_model: str, memory_gib: int | None) -> None:
    harness.give_seed("gpu_models")
    give(harness, dim_gpus=[{"gpu_id": "g", "cluster": "c", "gpu_model": landed}])
    row = next(row for row in harness.run("dim_gpu_models") if row["gpu_model"] == landed)
    assert row["catalogue_model"] == catalogue_model
    assert row["memory_bytes"] == (None if memory_gib is None else memory_gib * 1024**3)


def test_what_the_cards_say_of_their_memory_wins(harness: Harness) -> None:
    harness.give_seed("gpu_models")
    give(harness, dim_gpus=[{"gpu_id": "g", "cluster": "c", "gpu_model": "NVIDIA H200", "memory_bytes": 150_754_820_096}])
    row = next(row for row in harness.run("dim_gpu_models") if row["gpu_model"] == "NVIDIA H200")
    assert row["memory_bytes"] == 150_754_820_096


def test_a_name_that_only_the_past_knows_is_a_member_without_cards(harness: Harness) -> None:
    """A card renamed by its driver, or one id in two clusters: the hours of then stand under the name of then."""
    harness.give_seed("gpu_models")
    give(
        harness,
        dim_gpus=[{"gpu_id": "g", "cluster": "c", "gpu_model": "NVIDIA H100 80GB HBM3"}],
        dim_gpu_history=[{"gpu_id": "g", "gpu_model": name} for name in ("NVIDIA L40S", "NVIDIA H100 80GB HBM3")],
        int_slot_spans=[{"gpu_id": "g", "gpu_model": "a100_80"}],
    )
    rows = {row["gpu_model"]: (row["gpu_count"], row["catalogue_model"]) for row in harness.run("dim_gpu_models")}
    assert rows == {
        "NVIDIA H100 80GB HBM3": (1, "NVIDIA H100 80GB HBM3"),
        "NVIDIA L40S": (0, "NVIDIA L40S"),
        "a100_80": (0, "NVIDIA A100-SXM4-80GB"),
        "unknown": (0, "unknown"),
    }


def test_a_cluster_of_which_only_a_log_or_a_price_list_came_is_a_member(harness: Harness) -> None:
    give(
        harness,
        fct_inference_hourly=[{"cluster": "litellm", "model": "m"}],
        fct_collection_runs=[{"collection_run_id": "1", "cluster": "price-lists"}],
    )
    assert {row["cluster"] for row in harness.run("dim_clusters")} == {"litellm", "price-lists", "unallocated", "unknown"}


def test_profiles_name_their_compute_slices_and_fit_their_card(harness: Harness) -> None:
    harness.give_seed("mig_profiles")
    harness.give_seed("gpu_models")
    profiles = harness.rows("select * from mig_profiles")
    assert all(row["mig_profile"].startswith(f"{row['compute_slices']}g.") for row in profiles)
    whole = {row["mig_family"] for row in profiles if row["compute_slices"] == row["card_compute_slices"]}
    assert whole == {row["mig_family"] for row in profiles}, "each family has the profile of the whole card"
    families = {row["mig_family"] for row in harness.rows("select distinct mig_family from gpu_models where mig_family <> ''")}
    assert families == whole


def test_a_cluster_that_only_a_scheduler_knows_is_a_member(harness: Harness) -> None:
    give(harness, dim_runs=[{"run_id": "r", "cluster": "slurm-only"}], dim_gpus=[{"gpu_id": "g", "cluster": "c"}])
    rows = {row["cluster"]: (row["gpu_count"], row["run_count"], row["is_special"]) for row in harness.run("dim_clusters")}
    assert rows == {
        "slurm-only": (0, 1, False),
        "c": (1, 0, False),
        "unallocated": (0, 0, True),
        "unknown": (0, 0, True),
    }


def test_models_are_those_that_usage_or_workloads_name(harness: Harness) -> None:
    give(
        harness,
        dim_workloads=[{"workload_id": "w", "model": "llama"}, {"workload_id": "v", "model": None}],
        fct_inference_hourly=[{"model": "qwen"}],
    )
    assert {row["model"]: row["workload_count"] for row in harness.run("dim_models")} == {"llama": 1, "qwen": 0, "unknown": 0}
