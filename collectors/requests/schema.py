"""The formats of request logs as data: how each is told, and which of its fields feed which column.

This is the allow-list: a field that stands nowhere here is never read, so that prompts, answers, keys, users and addresses
cannot land. A field is a path (`metadata.usage_object.prompt_tokens`); JSON inside a text is looked into on the way. A
column names its fields in the order in which they are tried; the first that holds a value is taken.

| format | read in |
|---|---|
| litellm | litellm's proxy/spend_tracking (`SpendLogsPayload`), schema.prisma (`LiteLLM_SpendLogs`), `StandardLoggingPayload` |
| openai | objects with `usage`: chat.completion, text_completion, response, embeddings, Anthropic's message |
| mooncake | kvcache-ai/Mooncake, FAST25-release/traces |
| azure | Azure/AzurePublicDataset, AzureLLMInferenceTrace 2023 and 2024 |
| burstgpt | HPMLL/BurstGPT, data |
| gateway | flat lines of other gateways: Envoy AI Gateway, OpenTelemetry's `gen_ai.*`, landing names |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Fields = Mapping[str, tuple[str, ...]]

#: texts that gateways write where there is no value
NOTHING = frozenset({"", "none", "null", "undefined", "nan"})
#: where an entry around an answer keeps it; "" is the entry itself
ANSWER_PLACES = ("response.body", "response", "body", "result", "output", "")


@dataclass(frozen=True)
class Format:
    """`told_by`: of each group at least one field is there. `relative`: seconds per unit of a time that counts from the start.

    `within`: the record's part that the fields named `answer.…` are looked up in.
    """

    name: str
    told_by: tuple[tuple[str, ...], ...]
    fields: Fields
    relative: float | None = None
    within: tuple[str, ...] = ()

    @property
    def top_level(self) -> tuple[str, ...]:
        """The columns that a CSV file in this format may have: of each path the first part, or all of a dotted name."""
        paths = [path for choices in (*self.fields.values(), *self.told_by) for path in choices]
        own = [path for path in paths if not path.startswith("answer.")]
        return tuple(dict.fromkeys(name for path in own for name in (path, path.split(".")[0])))


_LITELLM = Format(
    "litellm",
    told_by=(("startTime",), ("request_id", "id", "call_type"), ("model", "model_group")),
    fields={
        "request_id": ("request_id", "id"),
        "started_at": ("startTime",),
        "ended_at": ("endTime",),
        "first_token_at": ("completionStartTime",),
        # what the server runs, which its own counters name too; the group is a name of the gateway's configuration
        "model": ("model", "model_group"),
        "provider": ("custom_llm_provider",),
        "prompt_tokens": ("prompt_tokens", "metadata.usage_object.prompt_tokens"),
        "cached_prompt_tokens": (
            "metadata.usage_object.prompt_tokens_details.cached_tokens",
            "metadata.additional_usage_values.prompt_tokens_details.cached_tokens",
            "metadata.usage_object.cache_read_input_tokens",
            "metadata.additional_usage_values.cache_read_input_tokens",
        ),
        "output_tokens": ("completion_tokens", "metadata.usage_object.completion_tokens"),
        "status": ("status", "metadata.status"),
        "team": ("metadata.user_api_key_team_alias", "team_alias", "team_id", "metadata.user_api_key_team_id"),
        "application": (
            "metadata.spend_logs_metadata.application",
            "metadata.spend_logs_metadata.app",
            "metadata.spend_logs_metadata.service",
            "metadata.user_api_key_project_alias",
        ),
        "workload": ("metadata.spend_logs_metadata.workload",),
        "tags": ("request_tags",),
        "call_type": ("call_type",),
        "cache_hit": ("cache_hit",),
    },
)
#: what ran the model: an offline job writes these from its environment, a gateway from the pod that it asked
_PLACE: Fields = {
    "job_id": ("job_id", "slurm_job_id", "SLURM_JOB_ID", "k8s.pod.uid", "pod_uid"),
    "server": ("server", "pod", "pod_name", "k8s.pod.name"),
    "node": ("node", "node_name", "SLURMD_NODENAME", "hostname", "host.name", "k8s.node.name"),
}
_OPENAI = Format(
    "openai",
    told_by=(("answer.usage",),),
    within=ANSWER_PLACES,
    fields={
        "request_id": ("answer.id", "request_id", "custom_id", "id"),
        "started_at": (
            "started_at", "start_time", "startTime", "request_time", "timestamp", "time", "ts", "@timestamp", "created_at",
            "answer.created", "answer.created_at",
        ),
        "ended_at": ("ended_at", "end_time", "endTime"),
        "latency_ms": ("latency_ms", "duration_ms", "response_time_ms", "elapsed_ms"),
        "latency_seconds": ("latency_seconds", "duration_seconds", "response_time_seconds"),
        "first_token_ms": ("first_token_ms", "ttft_ms", "time_to_first_token_ms"),
        "model": ("answer.model", "model", "request.model"),
        "prompt_tokens": ("answer.usage.prompt_tokens", "answer.usage.input_tokens"),
        "total_tokens": ("answer.usage.total_tokens",),
        "cached_prompt_tokens": (
            "answer.usage.prompt_tokens_details.cached_tokens",
            "answer.usage.input_tokens_details.cached_tokens",
            "answer.usage.input_token_details.cached_tokens",
            "answer.usage.cache_read_input_tokens",
        ),
        # with these Anthropic's input_tokens leaves the cached ones out
        "cache_read": ("answer.usage.cache_read_input_tokens",),
        "cache_written": ("answer.usage.cache_creation_input_tokens",),
        "is_openai": ("answer.usage.prompt_tokens", "answer.usage.prompt_tokens_details", "answer.usage.input_tokens_details"),
        "output_tokens": ("answer.usage.completion_tokens", "answer.usage.output_tokens"),
        "error": ("error", "answer.error"),
        "status": ("response.status_code", "status_code", "status", "answer.status"),
        "team": ("team",),
        "application": ("application", "app", "service"),
        "workload": ("workload",),
        **_PLACE,
    },
)  # fmt: skip
_MOONCAKE = Format(
    "mooncake",
    told_by=(("timestamp",), ("input_length",), ("output_length",)),
    fields={
        "started_at": ("timestamp",),
        "prompt_tokens": ("input_length",),
        "output_tokens": ("output_length",),
    },
    relative=1e-3,
)
_AZURE = Format(
    "azure",
    told_by=(("TIMESTAMP",), ("ContextTokens",), ("GeneratedTokens",)),
    fields={
        "started_at": ("TIMESTAMP",),
        "prompt_tokens": ("ContextTokens",),
        "output_tokens": ("GeneratedTokens",),
    },
)
_BURSTGPT = Format(
    "burstgpt",
    told_by=(("Timestamp",), ("Request tokens",), ("Response tokens",)),
    fields={
        "started_at": ("Timestamp",),
        "model": ("Model",),
        "prompt_tokens": ("Request tokens",),
        "output_tokens": ("Response tokens",),
        "latency_seconds": ("Elapsed time",),
    },
    relative=1.0,
)
_GATEWAY = Format(
    "gateway",
    told_by=(
        ("started_at", "start_time", "timestamp", "time", "@timestamp", "created_at"),
        ("prompt_tokens", "input_tokens", "genai_tokens_input", "gen_ai.usage.input_tokens"),
    ),
    fields={
        "request_id": ("request_id", "x-request-id", "id"),
        "started_at": ("started_at", "start_time", "timestamp", "time", "@timestamp", "created_at"),
        "ended_at": ("ended_at", "end_time"),
        "latency_ms": ("latency_ms", "duration_ms", "response_time_ms", "duration"),
        "latency_seconds": ("latency_seconds", "duration_seconds"),
        "first_token_ms": ("first_token_ms", "ttft_ms", "time_to_first_token_ms"),
        "model": ("genai_model_name_override", "genai_model_name", "gen_ai.response.model", "gen_ai.request.model", "model"),
        "adapter": ("adapter",),
        "prompt_tokens": ("prompt_tokens", "input_tokens", "genai_tokens_input", "gen_ai.usage.input_tokens"),
        "cached_prompt_tokens": (
            "cached_prompt_tokens", "cached_tokens", "genai_tokens_cached_input", "gen_ai.usage.cache_read.input_tokens",
        ),
        "prompt_includes_cached": ("prompt_includes_cached",),
        "output_tokens": ("output_tokens", "completion_tokens", "genai_tokens_output", "gen_ai.usage.output_tokens"),
        "status": ("status", "status_code", "response_code"),
        "team": ("team",),
        "application": ("application", "app", "service"),
        "workload": ("workload",),
        **_PLACE,
    },
)  # fmt: skip

#: in the order in which they are tried
FORMATS: Mapping[str, Format] = {form.name: form for form in (_LITELLM, _MOONCAKE, _AZURE, _BURSTGPT, _OPENAI, _GATEWAY)}

#: LiteLLM tags that name an application: `app:search`
APPLICATION_TAGS = ("application", "app", "service")
#: calls of LiteLLM that no model answers
NO_INFERENCE = frozenset(
    f"{prefix}{call}"
    for prefix in ("", "a")
    for call in (
        "create_file", "retrieve_file", "delete_file", "list_files", "file_content", "create_batch", "retrieve_batch",
        "list_batches", "cancel_batch", "call_mcp_tool", "list_mcp_tools", "vector_store_create", "vector_store_search", "search",
    )
)  # fmt: skip
#: texts longer than this are no name of a model, team or request
LONGEST_TEXT = 300
