"""The top of a pod's chain of owners."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.collectors.kubernetes.made import pod, run


def owner(kind: str, name: str, uid: str = "u1") -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}]}


def owned(kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {**pod()["metadata"], **owner(kind, name), "labels": more.get("labels"), "annotations": more.get("annotations")}
    return pod(metadata=metadata)


def made(kind: str, name: str, labels: dict[str, str] | None = None, **more: Any) -> tuple[Any, Any]:
    row = run(owned(kind, name, labels=labels, **more))
    return row["owner_kind"], row["owner_name"]


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job", "PyTorchJob", "RayCluster", "RunaiJob", "Workflow"])
def test_an_owner_without_an_owner_is_the_top(kind: str) -> None:
    assert made(kind, "train") == (kind, "train")


def test_a_replica_sets_name_is_its_deployments_and_the_hash_of_its_template() -> None:
    assert made("ReplicaSet", "chat-v2-6bdcb7cc99", {"pod-template-hash": "6bdcb7cc99"}) == ("Deployment", "chat-v2")
    assert made("ReplicaSet", "chat-v2-6bdcb7cc99") == ("ReplicaSet", "chat-v2-6bdcb7cc99")
    assert made("ReplicaSet", "chat-77", {"rollouts-pod-template-hash": "77"}) == ("Rollout", "chat")


def test_a_cron_jobs_jobs_are_named_by_the_minute_at_which_they_were_due() -> None:
    due = 1793525400 // 60  # 2026-11-01T09:30:00Z, and the pod was created at 09:59
    assert made("Job", f"nightly-{due}") == ("CronJob", "nightly")
    assert made("Job", f"nightly-{due * 60}") == ("CronJob", "nightly")
    assert made("Job", "nightly-12345678") == ("Job", "nightly-12345678")
    assert made("Job", f"later-{due + 60}") == ("Job", f"later-{due + 60}")


def test_objects_at_hand_lead_to_the_top() -> None:
    replica_set = {"kind": "ReplicaSet", "metadata": {"name": "chat-1", "uid": "u1", **owner("Deployment", "chat", "u2")}}
    deployment = {"kind": "Deployment", "metadata": {"name": "chat", "uid": "u2", **owner("InferenceService", "llama", "u3")}}
    row = run(pod(metadata={**pod()["metadata"], **owner("ReplicaSet", "chat-1")}), replica_set, deployment)
    assert (row["owner_kind"], row["owner_name"]) == ("InferenceService", "llama")


def test_a_chain_that_comes_back_to_itself_ends() -> None:
    first = {"kind": "Job", "metadata": {"name": "a", "uid": "u1", **owner("Job", "b", "u2")}}
    second = {"kind": "Job", "metadata": {"name": "b", "uid": "u2", **owner("Job", "a", "u1")}}
    assert run(pod(metadata={**pod()["metadata"], **owner("Job", "a")}), first, second)["owner_name"] in ("a", "b")


@pytest.mark.parametrize(
    ("labels", "top"),
    [
        ({"serving.kserve.io/inferenceservice": "llama"}, ("InferenceService", "llama")),
        ({"leaderworkerset.sigs.k8s.io/name": "vllm"}, ("LeaderWorkerSet", "vllm")),
        ({"jobset.sigs.k8s.io/jobset-name": "pretrain"}, ("JobSet", "pretrain")),
        ({"workflows.argoproj.io/cron-workflow": "nightly"}, ("CronWorkflow", "nightly")),
        ({"notebook-name": "nb"}, ("Notebook", "nb")),
        ({"ray.io/originated-from-cr-name": "serve", "ray.io/originated-from-crd": "RayService"}, ("RayService", "serve")),
    ],
)
def test_labels_name_what_the_objects_between_would_lead_to(labels: dict[str, str], top: tuple[str, str]) -> None:
    assert made("StatefulSet", "x-0", labels) == top


def test_kai_writes_the_top_owner_into_the_pod() -> None:
    told = "name: train\nuid: 1\ngroup: kubeflow.org\nversion: v1\nkind: PyTorchJob\n"
    assert made("Job", "x", annotations={"kai.scheduler/top-owner-metadata": told}) == ("PyTorchJob", "train")
    assert made("Job", "x", annotations={"kai.scheduler/top-owner-metadata": told.replace("PyTorchJob", "Pod")}) == ("Job", "x")
    assert made("Job", "x", annotations={"kai.scheduler/top-owner-metadata": "{"}) == ("Job", "x")


def test_a_pod_of_its_own_has_no_owner() -> None:
    row = run(pod())
    assert (row["owner_kind"], row["owner_name"], row["replica_group"]) == (None, None, None)


def test_pods_that_serve_as_one_replica_share_a_group() -> None:
    lws = {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "2"}
    assert run(pod(labels=lws))["replica_group"] == "vllm-2"
    assert run(pod(labels={"ray.io/cluster": "serve-raycluster-x"}))["replica_group"] == "serve-raycluster-x"
