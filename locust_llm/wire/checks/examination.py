"""Examination: what the stages of one target have found so far, and the requests that they make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import msgspec

from locust_llm.measure.record import RequestRecord, Transit
from locust_llm.wire import failures
from locust_llm.wire.call import Call
from locust_llm.wire.checks.tap import Tap
from locust_llm.wire.client import LLMClient
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.openai_completions import COMPLETIONS
from locust_llm.wire.target import Target

HELLO = "Say hello."


@dataclass(slots=True)
class Report:
    """What was found of one target: where requests go, the model to ask for, and warnings.

    `opened` is the exchange that opened the first connection; None when nothing was sent.
    """

    url: str
    model: str
    models: list[str] = field(default_factory=list)
    record: RequestRecord | None = None
    warnings: list[str] = field(default_factory=list)
    target: Target | None = None
    opened: Transit | None = None

    @property
    def sentence(self) -> str:
        """One line for the log."""
        tail = "" if self.record is None else f", answered in {(self.record.e2e_ms or 0):.0f} ms"
        return f"LLM requests go to {self.url}, model {self.model or '(none named)'}{tail}"


@dataclass(frozen=True, slots=True)
class Contact:
    """A GET of the model list: how far it got (`transit`), what was answered, or the failure that ended it."""

    transit: Transit
    status: int | None = None
    models: tuple[str, ...] = ()
    failure: failures.Failure | None = None
    refusal: failures.Failure | None = None


class Examination:
    """One target under examination; `close` it. `whole` and `stream` are the answers of the stages so named.

    `tokens`: how many an answer may have. `as_asked`: the stage `stream` asks as the test will, be it without a stream.
    With a `Tap` as the client's API the events of the stream can be shown.
    """

    def __init__(self, client: LLMClient, like: Call, *, tokens: int, as_asked: bool = False) -> None:
        self.client = client
        self.like = like
        self.tokens = tokens
        self.as_asked = as_asked
        self.report = Report(url=shown_url(client), model=like.model, target=client.config.target)
        self.refused_url = ""
        self.moved = False
        self.whole: RequestRecord | None = None
        self.stream: RequestRecord | None = None
        self._notes: list[str] = []
        self._contact: Contact | None = None
        self._given = client

    def close(self) -> None:
        """Close the connection that was opened beside that of the client that was given."""
        if self.client is not self._given:
            self.client.close()

    @property
    def tap(self) -> Tap | None:
        """The API's tap, if it has one."""
        api = self.client.config.api
        return api if isinstance(api, Tap) else None

    @property
    def where(self) -> str:
        """Host and port, for sentences."""
        return urlsplit(self.report.url).netloc

    @property
    def secrets(self) -> Sequence[str]:
        """What no sentence may hold."""
        return self.client.config.credentials.secrets

    def contact(self) -> Contact:
        """The model list, asked for once."""
        if self._contact is None:
            self._contact = contact(self.client)
        return self._contact

    @property
    def opened(self) -> Transit | None:
        """The exchange that opened the first connection."""
        if self._contact is not None:
            return self._contact.transit
        return self.stream.transit if self.stream is not None else None

    def list_models(self) -> tuple[str, ...]:
        """The models that are listed, be it at the other place that the base URL can mean."""
        models = self.contact().models
        other = self.client.config.target.other_root
        if models or not other or self.contact().failure is not None:
            return models
        client = LLMClient(replace(self.client.config, target=Target(other, self.client.config.target.query)))
        try:
            return contact(client).models
        finally:
            client.close()

    def ask(self, *, stream: bool | None = None) -> RequestRecord:
        """One answer of a few tokens, asked for as the test will ask (`stream`: or so).

        Where the base URL can mean two places and the first does not know the path, the other is asked once; it is the
        target from then on unless it does not know the path either.
        """
        record = self._request(self.client, stream)
        other = self.client.config.target.other_root
        if not other or self.refused_url or self.moved or not no_such_path(record):
            return record
        config = self.client.config
        client = LLMClient(replace(config, target=Target(other, config.target.query)))
        second = self._request(client, stream)
        if no_such_path(second):
            self.refused_url = shown_url(client)
            client.close()
            return record
        self._move(client, record)
        return second

    def take_notes(self) -> tuple[str, ...]:
        """What asking has shown of the target, for the stage that asked."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def _move(self, client: LLMClient, first: RequestRecord) -> None:
        report, asked = self.report, self.report.url
        self.moved = True
        self.client = client
        self._contact = None
        report.url, report.target = shown_url(client), client.config.target
        self._notes.append(
            f"{asked} does not exist there ({first.error}), {report.url} does and is used: give --host"
            f" {client.config.target.root} to say so"
        )

    def _request(self, client: LLMClient, stream: bool | None) -> RequestRecord:
        like = self.like
        call = small_call(client, replace(like, model=self.report.model, max_tokens=self.tokens), HELLO)
        if stream is not None:
            call = replace(call, stream=stream)
        return client.request(call, name="preflight", warmup=True)


def small_call(client: LLMClient, like: Call, prompt: str) -> Call:
    """`like`, with this prompt."""
    if client.config.api.name in (COMPLETIONS.name, EMBEDDINGS.name):
        return replace(like, name="preflight", prompt=prompt, messages=None)
    return replace(like, name="preflight", messages=[{"role": "user", "content": prompt}], prompt=None)


def shown_url(client: LLMClient) -> str:
    """The URL that is asked, without its query."""
    return client.config.url.split("?", 1)[0]


def models_url(client: LLMClient) -> str:
    """Where the models are listed."""
    return client.config.target.url(client.config.api.access.models)


def contact(client: LLMClient) -> Contact:
    """Ask for the list of models: it costs no work, and tells how far one gets."""
    transit = Transit()
    secrets = client.config.credentials.secrets
    try:
        response = client.http.get(
            models_url(client), timeout=client.config.connect_timeout_s or None, extensions={"transit": transit}
        )
        body, status = response.read(), response.status_code
    except Exception as error:
        failure = failures.exception_failure(error, secrets, connecting=transit.sent_ns is None)
        return Contact(transit, failure=failure)
    if status != 200:
        label, detail = failures.http_failure(status, response.headers.get("content-type", ""), body)
        refusal = failures.redact(label, secrets), failures.redact(detail, secrets) if detail else None
        return Contact(transit, status, refusal=refusal)
    return Contact(transit, status, _ids(body))


def _ids(body: bytes) -> tuple[str, ...]:
    """The ids under `models` (Ollama: the names under `tags`); none when this is no such list."""
    try:
        listed = msgspec.json.decode(body)
        entries = listed["data"] if "data" in listed else listed["models"]
        return tuple(str(entry.get("id", entry.get("name"))) for entry in entries)
    except Exception:
        return ()


def no_such_path(record: RequestRecord) -> bool:
    """Whether the server does not know the path; a model that it does not know is something else."""
    if record.status in (404, 405):
        return not names_a_model(record)
    return (record.error or "").startswith("unexpected content-type text/html")


def names_a_model(record: RequestRecord) -> bool:
    """Whether a failure speaks of the model."""
    return "model" in ((record.error or "") + (record.detail or "")).lower()
