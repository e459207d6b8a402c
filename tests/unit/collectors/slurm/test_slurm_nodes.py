"""`scontrol show node` as nodes and their states."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from collectors.parsed import Parsed
from collectors.slurm.collect import nodes_now
from collectors.slurm.join import joined
from collectors.slurm.states import node_state

RECORDINGS = Path(__file__).parent / "recordings"
SEEN_AT = datetime(2026, 11, 30, 7)


def parse_nodes(text: str, *, cluster: str, seen_at: datetime) -> Parsed:
    return joined([nodes_now(text, seen_at)], cluster)[0]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("IDLE", "in_service"),
        ("MIXED", "in_service"),
        ("ALLOCATED+COMPLETING", "in_service"),
        ("IDLE+PLANNED", "in_service"),
        ("IDLE+DRAIN", "drained"),
        ("MIXED+DRAIN", "draining"),
        ("ALLOCATED+DRAIN", "draining"),
        ("drained", "drained"),
        ("draining", "draining"),
        ("DOWN", "down"),
        ("DOWN*", "down"),
        ("IDLE*", "down"),
        ("DOWN+DRAIN", "down"),
        ("IDLE+NOT_RESPONDING", "down"),
        ("ERROR", "down"),
        ("IDLE+MAINTENANCE", "maintenance"),
        ("IDLE+MAINT+DRAIN", "maintenance"),
        ("MIXED+RESERVED", "reserved"),
        ("IDLE+CLOUD+POWERED_DOWN", None),
        ("IDLE~", None),
        ("FUTURE", None),
        # sinfo's words, long and short, with the symbols behind them
        ("mixed+drain", "draining"),
        ("drng", "draining"),
        ("drain", "drained"),
        ("drained*", "down"),
        ("alloc", "in_service"),
        ("mix-", "in_service"),
        ("idle@", "in_service"),
        ("idle!", "in_service"),
        ("alloc+", "in_service"),
        ("plnd", "in_service"),
        ("maint", "maintenance"),
        ("idle$", "maintenance"),
        ("boot^", "down"),
        ("inval", "down"),
        ("resv", "reserved"),
        ("failg", "draining"),
        ("idle%", None),
        ("mix#", None),
        # to be switched off: there as long as it has jobs
        ("MIXED+CLOUD+POWER_DOWN", "in_service"),
        ("IDLE+CLOUD+POWER_DOWN", None),
        ("IDLE+CLOUD+POWER", None),  # 20.11
        ("IDLE+DYNAMIC_NORM", "in_service"),
    ],
)
def test_a_state_with_its_flags_is_one_of_ours(text: str, state: str | None) -> None:
    assert node_state(text) == state


def test_the_recorded_node_is_read() -> None:
    parsed = parse_nodes((RECORDINGS / "scontrol_nodes.txt").read_text(), cluster="gpucl", seen_at=SEEN_AT)

    [node] = parsed.tables["nodes"]
    assert (node["node"], node["cpu_count"], node["memory_bytes"], node["gpu_count"]) == ("vm", 2, 8000 * 2**20, 10)
    assert node["partitions"] == "gpu"
    assert json.loads(node["labels"]) == {"gres": "gpu:h100:4,gpu:a100:4,gpu:1g.10gb:2"}
    [state] = parsed.tables["node_states"]
    assert (state["state"], state["reason"], state["started_at"]) == ("in_service", None, SEEN_AT)


def test_a_drained_node_is_so_since_the_time_beside_its_reason() -> None:
    text = (
        "NodeName=gpu-1 CPUTot=64 RealMemory=1000 Gres=gpu:h100:4(S:0-1) State=IDLE+DRAIN Partitions=a,b "
        "CfgTRES=cpu=64,mem=1000M InstanceType=p5 Reason=bad fan, see ticket=7 [root@1796020000]\n"
        "NodeName=gpu-2 State=DOWN Reason=Not responding [slurm@2026-11-30T06:26:40]\n"
        "NodeName=gpu-3 CPUTot=? State=MIXED+RESERVED Reason=for a course\n"
        "NodeName=gpu-4 State=IDLE+CLOUD+POWERED_DOWN Gres=(null)\n"
    )
    parsed = parse_nodes(text, cluster="c", seen_at=SEEN_AT)

    assert [(row["node"], row["state"], row["reason"], row["started_at"]) for row in parsed.tables["node_states"]] == [
        ("gpu-1", "drained", "bad fan, see ticket=7", datetime(2026, 11, 30, 6, 26, 40)),
        ("gpu-2", "down", "Not responding", datetime(2026, 11, 30, 6, 26, 40)),
        ("gpu-3", "reserved", "for a course", SEEN_AT),
    ]
    assert [(row["gpu_count"], row["cpu_count"], row["instance_type"]) for row in parsed.tables["nodes"]] == [
        (4, 64, "p5"),
        (0, None, None),
        (0, None, None),
        (0, None, None),
    ]


def test_a_node_that_cannot_be_read_is_quarantined_and_the_rest_lands() -> None:
    parsed = parse_nodes(
        "slurm_load_node error\nNodeName=a State=IDLE RealMemory=lots\nNodeName=b State=IDLE\n", cluster="c", seen_at=SEEN_AT
    )

    assert [row["node"] for row in parsed.tables["nodes"]] == ["b"]
    assert ["node a" in reject.detail for reject in parsed.rejects] == [True]


def test_a_cluster_without_nodes_has_no_rows() -> None:
    assert parse_nodes("No nodes in the system\n", cluster="c", seen_at=SEEN_AT).tables == {}
