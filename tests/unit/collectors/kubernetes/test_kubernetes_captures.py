"""Real objects: what run-ai's fake-gpu-operator keeps as design notes, four pods and three nodes of 2023 and 2024."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.kubernetes.history import History, complete_kinds
from collectors.kubernetes.parse import read_snapshot
from collectors.kubernetes.rows import gather
from collectors.parsed import Parsed


@pytest.fixture(scope="module")
def parsed(real_data: Path) -> Parsed:
    files = sorted((real_data / "dcgm-exporter-runai").glob("k8s-*.yaml"))
    taken = sorted((read_snapshot(path.read_bytes(), path.name) for path in files), key=lambda snapshot: snapshot.at)
    history, context = History("c1"), gather(taken)
    result = Parsed()
    for snapshot in taken:
        result.extend(history.take(snapshot, context, complete_kinds(snapshot)))
    return result


def column(parsed: Parsed, table: str, name: str) -> list[Any]:
    return [row[name] for row in parsed.tables[table]]


def test_every_object_is_read(parsed: Parsed) -> None:
    assert parsed.rejects == []
    assert {table: len(rows) for table, rows in parsed.tables.items()} == {"runs": 4, "run_gpus": 3, "nodes": 3, "node_states": 3}


def test_the_fraction_holds_half_of_the_reserved_card_and_the_reservation_nothing(parsed: Parsed) -> None:
    by_name = {row["name"]: row for row in parsed.tables["runs"]}
    fraction = by_name["frac-1-0-0"]
    assert (fraction["gpu_count"], fraction["share_ratio"], fraction["owner_kind"]) == (1, 0.5, "RunaiJob")
    assert by_name["runai-reservation-gpu-i-0b498db53280b86a6-fzdhl"]["gpu_count"] == 0
    held = next(row for row in parsed.tables["run_gpus"] if row["job_id"] == fraction["job_id"])
    assert (held["gpu_uuid"], held["assignment_method"]) == ("GPU-8983c66a-23df-e63b-4c2f-afcae9ec79b3", "reservation_pod")
    assert f"{held['started_at']}" == "2024-03-31 09:03:27"


def test_mig_pods_hold_their_instances(parsed: Parsed) -> None:
    held = {row["mig_profile"]: row for row in parsed.tables["run_gpus"] if row["mig_profile"]}
    assert {profile: row["slot_uuid"] for profile, row in held.items()} == {
        "1g.5gb": "MIG-28810d46-0180-5139-a975-020bdc7f9cb1",
        "7g.40gb": "MIG-6d9be9db-d376-5991-8c4c-18ab448933ff",
    }
    assert {row["gpu_index"] for row in held.values()} == {0}


def test_nodes_have_cards_though_mig_hides_them(parsed: Parsed) -> None:
    assert [(row["node"], row["gpu_count"]) for row in parsed.tables["nodes"]] == [
        ("qa-mig-worker-gpu-a100", 1),
        ("qa-mig-worker-gpu-1", 2),
        ("qa-mig-worker-gpu-a100", 1),
    ]
    profiles = [json.loads(text).get("mig_profiles") for text in column(parsed, "nodes", "labels")]
    assert profiles == [{"1g.5gb": 3, "2g.10gb": 1}, None, {"7g.40gb": 1}]
    assert set(column(parsed, "node_states", "state")) == {"in_service"}
