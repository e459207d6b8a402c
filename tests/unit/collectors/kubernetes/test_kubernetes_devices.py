"""Dynamic resource allocation: devices of slices, and which pods claims gave them to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.collectors.kubernetes.made import GPU, OTHER_GPU, held, node, pod, rows, run, runs

DRIVER = "gpu.nvidia.com"
MIG = "MIG-28810d46-0180-5139-a975-020bdc7f9cb1"


def attributes(**told: str | int) -> dict[str, Any]:
    return {name: {"int" if isinstance(value, int) else "string": value} for name, value in told.items()}


CARD = {
    "name": "gpu-0",
    "attributes": {
        **attributes(type="gpu", uuid=GPU, index=0, productName="NVIDIA H100 80GB HBM3", pcieBusID="0000:1b:00.0"),
        "driverVersion": {"version": "570.86.15"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}
INSTANCE = {
    "name": "gpu-1-mig-19-0-1",
    "attributes": attributes(
        type="mig", uuid=MIG, parentUUID=OTHER_GPU, parentIndex=1, profile="1g.10gb", productName="NVIDIA H100"
    ),
    "capacity": {"memory": {"value": "9728Mi"}},
}


def a_slice(*devices: dict[str, Any], driver: str = DRIVER, **spec: Any) -> dict[str, Any]:
    told = {"driver": driver, "nodeName": "n1", "pool": {"name": "n1", "generation": 1}, "devices": list(devices), **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": told}


def claim(*devices: str, name: str = "c", pods: tuple[str, ...] = ("uid-train-0",), **result: Any) -> dict[str, Any]:
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": device, **result} for device in devices]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER, "count": 2}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": uid} for uid in pods],
        },
    }


def claiming(name: str = "train-0", **spec: Any) -> dict[str, Any]:
    asked = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}], **spec}
    return pod(name, spec={"nodeName": "n1", "containers": [{"name": "m", "resources": {"claims": [{"name": "gpu"}]}}], **asked})


@pytest.mark.parametrize("wrap", [lambda device: device, lambda device: {"name": device["name"], "basic": {**device}}])
def test_a_slice_is_an_inventory_of_cards_and_instances(wrap: Any) -> None:
    """Before v1beta2 what is known of a device lies one level deeper."""
    card, instance = rows(a_slice(wrap(CARD), wrap(INSTANCE)), node()).tables["gpu_inventory"]
    assert (card["gpu_uuid"], card["slot_uuid"], card["gpu_model"]) == (GPU, None, "NVIDIA H100 80GB HBM3")
    assert (card["memory_total_bytes"], card["pci_bus_id"], card["driver_version"]) == (80 << 30, "0000:1b:00.0", "570.86.15")
    assert (instance["gpu_uuid"], instance["slot_uuid"], instance["gpu_index"]) == (OTHER_GPU, MIG, 1)
    assert (instance["mig_profile"], instance["compute_slices"]) == ("1g.10gb", 1)


def test_a_card_that_is_listed_beside_its_instances_is_its_instances() -> None:
    whole = {**CARD, "attributes": {**CARD["attributes"], **attributes(uuid=OTHER_GPU)}}
    (row,) = rows(a_slice(whole, INSTANCE)).tables["gpu_inventory"]
    assert row["slot_uuid"] == MIG


@pytest.mark.parametrize(
    "devices", [[{"name": "gpu-0-mig-1g", "attributes": attributes(type="mig", profile="1g.10gb")}], [{}], []]
)
def test_a_device_that_would_be_made_on_demand_is_not_there_yet(devices: list[dict[str, Any]]) -> None:
    assert rows(a_slice(*devices)).tables == {}


def test_a_slice_of_something_else_is_passed_over() -> None:
    assert rows(a_slice(CARD, driver="compute-domain.nvidia.com")).tables == {}
    assert rows(a_slice(CARD, driver="sriov.example.com")).tables == {}


def test_a_claim_names_the_devices_of_its_pod() -> None:
    found = held(claiming(), claim("gpu-0", "gpu-1-mig-19-0-1"), a_slice(CARD, INSTANCE))
    assert found == [
        {"gpu_uuid": GPU, "gpu_index": 0, "gpu_count": 1, "assignment_method": "resource_claim"},
        {
            "gpu_uuid": OTHER_GPU,
            "slot_uuid": MIG,
            "gpu_index": 1,
            "mig_profile": "1g.10gb",
            "gpu_count": 1,
            "assignment_method": "resource_claim",
        },
    ]
    assert run(claiming(), claim("gpu-0", "gpu-1-mig-19-0-1"), a_slice(CARD, INSTANCE))["gpu_count"] == 2


def test_pods_that_use_one_claim_share_its_devices() -> None:
    both = claim("gpu-0", pods=("uid-a", "uid-b"))
    assert [row["share_ratio"] for row in held(claiming("a"), claiming("b"), both, a_slice(CARD))] == [0.5, 0.5]


def test_a_claim_from_a_template_is_known_by_the_name_it_was_given() -> None:
    made = claiming(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    made["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "c"}]
    assert held(made, claim("gpu-0"), a_slice(CARD))[0]["gpu_uuid"] == GPU


def test_a_claim_without_slices_is_counted() -> None:
    assert held(claiming(), claim("gpu-0")) == [{"gpu_count": 1, "assignment_method": "node_pool"}]


def test_a_claim_that_is_not_served_yet_asks_for_what_it_says() -> None:
    waiting = claim()
    waiting["status"] = {}
    row = run({**claiming(nodeName=None), "status": {"phase": "Pending"}}, waiting)
    assert (row["requested_gpu_count"], row["gpu_count"]) == (2, None)


def test_a_claim_that_only_watches_or_is_for_something_else_holds_nothing() -> None:
    assert runs(claiming(), claim("gpu-0", adminAccess=True), a_slice(CARD)) == []
    assert runs(claiming(), claim("nic-0", driver="sriov.example.com")) == []


def test_a_claim_that_is_not_there_leaves_the_number_unknown() -> None:
    row = run(claiming())
    assert (row["gpu_count"], row["requested_gpu_count"]) == (None, None)


def test_a_plain_request_that_a_driver_serves_is_held_once() -> None:
    made = pod(status={**pod()["status"], "extendedResourceClaimStatus": {"resourceClaimName": "c"}})
    assert run(made, claim("gpu-0"), a_slice(CARD))["gpu_count"] == 1
    assert held(made, claim("gpu-0"), a_slice(CARD))[0]["gpu_uuid"] == GPU
    assert run(made)["gpu_count"] == 1
