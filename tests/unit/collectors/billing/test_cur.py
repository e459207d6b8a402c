from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.billing.client import read_bill
from collectors.billing.cur import LINE_TYPES
from collectors.billing.parse import newest_usage_end
from tests.unit.collectors.billing.bills import landed, read, table, values

PLAN = "arn:aws:savingsplans::123456789012:savingsplan/sp-1"
RESERVED = "arn:aws:ec2:us-east-1:123456789012:reserved-instances/ri-1"
LINE = {
    "bill_payer_account_id": "123456789012",
    "bill_billing_period_start_date": "2026-10-01T00:00:00.000Z",
    "bill_billing_period_end_date": "2026-11-01T00:00:00.000Z",
    "line_item_usage_account_id": "210987654321",
    "line_item_line_item_type": "Usage",
    "line_item_usage_start_date": "2026-10-05T10:00:00.000Z",
    "line_item_usage_end_date": "2026-10-05T11:00:00.000Z",
    "line_item_product_code": "AmazonEC2",
    "line_item_usage_type": "USE1-BoxUsage:p5.48xlarge",
    "line_item_resource_id": "i-0abc",
    "line_item_usage_amount": "1.0",
    "line_item_currency_code": "USD",
    "line_item_unblended_cost": "98.32",
    "pricing_term": "OnDemand",
    "pricing_unit": "Hrs",
    "product_region_code": "us-east-1",
}
#: a savings plan of 30 an hour of which 25 were used
PLAN_FEE = {
    **LINE,
    "line_item_line_item_type": "SavingsPlanRecurringFee",
    "line_item_resource_id": PLAN,
    "line_item_usage_type": "ComputeSP:1yrNoUpfront",
    "line_item_unblended_cost": "30",
    "savings_plan_savings_plan_a_r_n": PLAN,
    "savings_plan_total_commitment_to_date": "30",
    "savings_plan_used_commitment": "25",
}
COVERED = {
    **LINE,
    "line_item_line_item_type": "SavingsPlanCoveredUsage",
    "savings_plan_savings_plan_a_r_n": PLAN,
    "savings_plan_savings_plan_effective_cost": "25",
}
NEGATION = {**COVERED, "line_item_line_item_type": "SavingsPlanNegation", "line_item_unblended_cost": "-98.32"}
#: a reservation's monthly fee, delivered on the 6th
RESERVATION_FEE = {
    **LINE,
    "line_item_line_item_type": "RIFee",
    "line_item_usage_start_date": "2026-10-01T00:00:00Z",
    "line_item_usage_end_date": "2026-11-01T00:00:00Z",
    "line_item_resource_id": RESERVED,
    "line_item_unblended_cost": "744",
    "reservation_reservation_a_r_n": RESERVED,
    "reservation_unused_amortized_upfront_fee_for_billing_period": "5.5",
    "reservation_unused_recurring_fee": "2.25",
}
MONEY = ("billed_cost", "effective_cost")
KIND = ("charge_category", "charge_class", "commitment_discount_status")


def land(*rows: dict[str, str]) -> list[dict[str, Any]]:
    return landed(read(table(*rows)))


def test_an_on_demand_hour_lands_with_its_instance_and_its_type() -> None:
    (row,) = land(LINE)
    assert values(row, *MONEY, *KIND) == (98.32, 98.32, "Usage", None, None)
    assert values(row, "resource_id", "resource_type", "pricing_category") == ("i-0abc", "p5.48xlarge", "Standard")
    assert values(row, "billing_account_id", "sub_account_id", "provider_name") == ("123456789012", "210987654321", "AWS")
    assert row["charge_period_start"] == datetime(2026, 10, 5, 10)


def test_the_legacy_names_are_the_same_columns() -> None:
    legacy = {
        "bill/PayerAccountId": "1",
        "bill/BillingPeriodStartDate": "2026-10-01T00:00:00Z",
        "bill/BillingPeriodEndDate": "2026-11-01T00:00:00Z",
        "lineItem/LineItemType": "SavingsPlanCoveredUsage",
        "lineItem/UsageStartDate": "2026-10-05T10:00:00Z",
        "lineItem/UsageEndDate": "2026-10-05T11:00:00Z",
        "lineItem/CurrencyCode": "usd",
        "lineItem/UnblendedCost": "9.984E-7",
        "savingsPlan/SavingsPlanARN": PLAN,
        "savingsPlan/SavingsPlanEffectiveCost": "0.5",
        "resourceTags/user:team": "search",
        "resourceTags/aws:createdBy": "IAMUser:ada",
    }
    (row,) = land(legacy)
    assert values(row, *MONEY, "commitment_discount_id", "billing_currency") == (9.984e-7, 0.5, PLAN, "USD")
    assert row["tags"] == '{"team": "search"}'


