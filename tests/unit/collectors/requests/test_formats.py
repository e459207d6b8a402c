"""Each format of request logs, as the tools write it."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from typing import Any

import pytest

from tests.unit.collectors.requests.logs import CHAT, LITELLM, Land, json_lines


def test_a_spend_log_becomes_a_request_with_its_tokens_times_team_and_application(land: Land) -> None:
    code, _, (row,) = land(json_lines(LITELLM))
    assert code == 0
    assert row == {
        "cluster": "c1",
        "request_id": "chatcmpl-1",
        "started_at": datetime(2026, 11, 1, 9, 20, 46, 847371),
        "workload": None,
        "job_id": None,
        "server": None,
        "node": None,
        "application": "answers",
        "team": "search",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "adapter": None,
        "prompt_tokens": 1200,
        "cached_prompt_tokens": 1024,
        "prompt_includes_cached": True,
        "output_tokens": 30,
        "status": "success",
        "latency_ms": 1500.0,
        "first_token_ms": 200.0,
        "line_number": 1,
    }


def test_an_answer_that_was_not_streamed_has_no_first_token(land: Land) -> None:
    """LiteLLM sets completionStartTime to endTime then; taken as it is, half the first tokens would come at the end."""
    _, _, (row,) = land(json_lines({**LITELLM, "completionStartTime": LITELLM["endTime"]}))
    assert (row["latency_ms"], row["first_token_ms"]) == (1500.0, None)


def test_the_table_exported_as_csv_reads_like_the_rows_of_the_api(land: Land) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(LITELLM))
    writer.writeheader()
    writer.writerow(LITELLM)
    _, _, (from_csv,) = land(text.getvalue(), file="LiteLLM_SpendLogs.csv")
    assert (from_csv["prompt_tokens"], from_csv["cached_prompt_tokens"], from_csv["application"]) == (1200, 1024, "answers")
    assert from_csv["first_token_ms"] == 200.0


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"data": rows, "total": 2, "page": 1}])
@pytest.mark.parametrize("indent", [None, 4])
def test_the_answer_of_the_spend_api_is_a_list_or_a_page(land: Land, wrap: Any, indent: int | None) -> None:
    second = {**LITELLM, "request_id": "chatcmpl-2", "status": "failure", "prompt_tokens": 0, "completion_tokens": 0}
    _, _, found = land(json.dumps(wrap([LITELLM, second]), indent=indent), file="spend.json")
    assert [(row["request_id"], row["status"]) for row in found] == [("chatcmpl-1", "success"), ("chatcmpl-2", "failure")]


def test_a_standard_logging_payload_tells_its_times_in_epoch_seconds(land: Land) -> None:
    payload = {
        "id": "chatcmpl-3", "call_type": "acompletion", "startTime": 1793523600.25, "endTime": 1793523601.25,
        "completionStartTime": 1793523600.5, "model": "llama", "prompt_tokens": 10, "completion_tokens": 20,
        "status": "success", "metadata": {"user_api_key_team_alias": "research"}, "request_tags": ["app:chat"],
    }  # fmt: skip
    _, _, (row,) = land(json_lines(payload))
    assert row["started_at"] == datetime(2026, 11, 1, 9, 0, 0, 250000)
    assert (row["latency_ms"], row["first_token_ms"], row["team"], row["application"]) == (1000.0, 250.0, "research", "chat")


def test_what_the_gateway_answered_from_its_cache_used_no_gpu(land: Land) -> None:
    code, said, found = land(json_lines(LITELLM, {**LITELLM, "request_id": "x_cache_hit1", "cache_hit": "True"}))
    assert code == 0
    assert [row["request_id"] for row in found] == ["chatcmpl-1"]
    assert "1 requests answered from the gateway's cache" in said


def test_calls_that_no_model_answers_are_told_and_left_out(land: Land) -> None:
    _, said, found = land(json_lines(LITELLM, {**LITELLM, "request_id": "f", "call_type": "acreate_file"}))
    assert len(found) == 1
    assert "1 calls that no model answers" in said


def test_tokens_from_the_cache_are_part_of_an_openai_prompt(land: Land) -> None:
    """Case E01: 17,903 tokens of which 17,817 are cached are 86 new ones, not 35,720 in all."""
    _, _, (row,) = land(json_lines(CHAT))
    assert (row["prompt_tokens"], row["cached_prompt_tokens"], row["prompt_includes_cached"]) == (17903, 17817, True)
    assert row["started_at"] == datetime(2026, 11, 1, 9, 0)
    assert row["request_id"] == "chatcmpl-9"


def test_tokens_from_the_cache_are_no_part_of_an_anthropic_prompt(land: Land) -> None:
    message = {
        "id": "msg_1", "type": "message", "model": "claude",
        "usage": {"input_tokens": 86, "cache_read_input_tokens": 17817, "cache_creation_input_tokens": 100, "output_tokens": 5},
    }  # fmt: skip
    _, _, (row,) = land(json_lines({"timestamp": "2026-11-01T10:00:00+01:00", "response": message, "duration_ms": 250}))
    assert (row["prompt_tokens"], row["cached_prompt_tokens"], row["prompt_includes_cached"]) == (186, 17817, False)
    assert (row["started_at"], row["latency_ms"]) == (datetime(2026, 11, 1, 9, 0), 250.0)


def test_the_responses_api_and_embeddings_have_their_own_names(land: Land) -> None:
    response = {
        "id": "resp_1", "object": "response", "created_at": 1793523600, "status": "completed", "model": "llama",
        "usage": {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 87, "total_tokens": 123},
    }  # fmt: skip
    embeddings = {
        "object": "list",
        "data": [{"object": "embedding", "embedding": [0.1]}],
        "model": "bge",
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }
    _, _, (first, second) = land(json_lines(response, {"time": 1793523601000, "response": embeddings, "status_code": 200}))
    assert (first["prompt_tokens"], first["cached_prompt_tokens"], first["output_tokens"], first["status"]) == (
        36,
        4,
        87,
        "completed",
    )
    assert (second["model"], second["prompt_tokens"], second["output_tokens"], second["status"]) == ("bge", 8, 0, "200")
    assert second["started_at"] == datetime(2026, 11, 1, 9, 0, 1)
    assert second["request_id"].startswith("openai-")


def test_a_line_of_a_batch_output_is_an_answer_in_an_answer(land: Land) -> None:
    line = {
        "id": "batch_req_1",
        "custom_id": "row-1",
        "response": {"status_code": 200, "request_id": "r", "body": dict(CHAT)},
        "error": None,
    }
    _, _, (row,) = land(json_lines(line))
    assert (row["request_id"], row["output_tokens"], row["status"]) == ("chatcmpl-9", 5, "200")


def test_a_request_that_failed_says_so_whatever_its_status_is(land: Land) -> None:
    _, _, (row,) = land(json_lines({"timestamp": 1793523600, "error": {"message": "boom"}, "response": dict(CHAT)}))
    assert row["status"] == "failure"


def test_a_postgres_dump_writes_its_offsets_short(land: Land) -> None:
    _, _, (row,) = land(json_lines({**LITELLM, "startTime": "2026-11-01 10:20:46.5+01", "endTime": "2026-11-01 09:20:47+00"}))
    assert (row["started_at"], row["latency_ms"]) == (datetime(2026, 11, 1, 9, 20, 46, 500000), 500.0)


def test_a_flat_line_may_hold_lists_of_its_own(land: Land) -> None:
    line = {
        "timestamp": 1793523600,
        "model": "m",
        "prompt_tokens": 3,
        "output_tokens": 4,
        "data": [{"role": "user"}],
        "error": False,
    }
    _, _, (row,) = land(json_lines(line, {**line, "timestamp": None})[:-1])
    assert (row["prompt_tokens"], row["output_tokens"]) == (3, 4)


def test_the_azure_trace_has_seven_digits_no_zone_and_no_last_line_end(land: Land) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8"
    code, said, found = land(text, file="azure.csv")
    assert code == 0
    assert [(row["prompt_tokens"], row["output_tokens"], row["line_number"]) for row in found] == [(4808, 10, 2), (3180, 8, 3)]
    assert found[0]["started_at"] == datetime(2023, 11, 16, 18, 17, 3, 979960)
    assert {row["model"] for row in found} == {"unknown"}
    assert "2 requests without a model" in said


def test_the_azure_trace_of_2024_has_an_offset(land: Land) -> None:
    _, _, (row,) = land(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n", "--model", "m", file="a.csv"
    )
    assert (row["started_at"], row["model"]) == (datetime(2024, 5, 10, 0, 0, 0, 9930), "m")


def test_a_trace_whose_times_count_from_its_start_needs_to_know_when_that_was(land: Land) -> None:
    line = '{"timestamp": 3052, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}\n'
    code, said, found = land(line)
    assert (code, found) == (2, [])
    assert "--started-at" in said
    _, _, (row,) = land(line, "--started-at", "2026-11-01")
    assert row["started_at"] == datetime(2026, 11, 1, 0, 0, 3, 52000)
    assert (row["prompt_tokens"], row["output_tokens"]) == (6758, 500)


def test_blocks_that_were_seen_before_are_no_proof_that_they_were_cached(land: Land) -> None:
    """Mooncake's trace says which blocks repeat, not which were still held: what was cached is not known, so null."""
    text = json_lines(*({"timestamp": at, "input_length": 512, "output_length": 1, "hash_ids": [7]} for at in (0, 5)))
    _, _, found = land(text, "--started-at", "2026-11-01")
    assert [row["cached_prompt_tokens"] for row in found] == [None, None]


