"""D62, D64: which credential leaves, and that none is ever shown."""

from __future__ import annotations

import pytest

from locust_llm.wire.credentials import Credentials, credentials
from locust_llm.wire.target import ConfigurationError

USUAL = "OPENAI_API_KEY"


def make(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    key_env: str | None = None,
    headers: tuple[str, ...] = (),
) -> Credentials:
    for name in (USUAL, "MINE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return credentials(key_env, USUAL, headers)


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
