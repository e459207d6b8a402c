"""A real Prometheus server: scraping a small exporter through restarts and gaps, and holding hours written for it.

Debian's package `prometheus` brings the server and promtool; without them the tests are skipped. Every server is ended by
its own process id.
"""

from __future__ import annotations

import http.server
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.dcgm import history, parse, rows
from collectors.inference.growth import grow
from collectors.inference.parse import parse_scrape
from collectors.inference.rows import Given, to_rows
from collectors.prometheus.answers import to_instant, to_milliseconds
from collectors.prometheus.client import Prometheus
from tests.unit.collectors.prometheus.fake_api import FakePrometheus
from tests.unit.collectors.prometheus.fleet import START, Fleet, Pod, scrapes_of, store
from tests.unit.collectors.prometheus.test_collect import FLEET, SECONDS, UNTIL, conformed, landed, run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")), reason="no prometheus and promtool on this machine"
    ),
]
TABLES = ("gpu_samples", "gpu_inventory", "runs", "run_gpus", "nodes", "node_states", "inference_usage")


@contextmanager
def prometheus_server(
    folder: Path, config: str = "global: {}\n", port: int | None = None, more: tuple[str, ...] = ()
) -> Iterator[str]:
    """The address of a server whose data lie in `folder`/data."""
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
                *more,
            ],
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/-/ready", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, "prometheus has ended"
        with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    pytest.fail("prometheus did not get ready")


def write_blocks(series: Any, folder: Path) -> None:
    """Write the series as blocks of a server's storage, as `promtool tsdb create-blocks-from openmetrics` does."""
    by_name: dict[str, list[str]] = {}
    for key, points in series.items():
        labels = dict(key)
        name = labels.pop("__name__")
        text = ",".join(f"{label}={json.dumps(value)}" for label, value in labels.items())
        by_name.setdefault(name, []).extend(f"{name}{{{text}}} {value!r} {at / 1000:.3f}\n" for at, value in points)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "series.om").open("w") as file:
        for lines in by_name.values():
            file.writelines(lines)
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "series.om"), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)


def collect(url: str, start: datetime, end: datetime, *arguments: str) -> dict[str, Any]:
    span = ["--since", f"{start.isoformat()}Z", "--until", f"{end.isoformat()}Z", "--cluster", "c"]
    result = run("--url", url, *span, *arguments)
    assert result.exit_code == 0, result.stderr[-2000:]
    outcome: dict[str, Any] = json.loads(result.stdout)
    return outcome


def test_hours_in_its_blocks_land_the_same_however_they_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakePrometheus()
    # scrapes on full seconds: some lie exactly on the edges of chunks
    store(api, scrapes_of(FLEET), SECONDS, offset_ms=0)
    write_blocks(api.series, tmp_path / "server")
    homes = {}
    with prometheus_server(tmp_path / "server") as url:
        for chunk in ("2h", "25m", "150s"):
            homes[chunk] = tmp_path / chunk
            monkeypatch.setenv("GPU_NET_HOME", str(homes[chunk]))
            collect(url, START, UNTIL, "--chunk", chunk)
    assert landed(homes["2h"], "gpu_samples").height == 2 * len(SECONDS)
    for table in TABLES:
        whole = landed(homes["2h"], table)
        assert whole.height, table
        for home in homes.values():
            assert landed(home, table).equals(whole), (table, home.name)


def test_a_server_that_takes_few_samples_at_once_is_read_in_small_parts(tmp_path: Path, home: Path) -> None:
    api = FakePrometheus()
    store(api, scrapes_of(FLEET)[:1], SECONDS, offset_ms=0)
    write_blocks(api.series, tmp_path / "server")
    with prometheus_server(tmp_path / "server", more=("--query.max-samples=700",)) as url:
        collect(url, START, UNTIL, "--chunk", "2h")
    assert landed(home, "gpu_samples").height == 2 * len(SECONDS)


