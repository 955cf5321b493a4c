"""UserCalls, the `self.client` of an LLMUser: `chat` and `complete`, with `name`, `context`, `catch_response`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

import gevent

from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.timeline import Timeline
from locust_llm.plugin import events
from locust_llm.wire.api import Call, Prompt
from locust_llm.wire.client import LLMClient

if TYPE_CHECKING:
    from locust_llm.plugin.user import LLMUser

BUSY = (429, 503)
PAUSE_S = 1.0
"""Pause of a user after HTTP 429 or 503 when the server names none."""

Messages = str | Sequence[Mapping[str, Any]]


class Answer:
    """A request whose verdict is still yours: the record, and `success()` or `failure(why)`.

    Use it in a `with` block, as HttpUser's responses with `catch_response=True`; the events fire at its end.
    """

    def __init__(self, record: RequestRecord, calls: UserCalls, context: dict[str, Any]) -> None:
        self.record = record
        self._calls = calls
        self._context = context
        self._exception: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def success(self) -> None:
        """Count it as a success whatever the wire said."""
        self.record = replace(self.record, outcome=Outcome.SUCCESS, error=None)
        self._exception = None

    def failure(self, why: BaseException | str) -> None:
        """Count it as failed: it then gives no latency sample."""
        self._exception = why if isinstance(why, BaseException) else events.LLMError(str(why), self.record)
        self.record = replace(self.record, outcome=Outcome.FAILED, error=str(why))

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, events.LLMError):
            self.failure(error)
        self._calls.ended(self.record, self._context, self._exception)
        return isinstance(error, events.LLMError)


class UserCalls:
    """Sends the requests of one user."""

    def __init__(self, user: LLMUser) -> None:
        self._user = user
        self.session = user.session
        self._clients: dict[str, LLMClient] = {}

    @overload
    def chat(
        self,
        messages: Messages,
        *,
        name: str = ...,
        max_tokens: int | None = ...,
        model: str | None = ...,
        context: Mapping[str, Any] | None = ...,
        catch_response: Literal[False] = ...,
        **body: Any,
    ) -> RequestRecord: ...
    @overload
    def chat(
        self,
        messages: Messages,
        *,
        name: str = ...,
        max_tokens: int | None = ...,
        model: str | None = ...,
        context: Mapping[str, Any] | None = ...,
        catch_response: Literal[True],
        **body: Any,
    ) -> Answer: ...
    def chat(
        self,
        messages: Messages,
        *,
        name: str = "chat",
        max_tokens: int | None = None,
        model: str | None = None,
        context: Mapping[str, Any] | None = None,
        catch_response: bool = False,
        **body: Any,
    ) -> RequestRecord | Answer:
        """Stream one chat completion; returns its record, or with `catch_response` an Answer for a `with` block.

        `messages` is a list of messages, or a text for one user message. `name` is the row in the statistics.
        `max_tokens` and `model` default to the options; any other keyword is a field of the request's body. A failed
        request does not raise: look at `record.success` and `record.error`.
        """
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        call = self._call(name, max_tokens, model, body, messages=said)
        return self._send("chat", call, context, catch_response)

    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        name: str = ...,
        max_tokens: int | None = ...,
        model: str | None = ...,
        context: Mapping[str, Any] | None = ...,
        catch_response: Literal[False] = ...,
        **body: Any,
    ) -> RequestRecord: ...
    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        name: str = ...,
        max_tokens: int | None = ...,
        model: str | None = ...,
        context: Mapping[str, Any] | None = ...,
        catch_response: Literal[True],
        **body: Any,
    ) -> Answer: ...
    def complete(
        self,
        prompt: Prompt,
        *,
        name: str = "completion",
        max_tokens: int | None = None,
        model: str | None = None,
        context: Mapping[str, Any] | None = None,
        catch_response: bool = False,
        **body: Any,
    ) -> RequestRecord | Answer:
        """Stream one text completion (`/v1/completions`); otherwise as `chat`."""
        call = self._call(name, max_tokens, model, body, prompt=prompt)
        return self._send("completions", call, context, catch_response)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def ended(self, record: RequestRecord, context: dict[str, Any], exception: BaseException | None = None) -> None:
        """Count a request whose verdict is final, and fire its events."""
        self.session.listener.ended(record)
        events.fire(
            self._user.environment, record, context=context, exception=exception, simulated=self.session.simulated
        )

    def _call(
        self,
        name: str,
        max_tokens: int | None,
        model: str | None,
        body: Mapping[str, Any],
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        prompt: Prompt | None = None,
    ) -> Call:
        session = self.session
        settings = session.settings
        return Call(
            name=name,
            messages=messages,
            prompt=prompt,
            model=model if model is not None else session.model,
            max_tokens=max_tokens if max_tokens is not None else settings.max_tokens,
            temperature=settings.temperature if settings.temperature >= 0 else None,
            seed=settings.seed,
            ignore_eos=settings.ignore_eos,
            extra={**settings.extra_body, **body},
        )

    def _client(self, api: str) -> LLMClient:
        client = self._clients.get(api)
        if client is None:
            client = self._clients[api] = LLMClient(self.session.config_for(self._user.host, api))
        return client

    def _send(
        self, api: str, call: Call, context: Mapping[str, Any] | None, catch_response: bool
    ) -> RequestRecord | Answer:
        merged = {**self._user.context(), **(context if context is not None else {})}
        watch = _Watch(self, merged)
        client = self._client(api)
        record = client.request(call, name=call.name, on_start=watch.started, on_end=watch.ended)
        if catch_response:
            return Answer(record, self, merged)
        self.ended(record, merged)
        self._pause(record)
        return record

    def _pause(self, record: RequestRecord) -> None:
        """After 429 or 503: wait as long as the server asks, outside every latency."""
        cap = self.session.settings.retry_after_cap
        if record.status in BUSY and cap > 0:
            asked = record.retry_after_s if record.retry_after_s is not None else PAUSE_S
            gevent.sleep(min(asked, cap))


class _Watch:
    """Keeps the session's list of running requests; counts a request that is cut off at once, since nothing of its
    task runs after that."""

    def __init__(self, calls: UserCalls, context: dict[str, Any]) -> None:
        self._calls = calls
        self._context = context

    def started(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._calls.session.listener.started(timeline)

    def ended(self, record: RequestRecord) -> None:
        self._calls.session.listener.left(self._timeline)
        if record.outcome is Outcome.CANCELLED:
            self._calls.ended(record, self._context)
