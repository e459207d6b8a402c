from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.billing.azure import unit_block
from collectors.billing.collect import billing
from collectors.billing.formats import Wish
from collectors.command import SourceFailedError
from tests.unit.collectors.billing.bills import landed, read, save, table, values

MACHINE = "/subscriptions/s-1/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/gpu-0"
SCALE_SET = "/subscriptions/s-1/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-1-vmss"
#: Enterprise Agreement, 2023
LINE = {
    "BillingAccountId": "8611537",
    "BillingPeriodStartDate": "09/01/2026",
    "BillingPeriodEndDate": "09/30/2026",
    "SubscriptionId": "s-1",
    "Date": "09/21/2026",
    "Product": "Virtual Machines NCads A100 v4 - East US",
    "MeterId": "m-1",
    "MeterCategory": "Virtual Machines",
    "MeterName": "NC24ads A100 v4",
    "Quantity": "24",
    "EffectivePrice": "3.673",
    "UnitPrice": "3.673",
    "PayGPrice": "4",
    "Cost": "88.152",
    "BillingCurrency": "USD",
    "ResourceLocation": "EastUS",
    "ResourceId": MACHINE,
    "AdditionalInfo": '{"ServiceType":"Standard_NC24ads_A100_v4","VMName":"gpu-0"}',
    "Tags": '"team": "search","createdBy": "ada"',
    "UnitOfMeasure": "1 Hour",
    "ChargeType": "Usage",
    "PricingModel": "OnDemand",
    "Frequency": "UsageBased",
    "benefitId": "",
    "ReservationId": "",
}
PURCHASE = {**LINE, "ChargeType": "Purchase", "PricingModel": "Reservation", "benefitId": "ri-1", "Frequency": "Recurring"}
COVERED = {**LINE, "PricingModel": "SavingsPlan", "benefitId": "sp-1"}
MONEY = ("billed_cost", "effective_cost")
KIND = ("charge_category", "charge_class", "commitment_discount_status")


def land(*rows: dict[str, str]) -> list[dict[str, Any]]:
    return landed(read(table(*rows)))


def test_a_day_of_a_machine_lands_with_its_size_and_its_period() -> None:
    (row,) = land(LINE)
    assert values(row, *MONEY, *KIND) == (88.152, 88.152, "Usage", None, None)
    assert values(row, "resource_id", "resource_type", "sku_id") == (MACHINE, "Standard_NC24ads_A100_v4", "m-1")
    assert values(row, "charge_period_start", "charge_period_end") == (datetime(2026, 9, 21), datetime(2026, 9, 22))
    assert values(row, "billing_period_start", "billing_period_end") == (datetime(2026, 9, 1), datetime(2026, 10, 1))
    assert values(row, "list_cost", "contracted_cost", "pricing_category") == (96.0, 88.152, "Standard")
    assert row["tags"] == '{"team": "search"}'


def test_a_purchase_has_no_effective_cost_and_covered_usage_no_billed_one() -> None:
    rows = land(
        PURCHASE, COVERED, {**COVERED, "ChargeType": "UnusedSavingsPlan"}, {**PURCHASE, "ChargeType": "UnusedReservation"}
    )
    assert [values(row, *MONEY, *KIND) for row in rows] == [
        (88.152, 0.0, "Purchase", None, None),
        (0.0, 88.152, "Usage", None, "Used"),
        (0.0, 88.152, "Usage", None, "Unused"),
        (0.0, 88.152, "Usage", None, "Unused"),
    ]
    assert [row["commitment_discount_id"] for row in rows] == ["ri-1", "sp-1", "sp-1", "ri-1"]


def test_a_purchase_that_is_no_commitment_is_effective() -> None:
    (row,) = land({**PURCHASE, "PricingModel": "OnDemand", "benefitId": ""})
    assert values(row, *MONEY) == (88.152, 88.152)


def test_refunds_taxes_rounding_and_unknown_types_keep_their_meaning() -> None:
    rows = land(*({**LINE, "ChargeType": kind} for kind in ("Refund", "Tax", "RoundingAdjustment", "Credit", "Levy")))
    assert [values(row, *KIND[:2]) for row in rows] == [
        ("Purchase", "Correction"),
        ("Tax", None),
        ("Adjustment", None),
        ("Credit", None),
        ("Levy", None),
    ]


