"""Which lines of a bill stand, and what part each plays."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from tests.unit.dbt.money.world import DAY, DEVICE_COST_MODELS, World

MODELS = ("int_billing_lines_current", "int_billing_resources_matched", "int_billing_lines_classified", "fct_billing_lines")


def roles(world: World) -> list[tuple[str, Decimal]]:
    world.build(*MODELS)
    rows = world.rows("select line_role, effective_cost from fct_billing_lines order by effective_cost, line_role")
    return [(row["line_role"], row["effective_cost"]) for row in rows]


def total(world: World) -> Decimal:
    world.build(*MODELS)
    return world.value("select sum(effective_cost) from fct_billing_lines")


def test_the_same_days_exported_twice_are_counted_once(world: World) -> None:
    """Case D06: a one-time and a daily export of nine days, 155.88 each."""
    for day in range(9):
        world.add_line("17.32", at=DAY + timedelta(days=day), delivery_id="daily", delivered_at=DAY + timedelta(days=9))
        world.add_line("17.32", at=DAY + timedelta(days=day), delivery_id="once", delivered_at=DAY + timedelta(days=10))
    assert total(world) == Decimal("155.88")
    assert world.value("select count(distinct delivery_id) from fct_billing_lines") == 1


def test_a_delivery_that_covers_less_leaves_the_dates_it_lacks(world: World) -> None:
    world.add_line("10", at=DAY, delivery_id="a", delivered_at=DAY + timedelta(days=2))
    world.add_line("20", at=DAY + timedelta(days=1), delivery_id="a", delivered_at=DAY + timedelta(days=2))
    world.add_line("11", at=DAY, delivery_id="b", delivered_at=DAY + timedelta(days=3))
    assert total(world) == 31


def test_of_two_deliveries_at_one_instant_the_highest_id_stands(world: World) -> None:
    world.add_line("10", delivery_id="d9")
    world.add_line("12", delivery_id="d10")
    assert total(world) == 10


def test_a_delivery_of_another_account_replaces_nothing(world: World) -> None:
    world.add_line("10", delivery_id="a")
    world.add_line("12", delivery_id="b", billing_account_id="456")
    assert total(world) == 22


def test_a_correction_keeps_its_charge_period_and_its_own_billing_period(world: World) -> None:
    """Case D02: usage 100 in October, a correction of -20 delivered in November for October 31."""
    last = datetime(2025, 10, 31)
    world.add_line("100", at=last)
    world.add_line(
        "-20",
        at=last,
        billing_month=datetime(2025, 11, 1),
        charge_class="Correction",
        delivery_id="d2",
        delivered_at=datetime(2025, 12, 1),
    )
    world.build(*MODELS)
    invoices = world.rows(
        "select billing_period_start as p, sum(billed_cost) as billed from fct_billing_lines group by p order by p"
    )
    assert [row["billed"] for row in invoices] == [100, -20]
    assert (
        world.value("select sum(effective_cost) from fct_billing_lines where charge_period_start = timestamp '2025-10-31'") == 80
    )


def test_two_files_of_one_landing_may_share_line_numbers(world: World) -> None:
    world.add_line("1", line_number=2)
    world.add_line("1", line_number=2)
    world.build(*MODELS)
    assert world.value("select count(distinct line_id) from fct_billing_lines") == 2


def test_the_text_null_is_null(world: World) -> None:
    world.add_device("g1", "i-1", [])
    world.add_line("1", resource="NULL", sub_account_id="NULL")
    world.add_line("2")
    assert roles(world) == [("other", 1), ("capacity", 2)]


def test_each_line_plays_its_part(world: World) -> None:
    world.add_device("g1", "i-1", [])
    world.add_line("1")
    world.add_line("-2")
    world.add_line("3", category="Tax", resource=None)
    world.add_line("4", resource=None, service_name="AWS Support (Business)")
    world.add_line("-5", category="Credit")
    world.add_line("6", category="Adjustment", resource=None)
    assert roles(world) == [
        ("credit", -5),
        ("capacity", -2),
        ("capacity", 1),
        ("tax", 3),
        ("support", 4),
        ("other", 6),
    ]


def test_a_refund_is_capacity_by_its_sign(world: World) -> None:
    """Case D11: Usage -5 is accepted."""
    world.add_device("g1", "i-1", [])
    world.add_line("-5")
    assert roles(world) == [("capacity", -5)]


def test_a_purchase_and_the_unused_part_follow_their_commitment_and_its_other_use_does_not(world: World) -> None:
    world.add_device("g1", "i-1", [])
    world.add_line("0.75", commitment_discount_id="ri-1", commitment_discount_status="Used")
    world.add_line("0.25", resource=None, commitment_discount_id="ri-1", commitment_discount_status="Unused")
    world.add_line("0", billed="8760", category="Purchase", resource="ri-1", commitment_discount_id="ri-1")
    world.add_line("0.5", resource="i-cpu", commitment_discount_id="ri-1", commitment_discount_status="Used")
    world.add_line(
        "0.1", resource=None, commitment_discount_id="ri-2", commitment_discount_status="Unused", sub_account_id="other"
    )
    assert roles(world) == [
        ("commitment_purchase", 0),
        ("out_of_scope", Decimal("0.1")),
        ("commitment_unused", Decimal("0.25")),
        ("out_of_scope", Decimal("0.5")),
        ("capacity", Decimal("0.75")),
    ]


def test_a_line_without_a_resource_follows_its_sub_account(world: World) -> None:
    world.add_device("g1", "i-1", [])
    world.add_line("1", sub_account_id="gpu")
    world.add_line("2", sub_account_id="gpu", resource=None)
    world.add_line("3", sub_account_id="mixed")
    world.add_line("4", sub_account_id="mixed", resource="bucket")
    world.add_line("5", sub_account_id="mixed", resource=None)
    world.add_line("6", sub_account_id="empty", resource=None)
    assert roles(world) == [
        ("capacity", 1),
        ("other", 2),
        ("capacity", 3),
        ("out_of_scope", 4),
        ("out_of_scope", 5),
        ("out_of_scope", 6),
    ]


@pytest.mark.parametrize(
    ("columns", "role"),
    [
        ({"sku_id": "p5.48xlarge"}, "capacity"),
        ({"sku_id": "USE1-BoxUsage:g5.4xlarge"}, "capacity"),
        ({"resource_type": "Standard_ND96isr_H100_v5"}, "capacity"),
        ({"resource_type": "NVIDIA H100 80GB HBM3"}, "capacity"),
        ({"sku_id": "H100"}, "capacity"),
        ({"sku_id": "L4"}, "capacity"),
        ({"sku_id": "P4 LRS Disk"}, "out_of_scope"),
        ({"sku_id": "m5.xlarge"}, "out_of_scope"),
        ({"sku_id": "t4g.micro"}, "out_of_scope"),
        ({}, "out_of_scope"),
    ],
)
def test_a_sku_or_resource_type_of_the_catalogue_is_in_scope(world: World, columns: dict[str, str], role: str) -> None:
    world.add_line("1", resource="i-never-seen", **columns)
    assert roles(world) == [(role, 1)]


def test_where_gpus_have_a_price_of_their_own_the_rest_of_the_node_is_no_gpu_money(world: World) -> None:
    world.add_device("g1", "i-1", [])
    world.add_line("8", sku_id="Nvidia H100 80GB GPU")
    world.add_line("2", sku_id="A3 Instance Core")
    world.add_line("-1", charge_class="Correction")
    assert roles(world) == [("capacity", -1), ("other", 2), ("capacity", 8)]


EC2 = "i-0f3a9c2b71d4e8a60"
ARN = f"arn:aws:ec2:eu-central-1:210987654321:instance/{EC2}"
GCE = "projects/vision-7/zones/us-east5-b/instances/a3-node-4"
VMSS = "subscriptions/4/resourceGroups/MC_rg/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-vmss"
VM = "/subscriptions/9ec5/resourceGroups/RG-Train/providers/Microsoft.Compute/virtualMachines/NC-01"


@pytest.mark.parametrize(
    ("on_the_bill", "of_the_node"),
    [
        (ARN, EC2),
        (EC2, ARN),
        (EC2.upper(), f"aws:///eu-central-1c/{EC2}"),
        (f"//compute.googleapis.com/{GCE}", "gce://vision-7/us-east5-b/a3-node-4"),
        (f"/{VMSS}/virtualMachines/3", f"azure:///{VMSS.lower()}/virtualMachines/3"),
        (f"/{VMSS}/virtualMachines/3", "aks-gpu-vmss_3"),
        ("AKS-gpu-vmss_3", f"azure:///{VMSS}/virtualMachines/3"),
        (
            f"/{VMSS.replace('virtualMachineScaleSets/aks-gpu-vmss', 'virtualMachines/aks-gpu-vmss_3')}",
            f"/{VMSS}/virtualMachines/3",
        ),
        (f"https://www.googleapis.com/compute/v1/{GCE}", GCE),
        ("a3-node-4", GCE),
        (GCE, "a3-node-4"),
        (VM.lower(), f"azure://{VM}"),
        ("nc-01", VM),
        (f"{VM}/", "NC-01"),
        ("ocid1.instance.oc1.iad.anuwcljt", "oci://ocid1.instance.oc1.iad.anuwcljt"),
    ],
)
def test_a_machine_is_one_whatever_way_bill_and_node_write_it(world: World, on_the_bill: str, of_the_node: str) -> None:
    world.add_device("g1", of_the_node, range(24))
    world.add_line("36.48", resource=on_the_bill)
    world.build(*DEVICE_COST_MODELS)
    assert world.value("select scope_reason from fct_billing_lines") == "resource"
    assert world.value("select sum(cost) from int_device_hour_costs where cost_source = 'billing'") == Decimal("36.48")


@pytest.mark.parametrize(
    ("on_the_bill", "of_the_nodes"),
    [
        (["node-1"], ["projects/a/zones/z1/instances/node-1", "projects/a/zones/z2/instances/node-1"]),
        (["projects/a/zones/z1/instances/node-1", "projects/b/zones/z1/instances/node-1"], ["node-1"]),
        # the third machine of a scale set, the disk of a machine, the end of a word
        (["/subscriptions/9/providers/Microsoft.Compute/virtualMachineScaleSets/p/virtualMachines/3"], ["3"]),
        (["/subscriptions/9/providers/Microsoft.Compute/disks/nc-01"], ["nc-01"]),
        (["big-node-1"], ["node-1"]),
    ],
)
def test_a_name_that_leaves_a_choice_is_no_machine(world: World, on_the_bill: list[str], of_the_nodes: list[str]) -> None:
    for number, resource in enumerate(of_the_nodes):
        world.add_device(f"g{number}", resource, range(24))
    for resource in on_the_bill:
        world.add_line("5.75", resource=resource, sku_id="p5.48xlarge")
    world.build(*DEVICE_COST_MODELS)
    assert {row["scope_reason"] for row in world.rows("select scope_reason from fct_billing_lines")} == {"sku"}
    assert world.value("select count(*) from int_device_hour_billing_costs") == 0


def test_a_disk_of_a_machines_name_does_not_make_the_machine_unknown(world: World) -> None:
    world.add_device("g1", "NC-01", range(24))
    world.add_line("71.2", resource=VM)
    world.add_line("0.4", resource=VM.replace("Compute/virtualMachines", "Network/networkInterfaces"))
    world.build(*DEVICE_COST_MODELS)
    found = world.rows("select effective_cost, scope_reason, matched_resource_id from fct_billing_lines order by 1 desc")
    assert [(row["scope_reason"], row["matched_resource_id"]) for row in found] == [("resource", "nc-01"), ("none", "unknown")]


def test_two_landings_under_one_name_replace_each_other_date_by_date(world: World) -> None:
    """Somebody calls every export of the month `2025-10`: the dates of the second stand, those it lacks stay."""
    first, second = DAY + timedelta(days=5), DAY + timedelta(days=6)
    world.add_line("7.5", at=DAY, delivery_id="2025-10", collection_run_id="run-9", landed_at=first)
    world.add_line("8.5", at=DAY + timedelta(days=1), delivery_id="2025-10", collection_run_id="run-9", landed_at=first)
    world.add_line("8.25", at=DAY + timedelta(days=1), delivery_id="2025-10", collection_run_id="run-1", landed_at=second)
    assert total(world) == Decimal("15.75")


def test_a_description_names_the_machine_where_sku_and_type_do_not(world: World) -> None:
    """FOCUS 1.0 of AWS: an opaque SKU, the type `instance`, and the machine in the words of the charge."""
    opaque = {"sku_id": "4GQWNPC9K2PZAY97", "resource_type": "instance", "service_category": "Compute"}
    text = "$12.29 per On Demand Linux p5.4xlarge Instance Hour"
    world.add_line("12.29", resource="i-77", charge_description=text, **opaque)
    world.add_line("0.34", resource="i-78", charge_description="$0.34 per On Demand Linux c5.2xlarge Instance Hour", **opaque)
    world.add_line("3.10", resource="s-1", charge_description="software on p5.4xlarge", service_category="Other")
    world.add_line("40", resource="i-77", category="Purchase", charge_description=text, **opaque)
    assert roles(world) == [
        ("out_of_scope", Decimal("0.34")),
        ("out_of_scope", Decimal("3.10")),
        ("capacity", Decimal("12.29")),
        ("out_of_scope", Decimal("40")),
    ]
    assert world.value("select scope_reason from fct_billing_lines where line_role = 'capacity'") == "description"


def test_a_google_instance_that_its_node_knows_by_number_is_found_by_it(world: World) -> None:
    world.add_device("g1", "4567890123456789012", range(24))
    world.add_device("g2", "gce://p/us-east5-b/a3-node-5", range(24))
    world.add_line("10", resource="projects/p/zones/us-east5-b/instances/a3-node-4", resource_alias="4567890123456789012")
    world.add_line("20", resource="projects/p/zones/us-east5-b/instances/a3-node-5", resource_alias="4567890123456789013")
    world.build(*DEVICE_COST_MODELS)
    rows = world.rows("select gpu_id, sum(cost) as cost from int_device_hour_costs group by gpu_id order by gpu_id")
    assert [(row["gpu_id"], row["cost"]) for row in rows] == [("g1", 10), ("g2", 20)]


def test_effective_costs_in_whole_units_are_worked_out_again_from_what_was_not_rounded(world: World) -> None:
    """AWS's first FOCUS exports: 0.4992 a unit is 0, 2.6137 of a credit −3. What no part tells stays, and is said."""
    common = {"delivery_id": "rounded"}
    world.add_device("g1", "i-1", range(24))
    world.add_line("0", billed="0.4992", **common)
    world.add_line("13", billed="13", contracted_unit_price="1.05", pricing_quantity="12", **common)
    world.add_line("-3", billed="-2.6137", category="Credit", **common)
    covered = {"commitment_discount_id": "sp-1", "commitment_discount_status": "Used", "billed": "0"}
    world.add_line("7", effective_unit_price="0.31", pricing_quantity="24", **covered, **common)
    world.add_line("5", **covered, **common)
    world.add_line("0", billed="0.25", resource=None, sku_id="bucket", sub_account_id="s3", **common)
    world.add_line("100", billed="99.5", resource="i-2", category="Purchase", **common)
    world.add_line("2", billed="2", billing_account_id="456", delivery_id="whole")
    world.build(*MODELS)
    rows = world.rows(
        "select delivered_effective_cost, effective_cost, effective_cost_method from fct_billing_lines order by 1, 2"
    )
    assert [tuple(row.values()) for row in rows] == [
        (-3, Decimal("-2.6137"), "recomputed"),
        (0, 0, "delivered"),  # out of scope: shown as the bill has it
        (0, Decimal("0.4992"), "recomputed"),
        (2, 2, "delivered"),
        (5, 5, "rounded"),
        (7, Decimal("7.44"), "recomputed"),
        (13, Decimal("12.6"), "recomputed"),
        (100, 100, "delivered"),
    ]


def test_what_a_commitment_covers_at_nothing_is_not_free(world: World) -> None:
    """Usage under a savings plan that another bill holds stands at 0/0: its hours have no price, and one of 0 is a price."""
    world.add_device("g1", "i-1", range(24))
    world.add_device("g2", "i-2", range(24))
    covered = {"commitment_discount_id": "sp-1", "commitment_discount_status": "Used"}
    world.add_line("0", list_cost="48", **covered)
    world.add_line("0", list_cost="0", resource="i-2", **covered)
    world.build(*DEVICE_COST_MODELS)
    rows = world.rows("select gpu_id, cost_source, sum(cost) as cost from int_device_hour_costs group by all order by gpu_id")
    assert [tuple(row.values()) for row in rows] == [("g1", "unpriced", None), ("g2", "billing", 0)]
