"""The mail's small fleet with what only the report reads: devices, hours, chargeback, reconciliation, the dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from tests.unit.warehouse.digest import small_fleet
from warehouse.home import Home

_MORE = """
alter table fct_gpu_ledger_hourly add column hour_start_at timestamp;
alter table fct_gpu_ledger_hourly add column gpu_id varchar;
update fct_gpu_ledger_hourly set hour_start_at = usage_date + interval 5 hour, gpu_id = 'GPU-' || cluster;
create table dim_gpus as
    select distinct gpu_id, cluster || '/n1' as node_id, cluster, 'n1' as node, '0000:01:00.0' as pci_bus_id
    from fct_gpu_ledger_hourly;
alter table mart_unit_economics_daily add column held_gpu_hours double;
update mart_unit_economics_daily set held_gpu_hours = 4;
create table mart_cost_allocation_daily as
    with pieces as (
        select usage_date, case when workload_id <> 'unallocated' then 'held' else state end as cost_line, cluster, workload_id,
            currency, state, gpu_hours, cost
        from mart_ghost_capacity_daily
        union all select date '2026-11-09', 'non_time', 'unallocated', 'unallocated', 'USD', '', 0, -1.5
    )
    select usage_date, cost_line, pieces.cluster, coalesce(team, 'unknown') as team,
        case when cost_line = 'held' then 'app of ' || coalesce(workload, '?') else 'unallocated' end as application,
        case when cost_line <> 'held' then 'unallocated' when workload = 'chat' then 'llama' else 'unknown' end as model,
        workload_id, currency, sum(gpu_hours) as gpu_hours, cast(sum(cost) as decimal(18, 6)) as cost,
        cast(sum(case when cost_line = 'held' then cost else 0 end) as decimal(18, 6)) as allocation_cost,
        cast(sum(case when cost_line = 'held' and state = 'productive' then cost else 0 end) as decimal(18, 6)) as usage_cost,
        cast(sum(case when cost_line = 'non_time' then 0 else cost end) as decimal(18, 6)) as fully_loaded_cost
    from pieces left join dim_workloads using (workload_id) group by all;
create table mart_team_chargeback_monthly as
    select date_trunc('month', usage_date) as month_start_date, team, cost_line, currency, sum(gpu_hours) as gpu_hours,
        sum(case when cost_line = 'held' then gpu_hours else 0 end) as held_gpu_hours, sum(cost) as cost,
        sum(allocation_cost) as allocation_cost, sum(usage_cost) as usage_cost, sum(fully_loaded_cost) as fully_loaded_cost,
        false as is_closed
    from mart_cost_allocation_daily group by all;
create table mart_cost_reconciliation_daily (usage_date date, provider_name varchar, billing_account_id varchar, currency varchar,
    effective_cost decimal(18, 6), ledger_cost decimal(18, 6), non_time_cost decimal(18, 6),
    billed_without_telemetry_cost decimal(18, 6), out_of_scope_cost decimal(18, 6), difference decimal(18, 6), is_closed boolean);
insert into mart_cost_reconciliation_daily values ('2026-11-09', 'cloud', 'acct', 'USD', 9, 8, 1, 0, 0, 0, true);
create table data_dictionary as
    select 'mart_gpu_net_daily' as table_name, 'gpu_net_ratio' as column_name, 'Useful share.' as description,
        'productive / in service' as formula;
"""


#: table → its amounts that stand in the reporting currency as well
_REPORTED = {
    "mart_ghost_capacity_daily": ("cost",),
    "fct_gpu_ledger_hourly": ("cost",),
    "mart_cost_allocation_daily": ("cost", "allocation_cost", "usage_cost", "fully_loaded_cost"),
}


def publish(home: Home, *, rates: Mapping[str, float] | None = None, rates_from: str = "2000-01-01", **parts: Any) -> Path:
    """As `small_fleet.publish`, with every table that the report reads; the database's path.

    `rates` are what a unit of each currency is worth in USD, from the day `rates_from` on.
    """
    database = small_fleet.publish(home, **parts)
    with duckdb.connect(str(database)) as connection:
        connection.execute(_MORE)
        convert(connection, rates or {}, rates_from)
    return database


def convert(connection: duckdb.DuckDBPyConnection, rates: Mapping[str, float], rates_from: str = "2000-01-01") -> None:
    """Give every table of money its amounts in USD."""
    connection.execute("create or replace table rates (currency varchar, rate double)")
    for currency, rate in rates.items():
        connection.execute("insert into rates values (?, ?)", [currency, rate])
    for table, amounts in _REPORTED.items():
        reported = ", ".join(f"cast(round({name} * rate, 6) as decimal(18, 6)) as {name}_reporting" for name in amounts)
        connection.execute(
            f"""create or replace table {table} as
            select own.*, {reported}, case when rate is null then 'unknown' else 'USD' end as reporting_currency
            from {table} as own left join rates on own.currency = rates.currency and usage_date >= date '{rates_from}'"""
        )
    connection.execute("drop table rates")
