from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

import collectors.http
from collectors.command import utc_now
from collectors.dcgm.collect import dcgm
from collectors.times import time_in_name
from tests.unit.collectors.dcgm.scrapes import SLICE, SM, WHOLE, scrape


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(dcgm, [str(argument) for argument in arguments])


def samples(home: Path) -> pl.DataFrame:
    return pl.read_parquet(home / "raw/dcgm/gpu_samples/**/*.parquet").sort("interval_start_at")


def save(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_lands_at_the_time_given_and_again_changes_nothing(home: Path, tmp_path: Path) -> None:
    path = save(tmp_path, "a.prom", scrape({SM: 0.5}))
    arguments = (path, "--at", "2026-11-01T07:00:00-05:00", "--cluster", "c", "--interval", "15")
    assert run(*arguments).exit_code == 0
    before = {file: file.stat().st_mtime_ns for file in home.rglob("*.parquet")}
    assert run(*arguments).exit_code == 0
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*.parquet")} == before
    (row,) = samples(home).to_dicts()
    assert (row["interval_start_at"], row["interval_ms"]) == (datetime(2026, 11, 1, 11, 59, 45), 15_000)
    assert (row["cluster"], row["node"], row["source"], row["sm_active_ratio"]) == ("c", "node7", "dcgm", 0.5)


def test_the_time_may_stand_in_the_files_name(home: Path, tmp_path: Path) -> None:
    files = [save(tmp_path, f"2026-11-01T00-0{minute}-00Z.prom", scrape({SM: 0.1 * minute})) for minute in (2, 1)]
    assert run(*files, "--cluster", "c").exit_code == 0
    assert samples(home)["sm_active_ratio"].to_list() == [0.1, 0.2]
    assert time_in_name("node7-20261101T000130Z.prom.gz") == datetime(2026, 11, 1, 0, 1, 30)
    assert time_in_name("2026-11-01T00-00-00.prom") is None
    assert time_in_name("2026-13-01T00-00-00Z.prom") is None


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("--cluster", "c"), "--at"),
        (("--at", "2026-11-01"), "--cluster"),
        (("--at", "2026-11-01", "--at", "2026-11-02", "--cluster", "c"), "--at once for each"),
        (("--at", "2026-11-01 10:00", "--cluster", "c"), "no offset"),
        (("--at", "2026-11-01", "--cluster", "c", "--url", "http://h:1"), "FILE"),
        (("--at", "2026-11-01", "--cluster", "c", "--for", "60"), "--for is for addresses"),
        (("--at", "2026-11-01", "--cluster", "c", "--node", "a", "--node", "b"), "one --node NAME"),
        (("--at", "2026-11-01", "--cluster", "c", "--node", "a", "--node", "b=c"), "--node EXPORTER=NAME"),
        (("--at", "2026-11-01", "--cluster", "c", "--node", "=c"), "write --node EXPORTER=NAME"),
    ],
)
def test_wrong_usage_names_the_remedy_and_lands_nothing(
    home: Path, tmp_path: Path, arguments: tuple[str, ...], remedy: str
) -> None:
    result = run(save(tmp_path, "a.prom", scrape({SM: 0.5})), *arguments)
    assert result.exit_code == 2
    assert remedy in result.output
    assert not list(home.rglob("*.parquet"))


def test_an_unreadable_scrape_among_others_is_quarantined_and_the_others_land(home: Path, tmp_path: Path) -> None:
    good, empty = save(tmp_path, "good.prom", scrape({SM: 0.5})), save(tmp_path, "empty.prom", "")
    result = run(good, empty, "--at", "2026-11-01", "--at", "2026-11-02", "--cluster", "c")
    assert result.exit_code == 4
    assert "empty.prom" in result.output
    assert samples(home).height == 1


def test_a_call_of_which_nothing_can_be_read_fails_with_an_outcome_record(home: Path, tmp_path: Path) -> None:
    result = run(save(tmp_path, "empty.prom", ""), "--at", "2026-11-01", "--cluster", "c")
    assert result.exit_code == 1
    assert "does it see a GPU" in result.output
    record = pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet")
    assert record["status"].to_list() == ["failed"]


