"""The hourly ledger: where every GPU-microsecond went, and its money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expectations.history import HOURS_HIGH, HOURS_LOW, no_new_kinds, shape_in_range, volume
from expectations.rules import (
    WARNING,
    Table,
    at_least_zero,
    between,
    finite,
    has_columns,
    has_rows,
    key,
    no_rows,
    no_rows_where,
    not_null,
    one_of,
    references,
)

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

COST_SOURCES = ("billing", "rate_card", "estimate", "unpriced")
SIGNAL_SOURCES = ("sm_active", "graphics_engine_active", "gpu_utilization", "none")


def expectations(table: Table) -> list[Expectation]:
    return [
        has_columns(
            *("hour_start_at", "slot_id", "run_id", "state", "state_reason", "signal_source", "cost_source", "currency"),
            *("cluster", "node", "gpu_id", "gpu_model", "workload_id", "is_ghost", "gpu_microseconds", "gpu_hours"),
            *("energy_kwh", "cost"),
        ),
        *key("hour_start_at", "slot_id", "run_id", "state", "state_reason", "signal_source", "cost_source", "currency"),
        not_null("cluster", "node", "gpu_id", "gpu_model", "workload_id", "is_ghost", "gpu_microseconds", "gpu_hours"),
        *finite(table),
        between("gpu_hours", 0, 1),
        at_least_zero("energy_kwh"),
        one_of("cost_source", COST_SOURCES),
        one_of("signal_source", SIGNAL_SOURCES),
        *_references(),
        *_conserved(),
        *_as_in_the_last_weeks(),
        has_rows("No GPU time is known: land gpu_inventory, gpu_samples or runs (`python -m collectors check`).", WARNING),
    ]


def _references() -> list[Expectation]:
    reason_known = """
        select ledger.* from {batch} as ledger
        inner join main.dim_states as states on ledger.state = states.state
        where ledger.state_reason <> ''
            and not list_contains(string_split(states.state_reasons, '|'), ledger.state_reason)"""
    ghost_agrees = """
        select ledger.* from {batch} as ledger
        inner join main.dim_states as states on ledger.state = states.state
        where ledger.is_ghost is distinct from states.is_ghost"""
    return [
        references("state", "dim_states"),
        references("cluster", "dim_clusters"),
        references("gpu_id", "dim_gpus"),
        references("slot_id", "dim_slots"),
        references("run_id", "dim_runs"),
        references("workload_id", "dim_workloads"),
        no_rows(
            "state_reason_in_dim_states", reason_known, "A state_reason is not in the closed list of its state in dim_states."
        ),
        no_rows(
            "is_ghost_as_in_dim_states",
            ghost_agrees,
            "is_ghost of a row is not that of its state, so that ghost hours are wrong.",
        ),
    ]


def _conserved() -> list[Expectation]:
    too_long = """
        select hour_start_at, gpu_id from {batch} group by hour_start_at, gpu_id
        having sum(gpu_microseconds) > 3600000000 or min(gpu_microseconds) < 0"""
    return [
        no_rows(
            "device_hour_at_most_one_hour",
            too_long,
            "A device has more than its hour, or less than nothing: time is counted twice.",
        ),
        no_rows_where(
            "hours_are_the_microseconds",
            "not (abs(gpu_hours - gpu_microseconds / 3.6e9) <= 1e-9)",
            "gpu_hours is not gpu_microseconds: the last select of the ledger is wrong.",
        ),
        no_rows_where(
            "hour_start_is_a_full_hour",
            "hour_start_at <> date_trunc('hour', hour_start_at)",
            "hour_start_at is no full UTC hour: a session zone or an uncut interval got into the ledger.",
        ),
        no_rows_where(
            "no_cost_means_unpriced",
            "(cost is null) <> (cost_source = 'unpriced')",
            "A row has a price from nowhere, or a source without a price: unknown is null, and never 0.",
        ),
    ]


def _as_in_the_last_weeks() -> list[Expectation]:
    return [
        volume(
            *("hours_as_in_last_weeks", ("cluster",), "gpu_hours"),
            "A cluster's GPU-hours of the newest whole day are less than half, or more than twice, those of the same weekday "
            "before: did machines come or go? If not, an inventory or node list was not landed: python -m warehouse status.",
            low=HOURS_LOW,
            high=HOURS_HIGH,
            least=1,
            is_nothing_told=True,
        ),
        shape_in_range(
            *("states_as_in_last_weeks", "state"),
            "A state takes a share of a cluster's newest whole day that is 20 points outside of what it had in the last weeks: "
            "look at the workloads behind it first, then at what changed in collectors, rules or this software.",
        ),
        shape_in_range(
            *("signals_as_in_last_weeks", "signal_source"),
            "The signal that a cluster's states rest on changed: a better or worse source of readings (DCGM, NVML) came or went, "
            "so that figures before and after are not alike. Try `python -m collectors check` on its hosts.",
        ),
        no_new_kinds(
            "no_new_kinds_of_time",
            "A state or reason that a cluster did not have for weeks takes 5 % of its newest whole day or more: find out what is "
            "new there before trusting its figures.",
        ),
    ]
