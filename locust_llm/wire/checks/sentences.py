"""Cause and fix of what can fail, in one sentence each; none of them holds a key."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from locust_llm.measure.record import RequestRecord
from locust_llm.wire import failures
from locust_llm.wire.checks.examination import Examination, models_url, names_a_model, no_such_path
from locust_llm.wire.checks.key import refused_key
from locust_llm.wire.client import LLMClient

LISTED_MODELS = 8

_VERSION = re.compile(r"/v\d[^/]*")
_TWICE = re.compile(r"(/v\d[^/]*)\1")


def hopeless(record: RequestRecord) -> bool:
    """Whether every other request would fail in the same way."""
    status = record.status
    if status is None:
        return record.transit.sent_ns is None
    refused = 300 <= status < 400 or status in (401, 403, 404, 405)
    return refused or no_such_path(record) or (status in (400, 422) and names_a_model(record))


def diagnose(record: RequestRecord, exam: Examination) -> str:
    """Cause and fix of a failed request."""
    status, error, where = record.status, record.error or "failed", exam.where
    detail = f" ({record.detail.strip()})" if record.detail and record.detail.strip() else ""
    if status is None:
        if record.transit.sent_ns is None:
            return unreachable(exam.client, error, record.detail)
        if error in (failures.STALL, failures.TIMEOUT):
            return f"{where} did not answer ({error}): look after the server, or allow more time (--llm-timeout)"
        return f"cannot reach {where}: {error}{detail}; check --host, that the server runs, and --llm-proxy"
    if status in (401, 403):
        config = exam.client.config
        return f"{where} answered {error}: {refused_key(config.credentials, config.api.access)}{detail}"
    if status in (400, 404, 422) and names_a_model(record):
        return _about_the_model(record, exam) + detail
    if no_such_path(record):
        return _no_such_path(exam, error) + detail
    if 300 <= status < 400:
        return f"{exam.report.url} answers with a {error}, which is not followed: give --host the final address{detail}"
    if status >= 400:
        return f"{where} answered {error}: {_mend(record)}{detail}"
    return _bad_answer(exam, error, detail)


def _mend(record: RequestRecord) -> str:
    said = record.detail or ""
    if "max_completion_tokens" in said:
        return "it wants that field instead: --llm-extra-body '{\"max_completion_tokens\": 256}'"
    if record.status is not None and record.status >= 500:
        return "the fault is the server's, so look into its log"
    return "mend that first"


def _about_the_model(record: RequestRecord, exam: Examination) -> str:
    where, model = exam.where, exam.report.model
    if not model:
        return f"{where} wants a model id, and {shown_models_url(exam.client)} lists none: give --llm-model NAME"
    if record.status == 404:
        return f"{where} does not know the model {model!r}: {_offer(exam)}"
    return f"{where} refuses the model {model!r} ({record.error}): {_offer(exam)}"


def _offer(exam: Examination) -> str:
    models = exam.report.models or exam.contact().models
    return f"--llm-model can be {first_of(models)}" if models else "give --llm-model one that it serves"


def first_of(models: Sequence[str]) -> str:
    """The names of a list as far as they fit a sentence."""
    more = f" and {len(models) - LISTED_MODELS} more" if len(models) > LISTED_MODELS else ""
    return ", ".join(models[:LISTED_MODELS]) + more


def _no_such_path(exam: Examination, error: str) -> str:
    url = exam.report.url
    if error.startswith("unexpected content-type"):
        also = f", and so does {exam.refused_url}" if exam.refused_url else ""
        return f"{url} answers with a page, not an API ({error}){also}: check --host, or a login or proxy in between"
    if exam.refused_url:
        return (
            f"neither {url} nor {exam.refused_url} exists there ({error}): give --host the path that the server's"
            " documentation names, which usually ends in /v1"
        )
    root = exam.client.config.target.root
    if _TWICE.search(urlsplit(root).path):
        return f"{url} does not exist there ({error}): {_twice(root)}"
    if not _VERSION.search(urlsplit(root).path):
        return f"{url} does not exist there ({error}): give --host with its /v1"
    return f"{url} does not exist there ({error}): check the path of --host, which usually ends in /v1"


def _twice(root: str) -> str:
    found = _TWICE.search(root)
    assert found is not None
    return f"{found[1]} stands there twice, so give --host {_TWICE.sub(found[1], root)}"


def _bad_answer(exam: Examination, error: str, detail: str) -> str:
    """A status of 2xx whose body is no answer."""
    url = exam.report.url
    if error.startswith("unexpected content-type"):
        return f"{url} answers with a page, not an API ({error}): check --host, or a login or proxy in between{detail}"
    if error.startswith("in-stream error"):
        return (
            f"{url} answers with status 200 and an error object where the answer should be ({error}): that error is"
            f" the server's or its upstream's, so look there{'' if detail[2:-1] in error else detail}"
        )
    if error == failures.UNEXPECTED:
        return (
            f"{url} answers with JSON that is no answer (no `choices` or their like): check --host and --llm-api, and"
            f" what a gateway in between says{detail}"
        )
    if error == failures.NO_OUTPUT:
        return f"{url} answers with nothing ({error}): look into the server's log{detail}"
    return f"the request to {url} failed: {error}{detail}"


def shown_models_url(client: LLMClient) -> str:
    """Where the models are listed, without its query."""
    return models_url(client).split("?", 1)[0]


# -- the way there -------------------------------------------------------------------------------------------------


def unreachable(client: LLMClient, label: str, detail: str | None) -> str:
    """Why nothing could be sent."""
    where = urlsplit(client.config.url).netloc
    said = f"{label}{f' ({detail.strip()})' if detail and detail.strip() else ''}"
    proxy = proxy_in_effect(client)
    if proxy is not None:
        url, source = proxy
        unset = "" if source == "--llm-proxy" else f", unset {source}"
        return (
            f"cannot reach {where} through the proxy {url} (from {source}): {said}; check that proxy{unset}, or go"
            " direct with --llm-proxy none"
        )
    return f"cannot reach {where}: {said}; {_way_fix(label)}"


def _way_fix(label: str) -> str:
    if label == failures.CONNECT_REFUSED:
        return "nothing listens there: check the port of --host, and that the server runs"
    if label == failures.NAME_NOT_FOUND:
        return "check the name in --host, and that this machine can resolve it"
    if label.startswith(failures.TLS_FAILED):
        if "certificate" not in label:
            return "check whether that port of --host speaks TLS at all, else write http://"
        return "give its authority with --llm-ca-cert FILE, or go without the check with --llm-insecure"
    return "check --host, that the server runs, firewalls, and whether a proxy is needed (--llm-proxy)"


def proxy_in_effect(client: LLMClient) -> tuple[str, str] | None:
    """(the proxy between here and the target, without its credentials; what named it), or None."""
    parts = urlsplit(client.config.url)
    proxy = client.config.proxy_for(parts.scheme, parts.hostname or "")
    if proxy is None:
        return None
    shown = urlsplit(proxy).netloc.rpartition("@")[2]
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            value = os.environ.get(variable, "").strip()
            if value and value.removeprefix("http://") == proxy.removeprefix("http://"):
                return shown, variable
    return shown, "--llm-proxy"
