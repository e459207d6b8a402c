"""What sources landed, and how much of the held time they cover."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.dbt.harness import Harness, Row
from tests.unit.dbt.marts.inputs import HOUR_US, MIDNIGHT, day, give

LANDED_AT = datetime(2026, 11, 4, 1)


def landing(collection_run_id: str, source: str, **values: Any) -> Row:
    return {
        "collection_run_id": collection_run_id,
        "source": source,
        "cluster": "c",
        "table_name": "gpu_samples",
        "status": "landed",
        "started_at": LANDED_AT - timedelta(minutes=1),
        "landed_at": LANDED_AT,
        "rows_landed": 1,
        "rows_quarantined": 0,
    } | values


def landed(collection_run_id: str, number: int, **values: Any) -> Row:
    """One row of a landing table on the day `number`; a sample covers an hour."""
    return {
        "dt": day(number),
        "cluster": "c",
        "collection_run_id": collection_run_id,
        "landed_at": LANDED_AT,
        "interval_ms": 3_600_000,
    } | values


def held(number: int, held_hours: float, unobserved_hours: float = 0) -> list[Row]:
    parts = {"productive": held_hours - unobserved_hours, "unobserved": unobserved_hours, "unallocated": 3}
    return [
        {"usage_date": day(number), "cluster": "c", "state": state, "gpu_microseconds": round(hours * HOUR_US)}
        for state, hours in parts.items()
    ]


def coverage(harness: Harness, **inputs: list[Row]) -> list[dict[str, Any]]:
    give(harness, **inputs)
    for name in (
        "dated_rows_counted",
        "other_rows_counted",
        "late_rows_counted",
        "held_hours_observed",
        "rows_quarantined_dated",
    ):
        harness.run(f"int_{name}")
    return harness.run("mart_data_coverage_daily")


def test_a_third_of_the_held_time_is_covered(harness: Harness) -> None:
    """Case C04: 60 held minutes, 20 with samples."""
    (row,) = coverage(
        harness,
        control__collection_runs=[landing("dcgm-1", "dcgm")],
        stg_landing__gpu_samples=[landed("dcgm-1", 0)],
        int_gpu_ledger_hours=held(0, 1, 2 / 3),
    )
    assert (row["expected_hours"], row["covered_hours"]) == (1.0, pytest.approx(1 / 3))
    assert row["coverage_ratio"] == pytest.approx(1 / 3)
    assert (row["source"], row["rows_landed"], row["last_landed_at"]) == ("dcgm", 1, LANDED_AT)


def test_a_source_that_falls_silent_shows_as_a_day_without_rows(harness: Harness) -> None:
    rows = coverage(
        harness,
        control__collection_runs=[landing("dcgm-1", "dcgm")],
        stg_landing__gpu_samples=[landed("dcgm-1", 0)] * 2,
        int_gpu_ledger_hours=held(0, 2) + held(1, 2, 2) + held(-1, 2, 2),
    )
    assert [(row["usage_date"], row["rows_landed"], row["covered_hours"]) for row in rows] == [(day(0), 2, 2.0), (day(1), 0, 0.0)]
    assert rows[1]["last_landed_at"] is None


def test_a_source_gets_no_credit_for_what_another_covers(harness: Harness) -> None:
    rows = coverage(
        harness,
        control__collection_runs=[landing("dcgm-1", "dcgm"), landing("nvml-1", "nvml")],
        stg_landing__gpu_samples=[*[landed("dcgm-1", 0)] * 10, landed("nvml-1", 0)],
        int_gpu_ledger_hours=held(0, 10),
    )
    assert {row["source"]: row["coverage_ratio"] for row in rows} == {"dcgm": 1.0, "nvml": pytest.approx(0.1)}


def test_a_source_without_samples_has_no_hours_to_cover(harness: Harness) -> None:
    (row,) = coverage(
        harness,
        control__collection_runs=[landing("slurm-1", "slurm", table_name="runs")],
        stg_landing__runs=[landed("slurm-1", 0)],
        int_gpu_ledger_hours=held(0, 1, 1),
    )
    assert (row["rows_landed"], row["expected_hours"], row["covered_hours"], row["coverage_ratio"]) == (1, None, None, None)


def test_bills_belong_to_no_cluster(harness: Harness) -> None:
    (row,) = coverage(
        harness,
        control__collection_runs=[landing("billing-1", "billing", cluster=None, table_name="billing_lines")],
        stg_landing__billing_lines=[landed("billing-1", 0, cluster=None)],
    )
    assert (row["cluster"], row["source"], row["rows_landed"]) == ("unallocated", "billing", 1)


def test_quarantined_rows_count_on_the_first_day_of_the_window_in_utc(harness: Harness) -> None:
    """Case F10: 02:00 UTC is the evening before in New York, where this session is."""
    (row,) = coverage(
        harness,
        control__collection_runs=[
            landing("dcgm-1", "dcgm", rows_landed=0, rows_quarantined=3, window_start_at=MIDNIGHT + timedelta(hours=2))
        ],
    )
    assert (row["usage_date"], row["rows_landed"], row["rows_quarantined"]) == (day(0), 0, 3)


def test_a_landing_of_several_tables_is_one_collection_run(harness: Harness) -> None:
    give(
        harness,
        control__collection_runs=[
            landing("dcgm-1", "dcgm", rows_landed=60, rows_quarantined=2, rejects='{"malformed": 2}'),
            landing("dcgm-1", "dcgm", table_name="gpu_inventory", rows_landed=8),
            landing("slurm-failed-1", "slurm", table_name="", status="failed", error="sacct: not found", rows_landed=0),
        ],
    )
    harness.run("int_late_rows_counted")
    rows = {row["collection_run_id"]: row for row in harness.run("fct_collection_runs")}
    first, failed = rows["dcgm-1"], rows["slurm-failed-1"]
    assert (first["rows_landed"], first["rows_quarantined"], first["table_count"]) == (68, 2, 2)
    assert first["rejects_by_reason"] == '{"malformed": 2}'
    assert (failed["status"], failed["error"], failed["table_count"]) == ("failed", "sacct: not found", 0)


def test_a_row_that_came_too_late_is_late_and_not_landed(harness: Harness) -> None:
    rows = coverage(
        harness,
        control__collection_runs=[landing("slurm-1", "slurm"), landing("slurm-2", "slurm")],
        control__late_rows=[
            {"collection_run_id": "slurm-2", "table_name": "runs", "usage_date": day(0), "cluster": "c", "rows_late": 2}
        ],
        stg_landing__runs=[landed("slurm-1", 0), landed("slurm-2", 0), landed("slurm-2", 0), landed("slurm-2", 1)],
    )
    assert [(row["usage_date"], row["rows_landed"], row["rows_late"]) for row in rows] == [(day(0), 1, 2), (day(1), 1, 0)]
