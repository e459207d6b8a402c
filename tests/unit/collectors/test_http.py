from __future__ import annotations

import gzip
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors import http as asking
from collectors.command import SourceFailedError
from collectors.http import AnswerError, get, without_credentials

Answer = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the test says, and keeps what was asked."""

    protocol_version = "HTTP/1.1"
    answer: Answer
    asked: list[tuple[str, dict[str, str]]]

    def do_GET(self) -> None:
        self.asked.append((self.path, dict(self.headers)))
        type(self).answer(self)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """An address at which `answer` answers, and the list of what was asked there."""
    asked: list[tuple[str, dict[str, str]]] = []
    handler = type("Answering", (Handler,), {"answer": answer, "asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PAUSE_SECONDS", 0.01)


def failure(url: str, **options: float) -> str:
    with pytest.raises(SourceFailedError) as raised:
        get(url, timeout_seconds=options.pop("timeout_seconds", 0.3), **options)  # type: ignore[arg-type]
    cause = type(raised.value.__cause__).__module__
    assert not cause.startswith("urllib3"), "a chained error prints its own text, with the address in it"
    return str(raised.value)


def test_a_server_that_is_busy_twice_is_asked_a_third_time() -> None:
    statuses = [503, 429, 200]
    with serving(lambda handler: handler.reply(statuses.pop(0), b"text")) as (url, asked):
        assert get(url) == b"text"
        assert len(asked) == 3


def test_a_server_that_stays_busy_says_so_in_the_end() -> None:
    with serving(lambda handler: handler.reply(503, b"come back later")) as (url, asked):
        with pytest.raises(AnswerError, match="answers 503 Service Unavailable; is it running") as raised:
            get(url, retries=2)
        assert (raised.value.status, raised.value.text, len(asked)) == (503, "come back later", 3)


def test_other_refusals_are_not_asked_again() -> None:
    with serving(lambda handler: handler.reply(404, b"no such page")) as (url, asked):
        with pytest.raises(AnswerError, match="404 Not Found"):
            get(url)
        assert len(asked) == 1


def test_a_connection_that_breaks_is_asked_again_and_an_answer_that_is_cut_off_is_none() -> None:
    """A cut answer was taken for a whole one: the last line of a scrape would be half a number."""
    attempts: list[str] = []

    def answer(handler: Handler) -> None:
        attempts.append("")
        handler.close_connection = True
        if len(attempts) == 1:
            return
        if len(attempts) == 2:
            handler.reply(200, b"half a num", Content_Length="1000")
        elif len(attempts) == 3:
            handler.reply(200, b"3e8\r\nhalf a chunk", Transfer_Encoding="chunked", Content_Length="")
        else:
            handler.reply(200, b"whole")

    with serving(answer) as (url, asked):
        assert get(url) == b"whole"
        assert len(asked) == 4
    attempts[:] = [""]
    with serving(answer) as (url, _):
        assert "10 bytes read, 990 more expected" in failure(url, retries=0)
        assert "cannot be read" in failure(url, retries=0)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", None])
def test_a_packed_answer_is_unpacked_whether_or_not_it_says_so(encoding: str | None) -> None:
    headers = {"Content_Encoding": encoding} if encoding else {}
    with serving(lambda handler: handler.reply(200, gzip.compress(b"text"), **headers)) as (url, asked):
        assert get(url) == b"text"
        assert asked[0][1]["Accept-Encoding"] == "gzip"


def test_a_packed_answer_that_is_cut_is_an_error_even_where_its_length_is_not_known() -> None:
    def answer(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 10_000)[:-9])

    with serving(answer) as (url, _):
        assert "the gzip data is broken" in failure(url)


def test_an_answer_larger_than_the_limit_is_refused_packed_or_not() -> None:
    with serving(lambda handler: handler.reply(200, b"x" * 300_000)) as (url, _):
        assert "more than 97 KiB" in failure(url, limit=99_999)
        assert len(get(url, limit=300_000)) == 300_000
    packed = gzip.compress(b"x" * 30_000_000)
    with serving(lambda handler: handler.reply(200, packed)) as (url, _):
        assert "larger than 97 KiB" in failure(url, limit=99_999)


def endless(first: bytes, again: bytes, pause: float) -> Answer:
    def answer(handler: Handler) -> None:
        handler.close_connection = True
        try:
            handler.wfile.write(first)
            while True:
                handler.wfile.write(again)
                time.sleep(pause)
        except OSError:
            pass

    return answer


def test_a_server_that_never_ends_its_answer_is_left_at_the_deadline() -> None:
    """Each byte came in time, so no timeout of a single read ever fired."""
    began = time.monotonic()
    with serving(endless(b"HTTP/1.0 200 OK\r\n\r\n", b"a 1\n", 0.02)) as (url, _):
        assert "does not end" in failure(url, deadline_seconds=0.4, retries=3)
    assert time.monotonic() - began < 3


def test_a_server_that_sends_without_end_and_without_pause_is_left_at_the_limit() -> None:
    with serving(endless(b"HTTP/1.0 200 OK\r\n\r\n", b"a 1\n" * 10_000, 0)) as (url, _):
        assert "more than 1 MiB" in failure(url, limit=1 << 20)


def test_a_server_that_accepts_and_says_nothing_is_left_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        message = failure(f"http://127.0.0.1:{server.getsockname()[1]}/metrics", retries=1)
        assert "Read timed out" in message
        assert time.monotonic() - began < 3


def test_attempts_end_at_the_deadline_whatever_number_of_them_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PAUSE_SECONDS", 0.5)
    began = time.monotonic()
    failure("http://127.0.0.1:9/metrics", retries=100, deadline_seconds=0.8)
    assert time.monotonic() - began < 2


def test_a_redirect_is_followed_and_takes_no_credentials_to_another_host() -> None:
    with serving(lambda handler: handler.reply(200, b"there")) as (there, asked_there):

        def answer(handler: Handler) -> None:
            if handler.path == "/here":
                handler.reply(302, Location="/again")
            else:
                handler.reply(307, Location=f"{there}/x".replace("127.0.0.1", "localhost"))

        with serving(answer) as (here, asked_here):
            assert get(here.replace("//", "//me:secret@") + "/here") == b"there"
    assert [path for path, _ in asked_here] == ["/here", "/again"]
    assert all("Authorization" in headers for _, headers in asked_here)
    assert "Authorization" not in asked_there[0][1]


def test_a_redirect_in_a_circle_or_away_from_the_web_is_an_error_without_the_addresss_credentials() -> None:
    with serving(lambda handler: handler.reply(302, Location="/x?token=hunter2")) as (url, asked):
        message = failure(url.replace("//", "//me:hunter2@"))
        assert "redirects in a circle" in message
        assert "hunter2" not in message
        assert len(asked) == 4
    with serving(lambda handler: handler.reply(302, Location="file:///etc/passwd")) as (url, _):
        assert "cannot be read" in failure(url)


def test_user_and_password_become_a_header_and_parameters_a_query() -> None:
    with serving(lambda handler: handler.reply(200)) as (url, asked):
        get(url.replace("//", "//m%40e:p%3Aw@") + "/a?b=1", parameters={"query": "up{a='b'}"}, headers={"X-Scope-OrgID": "t"})
        get(url.replace("//", "//me@") + "/a", parameters={"c": "2"})
    assert asked[0][0] == "/a?b=1&query=up%7Ba%3D%27b%27%7D"
    assert asked[0][1]["Authorization"] == "Basic bUBlOnA6dw=="
    assert asked[0][1]["X-Scope-OrgID"] == "t"
    assert (asked[1][0], asked[1][1]["Authorization"]) == ("/a?c=2", "Basic bWU6")


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@127.0.0.1:9/metrics",
        "http://me:hunter2@nowhere.invalid/metrics?token=hunter2",
        "https://me:hunter2@127.0.0.1:9/metrics",
        "http://me:hun/ter2hunter2@127.0.0.1:9/",
        "http://me:hun?hunter2@127.0.0.1:9/",
        "http://me:hunter2#hunter2@127.0.0.1:9/",
        "http://m@e:hunter2@127.0.0.1:9/",
        "http://me:hunter2@[::1",
        "http://me:hunter2@127.0.0.1:99999/",
        "http://me:hunter2@",
        "http://me:hunter2@ho st/",
        "http://me:hunter2@host\r\nx: y/",
        "ftp://me:hunter2@127.0.0.1/",
        "http://127.0.0.1:9/#hunter2",
    ],
)
def test_no_message_holds_a_credential_whatever_the_address_looks_like(url: str) -> None:
    message = failure(url, retries=0, timeout_seconds=1.0)
    assert "hunter2" not in message
    assert "\n" not in message


def test_a_servers_own_words_are_printed_without_control_characters() -> None:
    def answer(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 500 bad\x1b[31m thing\r\nContent-Length: 0\r\n\r\n")

    with serving(answer) as (url, _):
        assert "\x1b" not in failure(url)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("abc/:@?#%[]. \n"), max_size=20), st.text(st.sampled_from("abc/:@?#%"), max_size=8))
def test_any_address_is_refused_or_read_and_never_shown_with_its_password(rest: str, password: str) -> None:
    url = f"http://user:S3CRET{password}@{rest}"
    assert "S3CRET" not in without_credentials(url)
    if "@" in rest or not rest.strip(" \n/?#"):
        with pytest.raises(SourceFailedError) as raised:
            get(url.replace("http", "gopher"), retries=0)
        assert "S3CRET" not in str(raised.value)


def test_bytes_that_are_no_http_are_an_error() -> None:
    def answer(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\x00\x01")

    with serving(answer) as (url, _):
        message = failure(url, retries=0)
        assert "cannot be read" in message
