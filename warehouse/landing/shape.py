"""The landing shape: every table a collector may land, with its columns, their kinds and their keys.

This is the contract of `interfaces.md` as data. `conform` checks rows against it, `landing` writes by it, the build
hands it to dbt, so that a table nobody has landed yet is still an empty table of the right types.

A column is written `name kind` with these marks: `*` required, `>=0` or `>0` a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

MONEY = pl.Decimal(38, 12)
HISTOGRAM = pl.List(pl.Struct({"le_seconds": pl.Float64, "count": pl.Float64}))

#: kind → the type a value has in Parquet, and in SQL
KINDS: Mapping[str, tuple[Any, str]] = {
    "text": (pl.String, "varchar"),
    "user": (pl.String, "varchar"),  # landed as a keyed hash
    "node_list": (pl.String, "varchar"),  # Slurm's bracket form is expanded: a,b,c
    "json": (pl.String, "varchar"),
    "missing": (pl.String, "varchar"),  # JSON: column → reason
    "integer": (pl.Int64, "bigint"),
    "reading": (pl.Float64, "double"),  # a device may answer [N/A]: null, with the reason in `missing`
    "reading_integer": (pl.Int64, "bigint"),
    "double": (pl.Float64, "double"),
    "boolean": (pl.Boolean, "boolean"),
    "money": (MONEY, "decimal(38,12)"),
    "timestamp": (pl.Datetime("us"), "timestamp"),
    "histogram": (HISTOGRAM, "struct(le_seconds double, count double)[]"),
}


@dataclass(frozen=True)
class Column:
    name: str
    kind: str
    required: bool = False
    at_least: float | None = None
    above: float | None = None

    @property
    def polars_type(self) -> Any:
        return KINDS[self.kind][0]

    @property
    def sql_type(self) -> str:
        return KINDS[self.kind][1]


@dataclass(frozen=True)
class Table:
    """`key` identifies a row, of two rows with one key the one landed last stands; `time` gives the `dt=` partition;
    `group` is the group of tables whose `data_through_at` a landing moves."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    time: str
    group: str

    @property
    def is_reference(self) -> bool:
        """Facts about one business, edited by hand: landing an older state again makes it the current one."""
        return self.group == "reference"

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


#: added to every row by the landing: which landing brought it, when, and from which line of its input
LINEAGE = (
    Column("collection_run_id", "text"),
    Column("landed_at", "timestamp"),
    Column("line_number", "integer"),
)


def _table(name: str, *, key: str, time: str, group: str, columns: str) -> Table:
    return Table(name, tuple(_column(line) for line in columns.split("\n") if line.strip()), tuple(key.split()), time, group)


