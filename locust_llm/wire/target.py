"""Where requests go: from what people type as the base URL to the URL that is asked, and the proxy in between."""

from __future__ import annotations

import ipaddress
import os
import re
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from locust_llm.wire.access import OPENAI, ROOT

SIM = "sim"
"""What to type as the host to get the embedded engine."""

_VERSION = re.compile(r"/v\d[^/]*(/|\Z)")

API_PATHS = ("chat/completions", "completions", "responses", "messages", "embeddings", "models", "api/chat")


class ConfigurationError(ValueError):
    """Something the user set cannot work. The message is one sentence that says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A base URL that has been understood: `root` ends in the API's version segment, `query` is kept as typed.

    `other_root` is where the API may stand as well, since a path without a version can mean both (some gateways want
    `/api/chat/completions`, some `/api/v1/chat/completions`); '' where there is no doubt.
    """

    root: str
    query: str = ""
    other_root: str = ""

    def url(self, path: str) -> str:
        """The URL of an API path such as `chat/completions`."""
        return f"{self.root}/{path}" + (f"?{self.query}" if self.query else "")

    @property
    def host(self) -> str:
        """The host name alone."""
        return urlsplit(self.root).hostname or ""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.root)
        return f"{parts.scheme}://{parts.netloc}"


def parse_target(typed: str, root: Callable[[str], str] = OPENAI.root) -> Target:
    """Understand a base URL as people type it; raises ConfigurationError.

    With or without `/v1`, a trailing slash, blanks or the whole path of an endpoint; a host alone gets `/v1`, any
    other path is taken as it is (`/v1beta/openai`, `/api/v1`, an Azure deployment with its query). `root` is the rule
    of the API's family (see `access`), for all but the whole path of an endpoint.
    """
    text = typed.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(
            f"the host {_shown(typed)!r} is not a URL ({error}): give one like {_EXAMPLE}"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in text):
        raise ConfigurationError(f"the host {_shown(typed)!r} is not an HTTP URL: give one like {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            "the host holds a user name or password, which would end up in pages and files: take it out of the URL and"
            " put the key in OPENAI_API_KEY, or the credentials in --llm-header 'Authorization: Basic …'"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    path = parts.path.rstrip("/")
    for known in API_PATHS:
        if path.endswith("/" + known):
            path = path.removesuffix("/" + known)
            other = ""
            break
    else:
        other = path + ROOT if path and root is OPENAI.root and not _VERSION.search(path) else ""
        path = root(path)
    made = [urlunsplit((parts.scheme, netloc, each, "", "")) for each in (path, other)]
    return Target(made[0], parts.query, made[1] if other else "")


def without_userinfo(typed: str) -> str:
    """A base URL as typed, but for a user name and password in it."""
    scheme, separator, rest = typed.rpartition("://")
    authority, slash, path = rest.partition("/")
    return scheme + separator + authority.rpartition("@")[2] + slash + path


_EXAMPLE = "https://api.example.com/v1"


def _shown(typed: str) -> str:
    """What may be shown of a typed URL: nothing before an @."""
    return typed.strip().rsplit("@", 1)[-1]


def is_local(host: str) -> bool:
    """Whether `host` is loopback or a private address, which proxy variables must not capture."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback or address.is_private or address.is_link_local


def proxy_chooser(option: str) -> Callable[[str, str], str | None]:
    """The function (scheme, host) -> proxy URL or None for `--llm-proxy`; raises ConfigurationError.

    A URL: always that proxy. `none`: never one. Empty: the environment's HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
    NO_PROXY, which never apply to loopback and private addresses.
    """
    if option.strip().lower() == "none":
        return lambda scheme, host: None
    if option.strip():
        fixed = _checked_proxy(option.strip(), "--llm-proxy")
        return lambda scheme, host: fixed
    found = urllib.request.getproxies()
    usable = {
        scheme: _checked_proxy(found[key], key.upper() + "_PROXY")
        for scheme in ("http", "https")
        if (key := scheme if scheme in found else "all") in found
    }

    def choose(scheme: str, host: str) -> str | None:
        if scheme not in usable or is_local(host) or urllib.request.proxy_bypass(host):
            return None
        return usable[scheme]

    return choose


def _checked_proxy(url: str, source: str) -> str:
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        good = parts.scheme == "http" and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ConfigurationError(
            f"{source} is not the URL of an HTTP proxy (only http://host:port can be used): correct it, or go direct"
            " with --llm-proxy none"
        )
    return url


def environment_value(*names: str) -> str | None:
    """The first of these environment variables that is set to something."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return value
    return None
