"""D61, D63: from what people type as the base URL to what is asked, and by which way."""

from __future__ import annotations

import pytest

from locust_llm.wire.anthropic_messages import MESSAGES
from locust_llm.wire.api import Api
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.ollama_chat import OLLAMA_CHAT
from locust_llm.wire.openai_chat import CHAT
from locust_llm.wire.openai_responses import RESPONSES
from locust_llm.wire.target import ConfigurationError, is_local, parse_target, proxy_chooser, without_userinfo

P = "chat/completions"
URLS = [
    ("http://h:8000", f"http://h:8000/v1/{P}"),
    ("http://h:8000/", f"http://h:8000/v1/{P}"),
    ("http://h:8000/v1", f"http://h:8000/v1/{P}"),
    ("http://h:8000/v1/", f"http://h:8000/v1/{P}"),
    (f"http://h:8000/v1/{P}", f"http://h:8000/v1/{P}"),
    (f"http://h:8000/v1/{P}/", f"http://h:8000/v1/{P}"),
    ("http://h:8000/v1/completions", f"http://h:8000/v1/{P}"),
    ("http://h:8000/v1/models", f"http://h:8000/v1/{P}"),
    ("https://g/v1beta/openai", f"https://g/v1beta/openai/{P}"),
    ("https://o/api/v1", f"https://o/api/v1/{P}"),
    (
        "https://a/openai/deployments/d?api-version=1",
        f"https://a/openai/deployments/d/{P}?api-version=1",
    ),
    ("h:8000", f"http://h:8000/v1/{P}"),
    ("localhost:8000/v1", f"http://localhost:8000/v1/{P}"),
    ("  http://h:8000 \n", f"http://h:8000/v1/{P}"),
    ("http://[::1]:8000", f"http://[::1]:8000/v1/{P}"),
    ("HTTP://H:8000/v1", f"http://h:8000/v1/{P}"),
    ("http://h:8000/v1#part", f"http://h:8000/v1/{P}"),
]


@pytest.mark.parametrize(("typed", "asked"), URLS, ids=[row[0] for row in URLS])
def test_d61_base_urls(typed: str, asked: str) -> None:
    assert parse_target(typed).url(P) == asked