def _column(line: str) -> Column:
    name, kind, *marks = line.split()
    bounds = {mark[:-1] if mark.endswith("0") else mark: 0.0 for mark in marks if mark.startswith(">")}
    return Column(name, kind, required="*" in marks, at_least=bounds.get(">="), above=bounds.get(">"))


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        _table(
            "gpu_samples",
            key="cluster gpu_uuid slot_uuid source interval_start_at",
            time="interval_start_at",
            group="telemetry",
            columns="""
            cluster text *
            node text *
            gpu_uuid text *
            slot_uuid text
            gpu_index integer
            pci_bus_id text
            interval_start_at timestamp *
            interval_ms integer * >0
            sm_active_ratio reading
            graphics_engine_active_ratio reading
            gpu_utilization_ratio reading
            tensor_active_ratio reading
            dram_active_ratio reading
            memory_used_bytes reading_integer
            memory_total_bytes reading_integer
            power_watts reading
            energy_joules reading
            temperature_celsius reading
            sm_clock_mhz reading
            sm_clock_max_mhz reading
            sm_clock_application_mhz reading
            clock_event_reasons reading_integer
            pcie_rx_bytes reading_integer
            pcie_tx_bytes reading_integer
            nvlink_rx_bytes reading_integer
            nvlink_tx_bytes reading_integer
            xid reading_integer
            source text
            missing missing
            """,
        ),
        _table(
            "gpu_inventory",
            key="cluster gpu_uuid slot_uuid seen_at",
            time="seen_at",
            group="telemetry",
            columns="""
            cluster text *
            node text *
            gpu_uuid text *
            slot_uuid text
            mig_profile text
            compute_slices integer >0
            card_slices integer >0
            gpu_instance_id integer >=0
            gpu_model text *
            memory_total_bytes integer >=0
            pci_bus_id text
            gpu_index integer
            serial text
            driver_version text
            power_limit_watts double
            sm_clock_max_mhz double
            provider text
            provider_resource_id text
            region text
            zone text
            rack text
            is_lost boolean
            seen_at timestamp *
            """,
        ),
        _table(
            "nodes",
            key="cluster node seen_at",
            time="seen_at",
            group="scheduler",
            columns="""
            cluster text *
            node text *
            cpu_count integer >=0
            memory_bytes integer >=0
            gpu_count integer >=0
            instance_type text
            is_spot boolean
            partitions text
            labels json
            seen_at timestamp *
            """,
        ),
        _table(
            "node_states",
            key="cluster node state started_at",
            time="started_at",
            group="scheduler",
            columns="""
            cluster text *
            node text *
            state text *
            reason text
            started_at timestamp *
            ended_at timestamp
            """,
        ),
        _table(
            "node_samples",
            key="cluster node interval_start_at",
            time="interval_start_at",
            group="telemetry",
            columns="""
            cluster text *
            node text *
            interval_start_at timestamp *
            interval_ms integer * >0
            cpu_utilization_ratio reading
            io_wait_ratio reading
            memory_used_bytes reading_integer
            disk_read_bytes reading_integer
            disk_write_bytes reading_integer
            network_rx_bytes reading_integer
            network_tx_bytes reading_integer
            """,
        ),
        _table(
            "gpu_processes",
            key="cluster gpu_uuid slot_uuid pid seen_at",
            time="seen_at",
            group="telemetry",
            columns="""
            cluster text *
            node text *
            gpu_uuid text *
            slot_uuid text
            seen_at timestamp *
            pid integer *
            memory_used_bytes reading_integer
            sm_utilization_ratio reading
            job_id text
            pod_uid text
            container_id text
            user user
            """,
        ),
        _table(
            "runs",
            key="cluster job_id started_at observed_at",
            time="observed_at",
            group="scheduler",
            columns="""
            cluster text *
            scheduler text *
            job_id text *
            name text *
            namespace text
            user user
            queue text
            qos text
            state text *
            exit_code text
            submitted_at timestamp
            eligible_at timestamp
            started_at timestamp
            ended_at timestamp
            time_limit_seconds integer >=0
            suspended_seconds double >=0
            requested_gpu_count double >=0
            gpu_count double >=0
            gpu_model text
            mig_profile text
            share_ratio double >0
            cpu_count double >=0
            cpu_seconds double >=0
            memory_bytes integer >=0
            node_count integer >=0
            node_list node_list
            owner_kind text
            owner_name text
            replica_group text
            labels json
            observed_at timestamp *
            """,
        ),
        _table(
            "run_gpus",
            key="cluster job_id node gpu_uuid slot_uuid gpu_index pci_bus_id mig_profile started_at",
            time="started_at",
            group="scheduler",
            columns="""
            cluster text *
            job_id text *
            node text *
            gpu_uuid text
            slot_uuid text
            gpu_index integer >=0
            pci_bus_id text
            mig_profile text
            gpu_count double * >=0
            share_ratio double >0
            started_at timestamp *
            ended_at timestamp
            assignment_method text
            """,
        ),
        _table(
            "inference_usage",
            key="cluster server job_id workload namespace model adapter interval_start_at",
            time="interval_start_at",
            group="usage",
            columns="""
            cluster text *
            server text *
            node text
            job_id text
            namespace text
            workload text
            model text *
            adapter text
            interval_start_at timestamp *
            interval_ms integer * >0
            request_count integer * >=0
            failed_request_count integer >=0
            prompt_tokens integer >=0
            cached_prompt_tokens integer >=0
            prompt_includes_cached boolean
            output_tokens integer >=0
            running_requests double >=0
            waiting_requests double >=0
            kv_cache_usage_ratio double >=0
            kv_cache_total_bytes integer >=0
            prefill_seconds double >=0
            decode_seconds double >=0
            latency_histogram histogram
            first_token_histogram histogram
            """,
        ),
        _table(
            "inference_requests",
            key="cluster request_id started_at",
            time="started_at",
            group="usage",
            columns="""
            cluster text *
            request_id text *
            started_at timestamp *
            workload text
            job_id text
            server text
            node text
            application text
            team text
            model text *
            adapter text
            prompt_tokens integer >=0
            cached_prompt_tokens integer >=0
            prompt_includes_cached boolean
            output_tokens integer >=0
            status text
            latency_ms double >=0
            first_token_ms double >=0
            """,
        ),
        _table(
            "training_events",
            key="cluster job_id kind step at",
            time="at",
            group="usage",
            columns="""
            cluster text *
            job_id text *
            kind text *
            step integer >=0
            at timestamp *
            samples integer >=0
            tokens integer >=0
            """,
        ),
        _table(
            "billing_lines",
            key="provider_name billing_account_id delivery_id line_number",
            time="charge_period_start",
            group="bills",
            columns="""
            billed_cost money *
            effective_cost money *
            list_cost money
            contracted_cost money
            billing_currency text *
            billing_period_start timestamp *
            billing_period_end timestamp *
            charge_period_start timestamp *
            charge_period_end timestamp *
            charge_category text *
            charge_class text
            charge_description text
            charge_frequency text
            commitment_discount_id text
            commitment_discount_status text
            consumed_quantity money
            consumed_unit text
            pricing_category text
            pricing_quantity money
            pricing_unit text
            list_unit_price money
            contracted_unit_price money
            effective_unit_price money
            provider_name text *
            billing_account_id text *
            sub_account_id text
            invoice_id text
            resource_id text
            resource_alias text
            resource_type text
            region_id text
            availability_zone text
            service_category text
            service_name text
            sku_id text
            sku_price_id text
            tags json
            delivery_id text *
            delivered_at timestamp *
            """,
        ),
        _table(
            "rate_cards",
            key="gpu_model provider cluster currency valid_from",
            time="valid_from",
            group="reference",
            columns="""
            gpu_model text *
            provider text
            cluster text
            currency text *
            cost_per_gpu_hour money >=0
            purchase_price money >=0
            depreciation_hours double >0
            hosting_cost_per_hour money >=0
            energy_price_per_kwh money >=0
            pue double >0
            valid_from timestamp *
            valid_to timestamp
            """,
        ),
        _table(
            "list_prices",
            key="model listed_as provider currency valid_from",
            time="valid_from",
            group="reference",
            columns="""
            model text *
            listed_as text
            provider text
            currency text *
            input_cost_per_million_tokens money >=0
            cached_input_cost_per_million_tokens money >=0
            output_cost_per_million_tokens money >=0
            cost_per_thousand_requests money >=0
            valid_from timestamp *
            valid_to timestamp
            """,
        ),
        _table(
            "carbon_intensities",
            key="cluster region valid_from",
            time="valid_from",
            group="reference",
            columns="""
            cluster text
            region text
            grams_co2e_per_kwh double * >=0
            pue double >0
            valid_from timestamp *
            valid_to timestamp
            """,
        ),
        _table(
            "exchange_rates",
            key="currency reporting_currency valid_from",
            time="valid_from",
            group="reference",
            columns="""
            currency text *
            reporting_currency text *
            rate double * >0
            valid_from timestamp *
            valid_to timestamp
            """,
        ),
        _table(
            "workload_rules",
            key="priority cluster namespace name_regex valid_from",
            time="valid_from",
            group="reference",
            columns="""
            priority integer *
            cluster text
            namespace text
            name_regex text
            workload text *
            application text
            team text
            model text
            kind text
            latency_target_p95_seconds double >0
            min_replicas integer >=0
            replica_capacity_per_second double >0
            valid_from timestamp
            valid_to timestamp
            """,
        ),
        _table(
            "interventions",
            key="intervention_id",
            time="applied_at",
            group="reference",
            columns="""
            intervention_id text *
            cluster text
            workload text *
            action text *
            applied_at timestamp *
            expected_monthly_saving money
            currency text
            note text
            """,
        ),
    )
}

