"""The small fleet of the digest's tests with what alert rules ask besides: landings, a bill, and the rules themselves."""

from __future__ import annotations

from datetime import datetime

import duckdb

from tests.unit.warehouse.digest.small_fleet import publish
from warehouse.alerts.rules import rules_path
from warehouse.home import Home

#: the day after the fleet's last whole day, 2026-11-09
NOW = datetime(2026, 11, 10, 12)
HEADER = "rule,kind,limit,currency,period,per,cluster,team,workload,source,notify,when_over"


def watched(home: Home, *rules: str, **published: object) -> Home:
    """The home with the small fleet published and these rules, each a line of `HEADER`'s columns (the last may be left out)."""
    path = publish(home, **published)  # type: ignore[arg-type]
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """create table fct_collection_runs as select * from (values
                ('1', 'dcgm', 'a', 'landed', 5, timestamp '2026-11-10 00:05'),
                ('2', 'dcgm', 'b', 'landed', 5, timestamp '2026-11-08 12:00'),
                ('3', 'dcgm', 'b', 'failed', 0, timestamp '2026-11-10 11:00'),
                ('4', 'config', 'unknown', 'landed', 5, timestamp '2026-01-01 00:00')
            ) as runs (collection_run_id, source, cluster, status, rows_landed, landed_at)"""
        )
        connection.execute(
            """create table mart_cost_reconciliation_daily as select * from (values
                (date '2026-11-08', 'aws', '1', 'USD', 60.0, 0.0, 0.0, true),
                (date '2026-11-09', 'aws', '1', 'USD', 40.0, -3.0, 1.0, true),
                (date '2026-11-10', 'aws', '1', 'USD', 40.0, 40.0, 0.0, false)
            ) as days (usage_date, provider_name, billing_account_id, currency, effective_cost, difference,
                billed_without_telemetry_cost, is_closed)"""
        )
    rule(home, *rules)
    return home


def rule(home: Home, *rules: str) -> None:
    """Write these rules and no others."""
    columns = HEADER.count(",")
    lines = [line + "," * (columns - line.count(",")) for line in rules]
    rules_path(home).write_text("\n".join([HEADER, *lines]) + "\n")
