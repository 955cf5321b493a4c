"""How the servers of one family of APIs are reached: variables, the header of the key, where paths begin."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ROOT: Final = "/v1"
_VERSION: Final = re.compile(r"/v\d[^/]*\Z")


@dataclass(frozen=True, slots=True)
class Access:
    """One family. The first fields name environment variables; '' where the family has none.

    A key goes into `key_header` (as Bearer when that is Authorization), an OAuth token always into Authorization.
    `headers` are sent with every request. `root` makes the path under which the APIs stand of the one that was typed,
    which has no slash at its end; `models` is where the models are listed.
    """

    base_url: str
    key: str
    model: str
    token: str = ""
    key_header: str = "Authorization"
    headers: tuple[tuple[str, str], ...] = ()
    root: Callable[[str], str] = lambda typed: typed or ROOT
    models: str = "models"


def _anthropic_root(typed: str) -> str:
    """As Anthropic's own clients have it, the base URL is without the version: `/anthropic` → `/anthropic/v1`."""
    return typed if _VERSION.search(typed) else typed + ROOT


def _ollama_root(typed: str) -> str:
    """Ollama's own API stands beside `/v1`, where it speaks like OpenAI."""
    return typed.removesuffix(ROOT).removesuffix("/api")


OPENAI: Final = Access("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL")
ANTHROPIC: Final = Access(
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_MODEL",
    token="ANTHROPIC_AUTH_TOKEN",
    key_header="x-api-key",
    headers=(("anthropic-version", "2023-06-01"),),
    root=_anthropic_root,
)
OLLAMA: Final = Access("OLLAMA_HOST", "OLLAMA_API_KEY", "", root=_ollama_root, models="api/tags")
