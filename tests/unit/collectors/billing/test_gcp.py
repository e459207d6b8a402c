from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.billing.client import read_bill
from tests.unit.collectors.billing.bills import landed, read, save, table, values

LINE: dict[str, Any] = {
    "billing_account_id": "010101-F0FFF0-10XX01",
    "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
    "sku": {"id": "039F-D0DA-4055", "description": "Nvidia Tesla A100 GPU running in Americas"},
    "usage_start_time": "2026-10-05 10:00:00 UTC",
    "usage_end_time": "2026-10-05 11:00:00 UTC",
    "project": {"id": "p1", "labels": [{"key": "env", "value": "prod"}]},
    "labels": [{"key": "team", "value": "search"}],
    "location": {"location": "us-central1", "region": "us-central1", "zone": "us-central1-a"},
    "resource": {"name": "gke-1", "global_name": "//compute.googleapis.com/projects/123/zones/us-central1-a/instances/456"},
    "cost": 2.93392,
    "cost_at_list": 2.93392,
    "currency": "USD",
    "usage": {"amount": 3600, "unit": "seconds", "amount_in_pricing_units": 1, "pricing_unit": "hour"},
    "credits": [],
    "invoice": {"month": "202610"},
    "cost_type": "regular",
}
MONEY = ("billed_cost", "effective_cost")
KIND = ("charge_category", "charge_class", "commitment_discount_status")


