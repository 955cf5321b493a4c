"""Asks an endpoint a few small things, one after the other, to see what the path to it is like."""

from __future__ import annotations

import argparse
from typing import Final

from locust_llm.analysis.calibration_path import Path, path_of
from locust_llm.measure.record import Transit
from locust_llm.wire.api import APIS
from locust_llm.wire.call import Call
from locust_llm.wire.client import ClientConfig, LLMClient, ssl_context
from locust_llm.wire.credentials import credentials
from locust_llm.wire.failures import exception_failure
from locust_llm.wire.preflight import check
from locust_llm.wire.target import ConfigurationError, environment_value, parse_target, proxy_chooser

CONNECTIONS: Final = 5
ANSWER_TOKENS: Final = 32
PROMPT: Final = "Count from one to thirty, in words."


def look_at_path(given: argparse.Namespace) -> Path:
    """What the path of the options is like; raises ConfigurationError with one sentence."""
    config = _config(given)
    model = given.llm_model or environment_value(config.api.access.model) or ""
    client = LLMClient(config)
    try:
        report = check(client, Call(model=model, messages=[{"role": "user", "content": PROMPT}]))
    finally:
        client.close()
    client = LLMClient(config)
    try:
        call = _call(config, report.model)
        records = [client.request(call, name="calibrate") for _ in range(given.requests)]
    finally:
        client.close()
    transits = [records[0].transit, *(_connect(config) for _ in range(CONNECTIONS - 1))]
    proxy = config.proxy_for(config.url.partition(":")[0], config.target.host) is not None
    return path_of(report.url, report.model, proxy=proxy, connections=transits, records=records)


def _config(given: argparse.Namespace) -> ClientConfig:
    api = APIS[given.llm_api]
    return ClientConfig(
        api=api,
        target=parse_target(given.host, api.access.root),
        credentials=credentials(given.llm_api_key_env, api.access, given.llm_header),
        context=ssl_context(given.llm_ca_cert, insecure=given.llm_insecure),
        proxy_for=proxy_chooser(given.llm_proxy),
    )


def _call(config: ClientConfig, model: str) -> Call:
    if config.api.name in ("completions", "embeddings"):
        return Call(model=model, prompt=PROMPT, max_tokens=ANSWER_TOKENS)
    return Call(model=model, messages=[{"role": "user", "content": PROMPT}], max_tokens=ANSWER_TOKENS)


def _connect(config: ClientConfig) -> Transit:
    """How one more connection came about; asks for the list of models, which costs the server no work."""
    client = LLMClient(config)
    url = config.target.url(config.api.access.models)
    try:
        transit: Transit = client.http.get(url, timeout=config.connect_timeout_s).extensions["transit"]
    except Exception as error:
        label, _ = exception_failure(error, config.credentials.secrets)
        raise ConfigurationError(f"{config.target.host} took one connection and not the next: {label}") from None
    finally:
        client.close()
    return transit
