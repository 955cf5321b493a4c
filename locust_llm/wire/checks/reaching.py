"""The stages on the way to the server: proxy, name, connection, TLS, key, models. All rest on one GET of the models."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from locust_llm.wire import failures
from locust_llm.wire.checks.examination import Contact, Examination
from locust_llm.wire.checks.key import refused_key
from locust_llm.wire.checks.sentences import first_of, proxy_in_effect, shown_models_url, unreachable
from locust_llm.wire.checks.stage import Hopeless, Told
from locust_llm.wire.credentials import CREDENTIAL_HEADERS


def look_at_proxy(exam: Examination) -> Told:
    """Whether something stands in between."""
    proxy = proxy_in_effect(exam.client)
    if proxy is None:
        return Told("none: connections go straight to the server", facts={"proxy": None})
    url, source = proxy
    return Told(f"{url}, from {source}", facts={"proxy": url, "source": source})


def resolve(exam: Examination) -> Told:
    """The name's address."""
    contact = exam.contact()
    took = contact.transit.dns_ns
    if took is None:
        raise _no_way(exam, contact)
    host = urlsplit(exam.report.url).hostname
    proxy = proxy_in_effect(exam.client)
    name = urlsplit(f"//{proxy[0]}").hostname if proxy is not None else host
    return Told(f"{name} in {_ms(took)}", facts={"name": name, "dns_ms": took * 1e-6})


def connect(exam: Examination) -> Told:
    """The TCP connection, and the tunnel of a proxy."""
    contact = exam.contact()
    took = contact.transit.tcp_ns
    if took is None:
        raise _no_way(exam, contact)
    return Told(f"TCP in {_ms(took)}", facts={"tcp_ms": took * 1e-6})


def handshake(exam: Examination) -> Told:
    """TLS, where the URL says https."""
    contact = exam.contact()
    if urlsplit(exam.report.url).scheme != "https":
        return Told("none: plain HTTP", facts={"tls_ms": None})
    took = contact.transit.tls_ns
    if took is None:
        raise _no_tls(exam, contact)
    facts = {"tls_ms": took * 1e-6}
    if exam.client.config.context().verify_mode == ssl.CERT_NONE:
        return Told(f"in {_ms(took)}", ("the certificate is not verified (--llm-insecure)",), facts=facts)
    return Told(f"in {_ms(took)}, certificate verified", facts=facts)


def _no_tls(exam: Examination, contact: Contact) -> Hopeless:
    label = contact.failure[0] if contact.failure is not None else "failed"
    if label.startswith(failures.TLS_FAILED):
        return _no_way(exam, contact)
    return Hopeless(
        f"{exam.where} takes the connection, but no TLS handshake comes about ({label}): check whether that port of"
        " --host speaks TLS at all, else write http://"
    )


def _no_way(exam: Examination, contact: Contact) -> Hopeless:
    label, detail = contact.failure if contact.failure is not None else ("failed", None)
    return Hopeless(unreachable(exam.client, label, detail))


def authenticate(exam: Examination) -> Told:
    """Whether the key is refused already for the list of models; many servers give that to anybody."""
    contact = exam.contact()
    credentials = exam.client.config.credentials
    if contact.status in (401, 403) and contact.refusal is not None:
        label, detail = contact.refusal
        tail = f" ({detail.strip()})" if detail and detail.strip() else ""
        raise Hopeless(
            f"{exam.where} answered {label}: {refused_key(credentials, exam.client.config.api.access)}{tail}"
        )
    key = f"key from {credentials.source}" if credentials.source != "none" else "no key"
    told = "not refused for the list of models" if contact.status == 200 else "the answer below will tell"
    facts = {"key": credentials.source, "header": _header(exam)}
    left_out = tuple(f"{name} is given too and not sent: a request carries one key" for name in credentials.left_out)
    return Told(f"{key}: {told}", left_out, facts=facts)


def _header(exam: Examination) -> str | None:
    """The name of the header that carries the key."""
    names = (name for name, _ in exam.client.config.credentials.headers)
    return next((name for name in names if name.lower() in CREDENTIAL_HEADERS), None)


def find_model(exam: Examination) -> Told:
    """Without a model id, take the first that the server lists. Where it lists none the request will tell more.

    In the preflight this is the first word to the server, unless the model is named: then it is not asked at all.
    """
    report = exam.report
    named = bool(report.model)
    contact = exam.contact()
    if contact.failure is not None and contact.transit.sent_ns is None:
        raise _no_way(exam, contact)
    report.models = list(exam.list_models())
    url, facts = shown_models_url(exam.client), {"listed": report.models}
    if named:
        return _named(exam, url, facts)
    if not report.models:
        return Told("none", (f"no --llm-model, and {url} lists none: requests name no model",), facts=facts)
    report.model = report.models[0]
    if len(report.models) > 1:
        warning = f"no --llm-model: taking {report.model!r}, the first of {len(report.models)} listed"
        return Told(first_of(report.models), (warning,), facts=facts)
    return Told(f"{report.model}, the only one listed", facts=facts)


def _named(exam: Examination, url: str, facts: dict[str, list[str]]) -> Told:
    model, models = exam.report.model, exam.report.models
    if not models:
        return Told(f"{model}, as given; {url} lists none", facts=dict(facts))
    if model not in models:
        return Told(model, (f"{model!r} is not among those listed: {first_of(models)}",), facts=dict(facts))
    return Told(f"{model}, listed", facts=dict(facts))


def _ms(ns: int) -> str:
    return f"{ns * 1e-6:.1f} ms"
