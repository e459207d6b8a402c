"""Compare what is published with the answer that a simulation left beside it."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from warehouse.database import connect

#: a row of the answer and of the ledger may differ by so much per device-hour (the ledger counts whole microseconds)
HOURS_TOLERANCE, COST_TOLERANCE = 1e-6, Decimal("0.01")
NO_HOURS = 0.0
#: usage_date, cluster, gpu_model, workload_id, state, state_reason, currency
Key = tuple[str, str, str, str, str, str, str]


@dataclass
class Sum:
    """GPU-hours and money of one row."""

    gpu_hours: float = 0.0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True)
class Difference:
    """A row in which the two do not agree."""

    key: Key
    planted: Sum
    published: Sum

    def __str__(self) -> str:
        return (
            f"{' '.join(self.key)}: planted {self.planted.gpu_hours:.6f} h {self.planted.cost:.4f}, "
            f"published {self.published.gpu_hours:.6f} h {self.published.cost:.4f}"
        )


def read_answer(path: Path) -> Mapping[Key, Sum]:
    """The planted truth by key."""
    found: dict[Key, Sum] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = tuple(row[name] for name in (
                "usage_date", "cluster", "gpu_model", "workload_id", "state", "state_reason", "currency"
            ))  # fmt: skip
            found[key] = Sum(int(row["gpu_microseconds"]) / 3.6e9, Decimal(row["cost"]))  # type: ignore[index]
    return found


def read_ledger(database: Path) -> Mapping[Key, Sum]:
    """What the ledger says by the same key; money of no device comes from the waterfall."""
    found: dict[Key, Sum] = defaultdict(Sum)
    with connect(database, read_only=True) as connection:
        rows = connection.execute(
            """select cast(usage_date as varchar), cluster, gpu_model, workload_id, state, state_reason, currency,
                cast(sum(gpu_microseconds) as double) / 3.6e9, coalesce(sum(cost), 0)
            from fct_gpu_ledger_hourly group by all
            union all
            select cast(usage_date as varchar), cluster, gpu_model, workload_id, state, '', currency, gpu_hours, cost
            from mart_ghost_capacity_daily where state = 'commitment_unused'"""
        ).fetchall()
    for *key, gpu_hours, cost in rows:
        found[tuple(key)] = Sum(gpu_hours, Decimal(cost))  # type: ignore[index]
    return found


def differences(planted: Mapping[Key, Sum], published: Mapping[Key, Sum]) -> list[Difference]:
    """The rows that do not agree, the largest difference first."""
    found = []
    for key in planted.keys() | published.keys():
        one, other = planted.get(key, Sum()), published.get(key, Sum())
        if abs(one.gpu_hours - other.gpu_hours) > HOURS_TOLERANCE or abs(one.cost - other.cost) > COST_TOLERANCE:
            found.append(Difference(key, one, other))
    return sorted(found, key=lambda row: (-abs(row.planted.gpu_hours - row.published.gpu_hours), row.key))