FAMILIES = [
    (MESSAGES, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
    (MESSAGES, "https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
    (MESSAGES, "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
    (MESSAGES, "https://api.anthropic.com/v1/messages?beta=true", "https://api.anthropic.com/v1/messages?beta=true"),
    (MESSAGES, "https://g/api/anthropic", "https://g/api/anthropic/v1/messages"),
    (MESSAGES, "https://g/anthropic/v1/", "https://g/anthropic/v1/messages"),
    (MESSAGES, "https://g/v1beta", "https://g/v1beta/messages"),
    (MESSAGES, "https://g/own/messages", "https://g/own/messages"),
    (MESSAGES, "http://h:8000/v1/chat/completions", "http://h:8000/v1/messages"),
    (RESPONSES, "http://h:8000", "http://h:8000/v1/responses"),
    (RESPONSES, "https://g/api/v1/responses", "https://g/api/v1/responses"),
    (EMBEDDINGS, "http://h:8000/v1", "http://h:8000/v1/embeddings"),
    (OLLAMA_CHAT, "http://h:11434", "http://h:11434/api/chat"),
    (OLLAMA_CHAT, "h:11434/", "http://h:11434/api/chat"),
    (OLLAMA_CHAT, "http://h:11434/v1", "http://h:11434/api/chat"),
    (OLLAMA_CHAT, "http://h:11434/api", "http://h:11434/api/chat"),
    (OLLAMA_CHAT, "http://h:11434/api/chat", "http://h:11434/api/chat"),
    (OLLAMA_CHAT, "https://g/ollama", "https://g/ollama/api/chat"),
]


@pytest.mark.parametrize(("api", "typed", "asked"), FAMILIES, ids=[f"{row[0].name} {row[1]}" for row in FAMILIES])
def test_d61_base_urls_of_other_families(api: Api, typed: str, asked: str) -> None:
    assert parse_target(typed, api.access.root).url(api.path) == asked


def test_where_models_are_listed() -> None:
    for api, listed in ((CHAT, "/v1/models"), (MESSAGES, "/v1/models"), (OLLAMA_CHAT, "/api/tags")):
        assert parse_target("http://h", api.access.root).url(api.access.models) == f"http://h{listed}"


NONE = [
    ("ftp://h/v1", "is not an HTTP URL"),
    ("http://", "is not an HTTP URL"),
    ("http://h:eighty/v1", "is not a URL"),
    ("http://h h/v1", "is not an HTTP URL"),
    ("http://[::1/v1", "is not a URL"),
    ("http://u:sk-secret@h/v1", "holds a user name or password"),
    ("http://sk-secret@h/v1", "holds a user name or password"),
    ("ftp://u:sk-secret@h/v1", "is not an HTTP URL"),
    ("http://u:sk-secret@h:eighty/v1", "is not a URL"),
]


@pytest.mark.parametrize(("typed", "says"), NONE, ids=[row[0] for row in NONE])
def test_what_is_no_base_url(typed: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_target(typed)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


SHOWN = [
    ("http://u:p@h/v1", "http://h/v1"),
    ("http://u:p@h@i/v1", "http://i/v1"),
    ("u:p@h:80", "h:80"),
    ("http://h/v1?mail=a@b", "http://h/v1?mail=a@b"),
    ("http://h/a@b", "http://h/a@b"),
    ("sim", "sim"),
    ("", ""),
]


@pytest.mark.parametrize(("typed", "shown"), SHOWN)
def test_without_user_and_password(typed: str, shown: str) -> None:
    assert without_userinfo(typed) == shown


LOCAL = [
    ("localhost", True), ("a.localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True),
    ("10.1.2.3", True), ("192.168.0.4", True), ("172.16.0.1", True), ("169.254.0.1", True), ("fe80::1", True),
    ("8.8.8.8", False), ("api.example.com", False), ("localhost.example.com", False),
]  # fmt: skip


@pytest.mark.parametrize(("host", "local"), LOCAL)
def test_d63_what_is_local(host: str, local: bool) -> None:
    assert is_local(host) is local


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


WAYS = [
    ({}, "", "http", "api.example.com", None),
    ({"HTTP_PROXY": "http://proxy:3128"}, "", "http", "api.example.com", "http://proxy:3128"),
    ({"HTTP_PROXY": "proxy:3128"}, "", "http", "api.example.com", "http://proxy:3128"),
    ({"HTTP_PROXY": "http://proxy:3128"}, "", "https", "api.example.com", None),
    ({"HTTPS_PROXY": "http://proxy:3128"}, "", "https", "api.example.com", "http://proxy:3128"),
    ({"ALL_PROXY": "http://proxy:3128"}, "", "https", "api.example.com", "http://proxy:3128"),
    ({"HTTP_PROXY": "http://proxy:3128"}, "", "http", "127.0.0.1", None),
    ({"HTTP_PROXY": "http://proxy:3128"}, "", "http", "localhost", None),
    ({"HTTP_PROXY": "http://proxy:3128"}, "", "http", "::1", None),
    ({"HTTP_PROXY": "http://proxy:3128"}, "", "http", "10.1.2.3", None),
    ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": ".example.com"}, "", "http", "api.example.com", None),
    ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, "", "http", "api.example.com", None),
    ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "x,fe80::/10"}, "", "http", "api.example.com", "http://proxy:3128"),
    ({"HTTP_PROXY": "http://proxy:3128"}, "none", "http", "api.example.com", None),
    ({}, "http://mine:1", "http", "127.0.0.1", "http://mine:1"),
    ({"HTTP_PROXY": "http://proxy:3128"}, "http://mine:1", "https", "api.example.com", "http://mine:1"),
]  # fmt: skip


@pytest.mark.parametrize(("variables", "option", "scheme", "host", "proxy"), WAYS)
def test_d63_which_proxy(
    no_proxies: pytest.MonkeyPatch, variables: dict[str, str], option: str, scheme: str, host: str, proxy: str | None
) -> None:
    for name, value in variables.items():
        no_proxies.setenv(name, value)
    assert proxy_chooser(option)(scheme, host) == proxy


BROKEN = [
    ({"ALL_PROXY": "socks5://proxy:1080"}, "", "ALL_PROXY"),
    ({"HTTP_PROXY": "http://proxy:notaport"}, "", "HTTP_PROXY"),
    ({}, "https://proxy:1", "--llm-proxy"),
    ({}, "http://u:sk-secret@:0", "--llm-proxy"),
]


@pytest.mark.parametrize(("variables", "option", "names"), BROKEN)
def test_d63_a_proxy_that_cannot_be_used(
    no_proxies: pytest.MonkeyPatch, variables: dict[str, str], option: str, names: str
) -> None:
    """One clear message, not one traceback a request."""
    for name, value in variables.items():
        no_proxies.setenv(name, value)
    with pytest.raises(ConfigurationError) as refused:
        proxy_chooser(option)
    assert names in str(refused.value)
    assert "secret" not in str(refused.value)


OTHER_PLACES = [
    ("http://h:8000", CHAT, ""),
    ("http://h:8000/v1", CHAT, ""),
    ("https://o/api", CHAT, "https://o/api/v1"),
    ("https://o/api/", RESPONSES, "https://o/api/v1"),
    (f"https://o/api/{P}", CHAT, ""),
    ("https://g/v1beta/openai", CHAT, ""),
    ("https://a/openai/deployments/d?api-version=1", CHAT, "https://a/openai/deployments/d/v1"),
    ("https://o/anthropic", MESSAGES, ""),
    ("https://o/ollama", OLLAMA_CHAT, ""),
]


@pytest.mark.parametrize(
    ("typed", "api", "other"), OTHER_PLACES, ids=[f"{row[1].name} {row[0]}" for row in OTHER_PLACES]
)
def test_d61_a_path_without_a_version_can_mean_two_places(typed: str, api: Api, other: str) -> None:
    assert parse_target(typed, api.access.root).other_root == other
