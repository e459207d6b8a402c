"""Small logs in the formats of the field, re-typed from their sources, and what landing them leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

#: LiteLLM's row as the proxy writes it: JSON in a text, "None" for no value, times without zone, empty ids
LITELLM: Mapping[str, Any] = {
    "request_id": "chatcmpl-1",
    "call_type": "acompletion",
    "api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b",
    "cache_hit": "None",
    "startTime": "2026-11-01 09:20:46.847371",
    "endTime": "2026-11-01 09:20:48.347371",
    "completionStartTime": "2026-11-01 09:20:47.047371",
    "model": "hosted_vllm/meta-llama/Llama-3.1-8B-Instruct",
    "model_group": "llama",
    "custom_llm_provider": "hosted_vllm",
    "user": "ada@example.org",
    "team_id": "team-7",
    "metadata": json.dumps(
        {
            "user_api_key_team_alias": "search",
            "user_api_key_alias": "ada's key",
            "spend_logs_metadata": {"application": "answers"},
            "usage_object": {
                "prompt_tokens": 1200,
                "completion_tokens": 30,
                "prompt_tokens_details": {"cached_tokens": 1024},
            },
            "requester_ip_address": "10.1.2.3",
        }
    ),
    "prompt_tokens": 1200,
    "completion_tokens": 30,
    "total_tokens": 1230,
    "request_tags": '["app:answers", "User-Agent: curl"]',
    "messages": '[{"role": "user", "content": "tell me a secret"}]',
    "response": '{"choices": [{"message": {"content": "no"}}]}',
    "requester_ip_address": "10.1.2.3",
    "status": "success",
}

CHAT: Mapping[str, Any] = {
    "id": "chatcmpl-9",
    "object": "chat.completion",
    "created": 1793523600,
    "model": "llama",
    "choices": [{"message": {"role": "assistant", "content": "tell nobody"}}],
    "usage": {
        "prompt_tokens": 17903,
        "completion_tokens": 5,
        "total_tokens": 17908,
        "prompt_tokens_details": {"cached_tokens": 17817},
    },
}


def rows(home: Path) -> list[dict[str, Any]]:
    """The landed requests without their lineage, in the order of their lines."""
    paths = sorted(home.glob("raw/requests/inference_requests/dt=*/*.parquet"))
    if not paths:
        return []
    frame = pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths])
    return frame.sort("line_number").drop("collection_run_id", "landed_at").to_dicts()


def quarantined(home: Path) -> list[dict[str, Any]]:
    paths = sorted(home.glob("quarantine/requests/dt=*/*.parquet"))
    return [row for path in paths for row in pl.read_parquet(path, hive_partitioning=False).to_dicts()]


def json_lines(*records: Mapping[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


Land = Callable[..., tuple[int, str, list[dict[str, Any]]]]
