"""Snapshots one after the other: what is gone has ended, within a time that is told."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from collectors.kubernetes.history import EVERYWHERE, History, complete_kinds
from collectors.kubernetes.parse import read_snapshot
from collectors.kubernetes.rows import gather
from collectors.parsed import Parsed
from tests.unit.collectors.kubernetes.made import AT, GPU, a_list, node, pod, snapshot

LATER = AT + timedelta(minutes=10)
MIDDLE = AT + timedelta(minutes=5)
OTHER = pod("other", metadata={"namespace": "kube-system", "uid": "uid-other", "name": "other"})


def take(*snapshots: tuple[datetime, tuple[dict[str, Any], ...]], only_changes: bool = False) -> list[Parsed]:
    """The rows of each snapshot, read as files are."""
    taken = [snapshot(*items, at=at) for at, items in snapshots]
    history, context = History("c1", only_changes=only_changes), gather(taken)
    return [history.take(one, context, complete_kinds(one)) for one in taken]


def last_run(parsed: Parsed, name: str) -> dict[str, Any]:
    return dict(next(row for row in parsed.tables["runs"] if row["name"] == name))


def test_a_pod_that_a_later_list_lacks_ended_between_the_two() -> None:
    _, second = take((AT, (pod(), OTHER)), (LATER, (OTHER, pod("third"))))
    row = last_run(second, "train-0")
    assert (row["state"], row["ended_at"], row["observed_at"]) == ("Deleted", MIDDLE, LATER)
    assert json.loads(row["labels"])["ended_between"] == ["2026-11-01T12:00:00Z", "2026-11-01T12:10:00Z"]


def test_a_pod_that_ended_before_it_was_deleted_is_not_ended_again() -> None:
    _, second = take((AT, (pod(phase="Succeeded"), OTHER)), (LATER, (OTHER, pod("third"))))
    assert "train-0" not in [row["name"] for row in second.tables["runs"]]


def test_a_pending_pod_that_is_gone_never_held() -> None:
    _, second = take((AT, (pod(node=None, phase="Pending"), OTHER)), (LATER, (OTHER, pod("third"))))
    row = last_run(second, "train-0")
    assert (row["state"], row["started_at"], row["ended_at"]) == ("Deleted", None, None)


def test_a_list_of_one_namespace_ends_no_pod_of_another() -> None:
    _, second = take((AT, (pod(), OTHER)), (LATER, (OTHER,)))
    assert [row["name"] for row in second.tables["runs"]] == ["other"]


def test_single_objects_end_nothing() -> None:
    taken = [snapshot(pod(), OTHER, at=AT)]
    taken.append(read_snapshot(json.dumps(pod("third")).encode(), "third.json", at=LATER))
    history, context = History("c1"), gather(taken)
    found = [history.take(one, context, complete_kinds(one)) for one in taken]
    assert [row["name"] for row in found[1].tables["runs"]] == ["third"]


def test_a_list_that_is_cut_off_ends_nothing() -> None:
    data = a_list(OTHER, pod("third"), pod("fourth"))
    cut = read_snapshot(data[: data.index(b"uid-fourth")], "cut.json", at=LATER)
    assert complete_kinds(cut) == {}


def test_a_pod_that_is_there_and_cannot_be_read_has_not_ended() -> None:
    broken = pod(resources={"nvidia.com/gpu": "many"})
    _, second = take((AT, (pod(), OTHER)), (LATER, (broken, OTHER)))
    assert [row["name"] for row in second.tables["runs"]] == ["other"]
    assert len(second.rejects) == 1


def test_a_deletion_time_makes_the_gap_shorter() -> None:
    leaving = pod(metadata={**pod()["metadata"], "deletionTimestamp": "2026-11-01T12:02:00Z"})
    _, second = take((AT, (leaving, OTHER)), (LATER, (OTHER, pod("third"))))
    assert last_run(second, "train-0")["ended_at"] == AT + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("reason", "state"), [("Killing", "Deleted"), ("Preempted", "PREEMPTED"), ("Evicted", "Failed"), ("Scheduled", "Deleted")]
)
def test_an_event_tells_when_and_why_a_pod_went(reason: str, state: str) -> None:
    event = {
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "uid": "uid-train-0"},
        "reason": reason,
        "lastTimestamp": "2026-11-01T12:08:00Z",
    }
    _, second = take((AT, (pod(), OTHER)), (LATER, (OTHER, pod("third"), event)))
    row = last_run(second, "train-0")
    assert row["state"] == state
    if reason != "Scheduled":  # killed at 12:08, gone 30 seconds later at the latest
        assert row["ended_at"] == datetime(2026, 11, 1, 12, 8, 15)
        assert json.loads(row["labels"])["end_reason"] == reason


def test_a_node_that_was_down_when_it_was_deleted_is_not_down_for_ever() -> None:
    down = node("n1", ready="False", changed="2026-11-01T11:00:00Z")
    _, second = take((AT, (down, node("n2"))), (LATER, (node("n2"),)))
    ended = next(row for row in second.tables["node_states"] if row["node"] == "n1")
    assert (ended["state"], ended["started_at"], ended["ended_at"]) == ("down", datetime(2026, 11, 1, 11), MIDDLE)


def test_a_node_is_back_in_service_from_the_moment_it_was_ready() -> None:
    down = node(ready="Unknown", changed="2026-11-01T11:00:00Z")
    _, second = take((AT, (down,)), (LATER, (node(changed="2026-11-01T12:03:00Z"),)))
    (row,) = second.tables["node_states"]
    assert (row["state"], row["started_at"]) == ("in_service", datetime(2026, 11, 1, 12, 3))


def test_a_cordon_without_a_time_begins_where_it_was_first_seen() -> None:
    cordoned = node(spec={"unschedulable": True})
    first, second = take((AT, (cordoned, OTHER)), (LATER, (cordoned, OTHER)))
    assert [parsed.tables["node_states"][0]["started_at"] for parsed in (first, second)] == [AT, AT]


def test_only_changes_are_said_again_where_that_is_asked_for() -> None:
    same = (pod(), node())
    first, second, third = take((AT, same), (LATER, same), (AT + timedelta(days=1), same), only_changes=True)
    assert sorted(first.tables) == ["node_states", "nodes", "run_gpus", "runs"]
    assert sorted(second.tables) == ["nodes"]
    assert sorted(third.tables) == ["node_states", "nodes", "run_gpus", "runs"]


def test_a_pod_that_changed_is_said_again() -> None:
    _, second = take((AT, (pod(), node())), (LATER, (pod(phase="Succeeded"), node())), only_changes=True)
    assert [row["state"] for row in second.tables["runs"]] == ["Succeeded"]


def test_what_a_node_told_of_a_share_stands_while_the_node_cannot_be_read() -> None:
    """A reading without nodes once took a quarter of a time-sliced card for the whole card."""
    shared = node(labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4-SHARED"})
    history = History("c1", only_changes=True)
    for at, items in ((AT, (pod(), shared)), (LATER, (pod(),))):
        taken = snapshot(*items, at=at)
        parsed = history.take(taken, gather([taken]), {"Pod": EVERYWHERE})
    assert parsed.tables == {}
    assert history.pods["uid-train-0"].row["share_ratio"] == 0.25


def test_a_reservation_file_and_a_fraction_file_of_one_call_belong_together() -> None:
    reserved = pod(
        "gpu-reservation-x",
        labels={"app": "runai-reservation", "runai-gpu-group": "g"},
        annotations={"run.ai/reserve_for_gpu_index": GPU},
    )
    fraction = pod("frac", resources={}, labels={"runai-gpu-group": "g"}, annotations={"gpu-fraction": "0.5"})
    first, _ = take((AT, (fraction,)), (LATER, (reserved,)))
    assert first.tables["run_gpus"][0]["gpu_uuid"] == GPU
