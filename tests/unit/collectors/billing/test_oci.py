from __future__ import annotations

import json
from datetime import datetime

import pytest

from collectors.command import SourceFailedError
from tests.unit.collectors.billing.bills import landed, read, table, values

LINE = {
    "lineItem/referenceNo": "r",
    "lineItem/tenantId": "ocid1.tenancy.oc1..a",
    "lineItem/intervalUsageStart": "2026-10-31T23:00Z",
    "lineItem/intervalUsageEnd": "2026-11-01T00:00:00Z",
    "product/service": "COMPUTE",
    "product/resourceId": "ocid1.instance.oc1.phx.a",
    "product/Description": "Compute - GPU - A100 - v2",
    "usage/billedQuantity": "8",
    "cost/subscriptionId": "sub-1",
    "cost/productSku": "B95907",
    "cost/myCost": "2.323760000E-9",
    "cost/myCostOverage": "",
    "cost/currencyCode": "USD",
    "cost/skuUnitDescription": "GPU Per Hour",
    "lineItem/isCorrection": "false",
    "tags/Oracle-Tags.CreatedBy": "default/ada",
    "tags/Org\\unit.Team": "search",
    "tags/Org.Mail": "ada@example.com",
}


def test_an_hour_lands_with_both_of_its_time_formats() -> None:
    (row,) = landed(read(table(LINE)))
    assert values(row, "charge_period_start", "charge_period_end") == (datetime(2026, 10, 31, 23), datetime(2026, 11, 1))
    assert values(row, "billing_period_start", "billing_period_end") == (datetime(2026, 10, 1), datetime(2026, 11, 1))
    assert values(row, "billed_cost", "effective_cost", "charge_category") == (2.324e-9, 2.324e-9, "Usage")
    assert values(row, "billing_account_id", "sub_account_id") == ("sub-1", "ocid1.tenancy.oc1..a")
    assert values(row, "resource_id", "resource_type") == ("ocid1.instance.oc1.phx.a", "Compute - GPU - A100 - v2")


def test_tags_are_columns_whatever_their_name_and_persons_are_left_out() -> None:
    (row,) = landed(read(table(LINE)))
    assert json.loads(row["tags"]) == {"Org\\unit.Team": "search"}


def test_a_correction_is_one() -> None:
    (row,) = landed(read(table({**LINE, "lineItem/isCorrection": "true", "cost/myCost": "-3"})))
    assert values(row, "charge_class", "charge_category", "billed_cost") == ("Correction", "Usage", -3.0)


def test_a_usage_report_is_refused_with_the_columns_it_lacks() -> None:
    usage = {name: value for name, value in LINE.items() if not name.startswith("cost/")}
    with pytest.raises(SourceFailedError, match=r"no OCI cost report.*lacks cost/myCost, cost/currencyCode"):
        read(table(usage))
