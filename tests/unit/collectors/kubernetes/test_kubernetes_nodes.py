"""Nodes: cards behind slices and replicas, where they are, and whether they are in service."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from collectors.kubernetes.node_rows import is_spot
from collectors.kubernetes.nodes import read_provider_id
from tests.unit.collectors.kubernetes.made import AT, GPU, OTHER_GPU, node, pod, rows

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}


def row(*items: dict[str, Any]) -> dict[str, Any]:
    (found,) = rows(*items).tables["nodes"]
    return dict(found)


def state(*items: dict[str, Any]) -> tuple[Any, ...]:
    (found,) = rows(*items).tables["node_states"]
    return found["state"], found["reason"], found["started_at"]


def test_a_node_of_slices_only_has_the_cards_that_they_make_up() -> None:
    """Case A09: `nvidia.com/gpu: "0"` on a MIG node made the node drop out of the list."""
    slices = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.12gb": "2", "nvidia.com/mig-2g.24gb": "1", "nvidia.com/mig-3g.47gb": "1"}
    found = row(node(gpus=slices))
    assert found["gpu_count"] == 1
    assert json.loads(found["labels"])["mig_profiles"] == {"1g.12gb": 2, "2g.24gb": 1, "3g.47gb": 1}


@pytest.mark.parametrize(
    ("gpus", "labels", "count"),
    [
        ({"nvidia.com/gpu": "8"}, {}, 8),
        ({"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4"}, 8),
        ({"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"}, 8),
        ({"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "20"}, {"nvidia.com/gpu.replicas": "10"}, 2),
        ({"nvidia.com/gpu": "6", "nvidia.com/mig-1g.10gb": "14"}, {}, 8),
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "7"}, {"nvidia.com/gpu.count": "2"}, 2),
        ({"nvidia.com/gpu": "7"}, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "7"}, 1),
        (
            {"nvidia.com/gpu": "24"},
            {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-2g.20gb", "nvidia.com/gpu.count": "24"},
            8,
        ),
        (
            {"nvidia.com/gpu": "32"},
            {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.20gb", "nvidia.com/gpu.count": "32"},
            8,
        ),
        ({"nvidia.com/gpu": "4"}, {"nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb", "nvidia.com/gpu.count": "4"}, 1),
        ({"nvidia.com/mig-1g.6gb": "4"}, {"nvidia.com/gpu.product": "NVIDIA-A30"}, 1),
        ({"nvidia.com/gpu": "14"}, {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}, 2),
        ({"nvidia.com/gpu": "6"}, {"cloud.google.com/gke-max-shared-clients-per-gpu": "3"}, 2),
        ({"amd.com/gpu": "8"}, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, 8),
        ({"gpu.intel.com/i915": "10"}, {"gpu.intel.com/cards": "card0.card1"}, 2),
        ({"gpu.intel.com/xe": "2"}, {}, 2),
        ({"koordinator.sh/gpu": "800"}, {}, 8),
        ({"aliyun.com/gpu-mem": "32", "aliyun.com/gpu-count": "2"}, {}, 2),
        ({}, {}, 0),
    ],
)
def test_cards_are_counted_not_slices_and_not_replicas(gpus: dict[str, str], labels: dict[str, str], count: int) -> None:
    assert row(node(gpus=gpus, labels=labels))["gpu_count"] == count


def test_a_split_that_is_gone_does_not_count() -> None:
    """The kubelet keeps a profile's old number as capacity when the card is split anew; allocatable says what is there."""
    found = node(gpus={"nvidia.com/mig-1g.5gb": "3", "nvidia.com/mig-2g.10gb": "1", "nvidia.com/mig-3g.20gb": "1"})
    found["status"]["allocatable"] = {"nvidia.com/mig-1g.5gb": "3", "nvidia.com/mig-2g.10gb": "1", "nvidia.com/mig-3g.20gb": "0"}
    assert row(found)["gpu_count"] == 1


def test_a_broken_gpu_is_still_one_of_the_nodes() -> None:
    found = node(gpus={"nvidia.com/gpu": "8"})
    found["status"]["allocatable"] = {"nvidia.com/gpu": "7"}
    assert row(found)["gpu_count"] == 8


def test_what_a_plugin_registers_is_a_device_of_the_inventory() -> None:
    register = json.dumps(
        [
            {"id": GPU, "count": 10, "devmem": 32768, "devcore": 100, "type": "NVIDIA-Tesla V100-PCIE-32GB", "health": True},
            {"id": OTHER_GPU, "index": 1, "count": 10, "devmem": 32768, "type": "NVIDIA-Tesla V100-PCIE-32GB", "health": True},
        ]
    )
    place = {"topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1a"}
    hosts = node(
        gpus={"nvidia.com/gpu": "20"},
        annotations={"hami.io/node-nvidia-register": register},
        labels=place,
        spec={"providerID": "aws:///eu-west-1a/i-0abc"},
    )
    parsed = rows(hosts)
    assert parsed.tables["nodes"][0]["gpu_count"] == 2
    first, second = parsed.tables["gpu_inventory"]
    assert (first["gpu_uuid"], first["gpu_model"], first["gpu_index"]) == (GPU, "Tesla V100-PCIE-32GB", 0)
    assert (second["gpu_uuid"], second["gpu_index"], second["memory_total_bytes"]) == (OTHER_GPU, 1, 32 << 30)
    assert (first["provider"], first["provider_resource_id"], first["region"]) == ("AWS", "i-0abc", "eu-west-1")
    assert (first["zone"], first["seen_at"], first["slot_uuid"]) == ("eu-west-1a", AT, None)


