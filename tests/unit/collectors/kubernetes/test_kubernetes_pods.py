"""When a pod held its GPUs, how it ended, and whose it is."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from tests.unit.collectors.kubernetes.made import AT, ended, node, pod, rows, run, runs

TEN, HALF_PAST_ELEVEN = datetime(2026, 11, 1, 10), datetime(2026, 11, 1, 11, 30)


def labels(row: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(row["labels"] or "{}"))


def test_a_pod_holds_from_its_binding_not_from_its_start() -> None:
    row = run(pod())
    assert (row["submitted_at"], row["started_at"], row["ended_at"]) == (datetime(2026, 11, 1, 9, 59), TEN, None)
    assert (row["state"], row["node_list"], row["observed_at"]) == ("Running", "n1", AT)


def test_a_pod_without_the_condition_was_bound_when_the_kubelet_began() -> None:
    assert run(pod(status={"conditions": []}))["started_at"] == datetime(2026, 11, 1, 10, 0, 5)
    assert run(pod(status={"conditions": None, "startTime": None}))["started_at"] == datetime(2026, 11, 1, 9, 59)


def test_a_pending_pod_holds_nothing() -> None:
    row = run(pod(node=None, phase="Pending"))
    assert (row["state"], row["started_at"], row["gpu_count"], row["requested_gpu_count"]) == ("Pending", None, None, 1)


def test_a_pod_that_pulls_its_image_holds_and_is_not_pending() -> None:
    row = run(pod(phase="Pending"))
    assert (row["state"], row["started_at"], row["gpu_count"]) == ("ContainerCreating", TEN, 1)


def test_a_pod_ends_with_its_last_container() -> None:
    containers = [ended(finished="2026-11-01T11:00:00Z"), ended()]
    row = run(pod(phase="Succeeded", status={"containerStatuses": containers}))
    assert (row["state"], row["ended_at"], row["exit_code"]) == ("Succeeded", HALF_PAST_ELEVEN, "0")


def test_restarts_are_inside_the_one_run() -> None:
    running = {"name": "main", "restartCount": 3, "state": {"running": {"startedAt": "2026-11-01T11:50:00Z"}}}
    row = run(pod(status={"containerStatuses": [running]}))
    assert (row["started_at"], row["ended_at"], labels(row)["restarts"]) == (TEN, None, 3)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"containerStatuses": [ended(1, reason="Error")]}, "Failed"),
        ({"containerStatuses": [ended(137, reason="OOMKilled")]}, "OUT_OF_MEMORY"),
        ({"reason": "NodeLost"}, "NODE_FAIL"),
        ({"reason": "DeadlineExceeded", "containerStatuses": [ended(143, reason="Error")]}, "DEADLINE"),
        ({"reason": "Evicted"}, "Failed"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}, "PREEMPTED"),
    ],
)
def test_a_failed_pod_says_why_where_that_is_told_apart(status: dict[str, Any], state: str) -> None:
    row = run(pod(phase="Failed", status=status))
    assert row["state"] == state
    assert labels(row)["end_reason"]


def test_the_exit_code_is_the_first_that_is_not_zero() -> None:
    assert run(pod(phase="Failed", status={"containerStatuses": [ended(0), ended(2), ended(1)]}))["exit_code"] == "2"


def test_an_evicted_pod_whose_containers_say_nothing_ends_with_the_last_sign_of_its_end() -> None:
    changed = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-01T11:10:00Z"}
    row = run(pod(phase="Failed", status={"reason": "Evicted", "conditions": [changed]}))
    assert (row["ended_at"], labels(row)["end_estimated"]) == (datetime(2026, 11, 1, 11, 10), True)
    written = {"managedFields": [{"subresource": "status", "time": "2026-11-01T11:15:00Z"}, {"time": "2026-11-01T11:40:00Z"}]}
    row = run(pod(phase="Failed", metadata=written, status={"reason": "Evicted", "conditions": [changed]}))
    assert row["ended_at"] == datetime(2026, 11, 1, 11, 15)


def test_a_pod_that_the_kubelet_refused_held_nothing() -> None:
    row = run(pod(phase="Failed", status={"reason": "UnexpectedAdmissionError", "conditions": None}))
    assert (row["started_at"], row["ended_at"]) == (datetime(2026, 11, 1, 10, 0, 5),) * 2


def test_an_event_tells_when_an_evicted_pod_ended() -> None:
    event = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "uid": "uid-train-0"},
        "reason": "Evicted",
        "lastTimestamp": "2026-11-01T11:20:00Z",
    }
    assert run(pod(phase="Failed", status={"reason": "Evicted"}), event)["ended_at"] == datetime(2026, 11, 1, 11, 20)


def test_a_clock_behind_the_api_servers_makes_no_negative_time() -> None:
    row = run(pod(phase="Succeeded", status={"containerStatuses": [ended(finished="2026-11-01T09:59:58Z")]}))
    assert row["ended_at"] == row["started_at"] == TEN


def test_go_s_zero_time_is_no_time() -> None:
    row = run(pod(phase="Failed", status={"containerStatuses": [ended(137, finished="0001-01-01T00:00:00Z")], "conditions": []}))
    assert row["ended_at"] == datetime(2026, 11, 1, 10, 0, 5)


def test_a_pod_on_a_lost_node_still_holds() -> None:
    row = run(pod(phase="Unknown", metadata={"deletionTimestamp": "2026-11-01T11:00:00Z"}, status={"reason": "NodeLost"}))
    assert (row["state"], row["ended_at"]) == ("Unknown", None)


def test_a_pod_that_is_being_deleted_holds_until_it_is_gone() -> None:
    assert run(pod(metadata={"deletionTimestamp": "2026-11-01T11:00:00Z"}))["ended_at"] is None


def test_what_a_pod_is_called_and_where_it_waits() -> None:
    row = run(
        pod(
            labels={"kueue.x-k8s.io/queue-name": "training", "team": "vision", "example.com/model": "llama", "secret": "x"},
            annotations={"user": "jane", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            spec={"priorityClassName": "high", "activeDeadlineSeconds": 3600, **pod()["spec"]},
        )
    )
    assert (row["queue"], row["user"], row["qos"], row["time_limit_seconds"]) == ("training", "jane", "high", 3600)
    assert labels(row) == {"team": "vision", "model": "llama"}


def test_labels_are_landed_by_an_allow_list_and_nothing_else_is() -> None:
    made = pod(
        labels={"app.kubernetes.io/name": "trainer", "app": "t", "api-token": "abc", "pod-template-hash": "x"},
        annotations={"prompt": "hello", "gpu-memory": "1"},
        spec={
            "nodeName": "n1",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/secret-image",
                    "args": ["--key=abc"],
                    "env": [{"name": "TOKEN", "value": "abc"}],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }
            ],
        },
    )
    made["metadata"]["annotations"].pop("gpu-memory")
    parsed = rows(made, node())
    text = json.dumps([parsed.tables, [reject.text for reject in parsed.rejects]], default=str)
    assert labels(dict(parsed.tables["runs"][0])) == {"app.kubernetes.io/name": "trainer", "app": "t"}
    for secret in ("abc", "secret-image", "hello", "--key", "TOKEN"):
        assert secret not in text


@pytest.mark.parametrize(
    "made",
    [
        pod("jupyter-jane"),
        pod(
            spec={
                "nodeName": "n1",
                "containers": [
                    {"image": "quay.io/jupyter/base-notebook:x", "resources": pod()["spec"]["containers"][0]["resources"]}
                ],
            }
        ),
        pod(labels={"notebook-name": "nb"}),
        pod(labels={"workloadKind": "InteractiveWorkload"}),
        pod(spec={**pod()["spec"], "schedulerName": "runai-scheduler", "priorityClassName": "build"}),
    ],
    ids=["name", "image", "notebook", "runai kind", "runai priority"],
)
def test_a_notebook_is_interactive(made: dict[str, Any]) -> None:
    assert labels(run(made))["interactive"] is True
    assert "interactive" not in labels(run(pod()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made["metadata"].pop("uid"), "no uid or no name"),
        (lambda made: made["metadata"].update(name=None), "no uid or no name"),
        (lambda made: made["status"].pop("phase"), "no status.phase"),
        (lambda made: made.pop("status"), "no status.phase"),
        (lambda made: made["status"].update(startTime="soon", conditions=[]), "no ISO 8601 instant"),
    ],
)
def test_a_pod_that_no_api_server_wrote_is_left_out_with_its_line(change: Any, message: str) -> None:
    made = pod("bad")
    change(made)
    parsed = rows(made, pod("good"))
    assert [row["name"] for row in parsed.tables["runs"]] == ["good"]
    assert message in parsed.rejects[0].detail
    assert parsed.rejects[0].line == 4


def test_the_same_pod_twice_in_one_file_is_one_run() -> None:
    parsed = rows(pod(), pod())
    assert len(parsed.tables["runs"]) == 1
    assert parsed.rejects[0].reason == "duplicate"


def test_two_pods_of_one_name_are_two_runs() -> None:
    """Case A11: the name repeats, the uid does not."""
    assert len(runs(pod(), pod(metadata={"name": "train-0", "namespace": "ml", "uid": "another"}))) == 2
