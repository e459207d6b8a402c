"""Rule 12: which smaller profile of the card would have carried a day, and why none would."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.ledger.inputs import DAY, GB, MIDNIGHT, give, hold, minutes

MODELS: list[Row] = [
    {"gpu_model": "H100", "mig_family": "h100_80gb", "memory_bytes": 80 * GB},
    {"gpu_model": "A100", "mig_family": "a100_80gb", "memory_bytes": 80 * GB},
    {"gpu_model": "L40S", "mig_family": None, "memory_bytes": 48 * GB},
]
HOUR = [0.1] * 60


def fitted(
    harness: Harness, spans: list[dict[str, Any]], observed: Sequence[Row], **inputs: Sequence[Row]
) -> list[dict[str, Any]]:
    harness.give_seed("mig_profiles")
    give(harness, int_held_spans=spans, int_held_minutes_observed=observed, dim_gpu_models=MODELS, **inputs)
    return harness.run("int_slots_fitted")


def one(harness: Harness, activities: list[float], **changes: Any) -> tuple[str | None, str] | None:
    """The profile and the reason of a run on one card, None where there is no row."""
    rows = fitted(harness, [hold(1)], minutes(1, activities, **changes))
    return (rows[0]["mig_profile"], rows[0]["null_reason"]) if rows else None


@pytest.mark.parametrize(
    ("activities", "answer"),
    [
        (HOUR, ("1g.10gb", "")),
        ([0.2] * 60, ("2g.20gb", "")),
        ([0.2] * 59 + [0.21], None),
        ([0.0] * 60, None),
        ([0.0] * 59 + [0.06], ("1g.10gb", "")),
        (HOUR[:59], (None, "low_coverage")),
        # of 60 minutes 57 are 95 %
        ([0.1] * 57 + [1.0] * 3, ("1g.10gb", "")),
        ([0.1] * 56 + [1.0] * 4, (None, "too_busy")),
        ([0.1] * 56 + [0.45] * 4, ("4g.40gb", "")),
    ],
)
def test_a_day_is_judged_by_its_mean_and_its_percentile(
    harness: Harness, activities: list[float], answer: tuple[str | None, str] | None
) -> None:
    assert one(harness, activities) == answer


@pytest.mark.parametrize(
    ("gigabytes", "answer"),
    [(9, "1g.10gb"), (9.1, "1g.20gb"), (18.2, "3g.40gb"), (36.3, "3g.40gb"), (36.4, None)],
)
def test_the_peak_and_a_tenth_more_must_fit(harness: Harness, gigabytes: float, answer: str | None) -> None:
    assert one(harness, HOUR, memory_bytes=gigabytes * GB) == (answer, "" if answer else "memory_in_use")


def test_one_minute_of_much_memory_is_the_peak(harness: Harness) -> None:
    observed = [*minutes(1, HOUR), *minutes(1, [0.1], first=60, memory_bytes=15.0 * GB)]
    assert fitted(harness, [hold(1)], observed)[0]["mig_profile"] == "1g.20gb"


def test_memory_that_nobody_read_is_not_none(harness: Harness) -> None:
    assert one(harness, HOUR, memory_bytes=None) == (None, "no_memory_reading")


def test_a_slot_held_in_part_counts_its_whole_time(harness: Harness) -> None:
    """Half a share of a card for an hour is an hour on it: weighted by share it would be too short to be judged."""
    rows = fitted(harness, [hold(1, share=0.5)], minutes(1, HOUR, weight=0.5))
    assert [(row["covered_us"], row["null_reason"]) for row in rows] == [(3.6e9, "")]


def test_replicas_that_share_a_slot_share_its_hour(harness: Harness) -> None:
    spans = [
        hold(number, gpu_id="g", slot_id="g", run_id=f"r{number}", run_number=number, share=0.5, kind="inference")
        for number in (1, 2)
    ]
    observed = [row for number in (1, 2) for row in minutes(number, HOUR[:40], weight=0.5, run_number=number)]
    assert {(row["covered_us"], row["null_reason"]) for row in fitted(harness, spans, observed)} == {(2.4e9, "low_coverage")}


def test_a_slice_is_measured_against_the_slot_held(harness: Harness) -> None:
    spans = [hold(1, slot_fraction=3 / 7)]
    rows = fitted(harness, spans, minutes(1, HOUR, weight=3 / 7))
    assert [(row["mig_profile"], round(row["fit_ratio"], 9)) for row in rows] == [("1g.10gb", round(1 / 3, 9))]
    assert (
        fitted(harness, [hold(1, slot_fraction=1 / 7)], minutes(1, HOUR, weight=1 / 7))[0]["null_reason"] == "no_smaller_profile"
    )


@pytest.mark.parametrize(("model", "reason"), [("A100", "spans_models"), ("H100", "")])
def test_a_run_over_two_models_has_no_card_to_make_smaller(harness: Harness, model: str, reason: str) -> None:
    rows = fitted(harness, [hold(1), hold(2, gpu_model=model)], [*minutes(1, HOUR), *minutes(2, HOUR)])
    assert [row["null_reason"] for row in rows] == [reason, reason]


def test_a_card_that_cannot_be_split_says_so(harness: Harness) -> None:
    assert fitted(harness, [hold(1, gpu_model="L40S")], minutes(1, HOUR))[0]["null_reason"] == "not_partitionable"
    assert fitted(harness, [hold(1, gpu_model="unheard of")], minutes(1, HOUR))[0]["null_reason"] == "not_partitionable"


def test_what_a_card_says_of_its_memory_wins_over_the_catalogue(harness: Harness) -> None:
    (row,) = fitted(harness, [hold(1)], minutes(1, HOUR), dim_gpus=[{"gpu_id": "g1", "memory_bytes": 40 * GB}])
    assert (row["card_memory_bytes"], row["mig_profile"]) == (40 * GB, "1g.20gb")


@pytest.mark.parametrize(
    ("server", "answer"),
    [
        ({"kv_free_bytes": 54.0 * GB, "null_reason": ""}, ("1g.20gb", "", 18 * GB)),
        ({"kv_free_bytes": 99.0 * GB, "null_reason": ""}, ("1g.10gb", "", 0)),
        ({"kv_free_bytes": None, "null_reason": "preallocated"}, (None, "preallocated", None)),
        (None, (None, "preallocated", None)),
    ],
)
def test_a_server_needs_what_its_empty_pool_leaves(
    harness: Harness, server: dict[str, Any] | None, answer: tuple[str | None, str, int | None]
) -> None:
    servers = [{"usage_date": DAY, "run_id": "r", **server}] if server else []
    (row,) = fitted(
        harness, [hold(1, kind="inference")], minutes(1, HOUR, memory_bytes=72.0 * GB), int_server_memory_daily=servers
    )
    assert (row["mig_profile"], row["null_reason"], row["needed_memory_bytes"]) == answer


def usage(server: str, job_id: str | None, hour: int, total: int | None, used: float | None) -> dict[str, Any]:
    start = MIDNIGHT + timedelta(hours=hour)
    return {
        "usage_date": DAY,
        "cluster": "c",
        "server": server,
        "job_id": job_id,
        "interval_start_at": start,
        "interval_end_at": start + timedelta(minutes=1),
        "kv_cache_total_bytes": total,
        "kv_cache_usage_ratio": used,
    }


def run(run_id: str, job_id: str, name: str, first: int, last: int) -> dict[str, Any]:
    start, end = (MIDNIGHT + timedelta(hours=hour) for hour in (first, last))
    return {
        "run_id": run_id, "cluster": "c", "job_id": job_id, "name": name, "kind": "inference",
        "held_from_at": start, "held_until_at": end,
    }  # fmt: skip


def test_the_pool_is_that_of_the_attempt_that_ran_then(harness: Harness) -> None:
    """Two attempts of a requeued job have one job id; the first one's pool must not stand for the second's."""
    give(
        harness,
        int_held_spans=[
            hold(1, run_id="a", kind="inference"),
            hold(2, run_id="b", kind="inference"),
            hold(3, run_id="b", kind="inference"),
            hold(4, run_id="c", kind="inference"),
            hold(5, run_id="d", kind="inference"),
        ],
        int_runs=[
            run("a", "7", "serve", 0, 2),
            run("b", "7", "serve", 2, 9),
            run("c", "8", "pod-c", 0, 9),
            run("d", "9", "pod-d", 0, 9),
        ],
        int_inference_usage_owned=[
            usage("n1:8000", "7", 0, 10 * GB, 0.2),
            usage("n1:8000", "7", 1, 10 * GB, 0.5),
            usage("n1:8000", "7", 3, 40 * GB, 0.1),
            usage("pod-c:8000", None, 1, 30 * GB, 0.1),
            usage("pod-c:8001", None, 1, 10 * GB, 0.5),
            usage("pod-d:8000", None, 1, 30 * GB, None),
        ],
    )
    rows = {row["run_id"]: row for row in harness.run("int_server_memory_daily")}
    found = {name: (row["kv_pool_bytes"], row["peak_kv_cache_usage_ratio"], row["null_reason"]) for name, row in rows.items()}
    assert found == {
        "a": (10 * GB, 0.5, ""),
        "b": (20 * GB, 0.1, ""),
        # of two servers of one pod both pools count, weighted by their size
        "c": (40 * GB, pytest.approx((30 * 0.1 + 10 * 0.5) / 40), ""),
        "d": (None, None, "preallocated"),
    }
    assert rows["b"]["kv_free_bytes"] == pytest.approx(18 * GB)
