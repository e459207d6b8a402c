"""The API server: the only module here that touches the network and processes.

Inside a cluster it is asked with the pod's service account; outside through `kubectl get --raw`, which knows kubeconfigs,
contexts and login plugins; at an address (`kubectl proxy`) plainly.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from collectors import http
from collectors.command import SourceFailedError
from collectors.kubernetes.fields import as_map, as_text, maps
from collectors.kubernetes.objects import Object

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 60.0
#: objects per page; the API server keeps one consistent list for five minutes while its pages are read
PAGE = 500
#: a list whose pages expire is begun anew this often
ATTEMPTS = 3

FORBIDDEN, NOT_FOUND, GONE = 403, 404, 410
#: kinds that may have an owner which neither their pods' labels nor their own name tells
OWNERS = {"Job": ("batch/v1", "jobs"), "StatefulSet": ("apps/v1", "statefulsets"), "ReplicaSet": ("apps/v1", "replicasets")}
_STATUS_OF_KUBECTL = {"Forbidden": 403, "Unauthorized": 401, "NotFound": 404, "Expired": 410, "Gone": 410}
ROLE = "apply the ClusterRole in collectors/kubernetes/in-cluster.yaml, or give the account list rights on {}"


class ApiError(SourceFailedError):
    """The API server refused; `status` is its HTTP status, 0 where it did not answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Server(Protocol):
    """Something that answers GETs of API paths. `target` tells one from another, without credentials."""

    target: str

    def get(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """The body of the answer. Raises ApiError."""
        ...


@dataclass
class HttpServer:
    """An address, with a token where there is one; the token is read anew each time, since it is renewed every hour."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: float = field(default_factory=lambda: TIMEOUT_SECONDS)
    target: str = field(init=False)

    def __post_init__(self) -> None:
        self.target = http.without_credentials(self.url)

    def get(self, path: str, parameters: Mapping[str, str]) -> bytes:
        try:
            headers = {"Authorization": f"Bearer {self.token_file.read_text().strip()}"} if self.token_file else {}
            return http.get(
                self.url.rstrip("/") + path,
                parameters=parameters,
                headers={"Accept": "application/json", **headers},
                timeout_seconds=self.timeout_seconds,
                hint="is it the address of the Kubernetes API (https://HOST:6443, or of kubectl proxy)?",
                ca_file=self.ca_file,
            )
        except http.AnswerError as error:
            raise ApiError(_message(path, error.status, error.text), error.status) from None


@dataclass
class Kubectl:
    """The kubectl of this host, with its kubeconfig."""

    kubeconfig: Path | None = None
    context: str | None = None
    timeout_seconds: float = field(default_factory=lambda: TIMEOUT_SECONDS)
    target: str = "kubectl"

    def __post_init__(self) -> None:
        self.target = f"kubectl {self.context or 'current-context'} {self.kubeconfig or ''}".strip()

    def get(self, path: str, parameters: Mapping[str, str]) -> bytes:
        options = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        options += [f"--context={self.context}"] if self.context else []
        address = f"{path}?{urlencode(parameters)}" if parameters else path
        command = ["kubectl", *options, f"--request-timeout={self.timeout_seconds:.0f}s", "get", "--raw", address]
        try:
            done = subprocess.run(command, capture_output=True, timeout=2 * self.timeout_seconds, check=False)
        except FileNotFoundError:
            raise ApiError(
                "kubectl is not here, and this is no pod of a cluster; run it where kubectl works, give --api-url, or land saved "
                "objects: kubectl get pods,nodes -A -o json > FILE",
                0,
            ) from None
        except subprocess.TimeoutExpired:
            raise ApiError(f"kubectl did not answer in {2 * self.timeout_seconds:.0f} s; try kubectl get nodes", 0) from None
        if done.returncode:
            text = done.stderr.decode("utf-8", "replace").strip()
            named = re.search(r"\((\w+)\)", text)
            raise ApiError(_message(path, status := _STATUS_OF_KUBECTL.get(named[1] if named else "", 0), text), status)
        return done.stdout


def find_server(
    api_url: str | None, kubeconfig: Path | None, context: str | None, timeout_seconds: float | None = None
) -> Server:
    """The address given, else the cluster in which this runs, else kubectl."""
    timeout_seconds = timeout_seconds or TIMEOUT_SECONDS
    if api_url:
        return HttpServer(api_url, timeout_seconds=timeout_seconds)
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    token = SERVICE_ACCOUNT / "token"
    if host and token.exists() and not kubeconfig and not context:
        port = os.environ.get("KUBERNETES_SERVICE_PORT") or "443"
        address = f"[{host}]" if ":" in host else host
        return HttpServer(f"https://{address}:{port}", token, SERVICE_ACCOUNT / "ca.crt", timeout_seconds)
    return Kubectl(kubeconfig, context, timeout_seconds)


@dataclass
class KubernetesClient:
    """Lists objects page by page. `namespaces`: only these, where the account may not see all."""

    server: Server
    namespaces: Sequence[str] = ()

    def version(self) -> str | None:
        """`v1.31.4`; None where it may not be asked."""
        try:
            return as_text(_json(self.server.get("/version", {}), "/version").get("gitVersion"))
        except ApiError:
            return None

    def cluster_uid(self) -> str | None:
        """What tells this cluster from every other: the uid of its namespace kube-system; None where it may not be read."""
        path = "/api/v1/namespaces/kube-system"
        try:
            return as_text(as_map(_json(self.server.get(path, {}), path).get("metadata")).get("uid"))
        except ApiError:
            return None

    def pods(self) -> Iterator[Object]:
        for place in [f"/namespaces/{name}" for name in self.namespaces] or [""]:
            yield from self._list(f"/api/v1{place}/pods", "Pod")

    def nodes(self) -> Iterator[Object]:
        yield from self._list("/api/v1/nodes", "Node")

    def end_events(self, reason: str) -> Iterator[Object]:
        """Events of one reason about pods; the API server keeps them for an hour."""
        for place in [f"/namespaces/{name}" for name in self.namespaces] or [""]:
            selector = f"involvedObject.kind=Pod,reason={reason}"
            yield from self._list(f"/api/v1{place}/events", "Event", {"fieldSelector": selector})

    def owners(self, kind: str) -> Iterator[Object]:
        """The objects of a kind of `OWNERS`, whose own owners their pods do not name."""
        for place in [f"/namespaces/{name}" for name in self.namespaces] or [""]:
            group, plural = OWNERS[kind]
            yield from self._list(f"/apis/{group}{place}/{plural}", kind)

    def devices(self) -> Iterator[Object]:
        """ResourceSlices and ResourceClaims, in the version that this cluster serves; nothing where it has none of them."""
        try:
            group = _json(self.server.get("/apis/resource.k8s.io", {}), "/apis/resource.k8s.io")
        except ApiError as error:
            if error.status == NOT_FOUND:
                return
            raise
        version = as_text(as_map(group.get("preferredVersion")).get("version"))
        if version:
            yield from self._list(f"/apis/resource.k8s.io/{version}/resourceslices", "ResourceSlice")
            for place in [f"/namespaces/{name}" for name in self.namespaces] or [""]:
                yield from self._list(f"/apis/resource.k8s.io/{version}{place}/resourceclaims", "ResourceClaim")

    def _list(self, path: str, kind: str, parameters: Mapping[str, str] | None = None) -> Iterator[Object]:
        """Every object under `path`, once. A list that expires while its pages are read is begun anew; what has been handed out
        is not handed out again."""
        given: set[str] = set()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                for item in self._pages(path, kind, parameters or {}):
                    uid = as_text(item.metadata.get("uid"))
                    if uid is None or uid not in given:
                        given |= {uid} if uid else set()
                        yield item
                return
            except ApiError as error:
                if error.status != GONE or attempt == ATTEMPTS:
                    raise

    def _pages(self, path: str, kind: str, parameters: Mapping[str, str]) -> Iterator[Object]:
        following = ""
        place = 0
        while True:
            page = {**parameters, "limit": str(PAGE), **({"continue": following} if following else {})}
            document = _json(self.server.get(path, page), path)
            if "items" not in document:  # taken for an empty list, it would end every pod
                raise ApiError(f"{path}: the answer is no list of objects; is it the address of the Kubernetes API?", 0)
            for item in maps(document.get("items")):
                place += 1
                yield Object(kind, place, item)
            following = as_text(as_map(document.get("metadata")).get("continue")) or ""
            if not following:
                return


def remedy(error: ApiError, what: str) -> str:
    """Why something could not be listed, and what to do about it."""
    return f"{error}; {ROLE.format(what)}" if error.status == FORBIDDEN else str(error)


def _json(data: bytes, path: str) -> Mapping[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ApiError(f"{path}: the answer is no JSON object; is it the address of the Kubernetes API?", 0)
    return document


def _message(path: str, status: int, text: str) -> str:
    """What the API server says of itself: the message of its Status object, or kubectl's line."""
    try:
        said = as_text(as_map(json.loads(text)).get("message")) or text
    except (ValueError, RecursionError):
        said = text
    return f"{path}: {status or 'no answer'}: {' '.join(said.split())[:300]}"
