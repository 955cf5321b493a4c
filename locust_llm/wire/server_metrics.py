"""A server's own Prometheus page (`/metrics`): fetched over our transport, read in the names of four engines.

A page may hold thousands of lines, and reading them all once a second would keep streams waiting. So only the lines of
metrics that we know are handed to prometheus-client's parser. Several engines behind one page (data-parallel ranks) are
added up; of their KV caches the fullest counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from locust_llm.measure.server_sample import ServerSample
from locust_llm.wire.target import ConfigurationError

MOST_BYTES: Final = 8_000_000
TIMEOUT_S: Final = 5.0


class PageError(Exception):
    """The page could not be had, or is not an engine's; its text says which, in a few words."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Which of an engine's metrics hold what: names in order of preference, the first that is there counts."""

    name: str
    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv_use: tuple[str, ...] = ()
    preemptions: tuple[str, ...] = ()
    prompt_tokens: tuple[str, ...] = ()
    cached_tokens: tuple[str, ...] = ()
    ttft: str = ""  # histograms, of which `_sum` and `_count` are read; "": it has none
    queue: str = ""
    prefill: str = ""

    @property
    def names(self) -> Iterable[str]:
        """All of them."""
        yield from (name for kind in _KINDS for name in getattr(self, kind))
        for histogram in (self.ttft, self.queue, self.prefill):
            if histogram:
                yield from (f"{histogram}_sum", f"{histogram}_count")


_KINDS: Final = ("running", "waiting", "kv_use", "preemptions", "prompt_tokens", "cached_tokens")

ENGINES: Final = (
    Engine(
        "vLLM",
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_use=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        preemptions=("vllm:num_preemptions_total",),
        prompt_tokens=("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        cached_tokens=("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        ttft="vllm:time_to_first_token_seconds",
        queue="vllm:request_queue_time_seconds",
        prefill="vllm:request_prefill_time_seconds",
    ),
    Engine(
        "SGLang",
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_use=("sglang:token_usage",),
        preemptions=("sglang:num_retracted_requests_total",),
        prompt_tokens=("sglang:prompt_tokens_total",),
        cached_tokens=("sglang:cached_tokens_total",),
        ttft="sglang:time_to_first_token_seconds",
        queue="sglang:queue_time_seconds",
    ),
    Engine(
        "llama.cpp",
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        kv_use=("llamacpp:kv_cache_usage_ratio",),
        prompt_tokens=("llamacpp:prompt_tokens_total",),
        cached_tokens=("llamacpp:prompt_tokens_cached_total",),
    ),
    Engine("TGI", running=("tgi_batch_current_size",), waiting=("tgi_queue_size",)),
)
_KNOWN: Final = re.compile("^(?:" + "|".join(re.escape(name) for e in ENGINES for name in e.names) + r")(?=[{\s])")


def metrics_url(typed: str, origin: str) -> str:
    """The URL of `--llm-server-metrics`: whole, or a path on the target's `origin`; raises ConfigurationError."""
    text = typed.strip()
    try:
        parts = urlsplit(f"{origin}{text}" if text.startswith("/") else text if "://" in text else f"http://{text}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or any(c.isspace() for c in text):
        raise ConfigurationError(
            f"--llm-server-metrics takes a URL such as http://127.0.0.1:8000/metrics, or a path, not {text[:80]!r}"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("--llm-server-metrics holds a user name or password: take it out of the URL")
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/metrics", parts.query, ""))


def fetch(http: Any, url: str) -> ServerSample:
    """Get and read the page over an httpx client; raises PageError, and what the transport raises."""
    with http.stream("GET", url, timeout=TIMEOUT_S) as response:
        if response.status_code != 200:
            raise PageError(f"HTTP {response.status_code}")
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_BYTES:
                raise PageError(f"a page of more than {MOST_BYTES / 1e6:.0f} MB")
    return read_page(content.decode("utf-8", "replace"))


def read_page(text: str) -> ServerSample:
    """What a page says; raises PageError when it has none of the metrics that we know."""
    found = _values(line for line in text.splitlines() if _KNOWN.match(line))
    for engine in ENGINES:
        if any(name in found for name in (*engine.running, *engine.waiting)):
            return _sample(engine, found)
    raise PageError("it has no metrics of vLLM, SGLang, llama.cpp or TGI")


def _values(lines: Iterable[str]) -> dict[str, list[float]]:
    """The values of each name, one for each engine behind the page."""
    # costs 60 ms to import, and few runs need it
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if not sample.labels.get("priority"):  # SGLang tells each priority, and all of them together
                    found.setdefault(sample.name, []).append(float(sample.value))
    except ValueError as error:
        raise PageError(f"it cannot be read as Prometheus text ({error})") from None
    return {name: [value for value in values if value == value] for name, values in found.items()}


def _sample(engine: Engine, found: Mapping[str, list[float]]) -> ServerSample:
    def told(names: tuple[str, ...], together: Callable[[list[float]], float] = sum) -> float | None:
        return next((together(found[name]) for name in names if found.get(name)), None)

    prompt_tokens, cached_tokens = told(engine.prompt_tokens), told(engine.cached_tokens)
    if engine.name == "llama.cpp" and prompt_tokens is not None and cached_tokens is not None:
        prompt_tokens += cached_tokens  # its prompt_tokens_total counts only those that were computed
    return ServerSample(
        engine=engine.name,
        running=told(engine.running),
        waiting=told(engine.waiting),
        kv_use=told(engine.kv_use, max),
        preemptions=told(engine.preemptions),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        ttft_s=told((f"{engine.ttft}_sum",)),
        ttft_n=told((f"{engine.ttft}_count",)),
        queue_s=told((f"{engine.queue}_sum",)),
        queue_n=told((f"{engine.queue}_count",)),
        prefill_s=told((f"{engine.prefill}_sum",)),
        prefill_n=told((f"{engine.prefill}_count",)),
    )
