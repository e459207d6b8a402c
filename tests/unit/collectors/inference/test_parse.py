"""What each server's text says, in the names and labels of its versions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.command import SourceFailedError
from collectors.inference.growth import Growth
from collectors.inference.names import is_nim, read_name, server_in_name
from collectors.inference.parse import OptionMissingError, Reading, Scrape, parse_scrape
from collectors.inference.rows import Given, to_rows
from collectors.inference.schema import COUNTERS, GAUGES, KNOWN
from tests.unit.collectors.inference.servers import MINUTE, NOON, epoch, told, vllm

TOKENS = ("request_count", "failed_request_count", "prompt_tokens", "cached_prompt_tokens", "output_tokens")
STATE = ("running_requests", "waiting_requests", "kv_cache_usage_ratio")


def parsed(text: str) -> Scrape:
    return parse_scrape(text.encode(), "a.prom", "a", NOON)


def row(text: str, model: str | None = None, given: Given | None = None) -> dict[str, object]:
    """The row of all that the counters say, as if they had begun a minute ago."""
    (reading,) = parsed(text).readings
    return _row(reading, model, given)


def _row(reading: Reading, model: str | None, given: Given | None = None) -> dict[str, object]:
    models = {series.model for series in reading.values if model is None or series.model == model}
    (own,) = models - {None} if len(models) > 1 else models
    amounts = {series: value for series, value in reading.values.items() if series.model == own}
    (found,) = to_rows(Growth(own, None, NOON - MINUTE, reading, amounts), given or Given("c1"), timedelta(hours=1))
    return found


def test_the_counters_and_gauges_of_vllm_v1_are_read() -> None:
    found = row(vllm(prompt=3_675_428, output=44_995, done=26))
    assert told(found, *TOKENS) == (29, 3, 3_675_428, 1_837_714, 44_995)
    assert told(found, *STATE) == (2.0, 3.0, 0.25)
    assert told(found, "model", "prefill_seconds", "decode_seconds") == ("m", 13.0, 52.0)
    assert found["latency_histogram"][-1]["count"] == pytest.approx(28.6)


@pytest.mark.parametrize("spelled", ["vllm_", "ray_vllm:", "ray_vllm_", "kserve_vllm:"])
def test_relabelling_ray_and_openshift_spell_the_prefix_in_their_ways(spelled: str) -> None:
    assert told(row(vllm().replace("vllm:", spelled)), *TOKENS) == (11, 1, 1000, 500, 100)


def test_counters_of_openmetrics_and_of_old_versions_come_without_total() -> None:
    assert told(row(vllm().replace("_total", "")), *TOKENS) == (11, 1, 1000, 500, 100)


def test_created_gauges_are_times_and_no_tokens() -> None:
    (reading,) = parsed(vllm()).readings
    assert {series.part for series in reading.values} == {"value", "sum", "count", "bucket"}
    assert reading.started_at is not None
    assert f"{reading.started_at:%Y-%m-%d}" == "2026-09-08"


def test_the_start_of_the_process_stands_before_that_of_a_counter() -> None:
    (reading,) = parsed(vllm(started=NOON - 2 * MINUTE)).readings
    assert reading.started_at == NOON - 2 * MINUTE


def test_three_digit_exponents_are_numbers() -> None:
    assert row(vllm().replace(" 1000.0", " 1.0e+003"))["prompt_tokens"] == 1000


def test_the_engines_of_one_server_add_up_and_their_caches_have_a_mean() -> None:
    second = vllm(prompt=500, output=50, done=20, engine="1").replace(" 0.25", " 0.75")
    found = row(vllm() + second)
    assert told(found, *TOKENS) == (33, 3, 1500, 750, 150)
    assert told(found, *STATE) == (4.0, 6.0, 0.5)
    assert found["latency_histogram"] == [{"le_seconds": 1.0, "count": 15.0}, {"le_seconds": float("inf"), "count": 33.0}]


def test_ranks_of_one_model_tell_the_same_and_count_once() -> None:
    lines = [
        f'sglang:{name}{{model_name="m",tp_rank="{rank}",pp_rank="0"}} {value}'
        for rank in range(8)
        for name, value in (("num_running_reqs", 5), ("num_queue_reqs", 1), ("token_usage", 0.5))
    ]
    lines += ['sglang:prompt_tokens_total{model_name="m"} 900', 'sglang:generation_tokens_total{model_name="m"} 80']
    lines += ['sglang:num_requests_total{model_name="m"} 7', 'sglang:num_aborted_requests_total{model_name="m"} 2']
    lines += [f'sglang:cached_tokens_total{{model_name="m",cache_source="{source}"}} 100' for source in ("device", "host")]
    found = row("\n".join(lines))
    assert told(found, *TOKENS) == (7, 2, 900, 200, 80)
    assert told(found, *STATE) == (5.0, 1.0, 0.5)


def test_data_parallel_ranks_of_sglang_are_engines() -> None:
    lines = [f'sglang_num_running_reqs{{model_name="m",tp_rank="0",dp_rank="{rank}"}} 3' for rank in (0, 1)]
    assert row("\n".join([*lines, 'sglang_num_requests_total{model_name="m"} 1']))["running_requests"] == 6.0


def test_priorities_repeat_the_total() -> None:
    lines = ['sglang:num_requests_total{model_name="m"} 1']
    lines += [
        f'sglang:num_queue_reqs{{model_name="m",priority="{priority}"}} {count}'
        for priority, count in (("", 5), ("1", 2), ("2", 3))
    ]
    assert row("\n".join(lines))["waiting_requests"] == 5.0


def test_what_the_prompts_saved_stands_before_what_the_cache_was_asked() -> None:
    """vLLM counts the hits of a waiting request at each look; prompt_tokens_cached counts them once."""
    exact = 'vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 7\n'
    sources = "".join(
        f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="m",source="{source}"}} {tokens}\n'
        for source, tokens in (("local_compute", 991), ("local_cache_hit", 6), ("external_kv_transfer", 3))
    )
    assert row(vllm(more=exact + sources))["cached_prompt_tokens"] == 7
    assert row(vllm(more=sources))["cached_prompt_tokens"] == 9
    assert row(vllm())["cached_prompt_tokens"] == 500


def test_hits_are_tokens_and_blocks_only_where_the_help_text_says_so() -> None:
    """Case E04: a counter of tokens taken for one of blocks of 16 made 800,000 of 50,000 cached tokens."""
    hits = 'vllm:gpu_prefix_cache_hits_total{model_name="m"} 50000\nvllm:prompt_tokens_total{model_name="m"} 12000000\n'
    size = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1\nvllm:request_success_total{model_name="m"} 1\n'
    tokens = "# HELP vllm:gpu_prefix_cache_hits_total GPU prefix cache hits, in terms of number of cached tokens.\n"
    assert row(tokens + hits + size)["cached_prompt_tokens"] == 50_000
    assert row(tokens.replace("tokens.", "blocks.") + hits + size)["cached_prompt_tokens"] == 800_000
    scrape = parsed(tokens.replace("tokens.", "blocks.") + hits)
    assert "left out" in scrape.notes[0]
    assert not any("hits" in series.metric for series in scrape.readings[0].values)


def test_the_oldest_vllm_counts_no_requests_but_its_latencies_do() -> None:
    text = 'vllm:prompt_tokens_total{model_name="m"} 5\nvllm:e2e_request_latency_seconds_count{model_name="m"} 4\n'
    assert told(row(text), "request_count", "failed_request_count", "prompt_tokens") == (4, None, 5)


def test_tgi_names_no_model_and_tells_its_tokens_in_histograms() -> None:
    text = """# TYPE tgi_request_success counter
