"""What providers really deliver, through the command: every kind of untidiness in one bill, and the same money."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from tests.unit.collectors.billing.bills import save, table
from tests.unit.collectors.billing.test_collect import lines, run

#: FOCUS 1.0 to 1.3 with the columns that FOCUS demands alone
LEAN = {
    "BilledCost": "3.75e-2",
    "EffectiveCost": "1.25E+1",
    "BillingCurrency": "eur",
    "BillingPeriodStart": "2027-03-01",
    "BillingPeriodEnd": "2027-04-01",
    "ChargePeriodStart": "2027-03-09T07:30:00+02:00",
    "ChargePeriodEnd": "2027-03-09 06:30:00.000",
    "ChargeCategory": "usage",
    "BillingAccountId": "00417",
}
TAGS = {f"tag_{number}": f"value {number}" for number in range(3_000)}


@pytest.mark.parametrize("provider", ["ProviderName", "ServiceProviderName"])
@pytest.mark.parametrize("form", ["csv", "csv.gz", "semicolons", "parquet"])
def test_an_untidy_bill_lands_whole_in_every_packing(home: Path, tmp_path: Path, provider: str, form: str) -> None:
    untidy = {
        **LEAN,
        provider: "Contoso Cloud",
        "x_CostCenter": "kept out",
        "x_Discounts": '{"a": 1}',
        "ResourceId": "NULL",
        "SkuId": "",
        "ChargeClass": "null",
        "CommitmentDiscountStatus": "Null",
        "Tags": json.dumps(TAGS),
    }
    refund = {**untidy, "BilledCost": "-0.0175", "EffectiveCost": "-2.5", "ChargePeriodStart": "2027-03-09T05:30Z"}
    text = "\ufeff" + table(untidy, refund, delimiter=";" if form == "semicolons" else ",")
    path = tmp_path / f"export.{form.replace('semicolons', 'csv')}"
    if form == "parquet":
        pl.DataFrame([untidy, refund]).write_parquet(path)
    else:
        path.write_bytes(gzip.compress(text.encode()) if form == "csv.gz" else text.encode())
    result = run(path)
    assert result.exit_code == 0, result.output
    landed = lines(home)
    assert landed["billed_cost"].to_list() == [Decimal("0.0375"), Decimal("-0.0175")]
    assert landed["effective_cost"].to_list() == [Decimal("12.5"), Decimal("-2.5")]
    assert set(landed["charge_period_start"]) == {datetime(2027, 3, 9, 5, 30)}
    assert set(landed["charge_period_end"]) == {datetime(2027, 3, 9, 6, 30)}
    first = landed.row(0, named=True)
    assert (first["provider_name"], first["billing_account_id"], first["billing_currency"]) == ("Contoso Cloud", "00417", "EUR")
    assert [first[name] for name in ("resource_id", "sku_id", "charge_class", "commitment_discount_status")] == [None] * 4
    assert first["charge_category"] == "Usage"
    assert json.loads(first["tags"]) == TAGS
    assert "x_CostCenter, x_Discounts" in result.output


def test_usage_of_a_savings_plan_at_nothing_is_told_and_stays_nothing(home: Path, tmp_path: Path) -> None:
    covered = {**LEAN, "ProviderName": "AWS", "BilledCost": "0", "EffectiveCost": "0.0000", "CommitmentDiscountStatus": "used"}
    result = run(save(tmp_path, "covered.csv", table(covered, covered, {**LEAN, "ProviderName": "AWS"})))
    assert result.exit_code == 0, result.output
    assert "warning: 2 lines of AWS are usage that a commitment covers, billed and effective 0" in result.output
    assert lines(home)["effective_cost"].sum() == Decimal("12.5")


def test_effective_costs_of_whole_units_are_told_and_land_as_delivered(home: Path, tmp_path: Path) -> None:
    rounded = {**LEAN, "ProviderName": "Microsoft", "BilledCost": "31.4159", "EffectiveCost": "31"}
    result = run(save(tmp_path, "rounded.csv", table(rounded, {**rounded, "BilledCost": "0.4", "EffectiveCost": "0"})))
    assert "EffectiveCost of Microsoft is a whole number in all 2 lines while BilledCost is not" in result.output
    assert lines(home)["effective_cost"].sum() == 31


def test_blocks_of_units_are_counted_out(home: Path, tmp_path: Path) -> None:
    line = {
        "BillingAccountId": "7",
        "SubscriptionId": "s",
        "Date": "04/30/2027",
        "CostInBillingCurrency": "0.0123",
        "BillingCurrency": "USD",
        "Quantity": "0.0375",
        "UnitOfMeasure": "10K",
    }
    result = run(save(tmp_path, "azure.csv", table(line, {**line, "Quantity": "2", "UnitOfMeasure": "100 Hours"})))
    assert result.exit_code == 0, result.output
    assert lines(home).select("consumed_quantity", "consumed_unit").rows() == [
        (Decimal("375"), "Units"),
        (Decimal("200"), "Hours"),
    ]
    assert set(lines(home)["billing_period_end"]) == {datetime(2027, 5, 1)}


def test_a_table_that_is_no_bill_is_told_the_columns_it_lacks(home: Path, tmp_path: Path) -> None:
    lacking = {name: cell for name, cell in LEAN.items() if name not in ("EffectiveCost", "BillingPeriodEnd")}
    result = run(save(tmp_path, "almost.csv", table({**lacking, "ProviderName": "AWS"})))
    assert result.exit_code == 1
    assert "almost.csv: no FOCUS" in result.output
    assert "EffectiveCost" in result.output
    assert "BillingPeriodEnd" in result.output
    assert not list(home.glob("raw/billing/billing_lines/**/*.parquet"))


def test_a_second_delivery_under_a_given_name_says_what_becomes_of_the_first(home: Path, tmp_path: Path) -> None:
    first = save(tmp_path, "first.csv", table({**LEAN, "ProviderName": "AWS"}))
    second = save(tmp_path, "second.csv", table({**LEAN, "ProviderName": "AWS", "EffectiveCost": "13"}))
    assert "has landed before" not in run(first, "--delivery-id", "march").output
    assert "of a date that both tell, the lines landed last stand" in run(second, "--delivery-id", "march").output
    assert lines(home)["landed_at"].n_unique() == 2
