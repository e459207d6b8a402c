"""What pods ask for, and how many GPUs of which kind that is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.collectors.kubernetes.made import container, held, node, pod, rows, run, runs, snapshot

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.count": "1"}
COUNTS = ("gpu_count", "share_ratio", "mig_profile")


def counts(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in COUNTS)


def test_the_containers_of_a_pod_are_added_up() -> None:
    containers = [container({"nvidia.com/gpu": "2"}), container({"nvidia.com/gpu": 1}), container()]
    assert run(pod(spec={"containers": containers}))["gpu_count"] == 3


def test_an_init_container_counts_only_where_it_asks_for_more() -> None:
    beginner = {"initContainers": [container({"nvidia.com/gpu": "4"}), container({"nvidia.com/gpu": "1"})]}
    assert (
        run(pod(resources={"nvidia.com/gpu": "3"}, spec={**beginner, "containers": [container({"nvidia.com/gpu": "3"})]}))[
            "gpu_count"
        ]
        == 4
    )
    assert run(pod(spec={**beginner, "containers": [container({"nvidia.com/gpu": "5"})]}))["gpu_count"] == 5


def test_a_sidecar_runs_beside_everything_that_comes_after_it() -> None:
    sidecar = container({"nvidia.com/gpu": "1"}, restartPolicy="Always")
    before, after = container({"nvidia.com/gpu": "3"}), container({"nvidia.com/gpu": "3"})
    main = [container({"nvidia.com/gpu": "1"})]
    assert run(pod(spec={"initContainers": [sidecar], "containers": main}))["gpu_count"] == 2
    assert run(pod(spec={"initContainers": [before, sidecar], "containers": main}))["gpu_count"] == 3
    assert run(pod(spec={"initContainers": [sidecar, after], "containers": main}))["gpu_count"] == 4


def test_a_request_without_a_limit_counts() -> None:
    asked = {"name": "main", "resources": {"requests": {"amd.com/gpu": "1", "cpu": "500m", "memory": "1Gi"}}}
    row = run(pod(spec={"containers": [asked]}))
    assert (row["gpu_count"], row["cpu_count"], row["memory_bytes"]) == (1, 0.5, 1 << 30)


@pytest.mark.parametrize(
    ("resource", "count"),
    [
        ("nvidia.com/gpu", 2),
        ("amd.com/gpu", 2),
        ("gpu.intel.com/i915", 2),
        ("gpu.intel.com/xe", 2),
        ("alpha.kubernetes.io/nvidia-gpu", 2),
    ],
)
def test_whole_gpus_of_every_vendor_count(resource: str, count: int) -> None:
    assert counts(run(pod(resources={resource: str(count)}))) == (count, None, None)


def test_a_resource_under_a_name_of_ones_own_counts_where_the_user_says_so() -> None:
    mine = pod(resources={"example.com/a100": "2"})
    assert runs(mine) == []
    assert run(mine, own_resources=frozenset({"example.com/a100"}))["gpu_count"] == 2


def test_neuron_is_no_gpu_and_a_name_that_looks_like_one_is_listed() -> None:
    taken = snapshot(pod("a", resources={"aws.amazon.com/neuron": "1"}), pod("b", resources={"nvidia.com/GRID_T4-2Q": "1"}))
    assert taken.other_accelerators == {"aws.amazon.com/neuron"}
    assert taken.unknown_resources == {"nvidia.com/GRID_T4-2Q"}
    assert (len(taken.pods), taken.pods_without_gpus) == (0, 2)


def test_a_mig_slice_is_one_slot_of_its_profile() -> None:
    assert counts(run(pod(resources={"nvidia.com/mig-1g.5gb": "1"}))) == (1, None, "1g.5gb")
    assert counts(run(pod(resources={"nvidia.com/mig-1g.10gb.me": "1"}))) == (1, None, "1g.10gb+me")
    assert held(pod(resources={"nvidia.com/mig-1g.5gb": "2"})) == [
        {"gpu_count": 2, "mig_profile": "1g.5gb", "assignment_method": "node_pool"}
    ]


def test_several_kinds_in_one_pod_are_a_row_each() -> None:
    both = pod(resources={"nvidia.com/mig-1g.5gb": "2", "nvidia.com/mig-3g.20gb": "1"})
    assert counts(run(both)) == (3, None, None)
    assert [(row["mig_profile"], row["gpu_count"]) for row in held(both)] == [("1g.5gb", 2), ("3g.20gb", 1)]


def test_under_the_single_strategy_a_gpu_is_a_slice() -> None:
    labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    row = run(pod(), node(gpus={"nvidia.com/gpu": "7"}, labels={**labels, "nvidia.com/gpu.count": "7"}))
    assert counts(row) == (1, None, "1g.5gb")
    assert row["gpu_model"] == "NVIDIA-A100-SXM4-40GB"


def test_gke_says_on_node_and_pod_how_a_gpu_is_split() -> None:
    labels = {"cloud.google.com/gke-gpu-partition-size": "1g.5gb", "cloud.google.com/gke-max-shared-clients-per-gpu": "3"}
    assert counts(run(pod(), node(labels=labels))) == (1, 1 / 3, "1g.5gb")
    assert counts(run(pod(spec={"containers": [container({"nvidia.com/gpu": 1})], "nodeSelector": labels}))) == (
        1,
        1 / 3,
        "1g.5gb",
    )


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"},
        {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4-SHARED"},
    ],
)
def test_a_replica_of_a_time_sliced_gpu_is_that_part_of_it(labels: dict[str, str]) -> None:
    assert counts(run(pod(), node(labels=labels))) == (1, 0.25, None)
    assert held(pod(), node(labels=labels)) == [{"gpu_count": 1, "share_ratio": 0.25, "assignment_method": "node_pool"}]


def test_one_replica_is_a_whole_gpu() -> None:
    assert counts(run(pod(), node(labels={"nvidia.com/gpu.replicas": "1"}))) == (1, None, None)
    assert counts(run(pod(), node(labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "none"}))) == (
        1,
        None,
        None,
    )


def test_a_renamed_replica_takes_its_share_from_the_node() -> None:
    shared = pod(resources={"nvidia.com/gpu.shared": "1"})
    labels = {"nvidia.com/gpu.replicas": "10", "nvidia.com/gpu.sharing-strategy": "mps"}
    assert counts(run(shared, node(gpus={"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "20"}, labels=labels))) == (1, 0.1, None)
    slices = {"nvidia.com/mig-1g.10gb.shared": "2"}
    assert counts(run(pod(resources=slices), node(labels={"nvidia.com/mig-1g.10gb.replicas": "2"}))) == (2, 0.5, "1g.10gb")


def test_a_renamed_replica_without_its_node_is_of_unknown_size() -> None:
    row = run(pod(resources={"nvidia.com/gpu.shared": "1"}))
    assert counts(row) == (None, None, None)
    assert held(pod(resources={"nvidia.com/gpu.shared": "1"})) == []


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"koordinator.sh/gpu": "200"}, (2, None, None)),
        ({"koordinator.sh/gpu": "50"}, (1, 0.5, None)),
        (
            {"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "60"},
            (1, 0.6, None),
        ),
        (
            {"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
            (2, 0.5, None),
        ),
        ({"kubernetes.io/gpu": "100"}, (1, None, None)),
        ({"tencent.com/vcuda-core": "25", "tencent.com/vcuda-memory": "8"}, (1, 0.25, None)),
        ({"gpu.intel.com/i915": "1", "gpu.intel.com/millicores": "250"}, (1, 0.25, None)),
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50"}, (2, 0.5, None)),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}, (1, 0.3, None)),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"}, (1, None, None)),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "20"}, (1, 0.2, None)),
    ],
)
def test_percentages_of_a_gpu_are_shares(resources: dict[str, str], expected: tuple[Any, ...]) -> None:
    assert counts(run(pod(resources=resources))) == expected


def test_memory_of_a_gpu_is_a_share_of_the_nodes_card() -> None:
    asks = pod(resources={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10240"})
    assert counts(run(asks, node(labels=A100))) == (1, 0.25, None)
    assert counts(run(asks)) == (None, None, None)
    shared = pod(resources={"aliyun.com/gpu-mem": "4"})
    assert counts(run(shared, node(gpus={"aliyun.com/gpu-mem": "32", "aliyun.com/gpu-count": "2"}))) == (1, 0.25, None)
    assert counts(run(shared)) == (None, None, None)


def test_a_pod_without_gpus_is_left_out_unless_it_is_asked_for() -> None:
    plain = pod(resources={"cpu": "1"})
    assert runs(plain) == []
    assert run(plain, all_pods=True)["gpu_count"] == 0


@pytest.mark.parametrize("amount", ["-1", "many", "1.2.3", True, [1], "1e999999"])
def test_a_number_of_gpus_that_is_none_costs_the_pod_and_names_the_resource(amount: Any) -> None:
    parsed = rows(pod("bad", resources={"nvidia.com/gpu": amount}), pod("good"))
    assert [row["name"] for row in parsed.tables["runs"]] == ["good"]
    (reject,) = parsed.rejects
    assert reject.line
    assert "Pod ml/bad: nvidia.com/gpu: " in reject.detail


def test_cpu_and_memory_that_cannot_be_read_are_left_empty() -> None:
    row = run(pod(resources={"nvidia.com/gpu": "1", "cpu": "lots", "memory": "-5"}))
    assert (row["gpu_count"], row["cpu_count"], row["memory_bytes"]) == (1, None, None)


def test_half_a_gpu_in_a_request_is_half_a_gpu() -> None:
    assert run(pod(resources={"nvidia.com/gpu": "500m"}))["gpu_count"] == 0.5
