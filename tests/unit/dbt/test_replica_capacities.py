"""What a replica can do is learned once per day and service, and kept (rule 6; semantics 5, Horizons)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from tests.unit.dbt.harness import Harness, Row

MODEL = "int_replica_capacities"
DAY = date(2026, 11, 30)
Learned = dict[str, tuple[float | None, str, int]]


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.give("control__build_window", {"build_id": "varchar", "is_full_refresh": "boolean"}, [])
    made.give("int_days_touched", {"usage_date": "date", "is_sealed": "boolean"}, [{"usage_date": DAY, "is_sealed": False}])
    give_demand(made, "kept")
    give_minutes(made)
    return made


def give_demand(harness: Harness, *workloads: str, unit: str = "tokens") -> None:
    shape = {"usage_date": "date", "hour_start_at": "timestamp", "workload_id": "varchar", "work_unit": "varchar"}
    rows: list[Row] = [
        {"usage_date": DAY, "hour_start_at": datetime(2026, 11, 30, hour), "workload_id": workload, "work_unit": unit}
        for workload in workloads
        for hour in (0, 1)
    ]
    harness.give("int_service_demand_hourly", shape, rows)


def minute(days_before: int, workload: str, tokens: float | None, **values: Any) -> Row:
    day = DAY - timedelta(days=days_before)
    start = datetime(day.year, day.month, day.day)
    given = {
        "usage_date": day,
        "minute_start_at": start,
        "workload_id": workload,
        "tokens_per_second": tokens,
        "replica_count": 2,
    }
    return given | values


def give_minutes(harness: Harness, *rows: Row) -> None:
    shape = {
        "usage_date": "date",
        "minute_start_at": "timestamp",
        "workload_id": "varchar",
        **dict.fromkeys(
            ("tokens_per_second", "requests_per_second", "waiting_requests", "kv_cache_usage_ratio", "activity_ratio"), "double"
        ),
        "replica_count": "bigint",
    }
    harness.give("int_service_minutes", shape, rows)


def first_build(harness: Harness) -> Learned:
    return _by_workload(harness.run(MODEL))


def later_build(harness: Harness, *, is_full_refresh: bool = False) -> Learned:
    """What the model gives for the days touched, as an incremental model that has its table already."""
    harness.connection.execute("delete from control__build_window")
    harness.connection.execute("insert into control__build_window values ('build', ?)", [is_full_refresh])
    return _by_workload(harness.rows(harness.render(MODEL, is_incremental=lambda: True, this=MODEL)))


def _by_workload(rows: list[dict[str, Any]]) -> Learned:
    learned = {
        row["workload_id"]: (row["replica_capacity_per_second"], row["replica_capacity_method"], row["learned_minute_count"])
        for row in rows
    }
    assert len(learned) == len(rows)
    return learned


def test_a_day_keeps_what_it_learned_when_older_history_lands_later(harness: Harness) -> None:
    give_minutes(harness, minute(1, "kept", 100, waiting_requests=1))
    assert first_build(harness) == {"kept": (50, "saturated", 1)}
    give_minutes(harness, minute(1, "kept", 100, waiting_requests=1), minute(2, "kept", 900, waiting_requests=1))
    assert later_build(harness) == {"kept": (50, "saturated", 1)}


def test_that_there_was_nothing_to_learn_from_is_kept_too(harness: Harness) -> None:
    assert first_build(harness) == {"kept": (None, "none", 0)}
    give_minutes(harness, minute(1, "kept", 100, waiting_requests=1))
    assert later_build(harness) == {"kept": (None, "none", 0)}


def test_a_service_whose_usage_lands_later_is_learned_then(harness: Harness) -> None:
    give_minutes(harness, minute(1, "kept", 100, waiting_requests=1))
    first_build(harness)
    give_demand(harness, "kept", "late")
    give_minutes(harness, minute(1, "kept", 900, waiting_requests=1), minute(1, "late", 300, waiting_requests=1))
    assert later_build(harness) == {"kept": (50, "saturated", 1), "late": (150, "saturated", 1)}


def test_a_service_whose_usage_is_gone_from_the_day_keeps_its_row(harness: Harness) -> None:
    give_minutes(harness, minute(1, "kept", 100, waiting_requests=1))
    first_build(harness)
    give_demand(harness)
    assert later_build(harness) == {"kept": (50, "saturated", 1)}


def test_a_full_refresh_learns_anew_even_where_sealed_days_make_it_replace_days(harness: Harness) -> None:
    give_minutes(harness, minute(1, "kept", 100, waiting_requests=1))
    first_build(harness)
    give_minutes(harness, minute(1, "kept", 200, waiting_requests=1))
    assert later_build(harness, is_full_refresh=True) == {"kept": (100, "saturated", 1)}
    assert first_build(harness) == {"kept": (100, "saturated", 1)}


def test_the_day_itself_and_the_29th_before_it_teach_nothing(harness: Harness) -> None:
    give_minutes(
        harness,
        minute(0, "kept", 900, waiting_requests=1),
        minute(28, "kept", 100, waiting_requests=1),
        minute(29, "kept", 900, waiting_requests=1),
    )
    assert first_build(harness) == {"kept": (50, "saturated", 1)}


@pytest.mark.parametrize("limit", [{"waiting_requests": 0.5}, {"kv_cache_usage_ratio": 0.8}, {"activity_ratio": 0.85}], ids=str)
def test_any_of_three_signs_shows_a_replica_at_its_limit(harness: Harness, limit: dict[str, float]) -> None:
    give_minutes(harness, minute(1, "kept", 100, **limit), minute(2, "kept", 900, kv_cache_usage_ratio=0.79, activity_ratio=0.84))
    assert first_build(harness) == {"kept": (50, "saturated", 1)}


def test_without_a_limit_reached_the_rate_is_extrapolated_minute_by_minute(harness: Harness) -> None:
    """50 / 0.5 is 100, 50 / max(0.5, 0.625) is 80: p95 is 80 + 0.95 x 20. A minute of which use is not known teaches nothing."""
    give_minutes(
        harness,
        minute(1, "kept", 100, activity_ratio=0.5),
        minute(2, "kept", 100, activity_ratio=0.5, kv_cache_usage_ratio=0.625),
        minute(3, "kept", 900),
        minute(4, "kept", 900, activity_ratio=0.5, replica_count=0),
    )
    capacity, method, minutes = first_build(harness)["kept"]
    assert capacity == pytest.approx(99)
    assert (method, minutes) == ("extrapolated", 2)


def test_requests_are_learned_in_requests(harness: Harness) -> None:
    give_demand(harness, "kept", unit="requests")
    give_minutes(harness, minute(1, "kept", None, requests_per_second=6, waiting_requests=1))
    assert first_build(harness) == {"kept": (3, "saturated", 1)}


def test_a_rate_of_nothing_is_no_capacity(harness: Harness) -> None:
    give_minutes(harness, minute(1, "kept", 0, waiting_requests=1), minute(2, "kept", 0, activity_ratio=0.5))
    assert first_build(harness) == {"kept": (None, "none", 0)}