def test_the_customer_agreements_names_and_case_are_the_same_columns() -> None:
    (row,) = land(
        {
            "billingAccountId": "acct:1",
            "billingPeriodStartDate": "2026-09-01T00:00:00Z",
            "billingPeriodEndDate": "2026-09-30T00:00:00Z",
            "date": "2026-09-21",
            "costInBillingCurrency": "1.5",
            "costInPricingCurrency": "1.4",
            "paygCostInBillingCurrency": "2",
            "billingCurrency": "EUR",
            "pricingCurrency": "USD",
            "unitPrice": "9",
            "quantity": "3",
            "chargeType": "usage",
            "SubscriptionId": "s-1",
            "pricingModel": "Spot",
        }
    )
    assert values(row, *MONEY, "list_cost", "contracted_cost", "billing_currency") == (1.5, 1.5, 2.0, None, "EUR")
    assert values(row, "pricing_category", "billing_period_end") == ("Dynamic", datetime(2026, 10, 1))


def test_a_commitment_of_a_customer_agreement_is_named_by_its_reservation_or_its_benefit() -> None:
    names = {"chargeType": "Usage", "date": "09/17/2026", "billingCurrency": "USD", "billingAccountId": "a", "provider": "Azure"}
    rows = land(
        {**names, "costInBillingCurrency": "2", "reservationId": "r-1", "pricingModel": "Reservation", "term": "12"},
        {**names, "costInBillingCurrency": "-1.25", "reservationId": "", "pricingModel": "OnDemand"},
        {**names, "costInBillingCurrency": "3", "benefitId": "/providers/b-1", "pricingModel": "SavingsPlan"},
    )
    assert [values(row, *MONEY, "commitment_discount_id") for row in rows] == [
        (0.0, 2.0, "r-1"),
        (-1.25, -1.25, None),
        (0.0, 3.0, "/providers/b-1"),
    ]


def test_a_pay_as_you_go_export_in_german_lands_by_its_month_and_subscription() -> None:
    parsed = read(
        table(
            {
                "Abonnement-GUID (SubscriptionGuid)": "s-1",
                "UsageDateTime (UsageDateTime)": "2026-12-31",
                "Kategorie der Verbrauchseinheit (MeterCategory)": "Load Balancer",
                "UsageQuantity (UsageQuantity)": "3",
                "PreTaxCost (PreTaxCost)": "0.075",
                "InstanceId (InstanceId)": "/subscriptions/s-1/lb",
                "Currency": "USD",
                "Maßeinheit (UnitOfMeasure)": "100 Hours",
            }
        )
    )
    (row,) = landed(parsed)
    assert values(row, *MONEY, "billing_account_id", "resource_id") == (0.075, 0.075, "s-1", "/subscriptions/s-1/lb")
    assert values(row, "billing_period_start", "billing_period_end") == (datetime(2026, 12, 1), datetime(2027, 1, 1))
    assert values(row, "consumed_quantity", "consumed_unit", "pricing_quantity") == (300.0, "Hours", 3.0)
    assert parsed.note is not None
    assert "each subscription counts as one" in parsed.note


@pytest.mark.parametrize(
    ("unit", "block"),
    [
        ("10K", (10_000, "Units")),
        ("1 Hour", (1, "Hour")),
        ("100 Hours", (100, "Hours")),
        ("1M", (1_000_000, "Units")),
        ("1 GB/Month", (1, "GB/Month")),
        ("10K/Month", (10_000, "Units/Month")),
        ("1 ", (1, "Units")),
        ("1MB", (1, "MB")),
        ("Hours", (1, "Hours")),
        ("", None),
    ],
)
def test_a_quantity_counts_blocks_of_its_unit(unit: str, block: tuple[int, str] | None) -> None:
    assert unit_block(unit) == (None if block is None else (Decimal(block[0]), block[1]))


def test_the_pricing_units_of_the_finops_toolkit_are_read_as_it_says(real_data: Path) -> None:
    import csv

    with (real_data / "azure-ea-finops-toolkit" / "PricingUnits.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    differing = {
        row["UnitOfMeasure"]: row["PricingBlockSize"]
        for row in rows
        if (block := unit_block(row["UnitOfMeasure"])) is None or block[0] != Decimal(row["PricingBlockSize"])
    }
    # a table of two that the toolkit itself calls "10000s" of 1 transaction
    assert len(rows) > 350
    assert differing == {"10000s": "1"}


