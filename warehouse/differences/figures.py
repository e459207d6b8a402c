"""The headline figures that two versions are compared by, as data.

Each is an expression over the rows of one published table, so that it is the sum, or the ratio of sums (semantics, rule 3), of
whatever rows are taken together: a day's, a team's, a fortnight's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warehouse.differences.records import (
    ACCOUNT,
    CLUSTER,
    FLEET,
    GPU_HOURS,
    KWH,
    MODEL,
    MONEY,
    MONEY_PER_MILLION,
    RATIO,
    STATE,
    TEAM,
    TOKENS,
    WORKLOAD,
)
from warehouse.first_screen import COVERAGE_FLOOR
from warehouse.sql import Sql, compose, identifier, literal


@dataclass(frozen=True)
class Figure:
    """A number: `sql` over the rows of `table`, which needs `columns`. Money is told per currency, all else over all of them."""

    name: str
    label: str
    unit: str
    sql: Sql
    columns: tuple[str, ...]

    @property
    def is_by_currency(self) -> bool:
        return self.unit in (MONEY, MONEY_PER_MILLION)


@dataclass(frozen=True)
class FigureTable:
    """Figures of one table: `levels` maps a level to the SQL of its members; level `fleet` takes all rows together."""

    table: str
    figures: tuple[Figure, ...]
    levels: Mapping[str, Sql] = field(default_factory=dict)


def _sum(column: str, label: str, unit: str) -> Figure:
    return Figure(column, label, unit, compose("sum({column})", column=identifier(column)), (column,))


def _ghosts(column: str, name: str, label: str, unit: str) -> Figure:
    sql = compose("sum({column}) filter (where is_ghost)", column=identifier(column))
    return Figure(name, label, unit, sql, (column, "is_ghost"))


_IN_SERVICE = compose("nullif(sum(capacity_gpu_hours) - sum(out_of_service_gpu_hours), 0)")
_NET_COLUMNS = (
    *("capacity_gpu_hours", "out_of_service_gpu_hours", "held_gpu_hours", "productive_gpu_hours"),
    "unobserved_gpu_hours",
)
_COVERAGE = compose("1 - sum(unobserved_gpu_hours) / nullif(sum(held_gpu_hours), 0)")
_LOW = compose("sum(productive_gpu_hours) / {in_service}", in_service=_IN_SERVICE)
_ALL = compose("'all'")

TABLES = (
    FigureTable(
        "mart_gpu_net_daily",
        (
            # semantics 6: below the floor the ratio is not given, only its interval
            Figure(
                *("gpu_net_ratio", "GPU Net", RATIO),
                compose(
                    "case when coalesce({coverage}, 1) >= {floor} then {low} end",
                    coverage=_COVERAGE,
                    floor=literal(COVERAGE_FLOOR),
                    low=_LOW,
                ),
                _NET_COLUMNS,
            ),
            Figure("gpu_net_ratio_low", "GPU Net, low", RATIO, _LOW, _NET_COLUMNS),
            Figure(
                *("gpu_net_ratio_high", "GPU Net, high", RATIO),
                compose(
                    "(sum(productive_gpu_hours) + sum(unobserved_gpu_hours)) / {in_service}",
                    in_service=_IN_SERVICE,
                ),
                _NET_COLUMNS,
            ),
            Figure("coverage_ratio", "Coverage of held time", RATIO, _COVERAGE, ("unobserved_gpu_hours", "held_gpu_hours")),
            _sum("capacity_gpu_hours", "Capacity", GPU_HOURS),
            _sum("out_of_service_gpu_hours", "Out of service", GPU_HOURS),
            _sum("held_gpu_hours", "Held", GPU_HOURS),
            _sum("unobserved_gpu_hours", "Unobserved", GPU_HOURS),
            _sum("productive_gpu_hours", "Productive", GPU_HOURS),
            _sum("ghost_gpu_hours", "Ghost", GPU_HOURS),
            _sum("ghost_cost", "Ghost cost", MONEY),
            _sum("cost", "Cost", MONEY),
            _sum("energy_kwh", "Energy", KWH),
        ),
        {FLEET: _ALL, CLUSTER: identifier("cluster")},
    ),
    FigureTable(
        "mart_ghost_capacity_daily",
        (
            _ghosts("gpu_hours", "ghost_gpu_hours", "Ghost", GPU_HOURS),
            _ghosts("cost", "ghost_cost", "Ghost cost", MONEY),
        ),
        {TEAM: identifier("team"), WORKLOAD: identifier("workload_id")},
    ),
    FigureTable(
        "mart_ghost_capacity_daily",
        (_sum("gpu_hours", "Time", GPU_HOURS), _sum("cost", "Cost", MONEY)),
        {STATE: identifier("state")},
    ),
    FigureTable(
        "mart_workload_gpu_hours_daily",
        (
            _sum("held_gpu_hours", "Held", GPU_HOURS),
            _sum("productive_gpu_hours", "Productive", GPU_HOURS),
            _sum("allocation_cost", "Cost of held time", MONEY),
        ),
        {TEAM: identifier("team"), WORKLOAD: identifier("workload_id")},
    ),
    FigureTable(
        "mart_unit_economics_daily",
        (
            # weighted by tokens: the mart's own figure for one row, the ratio of sums for several
            Figure(
                *("cost_per_million_tokens", "Cost per million tokens", MONEY_PER_MILLION),
                compose(
                    "sum(cast(cost_per_million_tokens as double) * tokens_all)"
                    " / nullif(sum(tokens_all) filter (where cost_per_million_tokens is not null), 0)"
                ),
                ("cost_per_million_tokens", "tokens_all"),
            ),
            _sum("tokens_all", "Tokens", TOKENS),
        ),
        {FLEET: _ALL, WORKLOAD: identifier("workload_id"), MODEL: identifier("model")},
    ),
    FigureTable(
        "mart_cost_reconciliation_daily",
        (
            _sum("billed_cost", "Billed", MONEY),
            _sum("effective_cost", "Effective cost of the bill", MONEY),
            _sum("ledger_cost", "Billed time in the ledger", MONEY),
            _sum("difference", "Bill minus ledger", MONEY),
        ),
        {FLEET: _ALL, ACCOUNT: compose("provider_name || ' ' || billing_account_id")},
    ),
)
