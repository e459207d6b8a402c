"""Devices that sharing schedulers name in a pod's annotations, and pods that reserve a card for others."""

from __future__ import annotations

import json

from tests.unit.collectors.kubernetes.made import GPU, OTHER_GPU, container, held, node, pod, rows, run, runs

T4 = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360", "nvidia.com/gpu.count": "2"}
GROUP = "df7c0dd3-9795-443c-85b9-acbf49c8fb6b"


def reservation(group: str = GROUP, value: str = GPU, **more: object) -> dict[str, object]:
    labels = {"app": "kai-resource-reservation", "runai-gpu-group": group}
    return pod(
        "gpu-reservation-n1-abcde",
        labels=labels,
        annotations={"run.ai/reserve_for_gpu_index": value},
        metadata={"namespace": "kai-resource-reservation", "uid": f"uid-{group}"},
    )


def fraction(name: str = "frac-1-0-0", group: str = GROUP, **notes: str) -> dict[str, object]:
    return pod(name, resources={"cpu": "100m"}, labels={"runai-gpu-group": group}, annotations=notes or {"gpu-fraction": "0.5"})


def test_a_fraction_holds_that_part_of_the_card_that_its_group_reserved() -> None:
    by_name = {row["name"]: row for row in runs(reservation(), fraction())}
    assert by_name["gpu-reservation-n1-abcde"]["gpu_count"] == 0
    assert by_name["frac-1-0-0"]["gpu_count"] == 1
    assert by_name["frac-1-0-0"]["share_ratio"] == 0.5
    assert held(reservation(), fraction()) == [
        {"gpu_uuid": GPU, "gpu_count": 1, "share_ratio": 0.5, "assignment_method": "reservation_pod"}
    ]


def test_two_pods_of_a_group_share_one_card() -> None:
    found = held(reservation(), fraction("a", **{"gpu-fraction": "0.5"}), fraction("b", **{"gpu-fraction": "0.25"}))
    assert [(row["gpu_uuid"], row["share_ratio"]) for row in found] == [(GPU, 0.5), (GPU, 0.25)]


def test_a_reservation_whose_pods_are_not_there_holds_nothing_and_keeps_its_evidence() -> None:
    row = run(reservation())
    assert (row["gpu_count"], row["node_list"]) == (0, "n1")
    labels = json.loads(row["labels"])
    assert (labels["reservation"], labels["reserved_gpu_uuid"], labels["gpu_group"]) == (True, GPU, GROUP)
    assert held(reservation()) == []


def test_a_reserved_card_is_one_of_its_node_where_the_node_tells_its_model() -> None:
    (row,) = rows(reservation(), node(labels=T4)).tables["gpu_inventory"]
    assert (row["gpu_uuid"], row["node"], row["gpu_model"]) == (GPU, "n1", "Tesla-T4")
    assert "gpu_inventory" not in rows(reservation()).tables


def test_a_fraction_without_its_reservation_is_counted_on_its_node() -> None:
    assert held(fraction()) == [{"gpu_count": 1, "share_ratio": 0.5, "assignment_method": "node_pool"}]
    assert json.loads(run(fraction())["labels"])["gpu_group"] == GROUP


def test_an_old_reservation_tells_an_index() -> None:
    assert held(reservation(value="1"), fraction())[0]["gpu_index"] == 1
    assert "gpu_uuid" not in held(reservation(value="-1"), fraction())[0]


def test_fractions_of_several_cards_have_a_label_per_card() -> None:
    labels = {"runai-gpu-group/g1": "g1", "runai-gpu-group/g2": "g2"}
    shared = pod(resources={}, labels=labels, annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"})
    found = held(reservation("g1"), reservation("g2", OTHER_GPU), shared)
    assert [(row["gpu_uuid"], row["share_ratio"]) for row in found] == [(GPU, 0.5), (OTHER_GPU, 0.5)]
    assert next(row for row in runs(shared))["gpu_count"] == 2


def test_memory_instead_of_a_fraction_is_a_part_of_the_nodes_card() -> None:
    assert run(fraction(**{"gpu-memory": "3840"}), node(labels=T4))["share_ratio"] == 0.25
    assert run(fraction(**{"nvidia.com/container.main.gpu-memory.request": "7680Mi"}), node(labels=T4))["share_ratio"] == 0.5
    assert run(fraction(**{"nvidia.com/container.main.gpu-memory.limit": "3840Mi"}), node(labels=T4))["share_ratio"] == 0.25
    assert run(fraction(**{"gpu-memory": "3840"}))["gpu_count"] is None


def test_a_mig_device_of_runai_is_named_in_two_ways() -> None:
    told = {"name": "nvidia.com/mig-1g.5gb", "position": 6, "gpuindex": 0}
    expected = {"slot_uuid": "MIG-28810d46-0180-5139-a975-020bdc7f9cb1", "gpu_index": 0, "mig_profile": "1g.5gb", "gpu_count": 1}
    for more in ({"instanceid": expected["slot_uuid"]}, {"deviceUUID": expected["slot_uuid"], "gpuindex": "0"}):
        notes = {"runai-mig-device": json.dumps(told | more), "nvidia.com/mig-1g.5gb": "1"}
        assert held(pod(resources={}, annotations=notes)) == [{**expected, "assignment_method": "scheduler_annotation"}]


def test_a_mig_request_of_runai_before_its_device_is_known_is_counted() -> None:
    row = run(pod(resources={}, node=None, phase="Pending", annotations={"nvidia.com/mig-2g.10gb": "1"}))
    assert (row["requested_gpu_count"], row["gpu_count"], row["mig_profile"]) == (1, None, "2g.10gb")


REGISTER = f"{GPU},10,24576,100,NVIDIA-NVIDIA L4,0,true:{OTHER_GPU},10,24576,100,NVIDIA-NVIDIA L4,0,true,1,hami-core:"


def hami(allocated: str, containers: int = 1, **more: str) -> dict[str, object]:
    resources = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "6144"}
    return pod(
        annotations={"hami.io/vgpu-devices-allocated": allocated, **more},
        spec={"containers": [container(resources)] * containers},
    )


