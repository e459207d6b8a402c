"""A small world for the money and inference models: every table they read, empty until a test lays rows out.

It runs the very files of `dbt_project/` by the shared harness; what dbt adds (graph, contracts) is tested by the builds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from tests.unit.dbt.harness import Harness
from warehouse.landing_shape import LINEAGE, TABLES

HOUR_US = 3_600_000_000

#: the first hour of every world
DAY = datetime(2025, 10, 1)

CORE_TABLES: Mapping[str, str] = {
    "control__data_through": "cluster varchar, table_group varchar, data_through_at timestamp",
    "control__build_window": "start_at timestamp, end_at timestamp",
    "int_days_touched": "usage_date date",
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
        " gpu_count double"
    ),
    "dim_workloads": (
        "workload_id varchar, cluster varchar, namespace varchar, workload varchar, application varchar, team varchar,"
        " model varchar, kind varchar"
    ),
}

#: the landing tables that money and inference read, as staging hands them on
LANDED = ("billing_lines", "rate_cards", "gpu_inventory", "inference_usage", "inference_requests")

#: the models from bills to device-hours, in the order of the graph
DEVICE_COST_MODELS = (
    "int_billing_lines_current",
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

    def set_variable(self, name: str, value: Any) -> None:
        assert name in self._variables
        self._variables[name] = value

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
        self.add(
            "stg_landing__gpu_inventory",
            cluster=cluster,
            node="n",
            gpu_uuid=gpu,
            gpu_model=gpu_model,
            provider=provider,
            provider_resource_id=resource,
            seen_at=DAY,
        )
        for hour in hours:
            at = DAY + timedelta(hours=hour)
            self.add(
                "int_device_hours",
                hour_start_at=at,
                usage_date=at.date(),
                cluster=cluster,
                node="n",
                gpu_id=gpu,
                gpu_model=gpu_model,
                provider=provider,
                provider_resource_id=resource,
                is_implied=False,
                inventory_us=round(minutes / 60 * HOUR_US),
                energy_joules=None if energy_kwh is None else energy_kwh * 3.6e6,
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
        billing_month: datetime = DAY.replace(day=1),
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

    def source_of(self, name: str) -> str:
        from tests.unit.dbt.harness import DBT_PROJECT

        (path,) = (DBT_PROJECT / "models").rglob(f"{name}.sql")
        return path.read_text()

    def one(self, query: str) -> dict[str, Any]:
        (row,) = self.rows(query)
        return row

    def value(self, query: str) -> Any:
        (value,) = self.one(query).values()
        return value
