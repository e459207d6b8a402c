from __future__ import annotations

import pytest

from collectors.billing.focus import FIELDS
from collectors.billing.schema import COLUMNS
from tests.unit.collectors.billing.bills import LINE, bill, landed, read, table, values


def test_every_landing_column_has_its_focus_name() -> None:
    assert [field.column for field in FIELDS] == list(COLUMNS)


@pytest.mark.parametrize("name", ["ServiceProviderName", "HostProviderName", "Provider"])
def test_the_provider_is_found_under_the_name_of_every_version(name: str) -> None:
    (row,) = landed(read(bill({"ProviderName": "", name: "Nebius"}, leave_out=["ProviderName"])))
    assert row["provider_name"] == "Nebius"


def test_the_first_name_that_has_a_value_counts() -> None:
    (row,) = landed(read(bill({"ProviderName": "NULL", "ServiceProviderName": "Databricks", "HostProviderName": "AWS"})))
    assert row["provider_name"] == "Databricks"


def test_a_preview_bill_has_other_names_for_the_same() -> None:
    renamed = {"ProviderName": "Provider", "ChargeCategory": "ChargeType"}
    line = {renamed.get(name, name): value for name, value in LINE.items()}
    (row,) = landed(read(table({**line, "ChargeSubcategory": "Unused Commitment", "Region": "eu", "UsageQuantity": "2"})))
    assert values(row, "provider_name", "commitment_discount_status", "region_id", "consumed_quantity") == (
        "AWS",
        "Unused",
        "eu",
        2.0,
    )


def test_ids_of_instances_are_those_of_nodes() -> None:
    rows = landed(
        read(
            bill(
                {"ResourceId": "arn:aws:ec2:us-east-1:1:instance/i-0abc"},
                {"ResourceId": "//compute.googleapis.com/projects/p/zones/z/instances/n"},
                {"ResourceId": "/subscriptions/s/virtualMachines/VM"},
                {"ResourceId": "i-0abc"},
            )
        )
    )
    assert [row["resource_id"] for row in rows] == [
        "i-0abc",
        "projects/p/zones/z/instances/n",
        "/subscriptions/s/virtualMachines/VM",
        "i-0abc",
    ]


def test_the_details_of_a_sku_name_the_machine_that_the_resource_type_does_not() -> None:
    rows = landed(
        read(
            bill(
                {"ResourceType": "instance", "SkuMeter": "BoxUsage", "SkuPriceDetails": '{"InstanceType": "p5.48xlarge"}'},
                {"ResourceType": "Virtual machine", "x_SkuDetails": '{"ServiceType": "Standard_ND96isr_H100_v5"}'},
                {"ResourceType": "instance", "SkuPriceDetails": "{}"},
            )
        )
    )
    assert [row["resource_type"] for row in rows] == ["p5.48xlarge", "Standard_ND96isr_H100_v5", "instance"]


def test_oracles_preview_report_lands_under_the_names_of_1_0() -> None:
    """Its header has Provider, Region, UsageQuantity, no ConsumedQuantity, and times of nine digits with an offset."""
    line = {
        "AvailabilityZone": "us-ashburn-1-AD-1",
        "BilledCost": "12.50",
        "BillingAccountId": "12345",
        "BillingCurrency": "USD",
        "BillingPeriodEnd": "2026-02-01T00:00:00.123456789+00:00",
        "BillingPeriodStart": "2026-01-01T00:00Z",
        "ChargeCategory": "Usage",
        "ChargePeriodEnd": "2026-01-02T00:00:00Z",
        "ChargePeriodStart": "2026-01-01T00:00:00Z",
        "ChargeSubCategory": "",
        "EffectiveCost": "12.50",
        "InvoiceIssuer": "Oracle",
        "Provider": "OCI",
        "Region": "us-ashburn-1",
        "ResourceId": "ocid1.instance.oc1",
        "Tags": "{}",
        "UsageQuantity": "1.00",
        "UsageUnit": "Hours",
        "x_oci_CompartmentName": "Production",
    }
    (row,) = landed(read(table(line)))
    assert values(row, "provider_name", "region_id", "consumed_quantity", "consumed_unit", "billed_cost") == (
        "OCI",
        "us-ashburn-1",
        1.0,
        "Hours",
        12.5,
    )


def test_semicolons_and_blank_first_lines_do_not_matter() -> None:
    parsed = read("\n\n" + table(LINE, delimiter=";"))
    assert parsed.frame["line_number"].to_list() == [4]
    assert len(landed(parsed)) == 1


def test_a_persons_address_in_a_tag_does_not_land() -> None:
    (row,) = landed(read(bill({"Tags": '{"owner": "ada@example.com", "team": "a"}'})))
    assert row["tags"] == '{"team": "a"}'


def test_a_google_instance_named_by_its_number_gets_its_name_and_keeps_the_number() -> None:
    full = "//compute.googleapis.com/projects/p1/zones/us-central1-a/instances/4567890123456789012"
    numbered, unnamed = landed(
        read(bill({"ResourceId": full, "ResourceName": "a3-node-4"}, {"ResourceId": full, "ResourceName": "NULL"}))
    )
    assert values(numbered, "resource_id", "resource_alias") == (
        "projects/p1/zones/us-central1-a/instances/a3-node-4",
        "4567890123456789012",
    )
    assert values(unnamed, "resource_id", "resource_alias") == (full.removeprefix("//compute.googleapis.com/"), None)


def test_unit_prices_land_so_that_a_rounded_cost_can_be_worked_out_again() -> None:
    prices = {"PricingQuantity": "24", "ListUnitPrice": "0.5", "ContractedUnitPrice": "4E-1", "x_EffectiveUnitPrice": "0.31"}
    (row,) = landed(read(bill(prices)))
    assert values(row, "list_unit_price", "contracted_unit_price", "effective_unit_price") == (0.5, 0.4, 0.31)


def test_a_machine_of_a_scale_set_is_the_one_that_the_skus_details_name() -> None:
    scale_set = "/subscriptions/4/resourceGroups/MC/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-vmss"
    details = '{"ServiceType": "Standard_ND96isr_H100_v5", "VMName": "aks-gpu-vmss_3"}'
    one, whole = landed(read(bill({"ResourceId": scale_set, "x_SkuDetails": details}, {"ResourceId": scale_set})))
    assert values(one, "resource_id", "resource_type") == (f"{scale_set}/virtualMachines/3", "Standard_ND96isr_H100_v5")
    assert whole["resource_id"] == scale_set