def test_burstgpt_tells_a_failure_by_an_answer_without_tokens(land: Land) -> None:
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,s1,2.3,ChatGPT,472,18,490,Conversation log\n45.5,s2,1,GPT-4,1087,0,1087,API log\n"
    )
    _, _, (first, second) = land(text, "--started-at", "2026-11-01", file="BurstGPT_3.csv")
    assert (first["model"], first["latency_ms"], first["status"]) == ("ChatGPT", 2300.0, "success")
    assert (second["status"], second["started_at"]) == ("failure", datetime(2026, 11, 1, 0, 0, 45, 500000))


def test_an_access_log_of_an_ai_gateway_is_flat(land: Land) -> None:
    line = {
        "start_time": "2026-11-01T09:00:00.125Z", "duration": 108, "genai_model_name": "qwen", "genai_tokens_input": 44,
        "genai_tokens_output": 12, "response_code": 200, "x-request-id": "abc", "upstream_host": "192.168.5.2:11434",
    }  # fmt: skip
    otel = {"timestamp": 1793523600, "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4}
    _, _, (first, second) = land(json_lines(line, otel))
    assert (first["request_id"], first["model"], first["prompt_tokens"], first["latency_ms"]) == ("abc", "qwen", 44, 108.0)
    assert (second["model"], second["prompt_tokens"], second["output_tokens"]) == ("m", 3, 4)


def test_a_local_time_is_read_in_its_zone_and_a_repeated_hour_is_quarantined(land: Land) -> None:
    once, twice = {**LITELLM, "startTime": "2026-11-01 12:00:00"}, {**LITELLM, "startTime": "2026-11-01 01:30:00"}
    code, said, (row,) = land(json_lines(once, twice), "--time-zone", "America/New_York")
    assert code == 4
    assert row["started_at"] == datetime(2026, 11, 1, 17, 0)
    assert "ambiguous_local_time" in said


def test_a_log_of_an_offline_job_names_its_job_and_its_node_or_the_caller_does(land: Land) -> None:
    answer = {"id": "c-1", "created": 1793520000, "model": "m", "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    told = answer | {"SLURM_JOB_ID": 4711, "hostname": "gpu-07"}
    flat = {"id": "c-3", "time": "2026-11-01T10:00:00Z", "model": "m", "input_tokens": 1, "output_tokens": 2, "pod": "nightly-x7"}
    _, _, found = land(json_lines(told, answer | {"id": "c-2"}, flat), "--job-id", "1", "--node", "n1")
    assert {row["request_id"]: (row["job_id"], row["node"], row["server"], row["workload"]) for row in found} == {
        "c-1": ("4711", "gpu-07", None, None),
        "c-2": ("1", "n1", None, None),
        "c-3": ("1", "n1", "nightly-x7", None),
    }