def test_a_node_of_a_scale_set_is_the_one_that_the_additional_info_names() -> None:
    for info in ('{"VMName":"aks-gpu-1-vmss_3"}', '"VMName":"aks-gpu-1-vmss_3"'):
        (row,) = land({**LINE, "ResourceId": SCALE_SET, "AdditionalInfo": info})
        assert row["resource_id"] == f"{SCALE_SET}/virtualMachines/3"
    (row,) = land({**LINE, "ResourceId": SCALE_SET, "AdditionalInfo": "no json"})
    assert row["resource_id"] == SCALE_SET


def test_a_day_of_another_order_is_refused_with_its_line() -> None:
    parsed = read(table(LINE, {**LINE, "Date": "21/09/2026"}, {**LINE, "Date": "soon"}))
    assert parsed.frame["line_number"].to_list() == [2]
    assert [(reject.line, reject.detail) for reject in parsed.rejects] == [
        (3, "'21/09/2026' is no day in the order month/day/year that Azure uses"),
        (4, "'soon' is no day in the order month/day/year or ISO 8601; export the bill again"),
    ]


def test_a_bill_without_its_currency_lands_when_somebody_names_it() -> None:
    text = table({name: value for name, value in LINE.items() if name != "BillingCurrency"})
    with pytest.raises(SourceFailedError, match=r"lacks BillingCurrency .*name its currency with --currency"):
        read(text)
    (row,) = landed(read(text, Wish(given={"billing_currency": "EUR"})))
    assert row["billing_currency"] == "EUR"


def test_twenty_five_digits_land_as_twelve_and_that_is_said(home: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(billing, [str(save(tmp_path, "a.csv", table({**LINE, "Cost": "0.0001188669167459011366419"})))])
    assert result.exit_code == 0
    assert "billed_cost of 1 lines has up to 25 digits behind the point, of which 12 land" in result.output


def test_actual_and_amortised_costs_are_no_one_delivery(home: Path, tmp_path: Path) -> None:
    """Two views of one month given in one call held all other usage twice."""
    actual = save(tmp_path, "actual.csv", table(LINE, PURCHASE, {**COVERED, "Cost": "0"}))
    amortised = save(tmp_path, "amortised.csv", table(LINE, COVERED))
    result = CliRunner().invoke(billing, [str(actual), str(amortised)])
    assert result.exit_code == 1
    assert "actual.csv has actual costs and amortised.csv amortised ones" in result.output
    later = save(tmp_path, "later.csv", table(LINE, {**COVERED, "Cost": "0"}))
    assert CliRunner().invoke(billing, [str(later), str(amortised)]).exit_code == 1
    result = CliRunner().invoke(billing, [str(actual)])
    assert result.exit_code == 0
    assert "1 lines of Microsoft are usage that a commitment covers, billed and effective 0" in result.output


def test_parts_of_one_export_are_one_delivery(home: Path, tmp_path: Path) -> None:
    parts = [
        save(tmp_path, f"part_{number}.csv", table(*rows)) for number, rows in enumerate(([LINE], [COVERED], [LINE, COVERED]))
    ]
    assert CliRunner().invoke(billing, [str(part) for part in parts]).exit_code == 0
    lines = pl.read_parquet(home / "raw/billing/billing_lines/**/*.parquet")
    assert (lines.height, lines["line_number"].n_unique(), lines["delivery_id"].n_unique()) == (4, 4, 1)


def test_a_bill_landed_again_in_its_right_currency_is_another_and_later_delivery(home: Path, tmp_path: Path) -> None:
    """Both landings had the id of the file's content, so that the lines of both counted."""
    path = save(tmp_path, "a.csv", table({name: value for name, value in LINE.items() if name != "BillingCurrency"}))
    for currency in ("USD", "EUR", "EUR"):
        assert CliRunner().invoke(billing, [str(path), "--currency", currency]).exit_code == 0
    lines = pl.read_parquet(home / "raw/billing/billing_lines/**/*.parquet").sort("delivered_at")
    assert lines["billing_currency"].to_list() == ["USD", "EUR"]
    assert lines["delivery_id"].n_unique() == lines["delivered_at"].n_unique() == 2