def test_a_savings_plan_is_billed_once_and_effective_once() -> None:
    """Fee 30: 25 by the covered hour, 5 unused; the on-demand price and its negation leave the invoice as it is."""
    rows = land(PLAN_FEE, COVERED, NEGATION)
    assert [values(row, *MONEY, *KIND) for row in rows] == [
        (30.0, 0.0, "Purchase", None, None),
        (98.32, 25.0, "Usage", None, "Used"),
        (-98.32, 0.0, "Usage", None, None),
        (0.0, 5.0, "Usage", None, "Unused"),
    ]
    assert sum(row["billed_cost"] for row in rows) == sum(row["effective_cost"] for row in rows) == Decimal(30)
    assert {row["commitment_discount_id"] for row in rows} == {PLAN}


def test_what_was_split_from_a_line_has_a_number_of_its_own_behind_the_file() -> None:
    parsed = read(table(PLAN_FEE, COVERED))
    assert parsed.frame["line_number"].to_list() == [2, 3, 4]
    assert (parsed.last_line, parsed.split_lines) == (4, 1)


def test_a_reservation_is_effective_where_it_is_used_and_its_rest_ends_with_the_usage() -> None:
    """The unused part of a month's fee counts up to the newest usage: the rest of the month has not been delivered."""
    used = {
        **LINE,
        "line_item_line_item_type": "DiscountedUsage",
        "line_item_unblended_cost": "0",
        "reservation_reservation_a_r_n": RESERVED,
        "reservation_effective_cost": "1.25",
    }
    parsed = read(table(used, RESERVATION_FEE))
    rows = landed(parsed)
    assert [values(row, *MONEY, *KIND) for row in rows] == [
        (0.0, 1.25, "Usage", None, "Used"),
        (744.0, 0.0, "Purchase", None, None),
        (0.0, 7.75, "Usage", None, "Unused"),
    ]
    assert rows[2]["charge_period_end"] == datetime(2026, 10, 5, 11) == newest_usage_end(parsed.frame)


def test_parts_of_a_reservations_share_are_added_where_the_share_is_not_given() -> None:
    (row,) = land(
        {
            **LINE,
            "line_item_line_item_type": "DiscountedUsage",
            "line_item_unblended_cost": "0",
            "reservation_amortized_upfront_cost_for_usage": "0.75",
            "reservation_recurring_fee_for_usage": "0.5",
        }
    )
    assert values(row, *MONEY) == (0.0, 1.25)


def test_an_upfront_fee_of_a_commitment_has_no_effective_cost_and_any_other_fee_has() -> None:
    upfront = {**LINE, "line_item_line_item_type": "Fee", "reservation_reservation_a_r_n": RESERVED}
    plan = {**LINE, "line_item_line_item_type": "SavingsPlanUpfrontFee", "savings_plan_savings_plan_a_r_n": PLAN}
    support = {**LINE, "line_item_line_item_type": "Fee", "line_item_product_code": "AWSSupportBusiness"}
    rows = land(upfront, plan, support)
    assert [values(row, "charge_category", *MONEY) for row in rows] == [
        ("Purchase", 98.32, 0.0),
        ("Purchase", 98.32, 0.0),
        ("Purchase", 98.32, 98.32),
    ]
    assert rows[2]["service_category"] == "Support"


def test_taxes_credits_and_refunds_are_no_usage() -> None:
    rows = land(*({**LINE, "line_item_line_item_type": kind} for kind in ("Tax", "Credit", "Refund", "Rebate")))
    assert [values(row, *KIND[:2]) for row in rows] == [
        ("Tax", None),
        ("Credit", None),
        ("Adjustment", "Correction"),
        ("Rebate", None),
    ]


def test_a_discount_counts_once_whether_its_line_or_the_net_cost_has_it() -> None:
    discount = {**LINE, "line_item_line_item_type": "EdpDiscount", "line_item_unblended_cost": "-9.832"}
    apart = land(LINE, discount)
    net = land({**LINE, "line_item_net_unblended_cost": "88.488"}, {**discount, "line_item_net_unblended_cost": ""})
    for rows in (apart, net):
        assert sum(row["billed_cost"] for row in rows) == sum(row["effective_cost"] for row in rows) == Decimal("88.488")
        assert {row["charge_category"] for row in rows} == {"Usage"}


