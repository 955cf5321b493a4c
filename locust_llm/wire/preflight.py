"""Preflight: one small request before users spawn, and a sentence for whatever is wrong.

The checks run in order, each on what the ones before it found; the first that fails ends them, with one sentence that
names the cause and the fix. `CHECKS` is the list; a new check is one function and one entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import msgspec

from locust_llm.measure.record import RequestRecord, TokenSource
from locust_llm.wire import failures
from locust_llm.wire.call import Call
from locust_llm.wire.client import LLMClient
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.openai_completions import COMPLETIONS
from locust_llm.wire.target import ConfigurationError

PREFLIGHT_TOKENS = 4
LISTED_MODELS = 8


@dataclass(slots=True)
class Report:
    """What preflight found of one target: where requests go, the model to ask for, and warnings."""

    url: str
    model: str
    models: list[str] = field(default_factory=list)
    record: RequestRecord | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """One line for the log."""
        tail = "" if self.record is None else f", answered in {(self.record.e2e_ms or 0):.0f} ms"
        return f"LLM requests go to {self.url}, model {self.model or '(none named)'}{tail}"


Check = Callable[[LLMClient, Report, Call], None]


def check(client: LLMClient, like: Call, *, send: bool = True) -> Report:
    """Find the model if `like` names none and, with `send`, try one small request of its kind.

    Raises ConfigurationError with one sentence that names cause and fix; without `send` it only warns.
    """
    report = Report(url=client.config.url.split("?", 1)[0], model=like.model)
    for step in CHECKS if send else CHECKS[:1]:
        try:
            step(client, report, like)
        except ConfigurationError as error:
            if send:
                raise
            report.warnings.append(str(error))
    return report


def warm_up(client: LLMClient, like: Call, count: int, prompt: Callable[[], str]) -> list[RequestRecord]:
    """`count` requests, one after the other, that no figure counts."""
    return [client.request(_call(client, like, prompt()), name="warm-up", warmup=True) for _ in range(count)]


def reach(client: LLMClient) -> str | None:
    """Whether this process reaches the server at all: None, or a sentence on why not. Sends no work."""
    try:
        client.http.get(_models_url(client), timeout=client.config.connect_timeout_s or None).read()
    except Exception as error:
        label, detail = failures.exception_failure(error, client.config.credentials.secrets)
        return f"cannot reach {urlsplit(client.config.url).netloc}: {label}{f' ({detail})' if detail else ''}"
    return None


# -- the checks ----------------------------------------------------------------------------------------------------


def find_model(client: LLMClient, report: Report, like: Call) -> None:
    """Without a model id, take the first that the server lists. Where it lists none the request will tell more."""
    if report.model:
        return
    report.models = _listed_models(client)
    if not report.models:
        report.warnings.append(f"no --llm-model, and {_shown_models_url(client)} lists none: requests name no model")
        return
    report.model = report.models[0]
    if len(report.models) > 1:
        report.warnings.append(f"no --llm-model: taking {report.model!r}, the first of {len(report.models)} listed")


def small_request(client: LLMClient, report: Report, like: Call) -> None:
    """One answer of a few tokens, asked for as the test will ask."""
    call = _call(client, replace(like, model=report.model, max_tokens=PREFLIGHT_TOKENS), "Say hello.")
    record = report.record = client.request(call, name="preflight", warmup=True)
    if record.success:
        return
    if record.status == 429 and "quota" not in (record.error or "") + (record.detail or ""):
        report.warnings.append("the preflight request was rate-limited (HTTP 429); the test starts all the same")
        return
    raise ConfigurationError(diagnose(record, client, report))


def odd_answers(client: LLMClient, report: Report, like: Call) -> None:
    """What worked, but will shape the figures."""
    record = report.record
    if record is None or not record.success:
        return
    if not record.streamed and record.stream_asked:
        report.warnings.append("the server did not stream its answer: there will be no TTFT and no ITL")
    if record.token_source is not TokenSource.USAGE and record.generates:
        report.warnings.append("the server reports no token usage: token counts are estimates (≈, from chunks)")
    answered = record.model_answered
    if answered is not None and report.model and not same_model(report.model, answered):
        report.warnings.append(f"asked for model {report.model!r}, answered by {answered!r}")


CHECKS: tuple[Check, ...] = (find_model, small_request, odd_answers)


# -- sentences -----------------------------------------------------------------------------------------------------


def same_model(asked: str, answered: str) -> bool:
    """Whether two model ids may name the same model: equal but for case, a path before or a version after."""
    a, b = asked.lower(), answered.lower()
    return a == b or a.rsplit("/", 1)[-1] == b.rsplit("/", 1)[-1] or b.startswith(a + "-") or a.startswith(b + "-")


def diagnose(record: RequestRecord, client: LLMClient, report: Report) -> str:
    """Cause and fix of a failed preflight request, in one sentence."""
    url, status, error = report.url, record.status, record.error or "failed"
    detail = f" ({record.detail.strip()})" if record.detail and record.detail.strip() else ""
    where = urlsplit(url).netloc
    if status in (401, 403):
        source = client.config.credentials.source
        have = (
            f"no key was sent: set {client.config.api.access.key}"
            if source == "none"
            else f"it refuses the key from {source}"
        )
        return f"{where} answered {error}: {have}, or name another variable with --llm-api-key-env{detail}"
    if status in (400, 404, 422) and _names_a_model(record) and not report.model:
        return f"{where} wants a model id, and {_shown_models_url(client)} lists none: give --llm-model NAME{detail}"
    if status == 404 and _names_a_model(record):
        return f"{where} does not know the model {report.model!r}: {_offer(client, report)}{detail}"
    if status in (404, 405):
        return f"{url} does not exist there ({error}): check the path of --host, which usually ends in /v1{detail}"
    if status is not None and 300 <= status < 400:
        return f"{url} answers with a {error}, which is not followed: give --host the final address{detail}"
    if error.startswith("unexpected content-type"):
        return f"{url} answers with a page, not an API ({error}): check --host, or a login or proxy in between{detail}"
    if status in (400, 422) and _names_a_model(record):
        return f"{where} refuses the model {report.model!r} ({error}): {_offer(client, report)}{detail}"
    if status is not None and status >= 400:
        return f"{where} answered the preflight request with {error}{detail}: mend that first, or --llm-no-preflight"
    if error in (failures.STALL, failures.TIMEOUT):
        return f"{where} did not answer the preflight request ({error}): look after the server, or allow more time"
    if status is None:
        return f"cannot reach {where}: {error}{detail}; check --host, that the server runs, and --llm-proxy"
    return f"the preflight request to {url} failed: {error}{detail}; --llm-no-preflight starts the test all the same"


def _names_a_model(record: RequestRecord) -> bool:
    return "model" in ((record.error or "") + (record.detail or "")).lower()


def _offer(client: LLMClient, report: Report) -> str:
    models = report.models or _listed_models(client)
    if not models:
        return "give --llm-model one that it serves"
    more = f" and {len(models) - LISTED_MODELS} more" if len(models) > LISTED_MODELS else ""
    return f"--llm-model can be {', '.join(models[:LISTED_MODELS])}{more}"


def _models_url(client: LLMClient) -> str:
    return client.config.target.url(client.config.api.access.models)


def _shown_models_url(client: LLMClient) -> str:
    return _models_url(client).split("?", 1)[0]


def _listed_models(client: LLMClient) -> list[str]:
    """The ids under `models` (Ollama: the names under `tags`); none when the server does not answer that."""
    try:
        response = client.http.get(_models_url(client), timeout=client.config.connect_timeout_s or None)
        listed = msgspec.json.decode(response.read())
        entries = listed["data"] if "data" in listed else listed["models"]
        return [str(entry.get("id", entry.get("name"))) for entry in entries] if response.status_code == 200 else []
    except Exception as error:
        label, detail = failures.exception_failure(error, client.config.credentials.secrets)
        if label.startswith(("connect", "TLS", "timeout")):
            where = urlsplit(client.config.url).netloc
            raise ConfigurationError(
                f"cannot reach {where}: {label}{f' ({detail})' if detail else ''}; check --host, that the server runs,"
                " and --llm-proxy"
            ) from None
        return []


def _call(client: LLMClient, like: Call, prompt: str) -> Call:
    if client.config.api.name in (COMPLETIONS.name, EMBEDDINGS.name):
        return replace(like, name="preflight", prompt=prompt, messages=None)
    return replace(like, name="preflight", messages=[{"role": "user", "content": prompt}], prompt=None)