def land(folder: Path, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    return landed(read_bill(save(folder, "gcp.json", "".join(json.dumps(row) + "\n" for row in rows))))


def credit(kind: str, amount: Any) -> dict[str, Any]:
    return {"name": kind.title(), "type": kind, "amount": amount, "id": "c-1"}


def test_an_hour_of_a_gpu_lands_on_the_node_that_had_it(tmp_path: Path) -> None:
    (row,) = land(tmp_path, LINE)
    assert values(row, *MONEY, *KIND) == (2.93392, 2.93392, "Usage", None, None)
    assert row["resource_id"] == "projects/p1/zones/us-central1-a/instances/gke-1"
    assert values(row, "resource_type", "sku_id") == ("Nvidia Tesla A100 GPU running in Americas", "039F-D0DA-4055")
    assert values(row, "charge_period_start", "charge_period_end") == (datetime(2026, 10, 5, 10), datetime(2026, 10, 5, 11))
    assert json.loads(row["tags"]) == {"env": "prod", "team": "search"}
    assert values(row, "list_cost", "pricing_quantity", "pricing_unit") == (2.93392, 1.0, "hour")


def test_an_invoice_month_is_one_of_pacific_time(tmp_path: Path) -> None:
    (row,) = land(tmp_path, {**LINE, "invoice": {"month": "202611"}})
    assert values(row, "billing_period_start", "billing_period_end") == (datetime(2026, 11, 1, 7), datetime(2026, 12, 1, 8))


def test_discounts_are_part_of_the_price_and_a_promotion_is_a_credit(tmp_path: Path) -> None:
    credits = [credit("SUSTAINED_USAGE_DISCOUNT", -0.5), credit("FREE_TIER", "-0.25"), credit("PROMOTION", -2)]
    usage, given = land(tmp_path, {**LINE, "cost": 4, "credits": credits})
    assert values(usage, *MONEY, "charge_category", "line_number") == (3.25, 3.25, "Usage", 1)
    assert values(given, *MONEY, "charge_category", "line_number") == (-2.0, -2.0, "Credit", 2)
    assert given["resource_id"] == usage["resource_id"]


def test_usage_that_a_commitment_covers_is_used_and_its_fee_is_a_purchase(tmp_path: Path) -> None:
    covered = {**LINE, "cost": 4, "credits": [credit("COMMITTED_USAGE_DISCOUNT", -4)]}
    fee = {
        **LINE,
        "sku": {"id": "x", "description": "Commitment v1: Nvidia Tesla A100 GPU in Americas for 1 Year"},
        "subscription": {"instance_id": "sub-1"},
        "resource": {},
        "cost": 3,
    }
    offset = {**fee, "credits": [credit("FEE_UTILIZATION_OFFSET", -2)]}
    rows = land(tmp_path, covered, fee, offset)
    assert [values(row, *MONEY, *KIND, "commitment_discount_id") for row in rows] == [
        (0.0, 0.0, "Usage", None, "Used", "c-1"),
        (3.0, 3.0, "Purchase", None, None, "sub-1"),
        (1.0, 1.0, "Usage", None, "Unused", "sub-1"),
    ]
    assert {row["pricing_category"] for row in rows} == {"Committed"}


@pytest.mark.parametrize(
    ("cost_type", "adjustment", "kind"),
    [
        ("tax", None, ("Tax", None)),
        ("rounding_error", None, ("Adjustment", None)),
        ("adjustment", "GENERAL_ADJUSTMENT", ("Adjustment", "Correction")),
        ("adjustment", "USAGE_CORRECTION", ("Usage", "Correction")),
    ],
)
def test_the_cost_type_tells_the_category(tmp_path: Path, cost_type: str, adjustment: str | None, kind: tuple[str, Any]) -> None:
    (row,) = land(tmp_path, {**LINE, "cost_type": cost_type, "adjustment_info": {"type": adjustment}})
    assert values(row, *KIND[:2]) == kind


def test_a_flattened_table_as_csv_is_the_same_bill() -> None:
    flat = {
        "billing_account_id": "010101",
        "sku_description": "A100 GPU attached to Spot Preemptible VMs",
        "usage_start_time": "2026-10-05T10:00:00Z",
        "usage_end_time": "2026-10-05T11:00:00Z",
        "project.id": "p1",
        "cost": "10.00",
        "currency": "USD",
        "credits": '[{"amount": -2.50}]',
        "invoice.month": "202610",
    }
    (row,) = landed(read(table(flat)))
    assert values(row, *MONEY, "pricing_category", "sub_account_id") == (7.5, 7.5, "Dynamic", "p1")
    parsed = read(table({**flat, "credits": "lots"}, flat))
    assert [reject.detail for reject in parsed.rejects] == ["credits are no JSON list; export the table as JSON lines"]


def test_an_array_is_read_like_lines_and_what_is_no_object_is_refused(tmp_path: Path) -> None:
    parsed = read_bill(save(tmp_path, "a.json", json.dumps([LINE, 7, LINE])))
    assert (parsed.frame["line_number"].to_list(), [reject.line for reject in parsed.rejects]) == ([1, 3], [2])
    parsed = read_bill(save(tmp_path, "b.json", json.dumps(LINE) + "\n\n{broken\n" + json.dumps(LINE)))
    assert (parsed.frame["line_number"].to_list(), [reject.line for reject in parsed.rejects]) == ([1, 4], [3])


def test_digits_of_a_number_are_kept_whole(tmp_path: Path) -> None:
    text = json.dumps(LINE).replace("2.93392", "0.000000000001")
    (row,) = landed(read_bill(save(tmp_path, "a.json", text)))
    assert str(row["billed_cost"]) == "1E-12"


def test_a_month_that_is_none_costs_its_line_alone(tmp_path: Path) -> None:
    parsed = read_bill(save(tmp_path, "a.json", json.dumps({**LINE, "invoice": {"month": "202613"}}) + "\n" + json.dumps(LINE)))
    assert [reject.detail for reject in parsed.rejects] == ["'202613' is no invoice month; 202311 is one"]
    assert parsed.frame.height == 1


def test_an_instance_keeps_the_number_that_google_gives_it_beside_its_name(tmp_path: Path) -> None:
    (row,) = land(tmp_path, LINE)
    assert values(row, "resource_id", "resource_alias") == ("projects/p1/zones/us-central1-a/instances/gke-1", "456")
