"""A published database of two small clusters, worked by hand, and the pieces to make others of.

2026-11-09, cluster `a`, 10 GPU-hours of capacity at 2 USD: 1 out of service, 3 nobody asked for, 6 held: `chat` (team apps) 4,
of which 1 keeps memory and 3 are productive, `train` (team research) 2, of which 0.5 stalls and 1.5 are productive. GPU Net is
4.5 / 9 = 50.0 %. A commitment of 7 USD is not used. The day before nothing stalled and 2 were productive: 40.0 %.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import duckdb

from warehouse.home import PROJECT_ROOT, Home

#: usage_date, cluster, workload_id, state, state_reason, cost_source, currency, GPU-hours, cost
LedgerRow = tuple[str, str, str, str, str, str, str, float, str | None]
#: workload_id, cluster, workload, team
WorkloadRow = tuple[str, str, str, str]

WORKLOADS: list[WorkloadRow] = [
    ("unallocated", "unallocated", "unallocated", "unallocated"),
    ("a/x/chat", "a", "chat", "apps"),
    ("a/x/train", "a", "train", "research"),
]
DAY, DAY_BEFORE = "2026-11-09", "2026-11-08"
LEDGER: list[LedgerRow] = [
    (DAY_BEFORE, "a", "unallocated", "unallocated", "free", "rate_card", "USD", 2.0, "4"),
    (DAY_BEFORE, "a", "a/x/chat", "reserved_memory", "", "rate_card", "USD", 1.0, "2"),
    (DAY_BEFORE, "a", "a/x/train", "productive", "", "rate_card", "USD", 2.0, "4"),
    (DAY, "a", "unallocated", "out_of_service", "down", "rate_card", "USD", 1.0, "2"),
    (DAY, "a", "unallocated", "unallocated", "free", "rate_card", "USD", 3.0, "6"),
    (DAY, "a", "a/x/chat", "reserved_memory", "", "billing", "USD", 1.0, "2"),
    (DAY, "a", "a/x/chat", "productive", "", "billing", "USD", 3.0, "6"),
    (DAY, "a", "a/x/train", "pipeline_waiting", "stall", "rate_card", "USD", 0.5, "1"),
    (DAY, "a", "a/x/train", "productive", "", "rate_card", "USD", 1.5, "3"),
]
#: usage_date, currency, cost
COMMITMENTS = [(DAY, "USD", "7")]
#: usage_date, workload_id, model, currency, prompt tokens, output tokens, requests,
#: cost per million tokens and per 1,000 requests, why there is none
ECONOMICS: list[tuple[object, ...]] = [
    (DAY_BEFORE, "a/x/chat", "llama", "USD", 3_000_000, 1_000_000, 2000, "0.500000", "1.000000", None),
    (DAY, "a/x/chat", "llama", "USD", 12_000_000, 3_000_000, 4000, "0.533333", "2.000000", None),
    (DAY, "a/x/train", "idle-model", "USD", 0, 0, 0, None, None, "no_tokens"),
]
#: usage_date, cluster, source, expected, covered hours, rows landed, quarantined, last landed
COVERAGE: list[tuple[object, ...]] = [
    (DAY, "a", "dcgm", 6.0, 5.4, 2160, 3, "2026-11-10 00:05"),
    (DAY, "a", "slurm", None, None, 40, 0, "2026-11-10 00:06"),
    (DAY, "b", "dcgm", 2.0, 0.0, 0, 0, None),
]

_SCHEMA = """
create table publication (publication_id varchar, build_id varchar, published_at timestamp, data_through_at timestamp,
    checks_passed bigint, checks_warned bigint, version varchar);
create table gate_results (check_id varchar, table_name varchar, severity varchar, success boolean, observed varchar,
    unexpected_count bigint, message varchar, checked_at timestamp);
create table dim_workloads (workload_id varchar, cluster varchar, workload varchar, team varchar);
create table fct_gpu_ledger_hourly (usage_date date, cluster varchar, workload_id varchar, state varchar, state_reason varchar,
    cost_source varchar, currency varchar, gpu_hours double, cost decimal(18, 6));
create table commitments (usage_date date, currency varchar, cost decimal(18, 6));
create table mart_unit_economics_daily (usage_date date, workload_id varchar, cluster varchar, model varchar, currency varchar,
    prompt_tokens bigint, output_tokens bigint, tokens_all bigint, request_count bigint,
    cost_per_million_tokens decimal(18, 6), cost_per_thousand_requests decimal(18, 6), null_reason varchar,
    list_cost_per_million_tokens decimal(18, 6), list_cost_per_thousand_requests decimal(18, 6), list_model varchar,
    list_provider varchar, cost_to_list_ratio double);
