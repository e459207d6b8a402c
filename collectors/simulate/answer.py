"""The true answer beside the simulation: GPU-microseconds and money by date, cluster, model, workload, state and reason.

`simulation/<parameters>.csv`, and `.json` with the parameters and what the figures may be off by.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import NamedTuple

from collectors.simulate.money import CURRENCY, UNUSED_PRICE
from collectors.simulate.plan import Plan
from collectors.simulate.states import NOBODY, split_node
from collectors.simulate.world import VERSION, Parameters
from warehouse.atomic import replaced
from warehouse.home import Home

FOLDER = "simulation"
MONEY = Decimal("0.000001")
TOLERANCE = {
    "gpu_microseconds": "1 per device and hour of a row: the ledger rounds the parts of a device-hour to whole microseconds",
    "cost": "0.000001 per device and hour of a row, for the same reason",
    "native text after a hole": (
        "1.5 minutes of a slot for each time that scrapes begin again after a hole (a spot node that comes back, a card that "
        "was lost): the first one stands for the time since the one before, at most for 2.5 intervals (semantics.md 4)"
    ),
    "workloads of alder": (
        "exact for what semantics.md asks: a job without card indices shares its node's working cards with the node's other "
        "jobs in proportion to their counts, so that the stalls of one are partly told of the other"
    ),
}


class Key(NamedTuple):
    """What a row of the answer is of."""

    usage_date: date
    cluster: str
    gpu_model: str
    workload_id: str
    state: str
    state_reason: str
    currency: str


class Amount(NamedTuple):
    """GPU-time, unrounded, and money."""

    gpu_microseconds: float
    cost: float


Answer = Mapping[Key, Amount]


def true_answer(plan: Plan) -> Answer:
    """What really became of every GPU-microsecond, and what it cost at the prices in force."""
    window = plan.window
    dates = window.dates()
    first_minutes = [max(0, window.minute_of_date(day)) for day in dates]
    totals: dict[Key, Amount] = defaultdict(lambda: Amount(0.0, 0.0))
    for node in plan.fleet.nodes:
        prices = [
            next(float(price.amount) for price in plan.prices[node.name] if price.start <= minute < price.end)
            for minute in first_minutes
        ]
        for (workload_id, state, reason), by_date in split_node(plan, node).items():
            for number, us in enumerate(by_date):
                if us > 0:
                    key = Key(dates[number], node.cluster, node.model.name, workload_id, state, reason, CURRENCY)
                    before = totals[key]
                    totals[key] = Amount(before.gpu_microseconds + us, before.cost + us / 3.6e9 * prices[number])
    for number, first in enumerate(first_minutes):
        last = first_minutes[number + 1] if number + 1 < len(dates) else window.minutes
        hours = (min(last, plan.billed_until) - first) // 60
        if hours > 0:
            key = Key(dates[number], NOBODY, "unknown", NOBODY, "commitment_unused", "", CURRENCY)
            totals[key] = Amount(0.0, float(hours * UNUSED_PRICE))
    return dict(sorted(totals.items()))


def write_answer(plan: Plan, parameters: Parameters, home: Home) -> Path:
    """Write the answer and give back where; the same plan writes the same file."""
    folder = home.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{parameters.name}.csv"
    with replaced(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Key._fields, "gpu_microseconds", "gpu_hours", "cost"])
        for key, amount in true_answer(plan).items():
            cost = Decimal(amount.cost).quantize(MONEY, ROUND_HALF_EVEN)
            writer.writerow([*key, round(amount.gpu_microseconds), f"{amount.gpu_microseconds / 3.6e9:.9f}", cost])
    about = {
        "version": VERSION,
        "gpus": parameters.gpus,
        "seed": parameters.seed,
        "start_at": f"{plan.window.start_at:%Y-%m-%dT%H:%M:%SZ}",
        "until_at": f"{plan.window.until_at:%Y-%m-%dT%H:%M:%SZ}",
        "tolerance": TOLERANCE,
    }
    with replaced(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(about, indent=2) + "\n")
    return path