tgi_request_success 109

tgi_request_count 111

tgi_request_failure{err="validation"} 2
tgi_queue_size 4
tgi_batch_current_size 6
tgi_request_input_length_bucket{le="+Inf"} 109
tgi_request_input_length_sum 662
tgi_request_input_length_count 109
tgi_request_generated_tokens_sum 1880
tgi_request_duration_bucket{le="0.5"} 100
tgi_request_duration_bucket{le="+Inf"} 109
tgi_batch_inference_duration_sum{method="prefill"} 3.5
tgi_batch_inference_duration_sum{method="decode"} 12.25
tgi_request_skipped_tokens{quantile="0.5"} 0
"""
    found = row(text, given=Given("c1", model="zephyr"))
    assert told(found, *TOKENS) == (111, 2, 662, None, 1880)
    assert told(found, "model", "running_requests", "waiting_requests") == ("zephyr", 6.0, 4.0)
    assert told(found, "prefill_seconds", "decode_seconds") == (3.5, 12.25)
    assert row(text)["model"] == "unknown"


def test_triton_counts_requests_per_model_and_its_gpus_are_none_of_them() -> None:
    text = """nv_inference_request_success{model="densenet",version="1"} 3
nv_inference_request_success{model="densenet",version="2"} 4
nv_inference_request_failure{model="densenet",version="1"} 1
nv_inference_request_failure{model="densenet",reason="OTHER",version="2"} 1
nv_inference_request_success{model="simple",version="1"} 0
nv_inference_pending_request_count{model="densenet",version="1"} 2
nv_inference_request_summary_us{model="densenet",version="1",quantile="0.5"} 3
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
nv_inference_first_response_histogram_ms_bucket{model="densenet",version="1",le="500"} 6
nv_inference_first_response_histogram_ms_bucket{model="densenet",version="1",le="+Inf"} 7
"""
    (reading,) = parsed(text).readings
    found = _row(reading, "densenet")
    assert told(found, *TOKENS) == (9, 2, None, None, None)
    assert found["waiting_requests"] == 2.0
    assert found["first_token_histogram"] == [{"le_seconds": 0.5, "count": 6.0}, {"le_seconds": float("inf"), "count": 7.0}]
    assert not parsed(text).unknown


def test_the_tensorrt_llm_backend_of_triton_tells_its_queue_and_cache() -> None:
    text = """nv_inference_request_success{model="tensorrt_llm",version="1"} 10
