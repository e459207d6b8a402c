"""Answers that are none, and questions that were too much."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors import http
from collectors.command import SourceFailedError
from collectors.http import TooMuchError
from collectors.prometheus.answers import ApiError, Series, merge
from collectors.prometheus.client import Prometheus, base_address
from collectors.prometheus.reading import Reader, any_of, escaped, one_replica, selector
from tests.unit.collectors.prometheus.fake_api import FakePrometheus, serving

START_MS, END_MS = 1_772_445_600_000, 1_772_449_200_000


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PAUSE_SECONDS", 0.0)


def answering(status: int, body: bytes, kind: str = "application/json") -> FakePrometheus:
    return FakePrometheus(answer=lambda path, fields: (status, body, kind))


def ask(api: FakePrometheus, **options: Any) -> list[Series]:
    with serving(api) as url:
        return Prometheus(url, **options).samples('{__name__="up"}', START_MS, END_MS)


@pytest.mark.parametrize(
    ("api", "message"),
    [
        (answering(200, b"<!DOCTYPE html><title>Grafana</title>", "text/html"), "a web page"),
        (answering(200, b"", "text/plain"), "no JSON"),
        (answering(200, b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__na'), "cut short"),
        (answering(200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'), "a matrix of samples"),
        (answering(200, b'{"message":"Unauthorized"}'), "Unauthorized"),
        (answering(200, b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":1}]}}'), "cannot be read"),
        (answering(401, b"no"), "GPU_NET_PROMETHEUS_TOKEN"),
        (answering(403, b'{"status":"error","error":"no org id"}'), "no org id"),
        (answering(404, b"404 page not found"), "give the address of a Prometheus-compatible API"),
        (answering(400, b'{"status":"error","errorType":"bad_data","error":"unknown function \\"x\\""}'), 'unknown function "x"'),
        (answering(500, b'{"status":"error","errorType":"internal","error":"block is corrupt"}'), "block is corrupt"),
        (answering(503, b"upstream connect error"), "upstream connect error"),
    ],
)
def test_an_answer_that_is_none_is_told_with_its_remedy(api: FakePrometheus, message: str) -> None:
    with pytest.raises(SourceFailedError) as caught:
        ask(api)
    assert message in str(caught.value)
    assert not isinstance(caught.value, TooMuchError)


@pytest.mark.parametrize(
    "api",
    [
        answering(422, b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}'),
        answering(413, b"Request Entity Too Large"),
        answering(504, b"gateway timeout"),
        answering(503, b'{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}'),
        answering(
            500, b'{"status":"error","error":"the query hit the max number of chunks limit (err-mimir-max-chunks-per-query)"}'
        ),
    ],
)
def test_what_is_too_much_at_once_is_told_apart(api: FakePrometheus) -> None:
    with pytest.raises(TooMuchError):
        ask(api)


def test_a_server_that_refuses_post_is_asked_with_get() -> None:
    api = FakePrometheus()
    api.add("up", {"job": "a"}, [(START_MS, 1.0)])
    original = api.respond

    def respond(method: str, path: str, fields: Any) -> tuple[int, bytes, str]:
        return (405, b"Method Not Allowed", "text/plain") if method == "POST" else original(method, path, fields)

    api.respond = respond  # type: ignore[method-assign]
    assert len(ask(api)) == 1


def test_a_redirect_is_followed() -> None:
    api = FakePrometheus()
    api.add("up", {"job": "a"}, [(START_MS, 1.0)])
    api.answer = lambda path, fields: None if path.startswith("/prom/") else (308, f"/prom{path}".encode(), "text/plain")
    assert len(ask(api)) == 1


def test_values_that_json_has_no_number_for_are_read() -> None:
    api = FakePrometheus()
    values = [float("nan"), float("inf"), float("-inf"), 1e300]
    api.add("up", {}, [(START_MS + position, value) for position, value in enumerate(values)])
    (series,) = ask(api)
    assert [repr(value) for _, value in series.points] == ["nan", "inf", "-inf", "1e+300"]


def test_warnings_of_the_server_are_kept_once() -> None:
    api = FakePrometheus(warnings=["no store matched", "no store matched"])
    with serving(api) as url:
        client = Prometheus(url)
        client.samples('{__name__="up"}', START_MS, END_MS)
        client.samples('{__name__="up"}', START_MS, END_MS)
    assert client.warnings == ["no store matched"]


def test_a_partial_answer_of_victoriametrics_is_a_warning() -> None:
    body = json.dumps({"status": "success", "isPartial": True, "data": {"resultType": "matrix", "result": []}}).encode()
    with serving(answering(200, body)) as url:
        client = Prometheus(url)
        client.samples('{__name__="up"}', START_MS, END_MS)
    assert "partial" in client.warnings[0]


@pytest.mark.parametrize(
    "url",
    [
        "http://h:9090",
        "http://h:9090/",
        "http://h:9090/graph?g0.expr=up",
        "http://h:9090/api/v1/query?query=up",
        "http://h:9090/query",
    ],
)
def test_a_page_copied_from_a_browser_stands_for_its_server(url: str) -> None:
    assert base_address(url) == "http://h:9090"


def test_a_path_in_front_of_the_api_stays() -> None:
    assert base_address("https://h/select/0/prometheus/api/v1/") == "https://h/select/0/prometheus"
    assert base_address("https://h/prometheus") == "https://h/prometheus"


def test_a_window_is_read_in_parts_that_the_server_can_give() -> None:
    api = FakePrometheus(max_samples=100)
    api.add("up", {"job": "a"}, [(at, float(at)) for at in range(START_MS, END_MS, 5000)])
    with serving(api) as url:
        reader = Reader(Prometheus(url))
        (series,) = reader.read(selector(["up"]), START_MS, END_MS, 5000)
        questions = len(api.asked)
    assert [at for at, _ in series.points] == list(range(START_MS, END_MS, 5000))
    # a part that was too much is not asked for again
    assert questions < 20


def test_a_server_that_gives_nothing_however_little_is_asked_is_a_failure() -> None:
    api = FakePrometheus(max_samples=0)
    api.add("up", {"job": "a"}, [(at, 1.0) for at in range(START_MS, END_MS, 5000)])
    with serving(api) as url, pytest.raises(TooMuchError, match="too many samples"):
        Reader(Prometheus(url)).read(selector(["up"]), START_MS, END_MS, 5000)


def test_parts_of_a_series_are_one_with_each_sample_once() -> None:
    parts = [Series("up", {"a": "1"}, [(1, 1.0), (2, 2.0)]), Series("up", {"a": "1"}, [(2, 2.0), (3, 3.0)])]
    (whole,) = merge(parts)
    assert whole.points == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_another_replicas_scrape_fills_a_hole_and_no_more() -> None:
    first = Series("up", {"instance": "x", "r": "a"}, [(0, 1.0), (10, 1.0), (60, 1.0)])
    second = Series("up", {"instance": "x", "r": "b"}, [(at, 2.0) for at in (3, 13, 23, 33, 43, 53, 63)])
    (whole,) = one_replica([first, second], ["r"], 10)
    assert whole.labels == {"instance": "x"}
    assert [at for at, _ in whole.points] == [0, 10, 33, 43, 53, 60]


def test_a_label_that_one_replica_saw_change_before_the_other_is_no_second_series_of_that_instant() -> None:
    """A scrape of the second replica was kept in part: the series with the new label, and none of the others."""
    a, b = {"instance": "x", "r": "a"}, {"instance": "x", "r": "b"}
    first = [Series("info", {**a, "node": ""}, [(0, 1.0)]), Series("up", a, [(0, 1.0), (10, 1.0)])]
    second = [Series("info", {**b, "node": "n"}, [(7, 1.0)]), Series("up", b, [(7, 1.0)])]
    found = one_replica([*first, *second], ["r"], 10)
    assert [(one.name, one.points) for one in found] == [("info", [(0, 1.0)]), ("up", [(0, 1.0), (10, 1.0)])]


@pytest.mark.parametrize("value", ["plain", "a.b-c", 'quo"te', "back\\slash", "b]r^ackets", "ünï", "a|b(c)*"])
def test_a_value_matches_itself_and_nothing_else(value: str) -> None:
    api = FakePrometheus()
    api.add("up", {"pod": value}, [(START_MS, 1.0)])
    api.add("up", {"pod": value + "x"}, [(START_MS, 2.0)])
    with serving(api) as url:
        client = Prometheus(url)
        for pattern in any_of([value]):
            (found,) = client.samples(selector(["up"], {"pod": pattern}), START_MS, END_MS)
            assert found.points == [(START_MS, 1.0)]
        (found,) = client.samples(selector(["up"], more=f'pod="{escaped(value)}"'), START_MS, END_MS)
        assert found.points == [(START_MS, 1.0)]


def test_an_error_says_what_the_server_said_without_secrets() -> None:
    assert ApiError.said_in('{"status":"error","error":"a \\"b\\" c"}') == 'a "b" c'
    assert ApiError.said_in("<html>") == ""
