"""Example Cloud's bill for cirrus, in the columns of FOCUS 1.0."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from demo.fleet import HOUR, PROVIDER

#: resource → (SKU, list price, effective price) in USD per node-hour; k01 is covered by a commitment paid in advance
NODE_PRICES = {
    "i-0c1d2e3f4a5b60001": ("gpu-h100-2", "5.90", "4.42"),
    "i-0c1d2e3f4a5b60002": ("gpu-l40s-2", "2.36", "2.36"),
}
COMMITTED = "i-0c1d2e3f4a5b60001"
COMMITMENT = "commitment-h100"
PERIOD = ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")

Line = Mapping[str, str | None]


def _line(start_at: datetime, length: timedelta, **values: str | None) -> Line:
    return {
        "billed_cost": "0",
        "effective_cost": "0",
        "list_cost": None,
        "billing_currency": "USD",
        "billing_period_start": PERIOD[0],
        "billing_period_end": PERIOD[1],
        "charge_period_start": f"{start_at:%Y-%m-%dT%H:%M:%SZ}",
        "charge_period_end": f"{start_at + length:%Y-%m-%dT%H:%M:%SZ}",
        "charge_category": "Usage",
        "charge_class": None,
        "charge_description": None,
        "commitment_discount_id": None,
        "commitment_discount_status": None,
        "consumed_quantity": None,
        "consumed_unit": None,
        "provider_name": PROVIDER,
        "billing_account_id": "acct-001",
        "sub_account_id": "gpu",
        "resource_id": None,
        "resource_type": None,
        "region_id": "eu-north",
        "service_category": "Compute",
        "service_name": "Virtual Machines",
        "sku_id": None,
        **values,
    }


def charges(start_at: datetime, end_at: datetime) -> Iterator[Line]:
    """Lines of `[start_at, end_at)`: node-hours, the commitment's unused part, storage, a credit, tax."""
    hour = start_at
    while hour < end_at:
        for resource, (sku, listed, effective) in NODE_PRICES.items():
            is_committed = resource == COMMITTED
            yield _line(
                hour,
                HOUR,
                billed_cost="0" if is_committed else effective,
                effective_cost=effective,
                list_cost=listed,
                charge_description=f"{sku} per hour",
                commitment_discount_id=COMMITMENT if is_committed else None,
                commitment_discount_status="Used" if is_committed else None,
                consumed_quantity="1",
                consumed_unit="Hours",
                resource_id=resource,
                resource_type="Virtual Machine",
                sku_id=sku,
            )
        yield _line(
            hour,
            HOUR,
            effective_cost="0.38",
            charge_description="commitment, unused part",
            commitment_discount_id=COMMITMENT,
            commitment_discount_status="Unused",
        )
        if hour.hour == 0:
            yield from _daily(hour)
        hour += HOUR


def _daily(day: datetime) -> Iterator[Line]:
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
    if day.day == 3:
        yield _line(
            day,
            whole,
            billed_cost="-2.50",
            effective_cost="-2.50",
            charge_category="Credit",
            charge_description="service level credit",
            resource_id="i-0c1d2e3f4a5b60002",
            resource_type="Virtual Machine",
        )


def lines(start_at: datetime, end_at: datetime, delivery_id: str, delivered_at: datetime) -> Iterator[Line]:
    """The charges as rows of `billing_lines`."""
    for charge in charges(start_at, end_at):
        yield {**charge, "delivery_id": delivery_id, "delivered_at": f"{delivered_at:%Y-%m-%dT%H:%M:%SZ}"}


def write_focus(path: Path, start_at: datetime, end_at: datetime) -> None:
    """The charges as the provider would deliver them: a FOCUS CSV."""
    rows = list(charges(start_at, end_at))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow("".join(word.capitalize() for word in name.split("_")) for name in rows[0])
        writer.writerows(["NULL" if value is None else value for value in row.values()] for row in rows)
