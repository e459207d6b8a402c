"""Several calls of the command: what is kept between them, and addresses that are read again and again."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import collectors.http
from collectors.dcgm import collect as collect_module
from collectors.dcgm.collect import dcgm
from collectors.metrics import scraping
from tests.unit.collectors.dcgm.scrapes import ENERGY, GRAPHICS, SLICE, SM, UTIL, WHOLE, scrape
from warehouse.landing import landings as landing_module

NOON = datetime(2026, 11, 1, 12)
MINUTE = timedelta(minutes=1)
POD = WHOLE | {"namespace": "d", "pod": "a"}


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(dcgm, [str(argument) for argument in arguments] + ["--cluster", "c"])
    assert result.exit_code == code, result.output
    return result


def table(home: Path, name: str = "gpu_samples") -> list[dict[str, Any]]:
    """The rows as the warehouse reads them: of two with one key the one landed last stands."""
    paths = sorted((home / f"raw/dcgm/{name}").rglob("*.parquet"))
    if not paths:
        return []
    rows = pl.concat([pl.read_parquet(path) for path in paths], how="diagonal_relaxed").sort("landed_at")
    time = {"gpu_samples": "interval_start_at", "run_gpus": "started_at"}.get(name, "seen_at")
    keys = [name for name in ("cluster", "gpu_uuid", "slot_uuid", "job_id", time) if name in rows.columns]
    return rows.unique(keys, keep="last", maintain_order=True).sort(time).to_dicts()


def save(folder: Path, minute: float, text: str) -> Path:
    path = folder / f"{NOON + minute * MINUTE:%Y-%m-%dT%H-%M-%S}Z.prom"
    path.write_text(text)
    return path


def test_energy_and_time_between_two_calls_are_known(home: Path, tmp_path: Path) -> None:
    for minute, value in ((0, 1_000_000), (1, 1_060_000), (2.5, 1_240_000)):
        run(save(tmp_path, minute, scrape({SM: 0.5, ENERGY: value})))
    assert [(row["interval_ms"], row["energy_joules"]) for row in table(home)] == [
        (60_000, None),
        (60_000, 60.0),
        (90_000, 180.0),
    ]


def test_files_given_one_by_one_or_together_make_the_same_rows(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = (5_000_000, 5_060_000, 0, 5_180_000, 100_000, 160_000, 220_000)
    files = [save(tmp_path, minute, scrape({SM: 0.5, ENERGY: value}, POD)) for minute, value in enumerate(values)]
    run(*files)
    together = table(home), table(home, "run_gpus"), table(home, "gpu_inventory")
    # in groups of one file: memory holds one at a time
    monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "grouped"))
    monkeypatch.setattr(collect_module, "CHUNK_BYTES", 1)
    run(*files)
    grouped = tmp_path / "grouped"
    lineage = {"collection_run_id", "landed_at"}
    for name, rows in zip(("gpu_samples", "run_gpus", "gpu_inventory"), together, strict=True):
        for row, expected in zip(table(grouped, name), rows, strict=True):
            same = {key for key in row if key not in lineage and not (key == "energy_joules" and row[key] != expected[key])}
            assert {key: row[key] for key in same} == {key: expected[key] for key in same}
    assert sum(row["energy_joules"] or 0 for row in together[0]) == pytest.approx(60 + 120 + 100 + 60 + 60)


def test_a_single_drop_between_calls_never_makes_a_huge_growth(home: Path, tmp_path: Path) -> None:
    """A zero at the end of one call made the next one count from it: 400 MJ in a minute."""
    for minute, value in enumerate((400_000_000_000, 0, 400_000_060_000, 400_000_120_000)):
        run(save(tmp_path, minute, scrape({SM: 0.5, ENERGY: value})))
    assert [row["energy_joules"] for row in table(home)] == [None, None, 30.0, 60.0]


def test_a_driver_that_is_loaded_anew_between_calls_counts_from_its_next_reading(home: Path, tmp_path: Path) -> None:
    for minute, value in enumerate((400_000_000_000, 50_000, 110_000, 170_000)):
        run(save(tmp_path, minute, scrape({SM: 0.5, ENERGY: value})))
    assert [row["energy_joules"] for row in table(home)] == [None, None, 60.0, 60.0]


def test_a_gap_is_covered_by_two_and_a_half_intervals_and_its_energy_in_proportion(home: Path, tmp_path: Path) -> None:
    run(save(tmp_path, 0, scrape({SM: 0.5, ENERGY: 0})))
    run(save(tmp_path, 60, scrape({SM: 0.5, ENERGY: 3_600_000})))
    assert [(row["interval_ms"], row["energy_joules"]) for row in table(home)] == [(60_000, None), (150_000, 150.0)]


def test_landing_again_changes_nothing_whatever_was_landed_between(home: Path, tmp_path: Path) -> None:
    files = [save(tmp_path, minute, scrape({SM: 0.5, ENERGY: 1000 * minute}, POD)) for minute in range(12)]
    for file in files:
        run(file)
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*.parquet")}
    for file in reversed(files):
        assert "already landed" in run(file).output
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*.parquet")} == before


def test_an_older_file_that_comes_late_takes_nothing_from_the_newer_ones(home: Path, tmp_path: Path) -> None:
    texts = {minute: scrape({SM: 0.1 * minute, ENERGY: 60_000 * minute}) for minute in range(5)}
    for minute in (0, 3, 1, 4):
        run(save(tmp_path, minute, texts[minute]))
    assert [(row["interval_start_at"], row["energy_joules"]) for row in table(home)] == [
        (NOON - MINUTE, None),
        (NOON, 60.0),
        (NOON + 0.5 * MINUTE, 150.0),
        (NOON + 3 * MINUTE, 60.0),
    ]


def test_a_call_that_is_killed_before_its_commit_is_as_if_it_had_not_been(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(save(tmp_path, 0, scrape({SM: 0.5, ENERGY: 0}, POD)))
    second = save(tmp_path, 1, scrape({SM: 0.5, ENERGY: 60_000}, POD))

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(landing_module, "write_outcome", die)
        assert CliRunner().invoke(dcgm, [str(second), "--cluster", "c"]).exit_code == 1
    run(save(tmp_path, 2, scrape({SM: 0.5, ENERGY: 120_000}, POD)))
    committed = {row["collection_run_id"] for row in pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet").to_dicts()}
    rows = [row for row in table(home) if row["collection_run_id"] in committed]
    assert [(row["interval_start_at"], row["energy_joules"]) for row in rows] == [(NOON - MINUTE, None), (NOON, 120.0)]
    run(second)
    assert [row["energy_joules"] for row in table(home)][:2] == [None, 60.0]


def test_a_holder_has_a_row_with_its_first_call_only_and_an_end_when_it_is_gone(home: Path, tmp_path: Path) -> None:
    for minute in range(4):
        run(save(tmp_path, minute, scrape({SM: 0.5}, POD)))
    for minute in range(4, 8):
        run(save(tmp_path, minute, scrape({SM: 0.0}, POD | {"pod": "", "namespace": ""})))
    assert [(row["job_id"], row["started_at"], row["ended_at"]) for row in table(home, "run_gpus")] == [
        ("d/a", NOON, NOON + 4 * MINUTE)
    ]
    outcomes = pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet").filter(table_name="run_gpus")
    assert outcomes["rows_landed"].sum() == 2


def test_the_inventory_is_landed_when_it_changes_and_once_a_day(home: Path, tmp_path: Path) -> None:
    whole, split = scrape({SM: 0.5}), scrape({GRAPHICS: 0.5}, SLICE)
    for minute, text in ((0, whole), (1, whole), (2, split), (3, split), (4, whole), (12 * 60, whole), (12 * 60 + 1, whole)):
        run(save(tmp_path, minute, text))
    assert [(row["seen_at"], row["slot_uuid"]) for row in table(home, "gpu_inventory")] == [
        (NOON, None),
        (NOON + 2 * MINUTE, "GPU-1/gi7"),
        (NOON + 4 * MINUTE, None),
        (NOON + 12 * 60 * MINUTE, None),
    ]


def test_percentages_are_told_by_a_busy_card_and_remembered_for_idle_ones(home: Path, tmp_path: Path) -> None:
    run(save(tmp_path, 0, scrape({GRAPHICS: 97.0, SM: 71.0, UTIL: 98})))
    assert "divided by 100" in run(save(tmp_path, 1, scrape({GRAPHICS: 0.4, SM: 0.1, UTIL: 0}))).output
    assert [row["sm_active_ratio"] for row in table(home)] == [pytest.approx(0.71), pytest.approx(0.001)]


def test_scrapes_that_carry_no_time_are_refused_whatever_others_do(home: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "metrics.prom"
    nameless.write_text(scrape({SM: 0.5}))
    assert "--at" in run(save(tmp_path, 0, scrape({SM: 0.5})), nameless, code=2).output
    assert not list(home.rglob("gpu_samples/**/*.parquet"))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectors.http, "_PAUSE_SECONDS", 0.01)


Answer = Callable[[], tuple[int, str]]


@pytest.fixture
def exporters() -> Iterator[Callable[[Answer], str]]:
    """Starts servers whose `/metrics` answers what a function says; returns their address."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = answer()
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None: ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def counting(uuid: str, joules: int = 10) -> Answer:
    """An exporter whose energy counter grows with each scrape."""
    state = {"energy": 0}

    def answer() -> tuple[int, str]:
        state["energy"] += joules * 1000
        return 200, scrape({SM: 0.5, ENERGY: state["energy"]}, WHOLE | {"UUID": uuid, "namespace": "d", "pod": "a"})

    return answer


