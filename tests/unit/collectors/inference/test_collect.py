"""The command: saved scrapes and addresses, what is kept between calls, the captures."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from collectors.inference.collect import Reach, Source, collect, inference
from collectors.inference.rows import Given
from tests.unit.collectors.inference.servers import MINUTE, NOON, rows, told, vllm
from warehouse.home import Home
from warehouse.landing.landings import CollectionOutcome, Landing

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(home: Path) -> Run:
    def call(*arguments: object) -> tuple[int, str]:
        done = CliRunner().invoke(inference, [*map(str, arguments), "--cluster", "c1"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    return call


def saved(folder: Path, minute: int, text: str, server: str = "vllm-a") -> Path:
    path = folder / f"{server}-{NOON + minute * MINUTE:%Y-%m-%dT%H-%M-%SZ}.prom"
    path.write_text(text)
    return path


def test_saved_scrapes_become_what_happened_between_them(run: Run, home: Path, tmp_path: Path) -> None:
    files = [saved(tmp_path, at, vllm(1000 * (at + 1), 100 * (at + 1), 10 * (at + 1))) for at in range(3)]
    code, said = run(*files, "--node", "n1", "--workload", "chat", "--namespace", "serving")
    assert code == 0
    assert "first reading" in said
    first, second = rows(home)
    assert told(first, "server", "node", "workload", "namespace", "model") == ("vllm-a", "n1", "chat", "serving", "m")
    assert told(first, "interval_start_at", "interval_ms") == (NOON, 60_000)
    counts = ("request_count", "failed_request_count", "prompt_tokens", "cached_prompt_tokens", "output_tokens")
    assert told(first, *counts) == told(second, *counts) == (11, 1, 1000, 500, 100)
    assert first["latency_histogram"] == [{"le_seconds": 1.0, "count": 5.0}, {"le_seconds": float("inf"), "count": 11.0}]


def test_the_order_of_the_files_does_not_matter_and_their_times_do(run: Run, home: Path, tmp_path: Path) -> None:
    run(*[saved(tmp_path, at, vllm(1000 * (at + 1))) for at in (2, 0, 1)])
    assert [row["prompt_tokens"] for row in rows(home)] == [1000, 1000]


def test_the_next_call_counts_from_the_last_reading_of_the_one_before(run: Run, home: Path, tmp_path: Path) -> None:
    run(saved(tmp_path, 0, vllm(1000)))
    assert rows(home) == []
    _, said = run(saved(tmp_path, 1, vllm(1500)))
    assert "first reading" not in said
    run(saved(tmp_path, 2, vllm(1700)))
    assert [row["prompt_tokens"] for row in rows(home)] == [500, 200]


def test_landing_a_scrape_again_changes_nothing(run: Run, home: Path, tmp_path: Path) -> None:
    first, second = saved(tmp_path, 0, vllm(1000)), saved(tmp_path, 1, vllm(1500))
    run(first)
    run(second)
    before = {path: path.read_bytes() for path in home.rglob("*.parquet")}
    for path in (second, first, second):
        assert run(path)[0] == 0
    assert {path: path.read_bytes() for path in home.rglob("*.parquet")} == before


def test_a_glitch_that_comes_in_a_call_of_its_own_is_left_out_too(run: Run, home: Path, tmp_path: Path) -> None:
    """A timer saves a scrape and lands it, one a call: 50,000 and then 1,250,000 again would count a million twice."""
    for at, value in enumerate([1_000_000, 1_200_000, 50_000, 1_250_000]):
        run(saved(tmp_path, at, vllm(output=value)))
    assert [row["output_tokens"] for row in rows(home)] == [200_000, 50_000]


def test_a_scrape_that_comes_late_splits_what_was_landed_across_it(run: Run, home: Path, tmp_path: Path) -> None:
    run(saved(tmp_path, 0, vllm(1000)), saved(tmp_path, 1, vllm(1100)), saved(tmp_path, 3, vllm(1500)))
    assert [row["prompt_tokens"] for row in rows(home)] == [100, 400]
    run(saved(tmp_path, 2, vllm(1350)))
    assert [told(row, "interval_ms", "prompt_tokens") for row in rows(home)] == [(60_000, 100), (60_000, 250), (60_000, 150)]


def test_case_c10_lands_350000_tokens(run: Run, home: Path, tmp_path: Path) -> None:
    values = [1_000_000, 1_200_000, 50_000, 150_000]
    _, said = run(*[saved(tmp_path, at, vllm(output=value)) for at, value in enumerate(values)])
    assert sum(row["output_tokens"] for row in rows(home)) == 350_000
    assert "1 restarts" in said


def _live(home: Path, *values: tuple[int, float]) -> CollectionOutcome:
    """One call per reading, as a timer makes them."""
    landing = Landing(Home.from_environment())
    reach = Reach(timedelta(seconds=60), is_closed=False)
    for minute, output in values:
        text = vllm(output=output).encode()
        outcome = collect(
            [Source("http://a:8000/metrics", "a:8000", "http://a:8000/metrics", text, NOON + minute * MINUTE)],
            given=Given("c1"),
            reach=reach,
            landing=landing,
        )
    return outcome


def test_live_a_reading_that_fell_waits_and_lands_with_the_next_one(home: Path) -> None:
    waiting = _live(home, (0, 1000), (1, 1200), (2, 50))
    assert waiting.status == "nothing"
    assert "the next reading tells" in waiting.notes[-1]
    assert [row["output_tokens"] for row in rows(home)] == [200]
    _live(home, (3, 150), (4, 160))
    assert [row["output_tokens"] for row in rows(home)] == [200, 50, 100, 10]


def test_live_a_reading_that_comes_back_was_a_glitch(home: Path) -> None:
    _live(home, (0, 1000), (1, 1200), (2, 50), (3, 1300), (4, 1310))
    assert [told(row, "interval_start_at", "interval_ms", "output_tokens") for row in rows(home)] == [
        (NOON, 60_000, 200),
        (NOON + MINUTE, 120_000, 100),
        (NOON + 3 * MINUTE, 60_000, 10),
    ]


def test_a_call_that_was_killed_before_its_landing_is_as_if_it_had_not_been(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _live(home, (0, 1000), (1, 1200))
    with monkeypatch.context() as patch:
        patch.setattr("warehouse.landing.landings.write_outcome", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _live(home, (2, 1300))
    _live(home, (3, 1500))
    assert sum(row["output_tokens"] for row in rows(home)) == 500


def test_a_gap_of_more_than_a_day_says_nothing_of_any_hour(home: Path) -> None:
    outcome = _live(home, (0, 1000), (25 * 60, 9_000), (25 * 60 + 1, 9_100))
    assert [row["output_tokens"] for row in rows(home)] == [100]
    assert outcome.status == "landed"


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """An address that answers with the first of a list of texts, taking it off while there are more."""
    texts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (texts.pop(0) if len(texts) > 1 else texts[0]).encode()
            self.send_response(200 if body else 503)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"http://user:secret@127.0.0.1:{listening.server_port}/metrics", texts
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_an_address_is_read_on_a_grid_and_lands_what_happened(run: Run, home: Path, server: tuple[str, list[str]]) -> None:
    url, texts = server
    texts += [vllm(1000), vllm(1500), vllm(1700)]
    code, said = run("--url", url, "--for", "2", "--interval", "0.5")
    assert code == 0
    found = rows(home)
    assert {row["server"].rpartition(":")[0] for row in found} == {"127.0.0.1"}
    # a busy machine may miss the first round
    assert sum(row["prompt_tokens"] for row in found) in (200, 700)
    assert {row["interval_ms"] % 500 for row in found} == {0}
    assert "secret" not in said
    assert not any(b"secret" in path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_an_address_that_does_not_answer_fails_with_a_remedy(run: Run, home: Path) -> None:
    code, said = run("--url", "http://127.0.0.1:9/metrics")
    assert code == 1
    assert "127.0.0.1:9" in said
    assert "is the server running" in said


def test_one_scrape_of_several_that_cannot_be_read_is_quarantined(run: Run, home: Path, tmp_path: Path) -> None:
    files = [saved(tmp_path, 0, vllm(1000)), saved(tmp_path, 1, "<html>"), saved(tmp_path, 2, vllm(1100))]
    code, said = run(*files)
    assert (code, [row["prompt_tokens"] for row in rows(home)]) == (4, [100])
    assert "switched on" in said


def test_a_gzip_a_byte_order_mark_and_windows_line_ends_are_read(run: Run, home: Path, tmp_path: Path) -> None:
    first = saved(tmp_path, 0, vllm(1000))
    first.write_bytes(b"\xef\xbb\xbf" + first.read_bytes().replace(b"\n", b"\r\n"))
    second = tmp_path / f"vllm-a-{NOON + MINUTE:%Y-%m-%dT%H-%M-%SZ}.prom.gz"
    second.write_bytes(gzip.compress(vllm(1500).encode()))
    assert run(first, second)[0] == 0
    assert [row["prompt_tokens"] for row in rows(home)] == [500]


def test_a_server_that_counts_no_requests_is_quarantined_with_its_tokens(run: Run, home: Path, tmp_path: Path) -> None:
    texts = [f"llamacpp:prompt_tokens_total {100 * at}\nllamacpp:tokens_predicted_total {7 * at}\n" for at in (1, 2)]
    code, said = run(*[saved(tmp_path, at, text, "llama") for at, text in enumerate(texts)])
    assert code == 4
    assert "no metric of llama counts requests" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "FILE"),
        (("--url", "http://a", "--url", "http://b", "--server", "x"), "--server"),
        (("{file}", "--for", "5"), "--for"),
        (("{file}", "--at", "2026-11-01", "--at", "2026-11-01"), "2 times for 1 files"),
        (("{file}",), "--at"),
    ],
)
def test_wrong_usage_is_told_and_nothing_lands(
    run: Run, home: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    path = tmp_path / "undated.prom"
    path.write_text(vllm())
    code, said = run(*(argument.replace("{file}", str(path)) for argument in arguments))
    assert (code, rows(home)) == (2, [])
    assert says in said


CAPTURES = {
    "sglang-0.5.10-opt125m-datadog.prom": ("facebook/opt-125m", 1, None, 5, 1, 32, 0.25),
    "sglang-llama31-8b-overloaded.prom": ("meta-llama/Llama-3.1-8B-Instruct", 11_228, None, 8_128_902, None, 7_557_572, 0.28),
    "tgi-datadog-excerpt.prom": ("unknown", 111, 2, 662, None, None, None),
    "vllm-opt125m-datadog.prom": ("facebook/opt-125m", 1, 0, 5, 64, 7, 0.0),
    "vllm-v1-lmswitch-excerpt.prom": ("deepseek-v4-flash-vision-exp-ablit-dual", 26, 0, 3_675_428, 3_241_216, 44_995, 0.0),
    "triton-datadog-excerpt.prom": ("densenet_onnx", 3, 0, None, None, None, None),
}


@pytest.mark.parametrize("file", CAPTURES)
def test_the_captures_say_what_their_servers_did(run: Run, home: Path, real_data: Path, file: str) -> None:
    path = real_data / "inference-metrics" / file
    code, said = run(path, "--at", "2026-11-01T00:30:00Z", "--started-at", "2026-11-01T00:00:00Z")
    assert code == 0
    assert "not known here" not in said
    found = [row for row in rows(home) if row["model"] == CAPTURES[file][0]]
    names = ("model", "request_count", "failed_request_count", "prompt_tokens", "cached_prompt_tokens", "output_tokens")
    assert [told(row, *names, "kv_cache_usage_ratio") for row in found] == [CAPTURES[file]]
    assert found[0]["interval_start_at"] == datetime(2026, 11, 1)


def test_the_overloaded_servers_histograms_keep_their_infinite_bucket(run: Run, home: Path, real_data: Path) -> None:
    path = real_data / "inference-metrics" / "sglang-llama31-8b-overloaded.prom"
    run(path, "--at", "2026-11-01T00:30:00Z", "--started-at", "2026-11-01T00:00:00Z")
    (row,) = rows(home)
    assert told(row, "running_requests", "waiting_requests") == (162.0, 2826.0)
    assert (len(row["latency_histogram"]), row["latency_histogram"][-1]["count"]) == (16, 11_228.0)
    assert (len(row["first_token_histogram"]), row["first_token_histogram"][-1]["count"]) == (21, 11_008.0)
