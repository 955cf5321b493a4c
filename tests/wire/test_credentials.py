"""D62, D64: which credential leaves, and that none is ever shown."""

from __future__ import annotations

import pytest

from locust_llm.wire.access import ANTHROPIC, OLLAMA, OPENAI, Access
from locust_llm.wire.credentials import Credentials, credentials
from locust_llm.wire.target import ConfigurationError

USUAL = "OPENAI_API_KEY"
ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
ANTHROPIC_TOKEN = "ANTHROPIC_AUTH_TOKEN"


def make(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    key_env: str | None = None,
    headers: tuple[str, ...] = (),
    access: Access = OPENAI,
) -> Credentials:
    for name in (USUAL, "MINE", ANTHROPIC_KEY, ANTHROPIC_TOKEN, "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return credentials(key_env, access, headers)


B = "Authorization: Bearer B-secret"
SENT = [
    ("no key", {}, None, (), {}, "none"),
    ("the usual variable", {USUAL: "sk-1"}, None, (), {"Authorization": "Bearer sk-1"}, USUAL),
    ("another one", {USUAL: "sk-1", "MINE": "sk-2"}, "MINE", (), {"Authorization": "Bearer sk-2"}, "MINE"),
    ("a header over the usual variable", {USUAL: "sk-1"}, None, (B,), {"Authorization": "Bearer B-secret"},
     "--llm-header Authorization"),
    ("a named variable over a header", {"MINE": "sk-2"}, "MINE", (B, "X-Team: a"),
     {"X-Team": "a", "Authorization": "Bearer sk-2"}, "MINE"),
    ("Azure's header", {USUAL: "sk-1"}, None, ("api-key: sk-3",), {"api-key": "sk-3"}, "--llm-header api-key"),
    ("D62: a newline at its end", {USUAL: "sk-1\n"}, None, (), {"Authorization": "Bearer sk-1"}, USUAL),
    ("D62: blanks", {USUAL: "  sk-1 "}, None, (), {"Authorization": "Bearer sk-1"}, USUAL),
    ("D62: quotes", {USUAL: '"sk-1"'}, None, (), {"Authorization": "Bearer sk-1"}, USUAL),
    ("D62: empty", {USUAL: ""}, None, (), {}, "none"),
    ("D62: only quotes", {USUAL: "''"}, None, (), {}, "none"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "key_env", "headers", "sent", "source"), [row[1:] for row in SENT], ids=[row[0] for row in SENT]
)
def test_exactly_one_credential_is_sent(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    key_env: str | None,
    headers: tuple[str, ...],
    sent: dict[str, str],
    source: str,
) -> None:
    made = make(monkeypatch, variables, key_env, headers)
    assert (dict(made.headers), len(made.headers), made.source) == (sent, len(sent), source)
    for value in (*variables.values(), *headers):
        words = [word for word in value.replace('"', " ").replace("'", " ").split() if word.startswith(("sk-", "B-"))]
        used = [word for word in words if any(word in text for text in sent.values())]
        assert set(used) <= set(made.secrets)
        assert not [word for word in words if word in repr(made)]


REFUSED = [
    ("a newline inside", {USUAL: "sk-SECRET\nX: y"}, None, ()),
    ("curly quotes", {USUAL: "“sk-SECRET”"}, None, ()),
    ("a blank inside", {USUAL: "sk SECRET"}, None, ()),
    ("a header without a colon", {}, None, ("sk-SECRET",)),
    ("a header with a line break", {}, None, ("X-Key: sk-SECRET\r\nA: b",)),
    ("a header name with a blank", {}, None, ("sk SECRET: x",)),
    ("a header of ours", {}, None, ("Host: SECRET",)),
    ("two of one name", {}, None, ("Authorization: SECRET", "authorization: SECRET2")),
    ("D64: two of different names", {}, None, ("Authorization: SECRET", "x-api-key: SECRET2")),
]


@pytest.mark.parametrize(
    ("variables", "key_env", "headers"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_d62_what_cannot_be_sent_is_not_shown_either(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], key_env: str | None, headers: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(monkeypatch, variables, key_env, headers)
    assert "SECRET" not in str(refused.value)


def test_a_variable_named_on_purpose_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="names MINE, which is not set"):
        make(monkeypatch, {USUAL: "sk-1"}, "MINE")


# -- Anthropic, Ollama -----------------------------------------------------------------------------------------------

VERSION = {"anthropic-version": "2023-06-01"}
BOTH = {ANTHROPIC_KEY: "sk-1", ANTHROPIC_TOKEN: "tok-2"}
ANTHROPIC_SENT = [
    ("nothing", {USUAL: "sk-openai"}, None, (), VERSION, "none"),
    ("a key", {ANTHROPIC_KEY: "sk-1"}, None, (), VERSION | {"x-api-key": "sk-1"}, ANTHROPIC_KEY),
    ("a token", {ANTHROPIC_TOKEN: "tok-2"}, None, (), VERSION | {"Authorization": "Bearer tok-2"}, ANTHROPIC_TOKEN),
    ("an empty key beside a token", BOTH | {ANTHROPIC_KEY: " "}, None, (),
     VERSION | {"Authorization": "Bearer tok-2"}, ANTHROPIC_TOKEN),
    ("both, and the key is named", BOTH, ANTHROPIC_KEY, (), VERSION | {"x-api-key": "sk-1"}, ANTHROPIC_KEY),
    ("both, and the token is named", BOTH, ANTHROPIC_TOKEN, (),
     VERSION | {"Authorization": "Bearer tok-2"}, ANTHROPIC_TOKEN),
    ("both, and another is named", BOTH | {"MINE": "sk-3"}, "MINE", (), VERSION | {"x-api-key": "sk-3"}, "MINE"),
    ("both, and a header", BOTH, None, (B,), VERSION | {"Authorization": "Bearer B-secret"},
     "--llm-header Authorization"),
    ("another version", {ANTHROPIC_KEY: "sk-1"}, None, ("Anthropic-Version: 2099-01-01",),
     {"Anthropic-Version": "2099-01-01", "x-api-key": "sk-1"}, ANTHROPIC_KEY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "key_env", "headers", "sent", "source"),
    [row[1:] for row in ANTHROPIC_SENT],
    ids=[row[0] for row in ANTHROPIC_SENT],
)
def test_d64_anthropic_gets_one_credential_and_its_version(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    key_env: str | None,
    headers: tuple[str, ...],
    sent: dict[str, str],
    source: str,
) -> None:
    made = make(monkeypatch, variables, key_env, headers, ANTHROPIC)
    assert (dict(made.headers), len(made.headers), made.source) == (sent, len(sent), source)


def test_d64_a_key_and_a_token_at_once_are_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(monkeypatch, BOTH, access=ANTHROPIC)
    assert all(name in str(refused.value) for name in (*BOTH, "--llm-api-key-env"))
    assert not any(value in str(refused.value) for value in BOTH.values())


def test_the_key_of_one_family_never_goes_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(monkeypatch, {ANTHROPIC_KEY: "sk-1", ANTHROPIC_TOKEN: "tok-2"}).source == "none"
    assert make(monkeypatch, {USUAL: "sk-1", ANTHROPIC_KEY: "sk-2"}, access=OLLAMA).source == "none"
    assert dict(make(monkeypatch, {"OLLAMA_API_KEY": "k-1"}, access=OLLAMA).headers) == {"Authorization": "Bearer k-1"}
