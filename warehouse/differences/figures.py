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


@dataclass(frozen=True)
class Figure:
    """A number: `sql` over the rows of `table`, which needs `columns`. Money is told per currency, all else over all of them."""

    name: str
    label: str
    unit: str
    sql: str
    columns: tuple[str, ...]

    @property
    def is_by_currency(self) -> bool:
        return self.unit in (MONEY, MONEY_PER_MILLION)


@dataclass(frozen=True)
class FigureTable:
    """Figures of one table: `levels` maps a level to the SQL of its members; level `fleet` takes all rows together."""

    table: str
    figures: tuple[Figure, ...]
    levels: Mapping[str, str] = field(default_factory=dict)


def _sum(column: str, label: str, unit: str, where: str = "", name: str = "") -> Figure:
    filtered = f" filter (where {where})" if where else ""
    columns = (column, "is_ghost") if "is_ghost" in where else (column,)
    return Figure(name or column, label, unit, f"sum({column}){filtered}", columns)


_IN_SERVICE = "nullif(sum(capacity_gpu_hours) - sum(out_of_service_gpu_hours), 0)"
_NET_COLUMNS = (
    *("capacity_gpu_hours", "out_of_service_gpu_hours", "held_gpu_hours", "productive_gpu_hours"),
    "unobserved_gpu_hours",
)
_COVERAGE = "1 - sum(unobserved_gpu_hours) / nullif(sum(held_gpu_hours), 0)"

TABLES = (
    FigureTable(
        "mart_gpu_net_daily",
        (
            # semantics 6: below the floor the ratio is not given, only its interval
            Figure(
                *("gpu_net_ratio", "GPU Net", RATIO),
                f"case when coalesce({_COVERAGE}, 1) >= {COVERAGE_FLOOR} then sum(productive_gpu_hours) / {_IN_SERVICE} end",
                _NET_COLUMNS,
            ),
            Figure("gpu_net_ratio_low", "GPU Net, low", RATIO, f"sum(productive_gpu_hours) / {_IN_SERVICE}", _NET_COLUMNS),
            Figure(
                *("gpu_net_ratio_high", "GPU Net, high", RATIO),
                f"(sum(productive_gpu_hours) + sum(unobserved_gpu_hours)) / {_IN_SERVICE}",
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
        {FLEET: "'all'", CLUSTER: "cluster"},
    ),
    FigureTable(
        "mart_ghost_capacity_daily",
        (
            _sum("gpu_hours", "Ghost", GPU_HOURS, "is_ghost", "ghost_gpu_hours"),
            _sum("cost", "Ghost cost", MONEY, "is_ghost", "ghost_cost"),
        ),
        {TEAM: "team", WORKLOAD: "workload_id"},
    ),
    FigureTable(
        "mart_ghost_capacity_daily",
        (_sum("gpu_hours", "Time", GPU_HOURS), _sum("cost", "Cost", MONEY)),
        {STATE: "state"},
    ),
    FigureTable(
        "mart_workload_gpu_hours_daily",
        (
            _sum("held_gpu_hours", "Held", GPU_HOURS),
            _sum("productive_gpu_hours", "Productive", GPU_HOURS),
            _sum("allocation_cost", "Cost of held time", MONEY),
        ),
        {TEAM: "team", WORKLOAD: "workload_id"},
    ),
    FigureTable(
        "mart_unit_economics_daily",
        (
            # weighted by tokens: the mart's own figure for one row, the ratio of sums for several
            Figure(
                *("cost_per_million_tokens", "Cost per million tokens", MONEY_PER_MILLION),
                "sum(cast(cost_per_million_tokens as double) * tokens_all)"
                " / nullif(sum(tokens_all) filter (where cost_per_million_tokens is not null), 0)",
                ("cost_per_million_tokens", "tokens_all"),
            ),
            _sum("tokens_all", "Tokens", TOKENS),
        ),
        {FLEET: "'all'", WORKLOAD: "workload_id", MODEL: "model"},
    ),
    FigureTable(
        "mart_cost_reconciliation_daily",
        (
            _sum("billed_cost", "Billed", MONEY),
            _sum("effective_cost", "Effective cost of the bill", MONEY),
            _sum("ledger_cost", "Billed time in the ledger", MONEY),
            _sum("difference", "Bill minus ledger", MONEY),
        ),
        {FLEET: "'all'", ACCOUNT: "provider_name || ' ' || billing_account_id"},
    ),
)
