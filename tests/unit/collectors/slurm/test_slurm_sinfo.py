"""sinfo's outputs, slurmrestd's nodes and partitions, sonar's cluster document: nodes, their partitions and states."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from collectors.slurm.parse import parse_output
from collectors.slurm.records import Reading, SourceFailedError
from tests.unit.collectors.slurm.helpers import AT, picked, rows_of

STATES = ("node", "state", "reason", "started_at")
LONG = """\
Wed Jun 05 05:58:34 2024
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
gpu001         1  general*        idle 32     2:16:1  95027        0      1   (null) none
gpu001         1       mig        idle 32     2:16:1  95027        0      1   (null) none
gpu002         1  general*    drained* 32     2:16:1  95027        0      1   (null) Not responding
gpu003         1  general*       mixed 32+    2:16:1  95027+       0      1   (null) Kill task failed (x
"""


def test_the_long_form_is_dated_by_itself_and_partitions_overlap() -> None:
    parsed = rows_of(LONG, at=None, reading=Reading(time_zone="America/New_York"))

    seen_at = datetime(2024, 6, 5, 9, 58, 34)
    assert picked(parsed, "nodes", "node", "partitions", "cpu_count", "memory_bytes", "gpu_count", "seen_at") == [
        ("gpu001", "general,mig", 32, 95027 << 20, None, seen_at),
        ("gpu002", "general", 32, 95027 << 20, None, seen_at),
        ("gpu003", "general", None, None, None, seen_at),
    ]
    assert picked(parsed, "node_states", *STATES) == [
        ("gpu001", "in_service", None, seen_at),
        ("gpu002", "down", "Not responding", seen_at),
        ("gpu003", "in_service", "Kill task failed (x", seen_at),
    ]


@pytest.mark.parametrize(
    ("text", "nodes", "states"),
    [
        ("NODELIST|STATE|GRES\ngpu-[1-2]|mixed+drain|gpu:h100:4(S:0-1),shard:h100:32\n",
         [("gpu-1", None, 4), ("gpu-2", None, 4)], [("gpu-1", "draining"), ("gpu-2", "draining")]),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
         "normal*  up  infinite  2  drng n[1-2]\n"
         "empty  up  infinite  0  n/a \n",
         [("n1", "normal", None), ("n2", "normal", None)], [("n1", "draining"), ("n2", "draining")]),
        # -O: a column in the middle holds spaces
        ("HOSTNAMES           REASON              TIMESTAMP           STATE\n"
         "n1                  bad fan, see 7      2024-05-01T10:00:00 drained\n"
         "n2                  none                Unknown             idle\n",
         [], [("n1", "drained"), ("n2", "in_service")]),
        ("NODELIST,STATE,MEMORY\nn1,idle~,1000\n", [("n1", None, None)], []),
        ("NODELIST;PARTITION;STATE;\r\nn1;a;alloc;\r\n", [("n1", "a", None)], [("n1", "in_service")]),
        # as sonar saves it: no header
        ("bigmem-1,c1-[5,9-10]|mixed|\ngpu-2|mixed+drain|\ngpu-7|mixed+reserved|\n", [],
         [("bigmem-1", "in_service"), ("c1-10", "in_service"), ("c1-5", "in_service"), ("c1-9", "in_service"),
          ("gpu-2", "draining"), ("gpu-7", "reserved")]),
        ("normal*|c1-[5-6]|\naccel|c1-6,gpu-1|\n",
         [("c1-5", "normal", None), ("c1-6", "normal,accel", None), ("gpu-1", "accel", None)], []),
    ],
    ids=["delimited", "default", "middle", "commas", "crlf", "sonar states", "sonar partitions"],
)  # fmt: skip
def test_every_form_is_read_by_its_headers(text: str, nodes: list[Any], states: list[Any]) -> None:
    parsed = rows_of(text)

    assert picked(parsed, "nodes", "node", "partitions", "gpu_count") == nodes
    assert picked(parsed, "node_states", "node", "state") == states
    assert parsed.rejects == []


def test_fields_may_be_named_for_an_output_without_header() -> None:
    parsed = rows_of("na1|none|Unknown|mixed\nnb1|fan|2024-05-01T10:00:00|drained\n",
                     reading=Reading(fields=("NODELIST", "REASON", "TIMESTAMP", "STATE")))  # fmt: skip

    assert picked(parsed, "node_states", *STATES) == [
        ("na1", "in_service", None, AT),
        ("nb1", "drained", "fan", datetime(2024, 5, 1, 10)),
    ]


def test_reasons_say_since_when_where_the_states_are_given_with_them() -> None:
    reasons = (
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "Kill task failed     root      2026-11-29T10:00:00 gpu-[1-2]\n"
    )
    parsed = rows_of("gpu-[1-3]|drained|\n", reasons)

    assert picked(parsed, "node_states", *STATES) == [
        ("gpu-1", "drained", "Kill task failed", datetime(2026, 11, 29, 10)),
        ("gpu-2", "drained", "Kill task failed", datetime(2026, 11, 29, 10)),
        ("gpu-3", "drained", None, AT),
    ]
    alone = rows_of(reasons)
    assert (alone.tables, ["sinfo -N -l" in note for note in alone.notes]) == ({}, [True])


def test_several_clusters_above_their_lists_are_kept_apart() -> None:
    part = "CLUSTER: {}\nPARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nnormal*  up  infinite  1  {} n1\n"
    parsed = rows_of(part.format("a", "idle") + "\n" + part.format("b", "down"), cluster=None)

    assert picked(parsed, "node_states", "cluster", "node", "state") == [("a", "n1", "in_service"), ("b", "n1", "down")]


def test_a_line_that_does_not_fit_its_columns_is_quarantined_and_the_rest_lands() -> None:
    parsed = rows_of("NODELIST|STATE|GRES\nn1|idle|gpu:4\nn2|idle\nn3|foo_bar_baz|gpu:1\nn[4|idle|gpu:1\nn5|idle+newflag|gpu:1\n")

    assert picked(parsed, "node_states", "node", "state") == [("n1", "in_service"), ("n5", "in_service")]
    assert sorted((reject.line, reject.reason) for reject in parsed.rejects) == [
        (3, "malformed"), (4, "malformed"), (5, "malformed"),
    ]  # fmt: skip
    assert [note for note in parsed.notes if "NEWFLAG" in note]


def test_an_output_that_says_no_time_asks_for_one() -> None:
    with pytest.raises(SourceFailedError, match=r"saved.*--at 2026-11-01T00:00:00Z"):
        parse_output(b"NODELIST|STATE\nn1|idle\n", "saved", Reading())


def test_the_time_may_stand_in_the_files_name() -> None:
    output = parse_output(b"NODELIST|STATE\nn1|idle\n", "sinfo-2026-11-01T00-05-00Z.txt", Reading())

    assert output.observed_at == datetime(2026, 11, 1, 0, 5)


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


#: slurmrestd v0.0.38
PLAIN = {
    "name": "gpu1", "state": "idle", "state_flags": ["DRAIN"], "cpus": 32, "real_memory": 1000, "gres": "gpu:h100:4(S:0-1)",
    "tres": "cpu=32,mem=1000M,billing=32,gres/gpu=4", "partitions": ["normal", "mig"], "reason": "fan",
    "reason_changed_at": 1796018400, "active_features": "a,b",
}  # fmt: skip
#: v0.0.39 and later
NESTED = PLAIN | {
    "state": ["IDLE", "DRAIN"], "state_flags": [], "reason_changed_at": number(1796018400), "active_features": ["a", "b"],
    "instance_type": "",
}  # fmt: skip


@pytest.mark.parametrize("node", [PLAIN, NESTED], ids=["22.05", "24.05"])
def test_every_layout_of_slurmrestds_nodes_says_the_same(node: dict[str, Any]) -> None:
    meta = {"Slurm": {"release": "24.05.3"}, "slurm": {"cluster": "hpc"}}
    parsed = rows_of({"nodes": [node], "last_update": number(1796020800), "meta": meta}, at=None, cluster=None)

    assert picked(parsed, "nodes", "cluster", "node", "cpu_count", "memory_bytes", "gpu_count", "partitions") == [
        ("hpc", "gpu1", 32, 1000 << 20, 4, "normal,mig")
    ]
    assert picked(parsed, "node_states", *STATES) == [("gpu1", "drained", "fan", datetime(2026, 11, 30, 6))]


def test_partitions_alone_say_where_nodes_are() -> None:
    parsed = rows_of(
        {"partitions": [{"name": "old", "nodes": "cn[1-2]"}, {"name": "new", "nodes": {"configured": "cn2,gn1", "total": 2}}]}
    )

    assert picked(parsed, "nodes", "node", "partitions") == [("cn1", "old"), ("cn2", "old,new"), ("gn1", "new")]


def test_sinfos_own_json_is_read() -> None:
    entry = {
        "nodes": {"nodes": ["node33"], "total": 1}, "partition": {"name": "GPU"}, "node": {"state": ["IDLE", "NO_RESPOND"]},
        "cpus": {"minimum": 128, "maximum": 128, "total": 128}, "memory": {"minimum": 510000, "maximum": 510000},
        "gres": {"total": "gpu:rtx_3090:8", "used": ""}, "reason": {"description": "gone", "time": number(1796018400)},
    }  # fmt: skip
    grouped = entry | {
        "nodes": {"nodes": ["node[1-2]"]}, "node": {"state": "ALLOCATED"}, "cpus": {"minimum": 64, "maximum": 128}, "memory": {},
        "reason": {"description": ""},
    }  # fmt: skip
    parsed = rows_of({"sinfo": [entry, grouped]})

    assert picked(parsed, "nodes", "node", "cpu_count", "memory_bytes", "gpu_count", "partitions") == [
        ("node1", None, None, 8, "GPU"), ("node2", None, None, 8, "GPU"), ("node33", 128, 510000 << 20, 8, "GPU"),
    ]  # fmt: skip
    assert picked(parsed, "node_states", *STATES) == [
        ("node1", "in_service", None, AT),
        ("node2", "in_service", None, AT),
        ("node33", "down", "gone", datetime(2026, 11, 30, 6)),
    ]


def test_sonars_cluster_document_is_read_with_its_time_and_cluster() -> None:
    attributes = {
        "time": "2025-09-26T10:49:12+02:00", "cluster": "fox", "slurm": True,
        "partitions": [{"name": "accel", "nodes": ["gpu-[1-2]"]}, {"name": "mig", "nodes": ["gpu-2"]}],
        "nodes": [{"names": ["gpu-1"], "states": ["MIXED", "DRAIN"]}, {"names": ["gpu-2"], "states": ["IDLE"]}],
    }  # fmt: skip
    document = {"meta": {"producer": "sonar", "version": "0.16.0"}, "data": {"type": "cluster", "attributes": attributes}}
    parsed = rows_of(document, at=None, cluster=None)

    seen_at = datetime(2025, 9, 26, 8, 49, 12)
    assert picked(parsed, "nodes", "cluster", "node", "partitions", "seen_at") == [
        ("fox", "gpu-1", "accel", seen_at), ("fox", "gpu-2", "accel,mig", seen_at),
    ]  # fmt: skip
    assert picked(parsed, "node_states", *STATES) == [
        ("gpu-1", "draining", None, seen_at), ("gpu-2", "in_service", None, seen_at),
    ]  # fmt: skip


def test_scontrols_partitions_and_nodes_may_stand_in_one_file() -> None:
    parsed = rows_of(
        "PartitionName=a\n   AllowGroups=ALL Nodes=n[1-2]\n   State=UP\n\nNodeName=n1 CPUTot=4 State=IDLE Partitions=a,b\n"
        "PartitionName=c Nodes=n[\n"
    )

    assert picked(parsed, "nodes", "node", "cpu_count", "partitions") == [("n1", 4, "a,b"), ("n2", None, "a")]
    assert len(parsed.rejects) == 1


@pytest.mark.parametrize("items", ["x", [None], [{}], [{"name": "n", "real_memory": "lots"}], [{"name": "n", "gres": "gpu:("}]])
def test_a_node_that_is_none_is_quarantined_and_the_rest_lands(items: Any) -> None:
    parsed = rows_of({"nodes": [*items, PLAIN], "sinfo": items, "partitions": items} if items != "x" else {"nodes": [PLAIN]})

    assert ("gpu1", 4) in picked(parsed, "nodes", "node", "gpu_count")
    assert len(parsed.rejects) >= (items != "x")
