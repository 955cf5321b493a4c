"""What a refused key looks like is said, and nothing of it is shown."""

from __future__ import annotations

import pytest

from locust_llm.wire.access import ANTHROPIC, OPENAI, Access
from locust_llm.wire.checks.key import refused_key
from locust_llm.wire.credentials import credentials

SOUND = "sk-proj-SECRETSECRETSECRETSECRET"
JWT = "eyJhbGciOiJSECRET.eyJzdWIiOiJSECRET.SECRETSECRET"
KEYS = [
    ("sound", SOUND, OPENAI, "whole and not revoked"),
    ("incomplete", "sk-SECRET", OPENAI, "it has only 9 characters"),
    ("shortened by dots", "sk-proj-SECRET...SECR", OPENAI, "shortened form"),
    ("shortened by stars", "sk-proj-SECRET****SECR", OPENAI, "shortened form"),
    ("a placeholder", "sk-SECRETxxxxxxxxxxxxxxxx", OPENAI, "shortened form"),
    ("a Google token", "ya29.SECRETSECRETSECRET", OPENAI, "looks like an OAuth token, where an API key"),
    ("a JWT", JWT, OPENAI, "looks like an OAuth token, where an API key"),
    ("D64: an OAuth token as Anthropic's key", "sk-ant-oat01-SECRETSECRET", ANTHROPIC, "into ANTHROPIC_AUTH_TOKEN"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "access", "says"), [row[1:] for row in KEYS], ids=[row[0] for row in KEYS])
def test_a_suspicion(monkeypatch: pytest.MonkeyPatch, key: str, access: Access, says: str) -> None:
    monkeypatch.delenv(access.token or "NO_TOKEN", raising=False)
    monkeypatch.setenv(access.key, key)
    sentence = refused_key(credentials(None, access, ()), access)
    assert f"it refuses the key from {access.key}: " in sentence
    assert says in sentence
    assert "SECRET" not in sentence


def test_a_token_that_is_sent_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-ant-oat01-SECRETSECRET")
    assert "such tokens run out" in refused_key(credentials(None, ANTHROPIC, ()), ANTHROPIC)


CONFLICTS = [
    ("a header beside the variable", None, "--llm-header Authorization (OPENAI_API_KEY, given too, was not sent"),
    ("a named variable beside a header", "MINE", "MINE (--llm-header Authorization, given too, was not sent"),
]


@pytest.mark.parametrize(("named", "says"), [row[1:] for row in CONFLICTS], ids=[row[0] for row in CONFLICTS])
def test_d64_two_credentials(monkeypatch: pytest.MonkeyPatch, named: str | None, says: str) -> None:
    for variable in ("OPENAI_API_KEY", "MINE"):
        monkeypatch.setenv(variable, SOUND)
    given = credentials(named, OPENAI, [f"Authorization: Bearer {SOUND}"])
    assert says in refused_key(given, OPENAI)
