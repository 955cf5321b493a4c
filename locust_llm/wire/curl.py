"""A `curl` command that asks what a client asks, with variables where the secrets are."""

from __future__ import annotations

import re
import shlex
import ssl
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from locust_llm.wire import failures
from locust_llm.wire.call import Call
from locust_llm.wire.client import LLMClient
from locust_llm.wire.credentials import CREDENTIAL_HEADERS, Credentials

_SECRET_FIELD = re.compile(r"key|token|secret|passw|sig", re.IGNORECASE)


def curl_line(client: LLMClient, call: Call, *, ca_cert: str = "") -> str:
    """One command for a POSIX shell; `ca_cert` is the file of `--llm-ca-cert`."""
    config = client.config
    credentials = config.credentials
    words = ["curl", "-sS", *(["-N"] if call.stream else []), *_way(client, ca_cert), shlex.quote(_shown(config.url))]
    words += ["-H", "'Content-Type: application/json'"]
    for name, value in credentials.headers:
        words += ["-H", _header(name, value, credentials)]
    body = failures.redact(config.api.encode(call).decode(errors="replace"), credentials.secrets)
    return " ".join([*words, "-d", shlex.quote(body)])


def _way(client: LLMClient, ca_cert: str) -> list[str]:
    """The options for proxy and TLS: curl, unlike us, lets the proxy variables capture loopback addresses."""
    parts = urlsplit(client.config.url)
    proxy = client.config.proxy_for(parts.scheme, parts.hostname or "")
    words = ["--noproxy", "'*'"] if proxy is None else ["--proxy", shlex.quote(_without_userinfo(proxy))]
    if parts.scheme == "https":
        if client.config.context().verify_mode == ssl.CERT_NONE:
            words.append("--insecure")
        elif ca_cert:
            words += ["--cacert", shlex.quote(ca_cert)]
    return words


def _without_userinfo(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _shown(url: str) -> str:
    """The URL, with `***` for what looks like a secret in its query."""
    parts = urlsplit(url)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    if not any(_SECRET_FIELD.search(name) for name, _ in fields):
        return url
    told = urlencode([(name, "***" if _SECRET_FIELD.search(name) else value) for name, value in fields], safe="*")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, told, ""))


def _header(name: str, value: str, credentials: Credentials) -> str:
    """A header as a shell word. The key is its variable; another secret is a variable named like its header."""
    if not any(secret in value for secret in credentials.secrets):
        return shlex.quote(f"{name}: {value}")
    own = name.lower() in CREDENTIAL_HEADERS and not credentials.source.startswith("--")
    variable = credentials.source if own else re.sub(r"\W", "_", name).upper()
    scheme = "Bearer " if own and value.startswith("Bearer ") else ""
    return f'"{name}: {scheme}${variable}"'
