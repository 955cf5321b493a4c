"""Keys and headers: exactly one credential leaves, and none of it is ever shown.

The order is: the key named by `--llm-api-key-env`, an `Authorization` (or `api-key`, `x-api-key`) given with
`--llm-header`, the usual variable of the API's family (see `access`). A key is stripped of blanks and plain quotes,
the usual leavings of copying; whatever then cannot be a header value stops the run with a sentence without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from locust_llm.wire.access import Access
from locust_llm.wire.target import ConfigurationError

CREDENTIAL_HEADERS = ("authorization", "api-key", "x-api-key")
_TOKEN = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Header lines to send, the secrets among them, and a masked word on where the key came from.

    `left_out` names the credentials that were given too and are not sent, since a request carries only one.
    """

    headers: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    source: str
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Credentials(source={self.source!r})"


def parse_header(line: str) -> tuple[str, str]:
    """`Name: value` as given to `--llm-header`; raises ConfigurationError, which never shows the value."""
    name, colon, value = line.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _TOKEN.match(name):
        raise ConfigurationError(
            "--llm-header takes 'Name: value'; what was given has no valid header name before a colon"
        )
    if name.lower() in _OURS:
        raise ConfigurationError(f"--llm-header cannot set {name}: the client sets it itself")
    if not _legal(value):
        raise ConfigurationError(f"the value of --llm-header {name} holds characters that a header cannot carry")
    return name, value


def clean_key(raw: str, source: str) -> str:
    """A key as it can be sent: blanks and straight quotes around it stripped; raises ConfigurationError."""
    key = raw.strip().strip("'\"").strip()
    if not _legal(key) or any(c.isspace() for c in key):
        raise ConfigurationError(
            f"the key in {source} holds characters that a header cannot carry (a line break, a space or a curly quote"
            " inside it): copy it again"
        )
    return key


def credentials(key_env: str | None, access: Access, header_lines: Sequence[str]) -> Credentials:
    """What to send, given the option's value (None when not given), the API's family and `--llm-header`s.

    Raises ConfigurationError when a variable named on purpose is not set, when a key is not usable, and when it is not
    clear which of two credentials is meant.
    """
    headers = [parse_header(line) for line in header_lines]
    own = [name for name, _ in headers if name.lower() in CREDENTIAL_HEADERS]
    secrets = [value for name, value in headers if _is_secret(name)]
    if len(own) > 1:
        same = len({name.lower() for name in own}) == 1
        which = f"{own[0]} twice" if same else f"two credentials, {' and '.join(own)}"
        raise ConfigurationError(f"--llm-header gives {which}: keep one")
    if key_env is not None and not os.environ.get(key_env, "").strip():
        raise ConfigurationError(f"--llm-api-key-env names {key_env}, which is not set: export it, or name another")
    theirs = {name.lower() for name, _ in headers}
    headers += [(name, value) for name, value in access.headers if name.lower() not in theirs]
    if own and key_env is None:
        usual = tuple(name for name in (access.key, access.token) if name and os.environ.get(name, "").strip())
        return Credentials(tuple(headers), _all_forms(secrets), f"--llm-header {own[0]}", usual)
    source = key_env or _usual_variable(access)
    key = clean_key(os.environ.get(source, ""), source)
    if not key:
        return Credentials(tuple(headers), _all_forms(secrets), "none")
    kept = [(name, value) for name, value in headers if name.lower() not in CREDENTIAL_HEADERS]
    bearer = source == access.token or access.key_header == "Authorization"
    kept.append(("Authorization", f"Bearer {key}") if bearer else (access.key_header, key))
    return Credentials(tuple(kept), _all_forms([*secrets, key]), source, tuple(f"--llm-header {name}" for name in own))


def _usual_variable(access: Access) -> str:
    """The variable that holds the family's key or token; raises ConfigurationError when both are set (D64)."""
    token = bool(access.token and os.environ.get(access.token, "").strip())
    if token and os.environ.get(access.key, "").strip():
        raise ConfigurationError(
            f"{access.token} and {access.key} are both set, and a request can carry only one: unset one, or name the"
            " one to use with --llm-api-key-env"
        )
    return access.token if token else access.key


def _legal(value: str) -> bool:
    return all(c == "\t" or " " <= c <= "~" for c in value)


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return lowered in CREDENTIAL_HEADERS or any(
        word in lowered for word in ("key", "token", "secret", "cookie", "auth")
    )


def _all_forms(secrets: Sequence[str]) -> tuple[str, ...]:
    """Each secret whole, and the part after a scheme word (`Bearer abc` → also `abc`)."""
    forms = {form for secret in secrets for form in (secret, secret.rsplit(" ", 1)[-1]) if len(form) >= 4}
    return tuple(sorted(forms, key=len, reverse=True))
