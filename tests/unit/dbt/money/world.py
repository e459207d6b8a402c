"""A small world for the money and inference models: every table they read, empty until a test lays rows out.

It runs the very files of `dbt_project/` by the shared harness; what dbt adds (graph, contracts) is tested by the builds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest import mock

import jinja2

from tests.unit.dbt.harness import DBT_PROJECT, Harness, _invoke, _macros
from warehouse.landing.shape import LINEAGE, TABLES

HOUR_US = 3_600_000_000

#: the first hour of every world, and the start of its billing period
DAY = datetime(2025, 10, 1)

CORE_TABLES: Mapping[str, str] = {
    "control__data_through": "cluster varchar, table_group varchar, data_through_at timestamp",
    "control__build_window": "start_at timestamp, end_at timestamp",
    "control__days_landed": "table_name varchar, usage_date date",
    "int_days_touched": "usage_date date, is_rolled_up boolean default false, is_sealed boolean default false",
    "int_gpu_inventory_changes": (
        "cluster varchar, node varchar, gpu_uuid varchar, gpu_model varchar, provider varchar, provider_resource_id varchar,"
        " seen_at timestamp"
    ),
    "int_device_hours": (
        "hour_start_at timestamp, usage_date date, cluster varchar, node varchar, gpu_id varchar, gpu_model varchar,"
        " provider varchar, provider_resource_id varchar, is_implied boolean, inventory_us bigint, energy_joules double"
    ),
    "fct_gpu_ledger_hourly": (
        "hour_start_at timestamp, usage_date date, slot_id varchar, run_id varchar, state varchar, state_reason varchar,"
        " signal_source varchar, cost_source varchar, currency varchar, cluster varchar, node varchar, gpu_id varchar,"
        " gpu_model varchar, workload_id varchar, is_ghost boolean, gpu_microseconds bigint, gpu_hours double,"
        " energy_kwh double, cost decimal(18, 6)"
    ),
    "int_runs": (
        "run_id varchar, cluster varchar, job_id varchar, workload_id varchar, name varchar, namespace varchar,"
        " workload varchar, submitted_at timestamp, started_at timestamp, held_from_at timestamp, held_until_at timestamp,"
        " gpu_count double, model varchar"
    ),
    "int_runs_named": (
        "run_id varchar, cluster varchar, scheduler varchar, job_id varchar, namespace varchar, name varchar, labels varchar"
    ),
    "int_holds_claimed": "run_id varchar, cluster varchar, node varchar, started_at timestamp, ended_at timestamp",
    "dim_nodes": "cluster varchar, node varchar, provider varchar, region varchar",
    "dim_workloads": (
        "workload_id varchar, cluster varchar, namespace varchar, workload varchar, application varchar, team varchar,"
        " model varchar, kind varchar"
    ),
}

#: the landing tables that money and inference read, as staging hands them on
LANDED = (
    "billing_lines",
    "rate_cards",
    "exchange_rates",
    "inference_usage",
    "inference_requests",
    "list_prices",
    "carbon_intensities",
)

#: the models from bills to device-hours, in the order of the graph
DEVICE_COST_MODELS = (
    "int_billing_lines_current",
    "int_billing_resources_matched",
    "int_billing_lines_classified",
    "fct_billing_lines",
    "int_billing_delivered_through",
    "int_billing_charges_recognised",
    "int_device_hour_billing_costs",
    "int_rate_card_prices",
    "int_billing_estimate_rates",
    "int_device_hour_costs",
    "int_commitment_unused_hours",
)

RECONCILIATION_MODELS = (
    "int_exchange_rates",
    "int_billing_charge_days",
    "int_ledger_billing_costs_daily",
    "mart_cost_reconciliation_daily",
    "audit_cost_reconciled",
    "mart_unmatched_costs_daily",
)

#: the models from the ledger and inference telemetry to unit costs
UNIT_COST_MODELS = (
    "int_ledger_cost_bases_hourly",
    "int_usage_servers_daily",
    "int_usage_servers_owned",
    "int_inference_usage_owned",
    "int_inference_usage_hourly",
    "int_runs_known_as",
    "int_inference_requests_traced",
    "int_inference_requests_assigned",
    "int_inference_requests_hourly",
    "int_inference_latency_hourly",
    "int_inference_coverage_hourly",
    "fct_inference_hourly",
    "int_workload_energy_hourly",
    "int_workload_model_hours",
    "int_inference_latency_daily",
    "int_exchange_rates",
    "int_list_prices",
    "mart_unit_economics_daily",
    "int_adapter_hours",
    "mart_adapter_unit_economics_daily",
)

_RENDERED: dict[tuple[str, bool, str], str] = {}


class World(Harness):
    """One cluster `a` on node `n`, seen by telemetry through `through`."""

    def __init__(self, through: datetime = DAY + timedelta(days=3)) -> None:
        super().__init__(session_zone="America/New_York")
        self._incremental = False
        self._environment.globals["is_incremental"] = lambda: self._incremental
        self._line_number = 0
        for name, columns in CORE_TABLES.items():
            self.connection.execute(f"create table {name} ({columns})")
        for table in (TABLES[name] for name in LANDED):
            columns = ", ".join(f"{column.name} {column.sql_type}" for column in (*table.columns, *LINEAGE))
            self.connection.execute(f"create table stg_landing__{table.name} ({columns})")
        self.give_seed("gpu_models")
        self.give_seed("gpu_sku_types")
        self.add("control__build_window", start_at=None)
        self.add("control__data_through", cluster="a", table_group="telemetry", data_through_at=through)

    def render(self, name: str) -> str:
        """A model's SQL; rendered once, as compiling all macros takes longer than running it."""
        key = (name, self._incremental, str(self.variables))
        if key not in _RENDERED:
            _RENDERED[key] = super().render(name)
        return _RENDERED[key]

    def set_variable(self, name: str, value: Any) -> None:
        assert name in self.variables
        self.variables[name] = value

    def add(self, table: str, **row: Any) -> None:
        """One more row; columns it leaves out are null."""
        marks = ", ".join("?" for _ in row)
        self.connection.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", list(row.values()))

    def add_device(
        self,
        gpu: str,
        resource: str | None,
        hours: Iterable[int],
        *,
        minutes: float = 60,
        energy_kwh: float | None = None,
        cluster: str = "a",
        provider: str = "aws",
        gpu_model: str = "NVIDIA H100 80GB HBM3",
    ) -> None:
        """A device in inventory for `minutes` of each of the hours, counted from the first hour of the world."""
        energy_joules = None if energy_kwh is None else energy_kwh * 3.6e6
        self.add(
            "int_gpu_inventory_changes",
            cluster=cluster,
            node="n",
            gpu_uuid=gpu,
            gpu_model=gpu_model,
            provider=provider,
            provider_resource_id=resource,
            seen_at=DAY,
        )
        self.connection.execute(
            """
            insert into int_device_hours by name
            select
                timestamp '2025-10-01' + to_hours(hour) as hour_start_at, cast(hour_start_at as date) as usage_date,
                ? as cluster, 'n' as node, ? as gpu_id, ? as gpu_model, ? as provider, ? as provider_resource_id,
                false as is_implied, ? as inventory_us, ? as energy_joules
            from (select unnest(?::integer[]) as hour)
            """,
            [cluster, gpu, gpu_model, provider, resource, round(minutes / 60 * HOUR_US), energy_joules, list(hours)],
        )

    def add_line(
        self,
        effective: str,
        *,
        at: datetime = DAY,
        lasts: timedelta = timedelta(days=1),
        resource: str | None = "i-1",
        category: str = "Usage",
        billed: str | None = None,
        billing_month: datetime = DAY,
        **others: Any,
    ) -> None:
        """A line of a bill; its billed cost is its effective cost unless told."""
        self._line_number += 1
        line = {
            "effective_cost": effective,
            "billed_cost": effective if billed is None else billed,
            "billing_currency": "USD",
            "billing_period_start": billing_month,
            "billing_period_end": (billing_month + timedelta(days=32)).replace(day=1),
            "charge_period_start": at,
            "charge_period_end": at + lasts,
            "charge_category": category,
            "provider_name": "AWS",
            "billing_account_id": "123",
            "resource_id": resource,
            "delivery_id": "d1",
            "delivered_at": DAY + timedelta(days=5),
            "collection_run_id": "run-1",
            "line_number": self._line_number,
        }
        self.add("stg_landing__billing_lines", **(line | others))

    def add_rate_card(self, *, valid_from: datetime = datetime(2025, 1, 1), **card: Any) -> None:
        defaults = {"gpu_model": "NVIDIA H100 80GB HBM3", "currency": "USD", "landed_at": DAY}
        self.add("stg_landing__rate_cards", valid_from=valid_from, **(defaults | card))

    def add_ledger(
        self, gpu: str, hour: int, *pieces: tuple[str, str, float], slot: str | None = None, cost: str | None = None
    ) -> None:
        """The ledger of a device's hour: pieces of (workload, state, minutes); `unallocated` is nobody's.

        The money is `cost`, else what `int_device_hour_costs` says, by time; amounts must divide evenly.
        """
        at = DAY + timedelta(hours=hour)
        device = self.one(f"select * from int_device_hours where gpu_id = '{gpu}' and hour_start_at = timestamp '{at}'")
        if cost is None:
            priced = self.one(f"select * from int_device_hour_costs where gpu_id = '{gpu}' and hour_start_at = timestamp '{at}'")
        else:
            priced = {"cost": Decimal(cost), "currency": "USD", "cost_source": "rate_card"}
        total = sum(minutes for _, _, minutes in pieces)
        for number, (workload, state, minutes) in enumerate(pieces):
            part = None if priced["cost"] is None else priced["cost"] * Decimal(str(minutes)) / Decimal(str(total))
            self.add(
                "fct_gpu_ledger_hourly",
                hour_start_at=at,
                usage_date=at.date(),
                slot_id=slot or gpu,
                run_id="unallocated" if workload == "unallocated" else f"{workload}-{number}",
                state=state,
                state_reason="",
                signal_source="sm_active",
                cost_source=priced["cost_source"],
                currency=priced["currency"],
                cluster=device["cluster"],
                node=device["node"],
                gpu_id=gpu,
                gpu_model=device["gpu_model"],
                workload_id=workload,
                gpu_microseconds=round(minutes / 60 * HOUR_US),
                cost=part,
            )

    def add_service(self, workload: str = "chat", *, hours: float = 24, jobs: Iterable[str] = ("j1",), model: str = "m") -> str:
        """An inference workload of cluster `a` whose runs hold their GPUs for the first hours; its id."""
        workload_id = f"a/-/{workload}"
        self.add(
            "dim_workloads", workload_id=workload_id, cluster="a", namespace="-", workload=workload, model=model, kind="inference"
        )
        for job in jobs:
            self.add(
                "int_runs",
                run_id=f"a/{job}",
                cluster="a",
                job_id=job,
                workload_id=workload_id,
                workload=workload,
                namespace="-",
                name=job,
                started_at=DAY,
                held_from_at=DAY,
                held_until_at=DAY + timedelta(hours=hours),
                gpu_count=1,
            )
        return workload_id

    def add_usage(self, *, minute: float = 0, lasts: float = 60, **usage: Any) -> None:
        """What a server's counters say of an interval, in minutes from the first hour of the world."""
        defaults: dict[str, Any] = {"cluster": "a", "server": "s:8000", "model": "m", "request_count": 0}
        interval = {"interval_start_at": DAY + timedelta(minutes=minute), "interval_ms": round(lasts * 60_000)}
        self.add("stg_landing__inference_usage", **(defaults | interval | usage))

    def build(self, *names: str) -> None:
        """Build models anew, in the order given."""
        for name in names:
            self.connection.execute(f"create or replace table {name} as {self.render(name)}")

    def rebuild_days(self, *days: date, models: Iterable[str]) -> None:
        """Build as after a landing: incremental models replace the touched days, the others are made anew."""
        self.connection.execute("delete from int_days_touched")
        for day in days:
            self.add("int_days_touched", usage_date=day)
        self._incremental = True
        try:
            for name in models:
                sql = self.render(name)
                if "replace_days" in self.source_of(name):
                    self.connection.execute(f"create or replace temp table fresh as {sql}")
                    self.connection.execute(f"delete from {name} where usage_date in (select usage_date from int_days_touched)")
                    self.connection.execute(f"insert into {name} by name select * from fresh")
                else:
                    self.connection.execute(f"create or replace table {name} as {sql}")
        finally:
            self._incremental = False

    def sql(self, text: str) -> str:
        """SQL with the project's macros expanded."""
        with mock.patch.object(jinja2.runtime.Macro, "_invoke", _invoke):
            return self._environment.from_string(_macros() + text).render()

    def source_of(self, name: str) -> str:
        (path,) = (DBT_PROJECT / "models").rglob(f"{name}.sql")
        return path.read_text()

    def one(self, query: str) -> dict[str, Any]:
        (row,) = self.rows(query)
        return row

    def value(self, query: str) -> Any:
        (value,) = self.one(query).values()
        return value
