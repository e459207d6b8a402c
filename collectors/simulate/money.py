"""What the fleet costs: rate cards of alder and drift, FOCUS bills of cirrus that come two days late.

Energy is no part of the rates, so that a GPU-hour's price follows from its hour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from collectors.simulate.hardware import A100, ALDER, CIRRUS, DRIFT, H100, SERVING, Fleet, Node
from collectors.simulate.plan import Plan, Price
from collectors.simulate.window import DAY_MINUTES, Window

CURRENCY = "USD"
CLOUD, SPOT_CLOUD = "Example Cloud", "Example Spot"
#: providers by cluster, as inventory records name them
PROVIDERS = {CIRRUS: CLOUD, DRIFT: SPOT_CLOUD}
ACCOUNT = "acct-001"

PURCHASE_PRICE, DEPRECIATION_HOURS = Decimal("15768"), 35_040
#: hosting per hour of an A100, and the spot price of an H100: before and after a midnight in the middle
HOSTING = (Decimal("0.38"), Decimal("0.43"))
SPOT_PRICES = (Decimal("1.29"), Decimal("1.18"))
#: the list price of a GPU-hour in cirrus, by model
LIST_PRICES = {H100.name: Decimal("2.96"), "NVIDIA L40S": Decimal("1.18")}
#: what the first serving node costs under its commitment, and what an hour of the commitment that nobody used does
COMMITTED_PRICE, UNUSED_PRICE = Decimal("2.21"), Decimal("0.38")
COMMITMENT = "commitment-h100"

#: a day's bill comes so long after its end, if the plan is long enough to have billed days
DELAY_MINUTES = 47 * 60
SHORTEST_DELAYED = 4 * DAY_MINUTES


def change_of_prices(window: Window) -> int | None:
    """The minute of the midnight in the middle from which rates are others; None in a plan without a midnight to spare."""
    dates = window.dates()
    if len(dates) < 3:
        return None
    return window.minute_of(datetime.combine(dates[len(dates) // 2], datetime.min.time()))


def prices_of(fleet: Fleet, window: Window) -> Mapping[str, Sequence[Price]]:
    """Node → what a GPU-hour on it costs, in USD."""
    own = PURCHASE_PRICE / DEPRECIATION_HOURS
    found: dict[str, Sequence[Price]] = {}
    for node in fleet.nodes:
        if node.cluster == ALDER:
            found[node.name] = _in_two(own + HOSTING[0], own + HOSTING[1], window)
        elif node.cluster == DRIFT:
            found[node.name] = _in_two(*SPOT_PRICES, window)
        else:
            found[node.name] = [Price(_bill_price(fleet, node), 0, window.minutes)]
    return found


def _in_two(before: Decimal, after: Decimal, window: Window) -> list[Price]:
    change = change_of_prices(window)
    if change is None:
        return [Price(before, 0, window.minutes)]
    return [Price(before, 0, change), Price(after, change, window.minutes)]


def _bill_price(fleet: Fleet, node: Node) -> Decimal:
    return COMMITTED_PRICE if node is fleet.of(SERVING)[0] else LIST_PRICES[node.model.name]


def delivery_minute(window: Window, day: date) -> int:
    """When a day's bill comes: 47 hours after its end; in a short plan at the plan's end."""
    if window.minutes < SHORTEST_DELAYED:
        return window.minutes - 1
    return window.minute_of_date(day) + DAY_MINUTES + DELAY_MINUTES


def billed_until(window: Window) -> int:
    """The end of what has been billed by the plan's end."""
    billed = [day for day in window.dates() if delivery_minute(window, day) < window.minutes]
    return min(window.minutes, window.minute_of_date(billed[-1]) + DAY_MINUTES)


