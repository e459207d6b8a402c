"""A page of a large fleet stays small: weeks for old days, the largest workloads by name, the rest by team."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.unit.warehouse.digest import small_fleet
from tests.unit.warehouse.report.reported_fleet import convert, publish
from tests.unit.warehouse.report.test_report import contents_of
from warehouse.home import Home
from warehouse.report.sizes import (
    DAYS_BY_DAY,
    MOST_HOLDER_CELLS,
    MOST_HOLDER_CELLS_REPORTING,
    MOST_MAP_CELLS,
    PERIODS,
    choose_largest,
    cut_into_buckets,
    first_that_fits,
)
from warehouse.report.write import write_report

GPUS, DAYS, WORKLOADS = 1000, 365, 300
#: a year of 1,000 GPUs: 300 workloads of 20 teams on three clusters, each GPU's day in two pieces of some state
LARGE = f"""
create or replace table dim_workloads as
    select 'w' || n as workload_id, 'cluster-' || n % 3 as cluster, 'workload number ' || n as workload, 'team-' || n % 20 as team
    from range({WORKLOADS}) as numbers (n)
    union all select 'unallocated', 'unallocated', 'unallocated', 'unallocated';
create or replace table dim_gpus as
    select 'GPU-' || n as gpu_id, 'cluster-' || n % 3 || '/node-' || n // 8 as node_id, 'cluster-' || n % 3 as cluster,
        'node-' || n // 8 as node, '0000:' || n % 8 as pci_bus_id
    from range({GPUS}) as numbers (n);