#: values that a column of a closed list may take
CHOICES: Mapping[tuple[str, str], frozenset[str]] = {
    ("node_states", "state"): frozenset({"in_service", "draining", "drained", "down", "maintenance", "reserved"}),
    ("runs", "scheduler"): frozenset({"slurm", "kubernetes", "other"}),
    ("training_events", "kind"): frozenset({"step", "checkpoint", "epoch", "evaluation", "failure"}),
    ("workload_rules", "kind"): frozenset({"inference", "training", "batch", "interactive", "unknown"}),
}

#: pairs (earlier, later): a row whose later instant lies before its earlier one is malformed
ORDERED_INSTANTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "node_states": (("started_at", "ended_at"),),
    "runs": (("started_at", "ended_at"),),
    "run_gpus": (("started_at", "ended_at"),),
    "billing_lines": (("charge_period_start", "charge_period_end"), ("billing_period_start", "billing_period_end")),
    "rate_cards": (("valid_from", "valid_to"),),
    "list_prices": (("valid_from", "valid_to"),),
    "carbon_intensities": (("valid_from", "valid_to"),),
    "exchange_rates": (("valid_from", "valid_to"),),
    "workload_rules": (("valid_from", "valid_to"),),
}

#: the outcome of each landing: one row per landing and table; its file's rename is what commits the landing
COLLECTION_RUNS = _table(
    "collection_runs",
    key="collection_run_id table_name",
    time="landed_at",
    group="outcomes",
    columns="""
    collection_run_id text *
    source text *
    cluster text
    table_name text *
    status text *
    error text
    source_version text
    inputs json
    window_start_at timestamp
    window_end_at timestamp
    data_through_at timestamp
    started_at timestamp *
    landed_at timestamp *
    rows_landed integer *
    rows_quarantined integer *
    rejects json
    gaps json
    content_hash text
    files json
    removed_files json
    clusters json
    """,
)
