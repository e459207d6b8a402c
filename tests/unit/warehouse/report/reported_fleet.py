"""The mail's small fleet with what only the report reads: devices, hours, chargeback, reconciliation, the dictionary."""

from __future__ import annotations

from collections.abc import Sequence
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
create table mart_team_chargeback_monthly as
    select date_trunc('month', usage_date) as month_start_date, coalesce(team, 'unknown') as team, 'held' as cost_line, currency,
        sum(gpu_hours) as gpu_hours, sum(gpu_hours) as held_gpu_hours, sum(cost) as cost, sum(cost) as allocation_cost,
        sum(cost) / 2 as usage_cost, sum(cost) * 2 as fully_loaded_cost, false as is_closed
    from fct_gpu_ledger_hourly left join dim_workloads using (workload_id) group by all;
create table mart_cost_reconciliation_daily (usage_date date, provider_name varchar, billing_account_id varchar, currency varchar,
    effective_cost decimal(18, 6), ledger_cost decimal(18, 6), non_time_cost decimal(18, 6),
    billed_without_telemetry_cost decimal(18, 6), out_of_scope_cost decimal(18, 6), difference decimal(18, 6), is_closed boolean);
insert into mart_cost_reconciliation_daily values ('2026-11-09', 'cloud', 'acct', 'USD', 9, 8, 1, 0, 0, 0, true);
create table data_dictionary as
    select 'mart_gpu_net_daily' as table_name, 'gpu_net_ratio' as column_name, 'Useful share.' as description,
        'productive / in service' as formula;
"""


def publish(home: Home, **parts: Sequence[Any]) -> Path:
    """As `small_fleet.publish`, with every table that the report reads; the database's path."""
    database = small_fleet.publish(home, **parts)  # type: ignore[arg-type]
    with duckdb.connect(str(database)) as connection:
        connection.execute(_MORE)
    return database
