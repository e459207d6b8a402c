"""A Prometheus API in memory: answers range selectors from series that a test writes, and errors that a test asks for."""

from __future__ import annotations

import http.server
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_SELECTOR = re.compile(r"^\{(?P<matchers>.*)\}\[(?P<length>\d+)ms\]$", re.DOTALL)
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')

Labels = Mapping[str, str]
#: (path, fields) → an answer (status, body, content type) instead of the real one; None for the real one
Answer = Callable[[str, Mapping[str, str]], tuple[int, bytes, str] | None]


@dataclass
class FakePrometheus:
    """Series as {labels with __name__: [(milliseconds, value)]}; `left_open` is how Prometheus 3 takes a range's beginning."""

    series: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = field(default_factory=dict)
    left_open: bool = True
    warnings: list[str] = field(default_factory=list)
    #: more samples in an answer are refused as Prometheus does
    max_samples: int = 50_000_000
    answer: Answer = lambda path, fields: None
    asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = field(default_factory=list)

    def add(self, name: str, labels: Labels, points: list[tuple[int, float]]) -> None:
        key = tuple(sorted({"__name__": name, **labels}.items()))
        self.series.setdefault(key, []).extend(points)

    def respond(self, method: str, path: str, fields: Mapping[str, str]) -> tuple[int, bytes, str]:
        planted = self.answer(path, fields)
        if planted:
            return planted
        if path.endswith("/api/v1/query"):
            return self._query(fields)
        found = re.search(r"/api/v1/label/(\w+)/values$", path)
        if found:
            return self._values(found[1], fields)
        return 404, b"404 page not found\n", "text/plain"

    def _query(self, fields: Mapping[str, str]) -> tuple[int, bytes, str]:
        parsed = _SELECTOR.match(fields["query"])
        if parsed is None:
            return _error(400, "bad_data", f"parse error: {fields['query']}")
        end = round(float(fields["time"]) * 1000)
        start = end - int(parsed["length"])
        result = []
        count = 0
        matchers = _compiled(parsed["matchers"])
        for key, points in self.series.items():
            labels = dict(key)
            if _matches(labels, matchers):
                inside = [point for point in sorted(points) if start < point[0] <= end]
                if not self.left_open:
                    inside = [point for point in sorted(points) if start <= point[0] <= end]
                count += len(inside)
                if inside:
                    values = [[at / 1000, _text(value)] for at, value in inside]
                    result.append({"metric": labels, "values": values})
        if count > self.max_samples:
            return _error(422, "execution", "query processing would load too many samples into memory in query execution")
        return _success({"resultType": "matrix", "result": result}, self.warnings)

    def _values(self, label: str, fields: Mapping[str, str]) -> tuple[int, bytes, str]:
        matchers = _compiled(fields.get("match[]", "{}").strip("{}"))
        start, end = (round(float(fields[name]) * 1000) for name in ("start", "end"))
        values = {
            dict(key)[label]
            for key, points in self.series.items()
            if label in dict(key) and _matches(dict(key), matchers) and any(start <= at <= end for at, _ in points)
        }
        return _success(sorted(values), self.warnings)


def _compiled(matchers: str) -> list[tuple[str, bool, re.Pattern[str]]]:
    """(label, whether it must match, regex) of each matcher."""
    found = []
    for name, operator, quoted in _MATCHER.findall(matchers):
        value = re.sub(r"\\(.)", r"\1", quoted)
        pattern = re.compile(value if "~" in operator else re.escape(value))
        found.append((name, not operator.startswith("!"), pattern))
    return found


def _matches(labels: Labels, matchers: list[tuple[str, bool, re.Pattern[str]]]) -> bool:
    return all(bool(pattern.fullmatch(labels.get(name, ""))) == wanted for name, wanted, pattern in matchers)


def _text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _success(data: Any, warnings: list[str]) -> tuple[int, bytes, str]:
    document: dict[str, Any] = {"status": "success", "data": data}
    if warnings:
        document["warnings"] = warnings
    return 200, json.dumps(document).encode(), "application/json"


def _error(status: int, kind: str, message: str) -> tuple[int, bytes, str]:
    return status, json.dumps({"status": "error", "errorType": kind, "error": message}).encode(), "application/json"


@contextmanager
def serving(api: FakePrometheus) -> Iterator[str]:
    """The address at which `api` answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            self._answer("GET", path, query)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            self._answer("POST", self.path.partition("?")[0], body)

        def _answer(self, method: str, path: str, query: str) -> None:
            fields = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            api.asked.append((method, path, fields, dict(self.headers)))
            status, body, kind = api.respond(method, path, fields)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if 300 <= status < 400:
                self.send_header("Location", body.decode())
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