@dataclass
class Exporter:
    """Serves the fleet's texts, each with its number, and keeps every text it gave. `restart` sets the counters to 0."""

    fleet: Fleet
    port: int = field(default_factory=free_port)
    given: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def second(self) -> int:
        return int((datetime.now(UTC).replace(tzinfo=None) - self.fleet.start).total_seconds())

    def restart(self) -> None:
        self.fleet.restarts = (*self.fleet.restarts, self.second())

    @contextmanager
    def serving(self) -> Iterator[None]:
        exporter = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind = self.path.strip("/")
                text = getattr(exporter.fleet, kind)(exporter.second())
                with exporter._lock:
                    number = len(exporter.given)
                    exporter.given.append((kind, text))
                body = f"{text}scrape_number {number}\n".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()

    def config(self) -> str:
        jobs = {"dcgm": {}, "states": {}, "vllm": {"namespace": "ml", "pod": "serve-0"}}
        scrapes = [
            {
                "job_name": job,
                "honor_labels": True,
                "metrics_path": f"/{job}",
                "static_configs": [{"targets": [f"127.0.0.1:{self.port}"], "labels": labels}],
            }
            for job, labels in jobs.items()
        ]
        return json.dumps({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": scrapes})


def test_every_scrape_lands_once_through_restarts_of_the_exporter_and_of_prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    pods = [Pod("uid-1", "serve-0", 0, 0, 2, deleted=14), Pod("uid-2", "train-0", 1, 0, 2)]
    exporter = Exporter(Fleet(pods=pods, start=start))
    folder, port = tmp_path / "server", free_port()
    with exporter.serving(), prometheus_server(folder, exporter.config(), port):
        time.sleep(12)
        exporter.restart()
        time.sleep(8)
    time.sleep(4)  # Prometheus is down
    with prometheus_server(folder, exporter.config(), port) as url:
        time.sleep(3)  # it is up, and the exporter down
        exporter.restart()
        with exporter.serving():
            time.sleep(10)
            end = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
            scraped = scrape_numbers(url, start, end)
            homes = {chunk: tmp_path / chunk for chunk in ("1h", "7s", "3s")}
            for chunk, home in homes.items():
                monkeypatch.setenv("GPU_NET_HOME", str(home))
                collect(url, start, end, "--chunk", chunk)
    for table in TABLES:
        whole = landed(homes["1h"], table)
        assert whole.height, table
        for home in homes.values():
            assert landed(home, table).equals(whole), (table, home.name)
    ours = landed(homes["1h"], "gpu_samples")
    ends = {
        start_at + timedelta(milliseconds=length) for start_at, length in ours.select("interval_start_at", "interval_ms").rows()
    }
    assert len(scraped["dcgm"]) > 10
    assert ours.height == 2 * len(scraped["dcgm"])
    assert ends == {instant for instant, _ in scraped["dcgm"]}
    check_devices(ours, scraped["dcgm"], exporter)
    check_servers(landed(homes["1h"], "inference_usage"), scraped["vllm"], exporter)
    last = dict(landed(homes["1h"], "runs").sort("observed_at").unique("job_id", keep="last").select("job_id", "ended_at").rows())
    assert last["uid-2"] is None
    # it was there for 14 s, and a scrape a second says so
    assert start + timedelta(seconds=12) <= last["uid-1"] <= start + timedelta(seconds=16)


def scrape_numbers(url: str, start: datetime, end: datetime) -> dict[str, list[tuple[datetime, int]]]:
    """Job → (instant, number of the text) of every scrape that Prometheus has stored."""
    found = Prometheus(url).samples('{__name__="scrape_number"}', to_milliseconds(start), to_milliseconds(end))
    return {one.labels["job"]: [(to_instant(at), int(number)) for at, number in one.points] for one in found}


def check_devices(ours: pl.DataFrame, scraped: list[tuple[datetime, int]], exporter: Exporter) -> None:
    """The rows are those of the `dcgm` collector for the same texts at the same instants."""
    readings = []
    for instant, number in scraped:
        readings += parse.parse_scrape(exporter.given[number][1].encode(), "text", at=instant).readings
    found = rows.to_rows(readings, cluster="c", interval=timedelta(seconds=1), history=history.History())
    theirs = conformed("gpu_samples", found.tables["gpu_samples"])
    assert ours.equals(theirs)
    # what was not scraped is not covered: two holes of some seconds each end in 2.5 intervals
    covered = ours.filter(pl.col("gpu_index") == 0)["interval_ms"].sum() / 1000
    assert len(scraped) <= covered + 1
    assert covered < len(scraped) + 2 * 2.5


def check_servers(ours: pl.DataFrame, scraped: list[tuple[datetime, int]], exporter: Exporter) -> None:
    """The rows are those of the `inference` collector for the same texts at the same instants."""
    readings = [
        reading
        for instant, number in scraped
        for reading in parse_scrape(exporter.given[number][1].encode(), "text", "serve-0", instant).readings
    ]
    longest = timedelta(seconds=2.5)
    growths = grow(readings, is_closed=True, first_within=longest).growth
    expected = [row for growth in growths for row in to_rows(growth, Given("c", namespace="ml"), longest)]
    theirs = conformed("inference_usage", expected).drop("node", "job_id").sort("interval_start_at")
    assert theirs.equals(ours.drop("node", "job_id").sort("interval_start_at"))