nv_inference_pending_request_count{model="tensorrt_llm",version="1"} 9
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 400
"""
    found = row(text, given=Given("c1", kv_bytes_per_token=1000))
    assert told(found, *STATE) == (3.0, 2.0, 0.25)
    assert found["kv_cache_total_bytes"] == 400 * 64 * 1000
    told_fraction = (
        text + 'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.3\n'
    )
    assert row(told_fraction)["kv_cache_usage_ratio"] == 0.3


def test_trtllm_serve_has_names_like_vllms() -> None:
    labels = 'engine_type="trtllm",model_name="m"'
    text = f"""trtllm_request_success_total{{{labels},finished_reason="stop"}} 8
trtllm_request_error_total{{{labels}}} 2
trtllm_prompt_tokens_total{{{labels}}} 900
trtllm_prompt_cached_tokens_total{{{labels}}} 300
trtllm_generation_tokens_total{{{labels}}} 70
trtllm_num_requests_running{{{labels}}} 1
trtllm_num_requests_waiting{{{labels}}} 0
trtllm_kv_cache_utilization{{{labels}}} 0.125
"""
    assert told(row(text), *TOKENS, *STATE) == (10, 2, 900, 300, 70, 1.0, 0.0, 0.125)


def test_nim_has_vllms_names_without_a_prefix() -> None:
    text = """process_virtual_memory_bytes 1.15891634176e+011
num_requests_running{model_name="meta/llama-3.1-8b-instruct"} 1.0
num_requests_waiting{model_name="meta/llama-3.1-8b-instruct"} 0.0
num_request_max{model_name="meta/llama-3.1-8b-instruct"} 64.0
gpu_cache_usage_perc{model_name="meta/llama-3.1-8b-instruct"} 0.0002848191398461977
prompt_tokens_total{model_name="meta/llama-3.1-8b-instruct"} 109.0
generation_tokens_total{model_name="meta/llama-3.1-8b-instruct"} 174.0
e2e_request_latency_seconds_bucket{le="1.0",model_name="meta/llama-3.1-8b-instruct"} 5.0
e2e_request_latency_seconds_bucket{le="+Inf",model_name="meta/llama-3.1-8b-instruct"} 5.0
request_finish_total{finished_reason="length",model_name="meta/llama-3.1-8b-instruct"} 5.0
request_success_total{model_name="meta/llama-3.1-8b-instruct"} 5.0
request_failure_total{model_name="meta/llama-3.1-8b-instruct"} 1.0
"""
    found = row(text)
    assert told(found, *TOKENS) == (6, 1, 109, None, 174)
    assert found["latency_histogram"][-1]["count"] == 5.0
    assert is_nim(["prompt_tokens_total", "num_requests_running"])
    assert not is_nim(["prompt_tokens_total", "num_requests_running", "vllm:num_requests_running"])


def test_llama_cpp_counts_what_it_read_anew_and_no_requests() -> None:
    text = """llamacpp:prompt_tokens_total 500
