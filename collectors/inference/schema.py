"""Which metric of which server feeds which column of `inference_usage`.

A metric is written `<server>:<name>`, its name without prefix and without `_total`, which servers and relabelling spell
in several ways. The names come from the servers' own sources:

| server | read in | versions |
|---|---|---|
| vllm | vllm/engine/metrics.py (V0), vllm/v1/metrics/loggers.py (V1) | 0.2 to 0.19 |
| sglang | sglang/srt/metrics/collector.py, sglang/srt/observability/metrics_collector.py | 0.4 to 0.5 |
| trtllm | tensorrt_llm/metrics/collector.py (trtllm-serve, /prometheus/metrics) | 1.0 to 1.3 |
| nim | NVIDIA's "Observability for NIM for LLMs": vLLM's names without a prefix | 1.0 to 1.14 |
| tgi | router/src/server.rs, backends/v3 | 1.0 to 3.3 |
| triton | core/src/metrics.cc; tensorrtllm_backend's `nv_trt_llm_*` | 22.01 to 25 |
| llamacpp | tools/server/server.cpp | |
| te | text-embeddings-inference router/src/prometheus.rs, core/src/infer.rs | 1.0 to 1.8 |

A column names its alternatives, the most exact first; the first whose leading term was read in an interval is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.inference.unused import UNUSED

TABLE = "inference_usage"

#: what a metric's name begins with → the server. Ray and OpenShift put a prefix of their own before vLLM's and SGLang's,
#: and relabelling turns the colon into an underscore
PREFIXES: Mapping[str, re.Pattern[str]] = {
    "vllm": re.compile(r"(?:[a-z]+_)?vllm[:_]"),
    "sglang": re.compile(r"(?:[a-z]+_)?sglang[:_]"),
    "trtllm": re.compile(r"trtllm[:_]"),
    "tgi": re.compile(r"tgi_"),
    "triton": re.compile(r"nv_"),
    "llamacpp": re.compile(r"llamacpp[:_]"),
    "te": re.compile(r"te_"),
}
#: NIM's names have no prefix; these show that a text without one is its
NIM_NAMES = frozenset({"prompt_tokens", "generation_tokens", "num_requests_running", "gpu_cache_usage_perc"})

#: every rank of a model's parallel parts tells the same
REPEATED_LABELS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "ep_rank", "pid"})
#: SGLang repeats a total by priority; the series without one is the total
BREAKDOWN_LABELS = frozenset({"priority"})
#: labels whose values come up one by one while a server runs: a new one began at 0, since its siblings were counted
CHILD_LABELS = frozenset(
    {"finished_reason", "stop_reason", "reason", "source", "cache_source", "err", "kind", "method", "is_streaming"}
)
MODEL_LABELS = ("model_name", "model")
ADAPTER_LABELS = ("adapter", "lora_adapter", "lora_name")
#: how a request ended that gave its caller nothing whole (vllm.v1.engine.FinishReason; a `length` is a normal end)
FAILED_REASONS = frozenset({"abort", "error", "cancelled", "timeout"})


@dataclass(frozen=True)
class Term:
    """One metric of a figure: of a histogram its `sum` or `count`; only series of which `label` is one of `values`."""

    metric: str
    part: str = "value"
    label: str = ""
    values: frozenset[str] = field(default_factory=frozenset)
    scale: float = 1.0


Alternatives = tuple[tuple[Term, ...], ...]


def _of(*terms: str) -> tuple[Term, ...]:
    """`metric`, `metric.part` or `metric{label=a|b}` each."""
    return tuple(_term(text) for text in terms)


def _term(text: str) -> Term:
    name, _, condition = text.partition("{")
    metric, _, part = name.partition(".")
    label, _, values = condition.rstrip("}").partition("=")
    return Term(metric, part or "value", label, frozenset(values.split("|")) if values else frozenset())


_FAILED = "|".join(sorted(FAILED_REASONS))

#: what grows → its alternatives; the figure of an interval is how much the terms grew, added up over their series
COUNTERS: Mapping[str, Alternatives] = {
    # every finished request, the failed ones among them
    "request_count": (
        _of("vllm:request_success"),
        _of("nim:request_success", "nim:request_failure"),
        _of("nim:request_finish"),
        _of("sglang:num_requests"),
        _of("sglang:request_success"),
        _of("trtllm:request_success", "trtllm:request_error"),
        _of("trtllm:num_requests_completed"),
        _of("tgi:request_success", "tgi:request_failure"),
        _of("tgi:request_count"),
        _of("te:request_success", "te:request_failure"),
        _of("te:request_count"),
        _of("vllm:e2e_request_latency_seconds.count"),
        _of("nim:e2e_request_latency_seconds.count"),
        _of("sglang:e2e_request_latency_seconds.count"),
        _of("trtllm:e2e_request_latency_seconds.count"),
        _of("tgi:request_duration.count"),
        _of("vllm:time_to_first_token_seconds.count"),
        _of("triton:inference_request_success", "triton:inference_request_failure"),
    ),
    "failed_request_count": (
        _of(f"vllm:request_success{{finished_reason={_FAILED}}}"),
        _of("nim:request_failure"),
        _of("sglang:num_aborted_requests"),
        _of("trtllm:request_error"),
        _of("tgi:request_failure"),
        _of("te:request_failure"),
        _of("triton:inference_request_failure"),
    ),
    "prompt_tokens": (
        _of("vllm:prompt_tokens"),
        _of("nim:prompt_tokens"),
        _of("sglang:prompt_tokens"),
        _of("trtllm:prompt_tokens"),
        _of("tgi:request_input_length.sum"),
        _of("llamacpp:prompt_tokens"),
        _of("te:batch_next_tokens.sum"),
        _of("vllm:request_prompt_tokens.sum"),
        _of("nim:request_prompt_tokens.sum"),
    ),
    # vLLM counts a prefix hit again each time a waiting request is looked at, so what the prompts really saved goes first
    "cached_prompt_tokens": (
        _of("vllm:prompt_tokens_cached"),
        _of("vllm:prompt_tokens_by_source{source=local_cache_hit|external_kv_transfer}"),
        _of("vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits"),
        _of("vllm:gpu_prefix_cache_hits"),
        _of("sglang:cached_tokens"),
        _of("sglang:prompt_tokens_cached"),
        _of("trtllm:prompt_cached_tokens"),
    ),
    "output_tokens": (
        _of("vllm:generation_tokens"),
        _of("nim:generation_tokens"),
        _of("sglang:generation_tokens"),
        _of("trtllm:generation_tokens"),
        _of("tgi:request_generated_tokens.sum"),
        _of("llamacpp:tokens_predicted"),
        _of("vllm:request_generation_tokens.sum"),
        _of("nim:request_generation_tokens.sum"),
    ),
    "prefill_seconds": (
        _of("vllm:request_prefill_time_seconds.sum"),
        _of("trtllm:request_prefill_time_seconds.sum"),
        _of("tgi:batch_inference_duration.sum{method=prefill}"),
        _of("llamacpp:prompt_seconds"),
    ),
    "decode_seconds": (
        _of("vllm:request_decode_time_seconds.sum"),
        _of("trtllm:request_decode_time_seconds.sum"),
        _of("tgi:batch_inference_duration.sum{method=decode}"),
        _of("llamacpp:tokens_predicted_seconds"),
    ),
}
#: columns that are whole numbers
WHOLE = frozenset({"request_count", "failed_request_count", "prompt_tokens", "cached_prompt_tokens", "output_tokens"})

#: what is read as it stands, added up over the engines
GAUGES: Mapping[str, Alternatives] = {
    "running_requests": (
        _of("vllm:num_requests_running"),
        _of("nim:num_requests_running"),
        _of("sglang:num_running_reqs"),
        _of("sglang:num_requests_running"),
        _of("trtllm:num_requests_running"),
        _of("tgi:batch_current_size"),
        _of("triton:trt_llm_request_metrics{request_type=scheduled}"),
        _of("llamacpp:requests_processing"),
    ),
    "waiting_requests": (
        _of("vllm:num_requests_waiting"),
        _of("nim:num_requests_waiting"),
        _of("sglang:num_queue_reqs"),
        _of("sglang:num_requests_waiting"),
        _of("trtllm:num_requests_waiting"),
        _of("tgi:queue_size"),
        _of("te:queue_size"),
        _of("triton:trt_llm_request_metrics{request_type=waiting}"),
        _of("triton:inference_pending_request_count"),
        _of("llamacpp:requests_deferred"),
    ),
}
#: shares of a pool: of several engines, which have pools of one size, the mean
KV_USAGE: Alternatives = (
    _of("vllm:kv_cache_usage_perc"),
    _of("vllm:gpu_cache_usage_perc"),
    _of("nim:gpu_cache_usage_perc"),
    _of("sglang:token_usage"),
    _of("sglang:kv_cache_usage_perc"),
    _of("trtllm:kv_cache_utilization"),
    _of("triton:trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
    _of("llamacpp:kv_cache_usage_ratio"),
)
#: the pool in tokens; `kv_tokens` is what `parse` makes of vLLM's cache_config_info and of numbers of blocks
KV_TOKENS: Alternatives = (
    _of("any:kv_tokens"),
    _of("vllm:kv_cache_size_tokens"),
    _of("sglang:max_total_num_tokens"),
    _of("sglang:kv_cache_total_tokens"),
)

#: histograms of a column → (metric, seconds per unit of its buckets)
HISTOGRAMS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "latency_histogram": (
        ("vllm:e2e_request_latency_seconds", 1.0),
        ("nim:e2e_request_latency_seconds", 1.0),
        ("sglang:e2e_request_latency_seconds", 1.0),
        ("trtllm:e2e_request_latency_seconds", 1.0),
        ("tgi:request_duration", 1.0),
        ("te:request_duration", 1.0),
    ),
    "first_token_histogram": (
        ("vllm:time_to_first_token_seconds", 1.0),
        ("nim:time_to_first_token_seconds", 1.0),
        ("sglang:time_to_first_token_seconds", 1.0),
        ("trtllm:time_to_first_token_seconds", 1.0),
        ("triton:inference_first_response_histogram_ms", 1e-3),
    ),
}

#: a prompt's cached tokens are not in this server's prompt count (llama.cpp: n_prompt_tokens_processed)
PROMPT_WITHOUT_CACHED = frozenset({"llamacpp"})

#: read for what it says in its labels
CACHE_CONFIG = "vllm:cache_config_info"
#: numbers of blocks and the tokens in one, of which a pool in tokens is made
BLOCK_POOLS = (("trtllm:kv_cache_max_blocks", "trtllm:kv_cache_tokens_per_block"),)
TRT_LLM_BLOCKS = "triton:trt_llm_kv_cache_block_metrics"
#: hits of vLLM V1 under their first name: in blocks (0.8.2), later in tokens (0.9); the HELP line says which
HITS_IN_BLOCKS = "vllm:gpu_prefix_cache_hits"


def _metrics_of(tables: Mapping[str, Alternatives]) -> frozenset[str]:
    return frozenset(term.metric for choices in tables.values() for terms in choices for term in terms)


#: metrics whose growth is read
GROWING = _metrics_of(COUNTERS) | {metric for choices in HISTOGRAMS.values() for metric, _ in choices}
#: metrics that are read as they stand
STANDING = (
    _metrics_of({**GAUGES, "usage": KV_USAGE, "pool": KV_TOKENS})
    | {CACHE_CONFIG, TRT_LLM_BLOCKS}
    | {metric for pair in BLOCK_POOLS for metric in pair}
)
NEEDED = GROWING | STANDING
KNOWN = NEEDED | UNUSED
