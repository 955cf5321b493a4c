"""What may be wrong with a key that a server refuses, said without showing any of it."""

from __future__ import annotations

import re
from typing import Final

from locust_llm.wire.access import Access
from locust_llm.wire.credentials import CREDENTIAL_HEADERS, Credentials

SHORT: Final = 16
"""Keys of hosted services are longer."""

_SHORTENED = re.compile(r"\.{2,}|\*{2,}|x{6,}", re.IGNORECASE)
_JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*\Z")
_OAUTH: Final = ("ya29.", "sk-ant-oat", "gho_", "ghu_")


def refused_key(credentials: Credentials, access: Access) -> str:
    """What was sent, and what to try."""
    if credentials.source == "none":
        return f"no key was sent: set {access.key}, or name another variable with --llm-api-key-env"
    said = f"it refuses the key from {credentials.source}{_left_out(credentials)}"
    return f"{said}: {_suspicion(credentials, access)}, or name another variable with --llm-api-key-env"


def _left_out(credentials: Credentials) -> str:
    if not credentials.left_out:
        return ""
    return f" ({' and '.join(credentials.left_out)}, given too, was not sent: a request carries one key)"


def _suspicion(credentials: Credentials, access: Access) -> str:
    """The likeliest cause, with its fix."""
    scheme, key = _sent(credentials)
    if _SHORTENED.search(key):
        return "it looks like the shortened form that pages show, so copy it whole"
    if len(key) < SHORT:
        return f"it has only {len(key)} characters, so see whether it was copied whole"
    if key.startswith(_OAUTH) or _JWT.match(key):
        if access.token and scheme != "Bearer":
            return f"it looks like an OAuth token, not an API key, so put it into {access.token}"
        return "it looks like an OAuth token, where an API key may be wanted, and such tokens run out"
    return "see whether it is that server's, whole and not revoked"


def _sent(credentials: Credentials) -> tuple[str, str]:
    """(scheme, key) of the credential header."""
    for name, value in credentials.headers:
        if name.lower() in CREDENTIAL_HEADERS:
            scheme, space, rest = value.partition(" ")
            return (scheme, rest) if space else ("", value)
    return "", ""
