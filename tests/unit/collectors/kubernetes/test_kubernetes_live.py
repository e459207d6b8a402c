"""The API server, read over HTTP and through kubectl: pages, rights, and what it has no more."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest
from click.testing import CliRunner, Result

from collectors import command
from collectors.__main__ import main
from collectors.kubernetes import client as client_module
from collectors.kubernetes.client import ApiError, HttpServer, Kubectl, KubernetesClient, find_server
from tests.unit.collectors.kubernetes.made import AT, a_list, node, pod

Json = dict[str, Any]


@dataclass
class ApiServer:
    """What the fake answers: objects by path, statuses by path, and what it was asked."""

    objects: dict[str, list[Json]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    expires: int = 0
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    url: str = ""

    def answer(self, address: str) -> tuple[int, Json]:
        parts = urlsplit(address)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(address)
        if parts.path in self.refused:
            status = self.refused[parts.path]
            return status, {"kind": "Status", "code": status, "message": f"{parts.path} is forbidden: User cannot list it"}
        if parts.path == "/version":
            return 200, {"gitVersion": "v1.31.4"}
        if parts.path == "/api/v1/namespaces/kube-system":
            return 200, {"metadata": {"uid": "cluster-uid"}}
        if parts.path == "/apis/resource.k8s.io" and "slices" in self.objects:
            return 200, {"preferredVersion": {"version": "v1"}}
        if parts.path not in self.objects:
            return 404, {"kind": "Status", "code": 404, "message": "the server could not find the requested resource"}
        start = int(query.get("continue", 0))
        if start and self.expires:
            self.expires -= 1
            return 410, {"kind": "Status", "code": 410, "message": "The provided continue parameter is too old"}
        size = int(query["limit"])
        items = self.objects[parts.path]
        following = {"continue": str(start + size)} if start + size < len(items) else {}
        return 200, {"kind": "List", "metadata": following, "items": items[start : start + size]}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    state = ApiServer({"/api/v1/pods": [pod(), pod("b")], "/api/v1/nodes": [node()], "/api/v1/events": []})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.tokens.add(self.headers.get("Authorization", ""))
            status, body = state.answer(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time of the next call; a test may change it."""
    now = [AT]
    monkeypatch.setattr(command, "utc_now", lambda: now[0])
    return now


def kubernetes(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["kubernetes", "--cluster", "c1", *(str(argument) for argument in arguments)])


def landed(home: Path, table: str) -> pl.DataFrame:
    return pl.read_parquet(sorted((home / "raw" / "kubernetes" / table).rglob("*.parquet")))


def test_the_api_server_is_read_and_what_it_says_again_is_not_landed_again(
    home: Path, api: ApiServer, clock: list[datetime]
) -> None:
    first = kubernetes("--api-url", api.url)
    assert first.exit_code == 0, first.output
    assert "landed 2 runs, 2 run_gpus, 1 nodes, 1 node_states" in first.output
    clock[0] = AT.replace(minute=5)
    second = kubernetes("--api-url", api.url)
    assert "landed 1 nodes, 0 quarantined, 2026-11-01T12:00:00Z to 2026-11-01T12:05:00Z" in second.output


def test_a_pod_that_is_gone_at_the_next_call_has_ended_between(home: Path, api: ApiServer, clock: list[datetime]) -> None:
    kubernetes("--api-url", api.url)
    api.objects["/api/v1/pods"].pop()
    clock[0] = AT.replace(minute=10)
    assert kubernetes("--api-url", api.url).exit_code == 0
    (row,) = landed(home, "runs").filter(pl.col("ended_at").is_not_null()).to_dicts()
    assert (row["name"], row["state"], row["ended_at"]) == ("b", "Deleted", AT.replace(minute=5))
    assert any("reason%3DKilling" in address for address in api.asked)
    clock[0] = AT.replace(minute=15)
    assert "landed 1 nodes, 0" in kubernetes("--api-url", api.url).output


