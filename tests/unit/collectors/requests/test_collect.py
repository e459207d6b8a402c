"""The command: what lands from the captures, what never does, and what becomes of damaged files."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.requests.collect import requests
from collectors.requests.parse import Given, Reader
from collectors.requests.records import Record, read_records
from tests.unit.collectors.requests.logs import CHAT, LITELLM, Land, json_lines, quarantined, rows

CANARY = "CANARY-the-password-is-swordfish"


def _all_that_landed(home: Path) -> str:
    """Every value of every file that a landing left: rows, quarantine, outcomes (Parquet is packed, so its bytes say nothing)."""
    frames = [pl.read_parquet(path, hive_partitioning=False) for path in sorted(home.rglob("*.parquet"))]
    others = [
        path.read_text(errors="replace") for path in sorted(home.rglob("*")) if path.is_file() and path.suffix != ".parquet"
    ]
    return repr([frame.to_dicts() for frame in frames]) + "".join(others)


@pytest.mark.parametrize(
    ("file", "count", "prompt", "output"),
    [
        ("AzureLLMInferenceTrace_code.csv", 8_819, 18_059_974, 245_896),
        ("AzureLLMInferenceTrace_conv.csv", 19_366, 22_361_870, 4_088_665),
    ],
)
def test_the_azure_traces_land_whole(home: Path, real_data: Path, file: str, count: int, prompt: int, output: int) -> None:
    done = CliRunner().invoke(requests, [str(real_data / "azure-llm-2023" / file), "--cluster", "c1", "--model", "m"])
    found = rows(home)
    assert (done.exit_code, len(found), len({row["request_id"] for row in found})) == (0, count, count)
    assert sum(row["prompt_tokens"] for row in found) == prompt
    assert sum(row["output_tokens"] for row in found) == output


def test_the_mooncake_trace_lands_whole(home: Path, real_data: Path) -> None:
    path = real_data / "mooncake-fast25" / "conversation_trace.jsonl"
    CliRunner().invoke(requests, [str(path), "--cluster", "c1", "--started-at", "2024-06-01"])
    found = rows(home)
    assert len(found) == 12_031
    assert (sum(row["prompt_tokens"] for row in found), sum(row["output_tokens"] for row in found)) == (144_793_823, 4_122_048)


def test_the_spend_log_of_litellms_own_tests_lands(home: Path, real_data: Path) -> None:
    CliRunner().invoke(requests, [str(real_data / "litellm" / "spend_logs_payload.json"), "--cluster", "c1"])
    (row,) = rows(home)
    assert (row["model"], row["prompt_tokens"], row["output_tokens"], row["team"]) == ("gpt-4o", 10, 20, None)
    assert row["latency_ms"] == pytest.approx(4.583)


def test_no_prompt_lands_whatever_field_it_stands_in(land: Land, home: Path) -> None:
    """A canary in every field that no format names: not in the rows, the quarantine, the outcome or a message."""
    known = {
        "request_id",
        "call_type",
        "cache_hit",
        "startTime",
        "endTime",
        "completionStartTime",
        "model",
        "model_group",
        "status",
    }
    known |= {"custom_llm_provider", "team_id", "metadata", "prompt_tokens", "completion_tokens", "request_tags"}
    metadata = {**json.loads(LITELLM["metadata"]), "proxy_server_request": CANARY, "error_information": {"error_message": CANARY}}
    record = {**{name: CANARY for name in LITELLM if name not in known}, **{name: LITELLM[name] for name in known}}
    record |= {"metadata": json.dumps(metadata), "a_new_field": CANARY, "status": f"error: {CANARY} is too long"}
    chat = {**CHAT, "choices": [{"message": {"content": CANARY}}], "system_fingerprint": CANARY, "timestamp": 1793523600}
    broken = json.dumps(record)[:-30] + "\n" + json.dumps({**record, "prompt_tokens": CANARY}) + "\n"
    broken += json.dumps({**record, "startTime": CANARY}) + "\n" + json.dumps({"prompt": CANARY}) + "\n"
    code, said, found = land(json_lines(record, chat) + broken)
    assert (code, len(found), len(quarantined(home))) == (4, 2, 4)
    assert found[0]["status"] is None
    assert CANARY not in said
    assert CANARY not in _all_that_landed(home)


def test_no_prompt_lands_from_a_csv_file(land: Land, home: Path) -> None:
    text = "startTime,request_id,model,prompt_tokens,completion_tokens,messages\n"
    text += f"2026-11-01 00:00:00,r1,m,1,2,{CANARY}\n2026-11-01 00:00:00,r2,m,1,2,{CANARY},{CANARY}\n"
    code, said, found = land(text + f"2026-11-01 00:00:00,r3,m,{CANARY},2,x\n", file="log.csv")
    assert (code, [row["request_id"] for row in found]) == (4, ["r1"])
    assert CANARY not in said
    assert CANARY not in _all_that_landed(home)


def test_keys_users_and_addresses_are_not_in_the_rows(land: Land, home: Path) -> None:
    land(json_lines(LITELLM))
    landed = _all_that_landed(home)
    assert "chatcmpl-1" in landed
    for secret in ("88dc28d0f030", "ada@", "ada's", "10.1.2.3", "tell me a secret"):
        assert secret not in landed


def test_landing_a_log_twice_changes_nothing(land: Land, home: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1,2\n2023-11-16 18:17:03.97,1,2\n"
    _, _, first = land(text, file="a.csv")
    before = {path: path.read_bytes() for path in home.rglob("*.parquet")}
    land(text, file="a.csv")
    assert {path: path.read_bytes() for path in home.rglob("*.parquet")} == before
    assert len({row["request_id"] for row in first}) == 2, "two equal lines are two requests"


def test_a_log_that_begins_in_the_middle_of_a_line_lands_the_rest(land: Land) -> None:
    text = json_lines(LITELLM)
    code, said, found = land(text[200:] + text)
    assert (code, len(found)) == (4, 1)
    assert "log.jsonl:1" in said


def test_a_document_that_is_cut_off_lands_what_stands_before(land: Land) -> None:
    text = json.dumps([LITELLM, {**LITELLM, "request_id": "r2"}], indent=2)
    code, said, found = land(text[:-300], file="spend.json")
    assert (code, [row["request_id"] for row in found]) == (4, ["chatcmpl-1"])
    assert "the rest is not read" in said


@pytest.mark.parametrize(
    "pack", [lambda data: b"\xef\xbb\xbf" + data, gzip.compress, lambda data: data.decode().encode("utf-16")]
)
def test_a_byte_order_mark_gzip_and_utf_16_are_read(land: Land, pack: Any) -> None:
    code, _, found = land(pack(json_lines(LITELLM, {**LITELLM, "request_id": "r2"}).replace("\n", "\r\n").encode()))
    assert (code, len(found)) == (0, 2)


@pytest.mark.parametrize(
    ("data", "file", "says"),
    [
        (b"", "a.jsonl", "empty"),
        (b"\n\n", "a.csv", "empty"),
        (b"\x00\x01\x02" * 3000, "a.csv", "binary"),
        (b"PAR1" + bytes(100), "a.parquet", "Parquet"),
        (b"name,age\nada,36\n", "a.csv", "--format"),
        (b'{"name": "ada", "age": 36}\n', "a.jsonl", "name, age"),
        (gzip.compress(b"x" * 10_000, mtime=0)[:30], "a.csv.gz", "a.csv.gz"),
    ],
)
def test_what_is_no_log_fails_with_its_name_and_a_remedy(land: Land, data: bytes, file: str, says: str) -> None:
    code, said, found = land(data, file=file)
    assert (code, found) == (1, [])
    assert file in said
    assert says in said


def test_a_header_alone_is_an_empty_log(land: Land) -> None:
    code, said, found = land("TIMESTAMP,ContextTokens,GeneratedTokens\n", file="a.csv")
    assert (code, found) == (0, [])
    assert "nothing" in said


def test_columns_in_another_order_mean_the_same(land: Land) -> None:
    _, _, (row,) = land("GeneratedTokens,TIMESTAMP,ContextTokens\n10,2023-11-16 18:17:03,4808\n", file="a.csv")
    assert (row["prompt_tokens"], row["output_tokens"]) == (4808, 10)


def test_numbers_that_are_none_cost_their_line_alone(land: Land) -> None:
    bad = ["-5", "1e999", "nan", "12.5", "0x10", "1_000", "true", "9" * 30]
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"2023-11-16 18:17:03,{number},1\n" for number in [*bad, "7"])
    code, _, found = land(text, file="a.csv")
    assert code == 4
    # `nan` is what data frames write where there is no value
    assert [row["prompt_tokens"] for row in found] == [None, 7]


def test_a_request_that_ends_before_it_begins_lands_without_latency(land: Land) -> None:
    code, said, (row,) = land(json_lines({**LITELLM, "endTime": "2026-11-01 09:20:40", "completionStartTime": None}))
    assert (code, row["latency_ms"]) == (0, None)
    assert "end before they begin" in said


@pytest.mark.parametrize(
    ("text", "file"),
    [
        (json_lines(LITELLM) + json.dumps({"x": "y" * 100_000}), "log.jsonl"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "y" * 100_000, "log.csv"),
    ],
)
def test_a_line_that_no_memory_holds_is_refused_and_named(
    land: Land, monkeypatch: pytest.MonkeyPatch, text: str, file: str
) -> None:
    monkeypatch.setattr("collectors.tables.delimited.LINE_LIMIT", 10_000)
    monkeypatch.setattr("collectors.tables.parse.BLOCK_BYTES", 5_000)
    code, said, found = land(text, file=file)
    assert (code, found) == (1, [])
    assert file in said
    assert "a line of more than" in said


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    base=st.sampled_from([LITELLM, CHAT]), changes=st.dictionaries(st.sampled_from([*LITELLM, *CHAT]), json_values, max_size=6)
)
def test_any_record_becomes_a_row_a_reject_or_is_left_out(base: Any, changes: dict[str, Any]) -> None:
    reader = Reader("log", Given("c1"))
    item = reader.read(Record(1, {**base, **changes}))
    if isinstance(item, dict):
        assert all(item[name] for name in ("model", "request_id", "started_at"))
        assert all(item[name] is None or item[name] >= 0 for name in ("prompt_tokens", "output_tokens", "cached_prompt_tokens"))


@given(
    st.lists(
        st.sampled_from(["{", "}", "[", "]", '"', ",", ":", "a", "1", " ", "\n", "\\", "null", json.dumps(dict(CHAT))]),
        max_size=30,
    )
)
def test_any_text_ends_in_rows_and_rejects(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    path = tmp_path_factory.mktemp("log") / "log.json"
    path.write_text("".join(parts))
    with suppress(SourceFailedError):
        assert all(item.line is None or item.line >= 1 for item in read_records(path, None))


def test_a_header_with_a_line_end_in_its_middle_is_refused_with_its_name(land: Land) -> None:
    """Found by fuzzing: the header was cut at LF only, and a CR in it ended in a traceback of the csv module."""
    code, said, found = land('"TIME"\rSTAMP,"ContextTokens\rGeneratedTokens\n2023-11-16 18:15:46,374,44\n', file="log.csv")
    assert (code, found) == (1, [])
    assert "log.csv" in said
