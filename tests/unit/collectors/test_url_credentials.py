"""User and password in an address reach the server and nothing else: no file, no record, no line on the screen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from collectors.__main__ import main

METRICS = b"""# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="H100",Hostname="n1"} 50
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 1
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="m"} 100
"""
USER, PASSWORD = "hush-user", "hush-pass"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        self.send_response(200 if "metrics" in self.path else 500)
        self.end_headers()
        self.wfile.write(METRICS)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    running.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def written(home: Path) -> str:
    """Everything that lies in a home, Parquet read."""
    texts = []
    for path in home.rglob("*"):
        if path.suffix == ".parquet":
            texts.append(str(pl.read_parquet(path, hive_partitioning=False).to_dicts()))
        elif path.is_file():
            texts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join([*texts, *(str(path) for path in home.rglob("*"))])


@pytest.mark.parametrize("source", ["dcgm", "inference", "prometheus"])
@pytest.mark.parametrize("place", ["{host}", "127.0.0.1:1"])
def test_user_and_password_of_an_address_are_nowhere_but_in_the_question(
    home: Path, server: ThreadingHTTPServer, source: str, place: str
) -> None:
    host = place.format(host=f"127.0.0.1:{server.server_port}")
    url = f"http://{USER}:{PASSWORD}@{host}" + ("" if source == "prometheus" else "/metrics")
    window = ["--since", "2026-11-01", "--until", "2026-11-01T00:10:00Z"] if source == "prometheus" else []
    said = [CliRunner().invoke(main, [source, "--cluster", "c1", "--url", url, *window]) for _ in range(2)]
    assert all("Traceback" not in result.output for result in said)
    if place != "127.0.0.1:1":
        assert any(str(asked).startswith("Basic ") for asked in server.asked)  # type: ignore[attr-defined]
    else:
        assert said[0].exit_code == 1
    everything = written(home) + "".join(result.output for result in said)
    assert "c1" in everything
    assert "hush" not in everything
