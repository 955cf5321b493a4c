"""UserCalls, the `self.client` of an LLMUser: `chat`, `complete`, `embed`, with `name`, `context`, `catch_response`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from locust.exception import LocustError

from locust_llm.measure.record import Outcome, RequestRecord
from locust_llm.measure.tokens import truer
from locust_llm.plugin import events
from locust_llm.plugin.watch import Watch
from locust_llm.wire.api import APIS, Call
from locust_llm.wire.api import Prompt as WirePrompt
from locust_llm.wire.client import LLMClient
from locust_llm.wire.embeddings import EMBEDDINGS
from locust_llm.wire.openai_completions import COMPLETIONS
from locust_llm.workload.prompt import Prompt

if TYPE_CHECKING:
    from locust_llm.plugin.user import LLMUser

Messages = str | Sequence[Mapping[str, Any]]


class Answer:
    """A request whose verdict is still yours: the record, and `success()` or `failure(why)`.

    Use it in a `with` block, as HttpUser's responses with `catch_response=True`; the events fire at its end.
    """

    def __init__(self, record: RequestRecord, watch: Watch) -> None:
        self.record = record
        self._watch = watch
        self._entered = False
        self._exception: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def success(self) -> None:
        """Count it as a success whatever the wire said."""
        self._check_entered()
        self.record = replace(self.record, outcome=Outcome.SUCCESS, error=None)
        self._exception = None

    def failure(self, why: BaseException | str) -> None:
        """Count it as failed: it then gives no latency sample."""
        self._check_entered()
        self._exception = why if isinstance(why, BaseException) else events.LLMError(str(why), self.record)
        self.record = replace(self.record, outcome=Outcome.FAILED, error=str(why))

    def _check_entered(self) -> None:
        if not self._entered:
            raise LocustError("an answer of catch_response=True is judged in a with block: with … as answer:")

    def __enter__(self) -> Answer:
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, events.LLMError):
            self.failure(error)
        handled = error is None or isinstance(error, events.LLMError)
        self._watch.judged(self.record, self._exception)
        if handled:
            self._watch.pause(self.record)
        return handled


class UserCalls:
    """Sends the requests of one user, each over a connection that is its own meanwhile."""

    def __init__(self, user: LLMUser) -> None:
        self._user = user
        self.session = user.session
        self.scheduled_ns: int | None = None
        """When the load model wanted the next request sent (monotonic ns); None: now. Taken by that request."""
        self._clients: list[LLMClient] = []
        self._idle: dict[str, list[LLMClient]] = {name: [] for name in APIS}

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
        """Stream one answer, by the API of `--llm-api` or of the class.

        Returns its record, or with `catch_response` an Answer for a `with` block.

        `messages` is a list of messages, or a text for one user message. `name` is the row in the statistics.
        `max_tokens` and `model` default to the options; any other keyword is a field of the request's body. A failed
        request does not raise: look at `record.success` and `record.error`.
        """
        said = _messages(messages)
        usual = self.session.settings.api
        api = self._user.llm_api if self._user.llm_api not in ("", EMBEDDINGS.name) else usual
        call = self._call(api, name, max_tokens, model, body, messages, messages=said)
        return self._send(api, call, context, catch_response)

    @overload
    def complete(
        self,
        prompt: WirePrompt,
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
        prompt: WirePrompt,
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
        prompt: WirePrompt,
        *,
        name: str = "completion",
        max_tokens: int | None = None,
        model: str | None = None,
        context: Mapping[str, Any] | None = None,
        catch_response: bool = False,
        **body: Any,
    ) -> RequestRecord | Answer:
        """Stream one text completion (`/v1/completions`); otherwise as `chat`."""
        call = self._call(COMPLETIONS.name, name, max_tokens, model, body, prompt, prompt=prompt)
        return self._send(COMPLETIONS.name, call, context, catch_response)

    @overload
    def embed(
        self,
        texts: WirePrompt,
        *,
        name: str = ...,
        model: str | None = ...,
        context: Mapping[str, Any] | None = ...,
        catch_response: Literal[False] = ...,
        **body: Any,
    ) -> RequestRecord: ...
    @overload
    def embed(
        self,
        texts: WirePrompt,
        *,
        name: str = ...,
        model: str | None = ...,
        context: Mapping[str, Any] | None = ...,
        catch_response: Literal[True],
        **body: Any,
    ) -> Answer: ...
    def embed(
        self,
        texts: WirePrompt,
        *,
        name: str = "embedding",
        model: str | None = None,
        context: Mapping[str, Any] | None = None,
        catch_response: bool = False,
        **body: Any,
    ) -> RequestRecord | Answer:
        """Embed one or several texts (`/v1/embeddings`): E2E and input tokens; otherwise as `chat`."""
        call = self._call(EMBEDDINGS.name, name, None, model, body, texts, prompt=texts)
        return self._send(EMBEDDINGS.name, call, context, catch_response)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    def _call(
        self,
        api: str,
        name: str,
        max_tokens: int | None,
        model: str | None,
        body: Mapping[str, Any],
        asked: object,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        prompt: WirePrompt | None = None,
    ) -> Call:
        side = self.session.sides.of(self._user.number)
        usual = self.session.targets.call(self._user.asked_host, api)
        if max_tokens is None and api != EMBEDDINGS.name:
            usual = self._user.workload.sized(usual, asked, self._user.asked_host, api)
        if side is not None:
            name += side.ending
            model = model if model is not None else side.model
        extra = {**usual.extra, **body}
        call = replace(
            usual,
            name=name,
            messages=messages,
            prompt=prompt,
            model=model if model is not None else usual.model,
            max_tokens=max_tokens if max_tokens is not None else usual.max_tokens,
            stream=bool(extra.pop("stream", usual.stream)),
            extra=extra,
        )
        return self.session.probing.lengthened(call)

    def _send(
        self, api: str, call: Call, context: Mapping[str, Any] | None, catch_response: bool
    ) -> RequestRecord | Answer:
        self.session.brakes.admit()
        watch = Watch(self._user, {**self._user.context(), **(context if context is not None else {})})
        idle = self._idle[api]
        client = idle.pop() if idle else self._new_client(api)
        try:
            scheduled_ns, self.scheduled_ns = self.scheduled_ns, None
            record = client.request(
                call, name=call.name, scheduled_ns=scheduled_ns, on_start=watch.started, on_end=watch.ended
            )
        finally:
            idle.append(client)
        record = truer(record, self.session.counter)
        if catch_response:
            return Answer(record, watch)
        watch.judged(record)
        watch.pause(record)
        return record

    def _new_client(self, api: str) -> LLMClient:
        client = LLMClient(self.session.targets.config_for(self._user.asked_host, api))
        self._clients.append(client)
        return client


def _messages(asked: Messages) -> Sequence[Mapping[str, Any]]:
    """What is sent for a text, a prompt that may stand for several messages, or messages."""
    if isinstance(asked, Prompt):
        return asked.messages
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