def test_covered_usage_without_its_effective_cost_is_refused_and_not_made_free() -> None:
    parsed = read(table({**COVERED, "savings_plan_savings_plan_effective_cost": ""}, LINE))
    (reject,) = parsed.rejects
    assert (reject.line, reject.detail) == (
        2,
        "usage covered by a savings plan without savings_plan_savings_plan_effective_cost; export that column too",
    )
    assert parsed.frame["line_number"].to_list() == [3]


def test_spot_is_known_by_its_usage_type() -> None:
    (row,) = land({**LINE, "line_item_usage_type": "USW2-SpotUsage:g5.4xlarge", "pricing_term": ""})
    assert values(row, "pricing_category", "resource_type") == ("Dynamic", "g5.4xlarge")


def test_an_instance_named_by_its_arn_is_the_node(tmp_path: Path) -> None:
    (row,) = land({**LINE, "line_item_resource_id": "arn:aws-us-gov:ec2:us-gov-west-1:1:instance/i-0abc"})
    assert row["resource_id"] == "i-0abc"
    (volume,) = land({**LINE, "line_item_resource_id": "arn:aws:ec2:us-east-1:1:volume/vol-1"})
    assert volume["resource_id"] == "arn:aws:ec2:us-east-1:1:volume/vol-1"


def test_a_pods_share_of_a_split_node_lands_without_money() -> None:
    """Split cost allocation left the unblended cost of a pod's line empty, and the line was refused."""
    (row,) = land(
        {
            **LINE,
            "line_item_resource_id": "arn:aws:eks:us-east-1:1:pod/c/ns/p/u",
            "line_item_unblended_cost": "",
            "split_line_item_split_cost": "4",
        }
    )
    assert values(row, *MONEY) == (0.0, 0.0)


def test_cur_2_as_parquet_keeps_digits_and_reads_maps(tmp_path: Path) -> None:
    times = {name: [datetime.fromisoformat(value[:19])] for name, value in LINE.items() if value[4:5] == "-" and "T" in value}
    frame = pl.DataFrame(
        {
            **{name: [value] for name, value in LINE.items()},
            **times,
            "line_item_unblended_cost": [0.1],
            "product": [[{"key": "instance_type", "value": "p4d.24xlarge"}, {"key": "product_name", "value": "EC2"}]],
            "resource_tags": [[{"key": "user_team", "value": "a"}, {"key": "user_owner", "value": "ada@example.com"}]],
        }
    )
    frame.write_parquet(tmp_path / "cur.parquet")
    (row,) = landed(read_bill(tmp_path / "cur.parquet"))
    assert values(row, *MONEY, "resource_type", "service_name", "tags") == (
        0.1,
        0.1,
        "p4d.24xlarge",
        "EC2",
        '{"user_team": "a"}',
    )
    assert row["charge_period_end"] == datetime(2026, 10, 5, 11)


@pytest.mark.parametrize("column", ["line_item_unblended_cost", "savings_plan_total_commitment_to_date"])
def test_an_amount_that_is_none_costs_its_line_alone(column: str) -> None:
    parsed = read(table({**PLAN_FEE, column: "n/a"}, LINE))
    assert 3 in parsed.frame["line_number"].to_list()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([kind for kind, known in LINE_TYPES.items() if not known.is_discount]),
            st.decimals(-1000, 1000, places=12),
            st.decimals(0, 10, places=12),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_lines_a_report_has_the_invoice_is_their_sum_and_twice_the_prices_are_twice_the_costs(
    charges: list[tuple[str, Decimal, Decimal]],
) -> None:
    def costs(factor: int) -> tuple[Decimal, Decimal]:
        rows = land(
            *(
                {
                    **LINE,
                    "line_item_line_item_type": kind,
                    "line_item_unblended_cost": str(cost * factor),
                    "savings_plan_savings_plan_effective_cost": str(part * factor),
                    "reservation_effective_cost": str(part * factor),
                    "reservation_unused_recurring_fee": str(part * factor),
                    "savings_plan_total_commitment_to_date": str(part * factor),
                    "savings_plan_used_commitment": "0",
                }
                for kind, cost, part in charges
            )
        )
        return sum((row["billed_cost"] for row in rows), Decimal(0)), sum((row["effective_cost"] for row in rows), Decimal(0))

    billed, effective = costs(1)
    assert billed == sum(cost for _, cost, _ in charges)
    assert costs(2) == (2 * billed, 2 * effective)
