"""Whatever stands in an object or a file: rows, rejects, or a failed source that says why; never another error."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.kubernetes.history import History, complete_kinds
from collectors.kubernetes.parse import read_snapshot
from collectors.kubernetes.rows import gather
from tests.unit.collectors.kubernetes.made import GPU, a_list, container, ended, node, pod
from tests.unit.collectors.kubernetes.test_kubernetes_devices import CARD, INSTANCE, a_slice, claim, claiming
from warehouse.landing.conform import conform
from warehouse.landing.shape import TABLES

AT = datetime(2026, 11, 1, 12)
REGISTER = f"{GPU},10,24576,100,NVIDIA-NVIDIA L4,0,true,0,hami-core:"
OBJECTS = [
    pod(status={"containerStatuses": [ended(137, reason="OOMKilled")]}, phase="Failed"),
    pod(
        "frac",
        resources={},
        labels={"runai-gpu-group": "g", "pod-template-hash": "7"},
        annotations={
            "gpu-fraction": "0.5",
            "gpu-fraction-num-devices": "2",
            "kai.scheduler/top-owner-metadata": "kind: Job\nname: x",
        },
        metadata={**pod("frac")["metadata"], "ownerReferences": [{"kind": "Job", "name": "nightly-29892090", "uid": "j"}]},
    ),
    pod(
        "reserve", labels={"app": "runai-reservation", "runai-gpu-group": "g"}, annotations={"run.ai/reserve_for_gpu_index": GPU}
    ),
    pod("hami", resources={"nvidia.com/gpu": "1"}, annotations={"hami.io/vgpu-devices-allocated": f"{GPU},NVIDIA,6144,10:;"}),
    pod(
        "koord",
        annotations={"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":1,"resources":{"x/gpu-core":"50"}}]}'},
    ),
    pod(
        "mig", annotations={"runai-mig-device": json.dumps({"name": "nvidia.com/mig-1g.5gb", "instanceid": "MIG-28810d46-0180"})}
    ),
    pod("share", annotations={"ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_POD": "4", "ALIYUN_COM_GPU_MEM_DEV": "16"}),
    pod("init", spec={"initContainers": [container({"nvidia.com/gpu": "1"}, restartPolicy="Always")], **pod()["spec"]}),
    claiming("dra"),
    claim("gpu-0", pods=("uid-dra",)),
    a_slice(CARD, INSTANCE),
    node(
        labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.memory": "24576"},
        annotations={"hami.io/node-nvidia-register": REGISTER},
    ),
    node(
        "n2",
        gpus={"nvidia.com/mig-1g.5gb": "7"},
        spec={"unschedulable": True, "taints": [{"key": "maintenance", "effect": "NoSchedule"}]},
    ),
    {
        "kind": "Event",
        "metadata": {},
        "involvedObject": {"kind": "Pod", "uid": "u"},
        "reason": "Killing",
        "lastTimestamp": "2026-11-01T12:00:00Z",
    },
]
TEXTS = [
    a_list(*OBJECTS).decode(),
    yaml.safe_dump(json.loads(a_list(*OBJECTS[:4]))),
    "---\n".join(yaml.safe_dump(item) for item in OBJECTS[:3]),
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "-1",
            "1k",
            "500m",
            "1e400",
            "9" * 30,
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59-14:00",
            "null",
            "\ud800",
            "{",
            "[",
            "MIG-",
        ]
    ),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


def read(data: bytes) -> None:
    with suppress(SourceFailedError):
        taken = read_snapshot(data, "any", at=AT, all_pods=True)
        history = History("c", all_pods=True)
        parsed = history.take(taken, gather([taken]), complete_kinds(taken))
        later = read_snapshot(
            a_list(pod("x"), pod("y", metadata={"namespace": "z", "uid": "y", "name": "y"})), "later", at=AT.replace(hour=13)
        )
        parsed.extend(history.take(later, gather([taken, later]), complete_kinds(later)))
        for table, frame in parsed.frames().items():
            conform(TABLES[table], frame, "any")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object, its leaves and what holds them."""
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [place for name, entry in value.items() for place in places(entry, (*path, name))]
    if isinstance(value, list):
        return found + [place for position, entry in enumerate(value) for place in places(entry, (*path, position))]
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_an_object_with_anything_in_it_is_read_or_quarantined(data: st.DataObject) -> None:
    items = json.loads(json.dumps(OBJECTS))
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(places(items)))
        holder: Any = items
        with suppress(KeyError, IndexError, TypeError):
            for step in way:
                holder = holder[step]
            holder[last]
            if data.draw(st.booleans()):
                del holder[last]
            else:
                holder[last] = data.draw(ANYTHING)
    read(json.dumps({"kind": "List", "items": items}).encode("utf-8", "replace"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_damaged_file_is_read_or_refused(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 60)))
    read((text[:start] + data.draw(st.text(alphabet='{}[]",:\n -&*!|>#%@`\t0aZ', max_size=12)) + text[end:]).encode())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_file_that_ends_anywhere_is_read_or_refused(text: str, data: st.DataObject) -> None:
    read(text[: data.draw(st.integers(0, len(text)))].encode())


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)