def rate_cards(plan: Plan) -> Iterator[Mapping[str, Any]]:
    change = change_of_prices(plan.window)
    began_at = datetime(plan.window.start_at.year - 1, 1, 1)
    spans: list[tuple[datetime, datetime | None]] = [(began_at, None)]
    if change is not None:
        spans = [(began_at, plan.window.at(change)), (plan.window.at(change), None)]
    for number, (valid_from, valid_to) in enumerate(spans):
        yield {
            "gpu_model": A100.name,
            "provider": None,
            "cluster": ALDER,
            "currency": CURRENCY,
            "cost_per_gpu_hour": None,
            "purchase_price": str(PURCHASE_PRICE),
            "depreciation_hours": float(DEPRECIATION_HOURS),
            "hosting_cost_per_hour": str(HOSTING[number]),
            "valid_from": valid_from,
            "valid_to": valid_to,
        }
        yield {
            "gpu_model": H100.name,
            "provider": SPOT_CLOUD,
            "cluster": DRIFT,
            "currency": CURRENCY,
            "cost_per_gpu_hour": str(SPOT_PRICES[number]),
            "purchase_price": None,
            "depreciation_hours": None,
            "hosting_cost_per_hour": None,
            "valid_from": valid_from,
            "valid_to": valid_to,
        }


def bill_lines(plan: Plan, first: int, last: int) -> Iterator[Mapping[str, str | None]]:
    """The lines of `[first, last)`: node-hours, the commitment's unused part, and what is none of the ledger's."""
    nodes = plan.fleet.in_cluster(CIRRUS)
    committed = plan.fleet.of(SERVING)[0]
    for minute in range(first, last, 60):
        hour = plan.window.at(minute)
        for node in nodes:
            is_committed = node is committed
            amount = str(plan.prices[node.name][0].amount * node.cards)
            yield _line(
                hour,
                timedelta(hours=1),
                billed_cost="0" if is_committed else amount,
                effective_cost=amount,
                list_cost=str(LIST_PRICES[node.model.name] * node.cards),
                charge_description=f"{node.instance_type} per hour",
                commitment_discount_id=COMMITMENT if is_committed else None,
                commitment_discount_status="Used" if is_committed else None,
                consumed_quantity="1",
                consumed_unit="Hours",
                resource_id=node.resource_id,
                resource_type="Virtual Machine",
                sku_id=node.instance_type,
            )
        yield _line(
            hour,
            timedelta(hours=1),
            effective_cost=str(UNUSED_PRICE),
            charge_description="commitment, unused part",
            commitment_discount_id=COMMITMENT,
            commitment_discount_status="Unused",
        )
        if hour.hour == 0:
            yield from _daily(hour)


def _daily(day: datetime) -> Iterator[Mapping[str, str | None]]:
    whole = timedelta(days=1)
    yield _line(
        day,
        whole,
        billed_cost="3.84",
        effective_cost="3.84",
        charge_description="object storage",
        sub_account_id="data",
        resource_id="bucket-training-sets",
        resource_type="Bucket",
        service_category="Storage",
        service_name="Object Storage",
    )
    yield _line(day, whole, billed_cost="11.33", effective_cost="11.33", charge_category="Tax", charge_description="VAT")


def _line(start_at: datetime, length: timedelta, **values: str | None) -> dict[str, str | None]:
    month = date(start_at.year, start_at.month, 1)
    following = date(start_at.year + start_at.month // 12, start_at.month % 12 + 1, 1)
    return {
        "billed_cost": "0",
        "effective_cost": "0",
        "list_cost": None,
        "billing_currency": CURRENCY,
        "billing_period_start": f"{month:%Y-%m-%d}T00:00:00Z",
        "billing_period_end": f"{following:%Y-%m-%d}T00:00:00Z",
        "charge_period_start": f"{start_at:%Y-%m-%dT%H:%M:%SZ}",
        "charge_period_end": f"{start_at + length:%Y-%m-%dT%H:%M:%SZ}",
        "charge_category": "Usage",
        "charge_class": None,
        "charge_description": None,
        "commitment_discount_id": None,
        "commitment_discount_status": None,
        "consumed_quantity": None,
        "consumed_unit": None,
        "provider_name": CLOUD,
        "billing_account_id": ACCOUNT,
        "sub_account_id": "gpu",
        "resource_id": None,
        "resource_type": None,
        "region_id": "eu-north",
        "service_category": "Compute",
        "service_name": "Virtual Machines",
        "sku_id": None,
        **values,
    }