create table mart_data_coverage_daily (usage_date date, cluster varchar, source varchar, expected_hours double,
    covered_hours double, coverage_ratio double, rows_landed bigint, rows_quarantined bigint, last_landed_at timestamp);
"""
_MARTS = """
create table mart_ghost_capacity_daily as
    with steps as (
        select usage_date, cluster, workload_id, state, currency, sum(gpu_hours) as gpu_hours, sum(cost) as cost
        from fct_gpu_ledger_hourly group by all
        union all
        select usage_date, 'unallocated', 'unallocated', 'commitment_unused', currency, 0, cost from commitments
    )
    select steps.*, 'H100' as gpu_model, coalesce(team, 'unknown') as team, state_order, is_ghost
    from steps inner join dim_states using (state) left join dim_workloads using (workload_id);
create table mart_gpu_net_daily as
    select usage_date, cluster, sum(gpu_hours) as capacity_gpu_hours,
        sum(case when state = 'out_of_service' then gpu_hours else 0 end) as out_of_service_gpu_hours,
        sum(case when state not in ('out_of_service', 'unallocated', 'borrowed') then gpu_hours else 0 end) as held_gpu_hours,
        sum(case when state = 'unobserved' then gpu_hours else 0 end) as unobserved_gpu_hours,
        sum(case when state = 'productive' then gpu_hours else 0 end) as productive_gpu_hours
    from fct_gpu_ledger_hourly group by all;
drop table commitments;
"""


def publish(
    home: Home,
    ledger: Sequence[LedgerRow] = LEDGER,
    workloads: Sequence[WorkloadRow] = WORKLOADS,
    commitments: Sequence[tuple[str, str, str]] = COMMITMENTS,
    economics: Sequence[tuple[object, ...]] = ECONOMICS,
    coverage: Sequence[tuple[object, ...]] = COVERAGE,
    through: str | None = "2026-11-10 00:10",
    warnings: Sequence[str] = (),
    version: str = "v000007",
) -> Path:
    """Write the database as publishing would leave it; its path."""
    home.create()
    path = home.published / version / "gpu_net.duckdb"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    current = home.published / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(version)
    with duckdb.connect(str(path)) as connection:
        connection.execute(_SCHEMA)
        states = PROJECT_ROOT / "dbt_project" / "seeds" / "states.csv"
        connection.execute(f"create table dim_states as from read_csv('{states}')")
        connection.execute(
            "insert into publication values (?, 'build-7', '2026-11-10 00:40', ?, 206, ?, '1')", [version, through, len(warnings)]
        )
        for number, message in enumerate(warnings):
            connection.execute(
                "insert into gate_results values (?, 't', 'warning', false, '', 1, ?, null)", [f"w{number}", message]
            )
        _insert(connection, "dim_workloads", workloads)
        _insert(connection, "fct_gpu_ledger_hourly", ledger)
        _insert(connection, "commitments", commitments)
        clusters = {workload_id: cluster for workload_id, cluster, _, _ in workloads}
        _insert(
            connection,
            "mart_unit_economics_daily",
            [
                (
                    day,
                    workload,
                    clusters.get(str(workload), "unknown"),
                    model,
                    currency,
                    prompt,
                    output,
                    prompt + output,
                    *rest,
                    *[None] * (9 - len(rest)),
                )  # type: ignore[operator]
                for day, workload, model, currency, prompt, output, *rest in economics
            ],
        )
        _insert(
            connection,
            "mart_data_coverage_daily",
            [
                (day, cluster, source, expected, covered, covered / expected if expected else None, *rest)  # type: ignore[operator]
                for day, cluster, source, expected, covered, *rest in coverage
            ],
        )
        connection.execute(_MARTS)
    return path


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Many rows a statement: one each would take a minute for a thousand GPUs."""
    for start in range(0, len(rows), 500):
        chunk = rows[start : start + 500]
        row = f"({', '.join('?' * len(chunk[0]))})"
        values = [value for one in chunk for value in one]
        connection.execute(f"insert into {table} values {', '.join([row] * len(chunk))}", values)


def hold(home: Home, checked_at: datetime, build_id: str = "build-8", message: str = "Two rows are one.") -> None:
    """Leave the verdict record of a build that the gate did not let through."""
    home.create()
    check = {
        "check_id": "keys",
        "table": "fct_gpu_ledger_hourly",
        "severity": "critical",
        "success": False,
        "observed": "2",
        "unexpected_count": 2,
        "message": message,
    }
    record = {
        "build_id": build_id,
        "verdict": "hold",
        "checked_at": f"{checked_at.isoformat()}Z",
        "database_state": "",
        "checks": [check],
    }
    (home.build / "verdict.json").write_text(json.dumps(record))
