"""How a target is asked, by the options: the same for a test's users and for `locust-llm doctor`."""

from __future__ import annotations

from locust_llm.plugin.settings import Settings
from locust_llm.wire.api import APIS
from locust_llm.wire.call import Call
from locust_llm.wire.client import ClientConfig, Quirks, ssl_context
from locust_llm.wire.credentials import credentials
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.target import ConfigurationError, environment_value, parse_target, proxy_chooser


def client_config(settings: Settings, api: str, url: str, quirks: Quirks) -> ClientConfig:
    """The client configuration for a base URL as typed; raises ConfigurationError."""
    access = APIS[api].access
    if not url:
        raise ConfigurationError(f"no endpoint: give --host URL, set {access.base_url}, or use --host sim")
    return ClientConfig(
        api=APIS[api],
        target=parse_target(url, access.root),
        credentials=credentials(settings.api_key_env or None, access, settings.header),
        context=ssl_context(settings.ca_cert, insecure=settings.insecure),
        proxy_for=proxy_chooser(settings.proxy),
        connect_timeout_s=settings.connect_timeout,
        stall_timeout_s=settings.stall_timeout,
        total_timeout_s=settings.timeout,
        quirks=quirks,
    )


def call_like(settings: Settings, api: str, model: str) -> Call:
    """What every request asks for, but for its prompt."""
    if api == EMBEDDINGS.name:
        return Call(model=model, extra=settings.extra_body, stream=False)
    extra = dict(settings.extra_body)
    return Call(
        model=model,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature if settings.temperature >= 0 else None,
        seed=settings.seed,
        ignore_eos=settings.ignore_eos,
        stream=bool(extra.pop("stream", not settings.no_stream)),
        extra=extra,
    )


def named_model(settings: Settings, api: str) -> str:
    """The model that options or the family's variable name; '' when none does."""
    return settings.model or environment_value(APIS[api].access.model) or ""