def test_the_notes_say_what_the_scrape_does_not_tell(home: Path, tmp_path: Path) -> None:
    values = {"DCGM_FI_DEV_XID_ERRORS": 2147483634, "DCGM_FI_DEV_FAN_SPEED": 30}
    labels = {"UUID": "GPU-1", "Hostname": "nvidia-dcgm-exporter-tl46n", "pod": "p", "namespace": "n"}
    output = run(save(tmp_path, "a.prom", scrape(values, labels)), "--at", "2026-11-01", "--cluster", "c").output
    assert "nvidia-dcgm-exporter-tl46n looks like an exporter's pod" in output
    assert "no activity for 1 of 1 slots" in output
    assert "blank in every reading: DCGM_FI_DEV_XID_ERRORS" in output
    assert "known by name only: n/p" in output
    assert "no label names the model of GPU-1" in output
    assert "without a column, left out: DCGM_FI_DEV_FAN_SPEED" in output
    assert json.loads(pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet")["gaps"][0]) == {
        "DCGM_FI_DEV_XID_ERRORS": "not_supported"
    }


def test_the_node_option_stands_over_the_labels(home: Path, tmp_path: Path) -> None:
    path = save(tmp_path, "a.prom", scrape({SM: 0.5}, WHOLE | {"Hostname": "nvidia-dcgm-exporter-tl46n"}))
    result = run(path, "--at", "2026-11-01", "--cluster", "c", "--node", "node9")
    assert "looks like" not in result.output
    assert samples(home)["node"].to_list() == ["node9"]


def test_two_readings_of_one_slot_at_one_instant_are_a_duplicate(home: Path, tmp_path: Path) -> None:
    files = [save(tmp_path, f"{name}.prom", scrape({SM: 0.5}, SLICE)) for name in ("a", "b")]
    result = run(*files, "--at", "2026-11-01", "--at", "2026-11-01", "--cluster", "c")
    assert result.exit_code == 4
    assert "duplicate" in result.output
    assert samples(home).height == 1


@pytest.fixture
def exporter() -> Iterator[str]:
    """A server that answers like an exporter, packed."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/metrics" or self.headers["Authorization"] == "Basic bWU6cEBzcw=="
            body = gzip.compress(scrape({SM: 0.5}).encode())
            self.send_response(200 if known else 404)
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_address_is_read_now(home: Path, exporter: str) -> None:
    before = utc_now()
    assert run("--url", f"{exporter}/metrics", "--cluster", "c").exit_code == 0
    (row,) = samples(home).to_dicts()
    assert row["sm_active_ratio"] == 0.5
    assert before <= row["interval_start_at"] + timedelta(minutes=1) <= utc_now()


def test_user_and_password_of_an_address_are_sent_and_not_kept(home: Path, exporter: str) -> None:
    result = run("--url", exporter.replace("//", "//me:p%40ss@") + "/locked", "--cluster", "c", "--json")
    assert result.exit_code == 0
    record = pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet").to_dicts()
    assert "p%40ss" not in result.output + str(record)


def test_an_address_that_does_not_answer_fails_without_showing_its_password(
    home: Path, exporter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectors.http, "_PAUSE_SECONDS", 0.01)
    for url, reason in (
        (f"{exporter}/nothing", "404"),
        ("http://someone:hunter2@127.0.0.1:9/metrics", "is dcgm-exporter running"),
        ("http://someone:hunter2@nowhere.invalid/metrics", "is dcgm-exporter running"),
        ("http://some@one:hunter2@127.0.0.1/metrics", "is dcgm-exporter running"),
        ("http://[::1", "is dcgm-exporter running"),
        ("file:///etc/hostname", "not an http"),
    ):
        result = run("--url", url, "--cluster", "c")
        assert result.exit_code == 1
        assert reason in result.output
        assert "hunter2" not in result.output