def outcomes(home: Path) -> pl.DataFrame:
    return pl.read_parquet(home / "raw/dcgm/collection_runs/**/*.parquet")


def test_many_addresses_are_read_again_and_again_and_landed_together(
    home: Path, exporters: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "BATCH_TIME", timedelta(seconds=1))
    urls = [exporters(counting(f"GPU-{number}")) for number in range(3)]
    arguments = [argument for url in urls for argument in ("--url", url)]
    result = run(*arguments, "--interval", "0.25", "--for", "2", "--json")
    summary = json.loads(result.stdout)
    rows = table(home)
    assert summary["rows"]["gpu_samples"] == len(rows)
    assert 21 <= len(rows) <= 24
    # batches of one second, not a landing per address and scrape
    assert outcomes(home)["collection_run_id"].n_unique() <= 3
    for number in range(3):
        own = [row for row in rows if row["gpu_uuid"] == f"GPU-{number}"]
        assert {row["interval_ms"] for row in own} == {250}
        assert [row["energy_joules"] for row in own] == [None] + [10.0] * (len(own) - 1)
    assert len(table(home, "run_gpus")) == 3
    # the next call goes on where this one ended
    run(*arguments, "--interval", "0.25", "--for", "1")
    assert [row["energy_joules"] for row in table(home)].count(None) == 3
    assert len(table(home, "run_gpus")) in (3, 6)  # evidence anew if the pause was longer than two and a half intervals