create or replace table fct_gpu_ledger_hourly as
    with pieces as (
        select n as gpu, date '2025-11-10' + cast(d as integer) as usage_date, piece,
            hash(n, d // 3, piece) % {WORKLOADS} as workload, hash(n, d, piece, 1) as chance
        from range({GPUS}) as gpus (n), range({DAYS}) as days (d), range(2) as pieces (piece)
    )
    select usage_date, usage_date + interval (piece * 12) hour as hour_start_at, 'GPU-' || gpu as gpu_id,
        'cluster-' || gpu % 3 as cluster,
        case when state = 'unallocated' then 'unallocated' else 'w' || workload end as workload_id, state, state_reason,
        'billing' as cost_source, 'USD' as currency,
        1 + (chance % 5000000) / 1000000.0 as gpu_hours, cast(2 + (chance % 9999999) / 1000000.0 as decimal(18, 6)) as cost
    from pieces inner join (
        select state, coalesce(split_part(state_reasons, '|', 1), '') as state_reason, state_order
        from dim_states where state_order < 15
    ) as states on states.state_order = 1 + chance % 14;
create or replace table mart_ghost_capacity_daily as
    select usage_date, ledger.cluster, workload_id, state, currency, 'H100' as gpu_model, team, state_order, is_ghost,
        sum(gpu_hours) as gpu_hours, sum(cost) as cost
    from fct_gpu_ledger_hourly as ledger inner join dim_states using (state) left join dim_workloads using (workload_id)
    group by all;
create or replace table mart_unit_economics_daily as
    select usage_date, 'w' || n as workload_id, 'cluster-' || n % 3 as cluster, 'model-' || n as model, 'USD' as currency,
        cast(hash(n, usage_date) % 900000000 as bigint) as tokens_all, cast(0 as bigint) as prompt_tokens,
        cast(0 as bigint) as output_tokens, cast(hash(n, usage_date, 1) % 1000000 as bigint) as request_count,
        24.0 as held_gpu_hours,
        cast(hash(n, usage_date, 2) % 9000000 / 1000000.0 as decimal(18, 6)) as cost_per_million_tokens,
        cast(hash(n, usage_date, 3) % 9000000 / 1000000.0 as decimal(18, 6)) as cost_per_thousand_requests,
        cast(null as varchar) as null_reason, cast(null as decimal(18, 6)) as list_cost_per_million_tokens,
        cast(null as decimal(18, 6)) as list_cost_per_thousand_requests, cast(null as varchar) as list_model,
        cast(null as varchar) as list_provider, cast(null as double) as cost_to_list_ratio
    from range(50) as services (n), (select distinct usage_date from fct_gpu_ledger_hourly);
create or replace table mart_data_coverage_daily as
    select usage_date, 'cluster-' || n % 3 as cluster, 'source-' || n // 3 as source, 8000.0 as expected_hours,
        8000.0 - hash(n, usage_date) % 4000000 / 10000.0 as covered_hours, 0.9 as coverage_ratio,
        cast(hash(n, usage_date) % 90000000 as bigint) as rows_landed, cast(0 as bigint) as rows_quarantined,
        timestamp '2026-11-10' as last_landed_at
    from range(18) as sources (n), (select distinct usage_date from fct_gpu_ledger_hourly);
create or replace table mart_cost_allocation_daily as
    select usage_date, case when workload_id = 'unallocated' then state else 'held' end as cost_line,
        dim_workloads.cluster, team,
        if(workload_id = 'unallocated', 'unallocated', 'application ' || workload_id) as application,
        if(workload_id = 'unallocated', 'unallocated', 'model ' || workload_id) as model,
        workload_id, currency, sum(gpu_hours) as gpu_hours, cast(sum(cost) as decimal(18, 6)) as cost,
        cast(sum(case when workload_id = 'unallocated' then 0 else cost end) as decimal(18, 6)) as allocation_cost,
        cast(sum(case when workload_id = 'unallocated' then 0 else cost / 3 end) as decimal(18, 6)) as usage_cost,
        cast(sum(case when workload_id = 'unallocated' then 0 else cost * 1.1 end) as decimal(18, 6)) as fully_loaded_cost
    from fct_gpu_ledger_hourly as ledger left join dim_workloads using (workload_id) group by all;
create or replace table mart_team_chargeback_monthly as
    select date_trunc('month', usage_date) as month_start_date, team, cost_line, currency, true as is_closed
    from mart_cost_allocation_daily group by all;
"""


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("days", [1, 6, 7, 8, DAYS_BY_DAY - 1, DAYS_BY_DAY, DAYS_BY_DAY + 1, 60, 400])
def test_buckets_follow_each_other_and_cover_every_day_once(days: int, period: str) -> None:
    for shift in range(7):
        last = date(2026, 11, 9) + timedelta(days=shift)
        first = last - timedelta(days=days - 1)
        buckets = cut_into_buckets(first, last, period)
        covered = [start + timedelta(days=n) for start, end in buckets for n in range((end - start).days + 1)]
        assert covered == [first + timedelta(days=n) for n in range(days)]
        assert all(start == end for start, end in buckets if end > last - timedelta(days=DAYS_BY_DAY))
        assert all(len({_period_of(day, period) for day in (start, end)}) == 1 for start, end in buckets)
        assert len({_period_of(start, period) for start, end in buckets if end > start}) == sum(
            end > start for start, end in buckets
        )


def _period_of(day: date, period: str) -> tuple[int, ...]:
    return {"day": (day.toordinal(),), "week": day.isocalendar()[:2], "month": (day.year, day.month)}[period]


def test_the_largest_holders_are_named_as_long_as_their_cells_fit() -> None:
    cells = [("small", 1, 1.0), ("large", 2, 100.0), ("middle", 2, 20.0)]
    assert choose_largest(cells, 5) == {"small", "large", "middle"}
    assert choose_largest(cells, 4) == {"large", "middle"}
    assert choose_largest(cells, 3) == {"large"}
    assert choose_largest(cells, 1) == set()


def test_rows_are_kept_from_the_newest_day_back() -> None:
    days = [(date(2026, 11, day), 10) for day in (1, 2, 3)]
    assert first_that_fits(days, 30) == date(2026, 11, 1)
    assert first_that_fits(days, 29) == date(2026, 11, 2)
    assert first_that_fits(days, 5) == date(2026, 11, 3)
    assert first_that_fits([], 5) is None


@pytest.mark.parametrize("is_converted", [False, True], ids=["one currency", "in another currency as well"])
def test_a_year_of_a_thousand_gpus_is_under_three_megabytes_and_adds_up(home: Path, is_converted: bool) -> None:
    database = publish(Home.from_environment().create(), ledger=small_fleet.LEDGER)
    with duckdb.connect(str(database)) as connection:
        connection.execute(LARGE)
        if is_converted:
            for table in ("mart_ghost_capacity_daily", "fct_gpu_ledger_hourly", "mart_cost_allocation_daily"):
                connection.execute(f"update {table} set currency = 'XTS'")
        convert(connection, {"XTS": 0.987654})
        whole = connection.execute("select sum(gpu_hours), sum(cost) from mart_ghost_capacity_daily").fetchone()
    page = write_report(database)
    assert page.stat().st_size < 3_000_000, f"{page.stat().st_size:,} bytes"
    contents = contents_of(page)
    assert contents["days"] == DAYS
    most = MOST_HOLDER_CELLS_REPORTING if is_converted else MOST_HOLDER_CELLS
    assert most / 2 < len(contents["holders"]["hours"]) <= most, "an empty page proves nothing"
    assert contents["reporting"] == ("USD" if is_converted else None)
    names = {workload["name"] for workload in contents["workloads"]}
    assert "other workloads" in names
    assert len(names) > 20
    assert set(contents["teams"]) == {f"team-{number}" for number in range(20)} | {"unallocated"}
    assert contents["map"]["unit"] == "day"
    assert sum(map(len, contents["map"]["shares"])) <= MOST_MAP_CELLS
    sizes = {choice: len(found["members"]) for choice, found in contents["chargeback"]["choices"].items()}
    # 300 × 13 months; where money stands twice the smaller ones are one
    several = 2_000 // 13 + 1 if is_converted else WORKLOADS
    assert sizes == {"team": 20, "application": several, "model": several, "workload": several}
    assert whole is not None
    for part, scale in (("fleet", 10**6), ("holders", 10**4)):
        assert sum(contents[part]["hours"]) / scale == pytest.approx(whole[0], rel=1e-7), part
        assert sum(contents[part]["cost"]) / scale == pytest.approx(float(whole[1]), rel=1e-7), part
