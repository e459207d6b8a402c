"""Compare what is published with the answer that a simulation left beside it."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from warehouse.database import connect

#: the ledger counts whole microseconds and whole millionths of money per device-hour; what is more is a difference
HOURS_TOLERANCE, COST_TOLERANCE = 1e-6, Decimal("0.01")


class Key(NamedTuple):
    """What a row of the answer, and of the ledger's sums, is of."""

    usage_date: str
    cluster: str
    gpu_model: str
    workload_id: str
    state: str
    state_reason: str
    currency: str


class Sum(NamedTuple):
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
        planted, published = (f"{one.gpu_hours:.6f} h and {one.cost:.4f}" for one in (self.planted, self.published))
        return f"{' '.join(self.key)}: planted {planted}, published {published}"


@dataclass(frozen=True)
class Comparison:
    """All of the answer beside all of the ledger; `differences` from the largest on."""

    planted: Mapping[Key, Sum]
    published: Mapping[Key, Sum]
    differences: Sequence[Difference]

    def summary(self, shown: int = 5) -> str:
        """What a person wants to know: whether the warehouse found what was planted."""
        hours = sum(row.gpu_hours for row in self.planted.values())
        cost = sum(row.cost for row in self.planted.values())
        off_hours = sum(abs(row.planted.gpu_hours - row.published.gpu_hours) for row in self.differences)
        off_cost = sum(abs(row.planted.cost - row.published.cost) for row in self.differences)
        lines = [
            f"planted truth     {len(self.planted)} rows of day, cluster, workload, state and reason: {hours:,.2f} GPU-hours, "
            f"{cost:,.2f} USD",
            f"difference        {len(self.differences)} rows, {off_hours:,.2f} GPU-hours, {off_cost:,.2f} USD",
        ]
        return "\n".join([*lines, *(f"  {row}" for row in self.differences[:shown])])


def compare(answer: Path, database: Path) -> Comparison:
    """The answer beside the published (or built) ledger."""
    planted, published = read_answer(answer), read_ledger(database)
    found = []
    for key in planted.keys() | published.keys():
        one, other = planted.get(key, Sum()), published.get(key, Sum())
        if abs(one.gpu_hours - other.gpu_hours) > HOURS_TOLERANCE or abs(one.cost - other.cost) > COST_TOLERANCE:
            found.append(Difference(key, one, other))
    found.sort(key=lambda row: (-abs(row.planted.gpu_hours - row.published.gpu_hours), row.key))
    return Comparison(planted, published, found)


def read_answer(path: Path) -> Mapping[Key, Sum]:
    """The planted truth by key."""
    with path.open(newline="") as file:
        return {
            Key(*(row[name] for name in Key._fields)): Sum(int(row["gpu_microseconds"]) / 3.6e9, Decimal(row["cost"]))
            for row in csv.DictReader(file)
        }


def read_ledger(database: Path) -> Mapping[Key, Sum]:
    """What the ledger says by the same key; money of no device comes from the waterfall. Money without a price counts 0."""
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
        found[Key(*key)] = Sum(gpu_hours, Decimal(cost))
    return found