llamacpp:prompt_seconds_total 1.5
llamacpp:tokens_predicted_total 80
llamacpp:tokens_predicted_seconds_total 4.5
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
"""
    found = row(text)
    assert told(found, "request_count", "prompt_tokens", "output_tokens", "prompt_includes_cached") == (None, 500, 80, False)
    assert told(found, "prefill_seconds", "decode_seconds", "running_requests", "waiting_requests") == (1.5, 4.5, 2.0, 1.0)


def test_an_embedding_server_counts_the_tokens_of_its_batches() -> None:
    text = 'te_request_success{method="single"} 3\nte_batch_next_tokens_sum 22\nte_queue_size 3\n'
    assert told(row(text), "request_count", "prompt_tokens", "output_tokens", "waiting_requests") == (3, 22, None, 3.0)


def test_the_pool_is_told_in_tokens_and_becomes_bytes_only_with_a_size_per_token() -> None:
    config = 'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="7281"} 1.0\n'
    hybrid = config.replace('engine="0"', 'engine="0",kv_cache_size_tokens="50000"')
    sized = Given("c1", kv_bytes_per_token=131_072)
    assert row(vllm(more=config)).get("kv_cache_total_bytes") is None
    assert row(vllm(more=config), given=sized)["kv_cache_total_bytes"] == 7281 * 16 * 131_072
    assert row(vllm(more=hybrid), given=sized)["kv_cache_total_bytes"] == 50_000 * 131_072
    assert row(vllm(more=config.replace('"7281"', '"None"')), given=sized).get("kv_cache_total_bytes") is None


def test_a_gauge_without_a_number_is_missing_and_not_zero() -> None:
    assert row(vllm().replace(" 0.25", " NaN"))["kv_cache_usage_ratio"] is None
    assert row(vllm().replace(" 0.25", " 37.5"))["kv_cache_usage_ratio"] is None


def test_names_that_no_table_has_are_told_once_and_others_are_passed_over() -> None:
    scrape = parsed(
        vllm(more='vllm:brand_new_total 5\nvllm:brand_newer_bucket{le="1"} 5\nvllm:brand_newer_sum 5\nnode_load1 1\n')
    )
    assert scrape.unknown == {"vllm:brand_new_total", "vllm:brand_newer"}


def test_every_metric_that_feeds_a_column_is_known() -> None:
    terms = [term for choices in (*COUNTERS.values(), *GAUGES.values()) for terms in choices for term in terms]
    assert {term.metric for term in terms} <= KNOWN
    assert read_name("vllm:iteration_tokens_total_sum") == read_name("vllm_iteration_tokens_total_sum")
    assert read_name("tgi_request_count").part == "value"
    assert read_name("node_cpu_seconds_total") is None


def test_several_models_on_one_server_are_several_readings_of_its_counters() -> None:
    (reading,) = parsed(vllm() + vllm(model="n", prompt=5)).readings
    assert told(_row(reading, "n"), "model", "prompt_tokens") == ("n", 5)


def test_a_federated_text_names_its_servers_and_stamps_each_line() -> None:
    stamp = int(epoch(NOON - MINUTE) * 1000)
    lines = [
        f'vllm:{name}{{instance="{host}:8000",model_name="m",namespace="serving"}} {value} {stamp + number}'
        for number, (host, name, value) in enumerate(
            (host, name, value)
            for host in ("a", "b")
            for name, value in (("prompt_tokens_total", 7), ("generation_tokens_total", 8))
        )
    ]
    readings = parsed("\n".join(lines)).readings
    assert [(reading.server, reading.namespace, len(reading.values)) for reading in readings] == [
        ("a:8000", "serving", 2),
        ("b:8000", "serving", 2),
    ]
    assert readings[1].at == NOON - MINUTE + timedelta(milliseconds=3)


def test_garbled_lines_and_impossible_values_cost_themselves_alone() -> None:
    lines = ['vllm:generation_tokens_total{model_name="m",engine="1"} -5', "vllm:prompt_tok\xff{{"]
    text = vllm(more="\n".join([*lines, 'vllm:e2e_request_latency_seconds_bucket{le="x"} 1\n']))
    scrape = parse_scrape(text.encode("latin-1"), "a.prom", "a", NOON)
    assert len(scrape.rejects) == 3
    assert _row(scrape.readings[0], "m")["output_tokens"] == 100


@pytest.mark.parametrize("text", ["", "\n", "node_load1 5\n", "<html>no</html>", "DCGM_FI_DEV_GPU_UTIL 5\n"])
def test_a_text_without_a_servers_metric_fails_with_a_remedy(text: str) -> None:
    with pytest.raises(SourceFailedError, match=r"a\.prom: no metric of vLLM.*switched on"):
        parse_scrape(text.encode(), "a.prom", "a", NOON)


def test_a_scrape_without_its_time_asks_for_it() -> None:
    with pytest.raises(OptionMissingError, match="--at"):
        parse_scrape(vllm().encode(), "a.prom", "a", None)


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("vllm-a-2026-11-01T00-00-00Z.prom", "vllm-a"),
        ("vllm-a-20261101T000000Z.prom.gz", "vllm-a"),
        ("2026-11-01T00-00-00Z.prom", "folder"),
        ("node7.txt", "node7"),
    ],
)
def test_a_saved_scrape_is_called_by_its_server(name: str, server: str, tmp_path: Path) -> None:
    assert server_in_name(tmp_path / "folder" / name) == server


@given(st.text(alphabet=st.sampled_from('vllm:_total{}="",le+Inf 0123456789.e-\n#'), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        scrape = parse_scrape((vllm() + text).encode(), "a.prom", "a", NOON)
    except SourceFailedError:
        return
    assert scrape.readings