def test_a_landing_that_was_never_committed_leaves_the_reading_before_it(
    home: Path, api: ApiServer, clock: list[datetime]
) -> None:
    """A call killed between remembering and committing must not lose the end of the pods that it saw go."""
    kubernetes("--api-url", api.url)
    api.objects["/api/v1/pods"].pop()
    clock[0] = AT.replace(minute=10)
    kubernetes("--api-url", api.url)
    newest = max((home / "raw" / "kubernetes" / "collection_runs").rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    clock[0] = AT.replace(minute=20)
    assert "1 runs" in kubernetes("--api-url", api.url).output
    ends = landed(home, "runs").filter(pl.col("observed_at") == clock[0])["ended_at"].to_list()
    assert ends == [AT.replace(minute=10)]


def test_a_memory_that_cannot_be_read_begins_anew(home: Path, api: ApiServer, clock: list[datetime]) -> None:
    kubernetes("--api-url", api.url)
    for path in (home / "state" / "kubernetes").glob("*.json"):
        path.write_text('[{"at": 5}, "x", {"at": "2026-11-01T12:00:00", "run": "r"}')
    clock[0] = AT.replace(minute=5)
    assert "landed 2 runs" in kubernetes("--api-url", api.url).output


def test_long_lists_come_in_pages(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    api.objects["/api/v1/pods"] = [pod(f"p{number}") for number in range(5)]
    client = KubernetesClient(HttpServer(api.url))
    assert [item.name for item in client.pods()] == [f"Pod ml/p{number}" for number in range(5)]
    assert sum("/api/v1/pods" in address for address in api.asked) == 3


def test_a_list_that_expires_between_its_pages_is_begun_anew(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    api.objects["/api/v1/pods"] = [pod(f"p{number}") for number in range(5)]
    api.expires = 2
    assert [item.name for item in KubernetesClient(HttpServer(api.url)).pods()] == [f"Pod ml/p{number}" for number in range(5)]
    api.expires = 9
    with pytest.raises(ApiError, match="410"):
        list(KubernetesClient(HttpServer(api.url)).pods())


def test_nodes_that_may_not_be_read_are_a_gap_with_its_remedy(home: Path, api: ApiServer, clock: list[datetime]) -> None:
    api.refused["/api/v1/nodes"] = 403
    result = kubernetes("--api-url", api.url, "--json")
    assert result.exit_code == 0, result.output
    assert "no nodes: /api/v1/nodes: 403" in result.output
    assert "apply the ClusterRole in collectors/kubernetes/in-cluster.yaml" in result.output
    assert landed(home, "runs").height == 2
    (gaps,) = set(landed(home, "collection_runs")["gaps"].to_list())
    assert "nodes" in json.loads(gaps)


def test_pods_that_may_not_be_read_fail_the_source(home: Path, api: ApiServer, clock: list[datetime]) -> None:
    api.refused["/api/v1/pods"] = 403
    result = kubernetes("--api-url", api.url)
    assert result.exit_code == 1
    assert "ClusterRole" in result.output
    assert not (home / "raw" / "kubernetes" / "nodes").exists()


def test_only_the_namespaces_asked_for_are_read_and_ended(home: Path, api: ApiServer, clock: list[datetime]) -> None:
    api.objects["/api/v1/namespaces/ml/pods"] = [pod()]
    api.objects["/api/v1/namespaces/ml/events"] = []
    assert "landed 1 runs" in kubernetes("--api-url", api.url, "--namespace", "ml").output
    api.objects["/api/v1/namespaces/ml/pods"] = []
    clock[0] = AT.replace(minute=10)
    assert "landed 1 runs" in kubernetes("--api-url", api.url, "--namespace", "ml").output


def test_slices_claims_and_owners_are_read_where_they_are(home: Path, api: ApiServer, clock: list[datetime]) -> None:
    made = pod(metadata={**pod()["metadata"], "ownerReferences": [{"kind": "Job", "name": "j", "uid": "j1", "controller": True}]})
    job = {"metadata": {"name": "j", "uid": "j1", "ownerReferences": [{"kind": "Workflow", "name": "w", "uid": "w1"}]}}
    device = {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-1"}, "productName": {"string": "NVIDIA H100"}}}
    piece = {"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "devices": [device]}}
    api.objects |= {
        "/api/v1/pods": [made],
        "/apis/batch/v1/jobs": [job],
        "slices": [],
        "/apis/resource.k8s.io/v1/resourceslices": [piece],
        "/apis/resource.k8s.io/v1/resourceclaims": [],
    }
    assert kubernetes("--api-url", api.url).exit_code == 0
    assert landed(home, "gpu_inventory")["gpu_uuid"].to_list() == ["GPU-1"]
    assert landed(home, "runs")["owner_name"].to_list() == ["w"]


def test_no_answer_says_what_to_check(home: Path, clock: list[datetime]) -> None:
    result = kubernetes("--api-url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "kubectl proxy" in result.output


@pytest.mark.parametrize("answer", [{}, {"kind": "Status", "status": "Success"}, ["x"], "x"])
def test_an_answer_that_is_no_list_fails_and_ends_no_pod(
    home: Path, api: ApiServer, clock: list[datetime], monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    kubernetes("--api-url", api.url)
    monkeypatch.setattr(api, "answer", lambda address: (200, answer))
    clock[0] = AT.replace(minute=5)
    result = kubernetes("--api-url", api.url)
    assert result.exit_code == 1
    assert "is it the address of the Kubernetes API?" in result.output
    assert landed(home, "runs")["ended_at"].null_count() == 2


def test_a_pod_of_the_cluster_asks_with_its_service_account(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setattr(client_module, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    found = find_server(None, None, None)
    assert isinstance(found, HttpServer)
    assert (found.url, found.ca_file) == ("https://[fd00::1]:6443", tmp_path / "ca.crt")
    server = HttpServer(api.url, tmp_path / "token")
    server.get("/version", {})
    (tmp_path / "token").write_text("second")
    server.get("/version", {})
    assert api.tokens == {"Bearer first", "Bearer second"}
    assert isinstance(find_server(None, None, "prod"), Kubectl)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert isinstance(find_server(None, None, None), Kubectl)


#: stands for kubectl: answers from files named by the path that is asked for, and refuses as kubectl does
KUBECTL = r"""#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
for last; do :; done
file="$(dirname "$0")/$(echo "$last" | sed 's/?.*//; s,/,_,g')"
case "$last" in
  */nodes*) echo 'Error from server (Forbidden): nodes is forbidden: User "jane" cannot list resource "nodes"' >&2; exit 1 ;;
esac
if [ -f "$file" ]; then cat "$file"; else echo 'Error from server (NotFound): the server could not find it' >&2; exit 1; fi
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(stat.S_IRWXU)
    (folder / "_api_v1_pods").write_bytes(a_list(pod()))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return folder


def test_kubectl_is_asked_for_the_same_paths(home: Path, kubectl: Path, clock: list[datetime], tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    result = kubernetes("--context", "prod", "--kubeconfig", tmp_path / "config")
    assert result.exit_code == 0, result.output
    assert "landed 1 runs" in result.output
    assert "no nodes: /api/v1/nodes: 403" in result.output
    asked = (kubectl / "asked").read_text().splitlines()
    assert f"--kubeconfig={tmp_path / 'config'} --context=prod --request-timeout=60s get --raw /api/v1/pods?limit=500" in asked


def test_no_kubectl_says_how_else_pods_can_be_read(home: Path, clock: list[datetime], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = kubernetes()
    assert result.exit_code == 1
    assert "kubectl get pods,nodes -A -o json > FILE" in result.output


def test_a_kubectl_that_hangs_is_given_up(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (kubectl / "kubectl").write_text("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(client_module, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(ApiError, match="did not answer"):
        Kubectl().get("/version", {})
