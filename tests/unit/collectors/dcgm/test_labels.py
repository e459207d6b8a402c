from __future__ import annotations

import pytest

from collectors.dcgm.labels import Holder, Nodes, Slot, holder_of, is_no_node, slot_of

UID = "3f0a8e2c-7c4b-4d1f-9a2e-1b7c5e0d4a8f"


def test_the_exported_pod_is_the_workload_and_the_exporters_own_pod_is_not() -> None:
    """A13: Prometheus puts the exporter's pod on the series and moves the workload's to `exported_pod`."""
    labels = {"namespace": "monitoring", "pod": "dcgm-exporter-x", "exported_namespace": "default", "exported_pod": "pod1"}
    assert holder_of(labels) == Holder("default", "pod1", None)
    # a blank `exported_pod` is not scraped at all: what is left names the exporter, who holds nothing
    assert holder_of({"namespace": "monitoring", "pod": "nvidia-dcgm-exporter-tl46n", "uid": UID}) is None
    assert holder_of({"exported_pod": "", "pod": "dcgm-exporter-x"}) is None
    # a target that brings a pod but no namespace leaves the workload's namespace where it was
    assert holder_of({"exported_pod": "pod1", "pod": "dcgm-exporter-x", "namespace": "default"}) == Holder(
        "default", "pod1", None
    )


def test_a_pod_is_named_by_its_uid_else_by_namespace_and_name_and_not_by_the_name_alone() -> None:
    named = {"namespace": "default", "pod": "train-0", "container": "main"}
    for labels, evidence in (
        (named, "default/train-0"),
        (named | {"pod_uid": UID}, UID),
        (named | {"uid": UID}, UID),
        (named | {"uid": "1000"}, "default/train-0"),  # a user's number
        (named | {"namespace": ""}, None),
        ({"pod_name": "train-0", "pod_namespace": "default"}, "default/train-0"),
        (named | {"exported_pod": "a", "exported_namespace": "b", "exported_pod_uid": UID, "pod_uid": "exporters"}, UID),
    ):
        holder = holder_of(labels)
        assert holder is not None
        assert holder.evidence == evidence


def test_a_slurm_job_is_named_by_its_id_and_none_is_written_blank_or_zero() -> None:
    assert holder_of({"hpc_job": "4711"}) == Holder(None, None, "4711")
    assert holder_of({"hpc_job": ""}) is None
    assert holder_of({"hpc_job": "0"}) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("nvidia-dcgm-exporter-tl46n", True),
        ("424773df46e0", True),
        ("gpu-dcgm-exporter-7d9f8-x2x4z", True),
        ("dcgm-exporter", True),
        ("node7", False),
        ("dcgm01", False),
    ],
)
def test_an_exporters_pod_service_or_container_is_no_node(host: str, expected: bool) -> None:
    assert is_no_node(host) is expected


POD = {"Hostname": "nvidia-dcgm-exporter-tl46n"}


@pytest.mark.parametrize(
    ("labels", "source", "node"),
    [
        ({"Hostname": "node7"}, "a.prom", "node7"),
        ({"hostname": "node7"}, "a.prom", "node7"),
        ({"Hostname": "node7", "nodeName": "worker"}, "a.prom", "worker"),
        (POD | {"node": "worker"}, "a.prom", "worker"),
        (POD, "a.prom", "nvidia-dcgm-exporter-tl46n"),
        (POD, "http://node7:9400/metrics", "node7"),
        (POD, "http://node7.example.org:9400/metrics", "node7.example.org"),
        ({"Hostname": "node7"}, "http://proxy:9400/metrics", "node7"),
        # addresses that name no node
        (POD, "http://10.0.0.7:9400/metrics", "nvidia-dcgm-exporter-tl46n"),
        (POD, "http://[fd00::7]:9400/metrics", "nvidia-dcgm-exporter-tl46n"),
        (POD, "http://localhost:9400/metrics", "nvidia-dcgm-exporter-tl46n"),
        (POD, "http://nvidia-dcgm-exporter.gpu-operator.svc:9400/metrics", "nvidia-dcgm-exporter-tl46n"),
        (POD, "http://exporter.gpu.svc.cluster.local:9400/metrics", "nvidia-dcgm-exporter-tl46n"),
        (POD, "http://dcgm-exporter:9400/metrics", "nvidia-dcgm-exporter-tl46n"),
        (POD | {"instance": "node7:9400"}, "a.prom", "node7"),
        (POD | {"instance": "10.0.0.7:9400"}, "a.prom", "nvidia-dcgm-exporter-tl46n"),
        # where nothing else is there
        ({}, "http://node7:9400/metrics", "node7"),
        ({"instance": "10.0.0.7:9400"}, "a.prom", "10.0.0.7"),
        ({}, "http://10.0.0.7:9400/metrics", "10.0.0.7"),
        ({"Hostname": "localhost"}, "http://localhost:9400/metrics", None),
        ({"instance": "localhost:9400"}, "a.prom", None),
    ],
)
def test_the_node_is_the_best_name_that_labels_and_address_have(labels: dict[str, str], source: str, node: str | None) -> None:
    assert Nodes().find(labels, source) == node


def test_a_person_may_name_the_node_of_everything_or_of_an_exporter_or_an_address() -> None:
    assert Nodes(everywhere="worker").find({"Hostname": "node7"}, "a") == "worker"
    named = Nodes(named={"nvidia-dcgm-exporter-tl46n": "w1", "10.0.0.7": "w2", "http://h/metrics?x": "w3", "10.0.0.8": "w4"})
    assert named.find(POD, "a.prom") == "w1"
    assert named.find({"Hostname": "nvidia-dcgm-exporter-other"}, "http://10.0.0.7:9400/metrics") == "w2"
    assert named.find({"Hostname": "x"}, "http://h/metrics?x") == "w3"
    assert named.find({"instance": "10.0.0.8:9400"}, "a.prom") == "w4"
    assert named.find({"Hostname": "node9"}, "a.prom") == "node9"


@pytest.mark.parametrize(
    ("labels", "slot"),
    [
        ({"UUID": "GPU-1"}, Slot("GPU-1", None)),
        ({"uuid": "GPU-1", "GPU_I_ID": "7"}, Slot("GPU-1", "GPU-1/gi7")),
        ({"UUID": "GPU-1", "GPU_I_ID": "7", "GPU_I_UUID": "MIG-a"}, Slot("GPU-1", "MIG-a")),
        ({"UUID": "MIG-GPU-1/7/0"}, Slot("GPU-1", "MIG-GPU-1/7/0")),
        ({"UUID": "GPU-1::2"}, Slot("GPU-1", None)),
        ({"UUID": "MIG-a", "pci_bus_id": "00000000:3B:00.0"}, Slot("node7/00000000:3B:00.0", "MIG-a")),
        ({"pci_bus_id": "00000000:3B:00.0"}, Slot("node7/00000000:3B:00.0", None)),
        ({"gpu": "0"}, None),
    ],
)
def test_a_slot_is_the_card_and_the_instance_that_the_labels_name(labels: dict[str, str], slot: Slot | None) -> None:
    assert slot_of(labels, "node7") == slot