def test_labels_tell_product_and_memory_and_no_device_is_made_up_of_them() -> None:
    labels = {
        "nvidia.com/gpu.product": "Tesla-T4-SHARED",
        "nvidia.com/gpu.memory": "15360",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/cuda.driver.major": "525",
        "nvidia.com/cuda.driver.minor": "60",
        "nvidia.com/cuda.driver.rev": "13",
        "node.kubernetes.io/instance-type": "g4dn.12xlarge",
        "karpenter.sh/capacity-type": "spot",
        "karpenter.sh/nodepool": "gpu",
    }
    parsed = rows(
        node(labels=labels, spec={"providerID": "gce://p1/europe-west4-a/gke-1", "taints": [{"key": "nvidia.com/gpu"}]})
    )
    assert "gpu_inventory" not in parsed.tables
    found = parsed.tables["nodes"][0]
    assert (found["cpu_count"], found["memory_bytes"], found["instance_type"]) == (64, 512 << 30, "g4dn.12xlarge")
    assert (found["is_spot"], found["partitions"], found["gpu_count"]) == (True, "gpu", 2)
    assert json.loads(found["labels"]) == {
        "gpu_model": "Tesla-T4",
        "gpu_memory_bytes": 15 << 30,
        "driver_version": "525.60.13",
        "provider": "Google Cloud",
        "provider_resource_id": "projects/p1/zones/europe-west4-a/instances/gke-1",
        "taints": ["nvidia.com/gpu"],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aws:///us-east-1a/i-0abc", ("AWS", "i-0abc")),
        ("gce://p/z/n", ("Google Cloud", "projects/p/zones/z/instances/n")),
        ("azure:///subscriptions/s/vm/0", ("Microsoft", "/subscriptions/s/vm/0")),
        ("kind://docker/kind/kind-worker", (None, "docker/kind/kind-worker")),
        ("nothing", (None, None)),
        (None, (None, None)),
    ],
)
def test_a_provider_id_names_provider_and_resource(text: str | None, expected: tuple[Any, ...]) -> None:
    assert read_provider_id(text) == expected


def test_spot_is_unknown_where_no_label_speaks_of_it() -> None:
    assert is_spot({}) is None
    assert is_spot({"eks.amazonaws.com/capacityType": "SPOT"}) is True
    assert is_spot({"eks.amazonaws.com/capacityType": "ON_DEMAND"}) is False


def test_a_ready_node_is_seen_in_service() -> None:
    assert state(node()) == ("in_service", None, AT)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_down_since_it_changed(ready: str) -> None:
    assert state(node(ready=ready, changed="2026-11-01T08:00:00Z")) == ("down", "KubeletReady", datetime(2026, 11, 1, 8))


CORDONED = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}


def test_a_cordoned_node_drains_while_a_pod_holds_a_gpu_there() -> None:
    assert state(pod(), node(spec=CORDONED))[0] == "draining"
    assert state(pod(phase="Succeeded"), node(spec=CORDONED))[0] == "drained"
    assert state(pod(node="n2"), node(spec=CORDONED))[0] == "drained"
    assert state(pod(node=None, phase="Pending"), node(spec=CORDONED))[0] == "drained"


def test_a_cordoned_node_alone_is_taken_as_draining_since_nothing_says_it_is_empty() -> None:
    assert state(node(spec=CORDONED)) == ("draining", "taint node.kubernetes.io/unschedulable", AT)
    assert state(node(spec={"unschedulable": True})) == ("draining", "cordoned", AT)


def test_a_taint_tells_since_when() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-01T09:00:00Z"}
    assert state(node(spec={"unschedulable": True, "taints": [taint]}))[2] == datetime(2026, 11, 1, 9)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("node.kubernetes.io/out-of-service", "down"),
        ("example.com/maintenance", "maintenance"),
        ("ToBeDeletedByClusterAutoscaler", "draining"),
        ("karpenter.sh/disrupted", "draining"),
        ("nvidia.com/gpu", "in_service"),
    ],
)
def test_taints_say_what_is_done_with_a_node(key: str, expected: str) -> None:
    assert state(node(spec={"taints": [{"key": key, "effect": "NoSchedule"}]}))[0] == expected
    assert state(node(spec={"taints": [{"key": key, "effect": "PreferNoSchedule"}]}))[0] == "in_service"


def test_a_node_that_says_nothing_of_itself_is_in_no_state() -> None:
    silent = node()
    silent["status"] = {}
    parsed = rows(silent)
    assert "node_states" not in parsed.tables
    assert parsed.tables["nodes"][0]["gpu_count"] == 0


def test_a_node_with_a_number_of_gpus_that_is_none_is_left_out() -> None:
    parsed = rows(node("bad", gpus={"nvidia.com/gpu": "lots"}), node("good"))
    assert [found["node"] for found in parsed.tables["nodes"]] == ["good"]
    assert "Node bad: nvidia.com/gpu" in parsed.rejects[0].detail