def test_an_address_that_never_answers_fails_the_call_after_the_others_landed(
    home: Path, exporters: Callable[[Answer], str]
) -> None:
    good, bad = exporters(counting("GPU-1")), exporters(lambda: (503, "starting"))
    result = run("--url", good, "--url", bad, "--interval", "0.5", "--for", "1", code=1)
    assert "answers 503" in result.output
    assert len(table(home)) >= 1
    record = outcomes(home)
    assert set(record["status"]) == {"landed", "failed"}
    gaps = json.loads(record.filter(status="landed")["gaps"][0])
    assert "rounds: answers 503" in gaps[bad]


def test_an_address_that_answers_with_something_else_is_quarantined_and_the_others_land(
    home: Path, exporters: Callable[[Answer], str]
) -> None:
    good, page = exporters(counting("GPU-1")), exporters(lambda: (200, "<html>\n<body>It works!</body>\n</html>"))
    result = run("--url", good, "--url", page, code=4)
    assert "no DCGM field in it" in result.output
    assert len(table(home)) == 1


def test_an_address_without_a_nodes_name_leaves_the_others_alone(home: Path, exporters: Callable[[Answer], str]) -> None:
    labels = {"UUID": "GPU-2", "gpu": "0"}
    good, nameless = exporters(counting("GPU-1")), exporters(lambda: (200, scrape({SM: 0.5}, labels)))
    result = run("--url", good, "--url", nameless.replace("127.0.0.1", "localhost"), code=4)
    assert "give it with --node NAME" in result.output
    assert [row["gpu_uuid"] for row in table(home)] == ["GPU-1"]
    run("--url", nameless, "--node", "127.0.0.1=w7")
    assert {row["node"] for row in table(home)} == {"node7", "w7"}


MUTATIONS = st.lists(
    st.tuples(st.sampled_from(["cut", "flip", "drop", "double", "swap", "insert"]), st.integers(0, 4000), st.integers(0, 255)),
    min_size=1,
    max_size=6,
)


def mutated(data: bytes, steps: list[tuple[str, int, int]]) -> bytes:
    for kind, where, byte in steps:
        lines = data.split(b"\n")
        at, line = where % (len(data) + 1), where % len(lines)
        if kind == "cut":
            data = data[:at]
        elif kind == "flip":
            data = data[:at] + bytes([byte]) + data[at + 1 :]
        elif kind == "insert":
            data = data[:at] + bytes([byte]) * 3 + data[at:]
        elif kind == "drop":
            data = b"\n".join(lines[:line] + lines[line + 1 :])
        elif kind == "double":
            data = b"\n".join([*lines[: line + 1], *lines[line:]])
        else:
            other = byte % len(lines)
            lines[line], lines[other] = lines[other], lines[line]
            data = b"\n".join(lines)
    return data


GOOD = "\n".join(
    [
        scrape({SM: 0.5, UTIL: 70, ENERGY: 5, "DCGM_FI_DEV_FB_USED": 1, "DCGM_EXP_XID_ERRORS_COUNT": 1}, POD | {"xid": "31"}),
        scrape({GRAPHICS: 0.5, "DCGM_FI_DEV_POWER_USAGE": 100}, SLICE | {"UUID": "GPU-2", "hpc_job": "4711"}),
    ]
).encode()


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


@settings(max_examples=60, deadline=None)
@given(MUTATIONS)
def test_a_damaged_scrape_lands_in_part_is_quarantined_or_fails_and_never_breaks(
    shared_home: Path, steps: list[tuple[str, int, int]]
) -> None:
    path = shared_home / "2026-11-01T12-00-00Z.prom"
    path.write_bytes(mutated(GOOD, steps))
    environment = {"GPU_NET_HOME": str(shared_home / "home")}
    result = CliRunner().invoke(dcgm, [str(path), "--cluster", "c"], env=environment)
    assert result.exit_code in (0, 1, 2, 4), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
