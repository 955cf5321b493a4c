"""The servers' own metrics: four engines' names, foreign pages, URLs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from locust_llm.measure.server_sample import ServerSample
from locust_llm.wire.server_metrics import MOST_BYTES, PageError, fetch, metrics_url, read_page
from locust_llm.wire.target import ConfigurationError

VLLM = """
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 16.0
vllm:num_requests_running{engine="1",model_name="m"} 8.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.75
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 400.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 100.0
vllm:prefix_cache_hits_created{engine="0",model_name="m"} 1.79e+09
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="m"} 0.0
python_gc_objects_collected_total{generation="0"} 9.0
"""

VLLM_TIMES = """
vllm:num_requests_running{engine="0",model_name="m"} 0.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="m"} 0.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 22.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 22.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 14.5
vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 2.0
vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 0.5
vllm:time_to_first_token_seconds_created{engine="0",model_name="m"} 1.79e+09
vllm:request_queue_time_seconds_count{engine="0",model_name="m"} 21.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 0.25
vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 20.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 14.0
"""

SGLANG_TIMES = """
sglang:num_running_reqs{model_name="m"} 162.0
# TYPE sglang:time_to_first_token_seconds histogram
sglang:time_to_first_token_seconds_sum{model_name="m"} 2.351898e+06
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 11008.0
sglang:time_to_first_token_seconds_count{model_name="m"} 11008.0
sglang:queue_time_seconds_bucket{le="1.0",model_name="m"} 7.0
sglang:queue_time_seconds_sum{model_name="m"} 4.5
sglang:queue_time_seconds_count{model_name="m"} 10.0
"""

SGLANG = """
sglang:num_running_reqs{model_name="m",tp_rank="0"} 5.0
sglang:num_queue_reqs{model_name="m",tp_rank="0",priority=""} 7.0
sglang:num_queue_reqs{model_name="m",tp_rank="0",priority="1"} 7.0
sglang:token_usage{model_name="m"} 0.28
sglang:num_retracted_requests_total{model_name="m"} 1.0
sglang:prompt_tokens_total{model_name="m"} 1000.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 200.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 50.0
"""

LLAMA = """
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 150
llamacpp:prompt_tokens_cached_total 354
llamacpp:prompt_tokens_seconds 7104.63
llamacpp:requests_processing 4
llamacpp:requests_deferred 12
"""

# id, page, what it says
PAGES = [
    ("vLLM of two ranks", VLLM, ServerSample("vLLM", 24.0, 3.0, 0.75, 2.0, 400.0, 100.0)),
    ("SGLang", SGLANG, ServerSample("SGLang", 5.0, 7.0, 0.28, 1.0, 1000.0, 250.0)),
    ("vLLM's times of two ranks", VLLM_TIMES, ServerSample(
        "vLLM", 0.0, ttft_s=15.0, ttft_n=24.0, queue_s=0.25, queue_n=21.0, prefill_s=14.0, prefill_n=20.0)),
    ("SGLang's times", SGLANG_TIMES, ServerSample(
        "SGLang", 162.0, ttft_s=2.351898e6, ttft_n=11008.0, queue_s=4.5, queue_n=10.0)),
    ("llama.cpp", LLAMA, ServerSample("llama.cpp", 4.0, 12.0, None, None, 504.0, 354.0)),
    ("TGI", "tgi_batch_current_size 3\ntgi_queue_size 9\n", ServerSample("TGI", 3.0, 9.0)),
    ("vLLM before its engine V1", "vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0.4\n",
     ServerSample("vLLM", 1.0, None, 0.4)),
    ("a value that is none", "vllm:num_requests_running NaN\nvllm:num_requests_waiting 2\n",
     ServerSample("vLLM", None, 2.0)),
    ("lines end in CR LF", LLAMA.replace("\n", "\r\n"), ServerSample("llama.cpp", 4.0, 12.0, None, None, 504.0, 354.0)),
]  # fmt: skip


@pytest.mark.parametrize(("page", "says"), [case[1:] for case in PAGES], ids=[case[0] for case in PAGES])
def test_a_page(page: str, says: ServerSample) -> None:
    assert read_page(page) == says


FOREIGN = [
    ("nothing", ""),
    ("HTML", "<!doctype html><title>404</title>"),
    ("JSON", '{"error":{"code":501,"message":"This server does not support metrics endpoint."}}'),
    ("another program's", "node_load1 0.5\nprocess_cpu_seconds_total 3\n"),
    ("known names, unreadable", "vllm:num_requests_running{engine=0 1\n"),
    ("bytes of anything", "\x00\ud800 vllm:num_requests_running\n"),
]


@pytest.mark.parametrize("page", [case[1] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_a_foreign_page(page: str) -> None:
    with pytest.raises(PageError):
        read_page(page)


@pytest.mark.parametrize(
    ("name", "engine"), [("vllm-tiny", "vLLM"), ("llamacpp-tiny", "llama.cpp")], ids=["vllm", "llamacpp"]
)
def test_a_captured_page(name: str, engine: str) -> None:
    """Idle servers, after a few requests: nothing runs, nothing waits."""
    sample = read_page((Path(__file__).parents[1] / "data" / "metrics" / f"{name}.txt").read_text())
    assert (sample.engine, sample.running, sample.waiting) == (engine, 0.0, 0.0)
    assert sample.prompt_tokens is not None
    assert sample.prompt_tokens > 400
    assert (sample.kv_use is not None, sample.preemptions is not None) == (engine == "vLLM",) * 2
    assert (sample.ttft_n, sample.queue_n, sample.prefill_n) == ((22.0,) * 3 if engine == "vLLM" else (None,) * 3)


def client_of(status: int, content: bytes) -> httpx.Client:
    return httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(status, content=content)))


def test_a_page_is_fetched() -> None:
    with client_of(200, LLAMA.encode()) as http:
        assert fetch(http, "http://h/metrics").waiting == 12.0
    with client_of(404, LLAMA.encode()) as http, pytest.raises(PageError, match="HTTP 404"):
        fetch(http, "http://h/metrics")
    with client_of(200, b"x" * (MOST_BYTES + 1)) as http, pytest.raises(PageError, match="more than 8 MB"):
        fetch(http, "http://h/metrics")


# id, typed, URL
URLS = [
    ("whole", "http://10.0.0.1:8000/metrics", "http://10.0.0.1:8000/metrics"),
    ("without a path", "http://10.0.0.1:8000", "http://10.0.0.1:8000/metrics"),
    ("without a scheme", "gpu1:8000/metrics", "http://gpu1:8000/metrics"),
    ("a path on the target", "/metrics", "https://api.example:8443/metrics"),
    ("with a query", "http://h/federate?match[]=x", "http://h/federate?match[]=x"),
]


@pytest.mark.parametrize(("typed", "url"), [case[1:] for case in URLS], ids=[case[0] for case in URLS])
def test_a_url(typed: str, url: str) -> None:
    assert metrics_url(typed, "https://api.example:8443") == url


@pytest.mark.parametrize("typed", ["ftp://h/metrics", "http://", "http://h:x/", "h h", "http://me:secret@h/metrics"])
def test_what_is_no_url(typed: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        metrics_url(typed, "http://h")
    assert "secret" not in str(caught.value)