def test_hami_names_the_card_and_the_memory_of_each_container() -> None:
    hosts = node(annotations={"hami.io/node-nvidia-register": REGISTER})
    assert held(hami(f"{GPU},NVIDIA,6144,0:;"), hosts) == [
        {"gpu_uuid": GPU, "gpu_count": 1, "share_ratio": 0.25, "assignment_method": "scheduler_annotation"}
    ]
    assert held(hami(f"{GPU},NVIDIA,6144,50:;"), hosts)[0]["share_ratio"] == 0.5
    both = held(hami(f"{GPU},NVIDIA,6144,0:;{GPU},NVIDIA,12288,0:;", containers=2), hosts)
    assert [row["share_ratio"] for row in both] == [0.75]
    whole = held(hami(f"{GPU},NVIDIA,24576,0:{OTHER_GPU},NVIDIA,24576,0:;"), hosts)
    assert [(row["gpu_uuid"], row.get("share_ratio")) for row in whole] == [(OTHER_GPU, None), (GPU, None)]


def test_a_container_that_runs_before_the_others_does_not_add_to_them() -> None:
    hosts = node(annotations={"hami.io/node-nvidia-register": REGISTER})
    found = held(hami(f"{GPU},NVIDIA,12288,0:;{GPU},NVIDIA,6144,0:;", containers=1), hosts)
    assert [row["share_ratio"] for row in found] == [0.5]


def test_hami_without_its_node_knows_the_card_but_not_the_share() -> None:
    assert run(hami(f"{GPU},NVIDIA,6144,0:;"))["gpu_count"] is None
    assert held(hami(f"{GPU},NVIDIA,6144,40:;"))[0]["share_ratio"] == 0.4


def test_the_place_of_a_mig_device_is_no_part_of_the_cards_id() -> None:
    hosts = node(annotations={"hami.io/node-nvidia-register": REGISTER})
    assert held(hami(f"{GPU}[0-1],NVIDIA,6144,0:;"), hosts)[0]["gpu_uuid"] == GPU


def test_volcano_writes_what_hami_writes() -> None:
    hosts = node(annotations={"volcano.sh/node-vgpu-register": f"{GPU},10,32768,NVIDIA-Tesla V100-PCIE-32GB,false:"})
    shared = pod(resources={"volcano.sh/vgpu-number": "1"}, annotations={"volcano.sh/vgpu-ids-new": f"{GPU},NVIDIA,8192,0:;"})
    assert held(shared, hosts)[0]["share_ratio"] == 0.25


def test_koordinator_names_minors_and_its_device_object_their_ids() -> None:
    given = {"gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}}]}
    shared = pod(
        resources={"koordinator.sh/gpu": "50"}, annotations={"scheduling.koordinator.sh/device-allocated": json.dumps(given)}
    )
    expected = {"gpu_index": 1, "gpu_count": 1, "share_ratio": 0.5, "assignment_method": "scheduler_annotation"}
    assert held(shared) == [expected]
    devices = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1"},
        "spec": {"devices": [{"id": GPU, "minor": 1, "type": "gpu", "health": True}]},
    }
    assert held(shared, devices) == [{**expected, "gpu_uuid": GPU}]


def test_gpushare_names_an_index_and_memory_in_one_unit() -> None:
    notes = {"ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "4", "ALIYUN_COM_GPU_MEM_DEV": "16"}
    expected = {"gpu_index": 1, "gpu_count": 1, "share_ratio": 0.25, "assignment_method": "scheduler_annotation"}
    assert held(pod(resources={"aliyun.com/gpu-mem": "4"}, annotations=notes)) == [expected]
    hosts = node(gpus={"aliyun.com/gpu-mem": "32", "aliyun.com/gpu-count": "2"})
    newer = {"scheduler.framework.gpushare.allocation": '{"0":{"1":1},"1":{"1":3}}'}
    assert held(pod(resources={"aliyun.com/gpu-mem": "4"}, annotations=newer), hosts) == [expected]


def test_a_fraction_that_is_no_number_costs_the_pod() -> None:
    assert runs(fraction(**{"gpu-fraction": "half"})) == []
    assert runs(fraction(**{"gpu-fraction": "-1"})) == []


def test_annotations_that_cannot_be_read_are_as_none() -> None:
    for name in ("runai-mig-device", "scheduling.koordinator.sh/device-allocated", "scheduler.framework.gpushare.allocation"):
        for text in ("{", "[]", '{"gpu": 5}', "null", "[" * 100_000):
            assert held(pod(annotations={name: text})) == [{"gpu_count": 1, "assignment_method": "node_pool"}]
