"""An HTTP server around one engine, which speaks the APIs of `APIS`: which request goes where, and what the pages say.

A new API is one file with an `Api`, and its name in `APIS`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from locust_llm.sim import api_chat, api_completions, api_embeddings, api_messages, api_ollama, api_responses
from locust_llm.sim.api import Api
from locust_llm.sim.connection import Connection, Request
from locust_llm.sim.delivery import Delivery
from locust_llm.sim.engine import Engine
from locust_llm.sim.http import HttpError, api_error, whole_response
from locust_llm.sim.metrics import Metrics
from locust_llm.sim.prefix_cache import word_blocks
from locust_llm.sim.reply import Reply, StreamedReply, WholeReply
from locust_llm.sim.sequence import Refusal
from locust_llm.sim.settings import EngineSettings, ServerSettings

_MODULES = (api_chat, api_completions, api_messages, api_responses, api_embeddings, api_ollama)
APIS: dict[str, Api] = {module.API.path: module.API for module in _MODULES}
_REFUSALS = {
    "rate_limit": ("rate_limit_exceeded", "Rate limit reached: too many requests per second."),
    "queue_full": ("queue_full", "The queue is full: try again later."),
    "too_long": ("BadRequestError", "Prompt and max_tokens together exceed the maximum context length."),
}


class Server:
    """Serves one engine; `start` binds, `close` drops every connection."""

    def __init__(self, engine: EngineSettings, settings: ServerSettings) -> None:
        self.settings = settings
        self.engine = Engine(engine, time.monotonic_ns())
        metrics = Metrics(self.engine, settings.model)
        self._delivery = Delivery(self.engine, metrics, settings)
        self.connections: set[Connection] = set()
        self.received = 0  # requests on generation endpoints
        self.invalid = 0  # of these, refused before the engine saw them
        self._listener: asyncio.Server | None = None
        self._pages: dict[str, Callable[[], bytes]] = {
            "/health": lambda: b"",
            "/v1/models": self._models,
            "/api/tags": self._tags,
            "/sim/counts": self._counts,
            "/metrics": metrics.page,
        }

    async def start(self) -> str:
        """Binds and returns the base URL; raises OSError when it cannot."""
        loop = asyncio.get_running_loop()
        self._delivery.start()
        self._listener = await loop.create_server(
            lambda: Connection(self), self.settings.host, self.settings.port, backlog=4096
        )
        port = self._listener.sockets[0].getsockname()[1]
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{port}"

    def close(self) -> None:
        """Stops listening and drops every connection."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.transport.abort()
        self._delivery.close()

    def handle(self, connection: Connection, request: Request) -> None:
        """Answers a page at once, or hands a generation request to the engine; raises HttpError."""
        api = APIS.get(request.path)
        if api is not None and request.method == "POST":
            self._generate(connection, request, api)
            return
        self._authorise(request)
        page = self._pages.get(request.path)
        if page is None and api is None:
            raise HttpError(404, {"detail": "Not Found"})
        if page is None or request.method != "GET":
            raise HttpError(405, {"detail": "Method Not Allowed"})
        content_type = "text/plain; version=0.0.4" if request.path == "/metrics" else "application/json"
        response = whole_response(200, page(), keep_alive=request.keep_alive, content_type=content_type)
        connection.transport.write(response)
        connection.reply_done(request.keep_alive)

    def abandon(self, reply: Reply) -> None:
        """The client of a running reply went away: its slot is free from now on."""
        if reply.sequence is not None:
            reply.sequence.tag = None
            self.engine.cancel(self._delivery.come_up(), reply.sequence)
            self._delivery.rearm()

    # Generation

    def _generate(self, connection: Connection, request: Request, api: Api) -> None:
        self.received += 1
        try:
            self._authorise(request)
            body = _json_object(request.body)
            self._check_model(body.get("model"))
            ask = api.read(body)
        except HttpError:
            self.invalid += 1
            raise
        number = f"{self.received:016x}"
        if self.settings.emit_send_time:
            number = f"{self.received}-{request.received_ns:x}"
        writer = api.writer(number, body.get("model") or self.settings.model, int(time.time()), ask)
        reply = (StreamedReply if ask.stream else WholeReply)(connection, writer, ask, self.settings)
        blocks = word_blocks(ask.words) if self.engine.settings.prefix_cache_tokens is not None else None
        taken = self.engine.submit(
            self._delivery.come_up(),
            ask.prompt_tokens,
            ask.max_tokens,
            ignore_eos=ask.ignore_eos,
            blocks=blocks,
            tag=reply,
        )
        if isinstance(taken, Refusal):
            kind, message = _REFUSALS[taken.reason]
            error = api_error(taken.status, kind, message)
            raise HttpError(error.status, error.body, taken.retry_after_s)
        connection.reply = reply
        reply.begin(taken, api.content_type)
        self._delivery.rearm()

    def _authorise(self, request: Request) -> None:
        key = self.settings.api_key
        if key is None or not request.path.startswith(("/v1/", "/api/")):
            return
        shown = request.headers.get(b"authorization", b""), request.headers.get(b"x-api-key", b"")
        if shown[0] != f"Bearer {key}".encode() and shown[1] != key.encode():
            raise HttpError(401, {"error": "Unauthorized"})

    def _check_model(self, model: Any) -> None:
        if model is None or model == self.settings.model:
            return
        if not isinstance(model, str):
            raise api_error(400, "Bad Request", "model: Input should be a valid string", "model")
        if not self.settings.any_model:
            raise api_error(404, "NotFoundError", f"The model `{model}` does not exist.", "model")

    # Pages

    def _models(self) -> bytes:
        entry = {"id": self.settings.model, "object": "model", "created": int(time.time()), "owned_by": "locust-llm"}
        limit = self.engine.settings.context_tokens
        return json.dumps({"object": "list", "data": [{**entry, "root": entry["id"], "max_model_len": limit}]}).encode()

    def _tags(self) -> bytes:
        """The models as Ollama lists them."""
        return json.dumps({"models": [{"name": self.settings.model, "model": self.settings.model}]}).encode()

    def _counts(self) -> bytes:
        """Requests by fate: received = finished + faulted + cancelled + rejected + invalid + in_flight.

        now_ns is CLOCK_MONOTONIC, for rates between two looks; late_ms is how late the last 4,096 turns of writing
        ended against the engine's schedule.
        """
        tally, late_ms = self.engine.tally, self._delivery.late_ms()
        counts = {
            "now_ns": time.monotonic_ns(),
            "received": self.received,
            "finished": tally.finished,
            "faulted": tally.faulted,
            "cancelled": tally.cancelled,
            "rejected": tally.rate_limit + tally.queue_full,
            "invalid": self.invalid + tally.too_long,
            "in_flight": tally.in_flight,
            "running": self.engine.running,
            "waiting": self.engine.waiting,
            "tokens_sent": self._delivery.tokens_sent,
            "preemptions": tally.preemptions,
            "late_ms_p50": late_ms[0] if late_ms is not None else None,
            "late_ms_p99": late_ms[1] if late_ms is not None else None,
        }
        return json.dumps(counts).encode()


def _json_object(body: bytes) -> dict[str, Any]:
    if not body:
        raise api_error(400, "Bad Request", "1 validation error:\n  {'type': 'missing', 'loc': 'body'}", "body")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", 0)
        message = f"1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{at}', 'msg': 'JSON decode error'}}"
        raise api_error(400, "Bad Request", message, f"body.{at}") from None
    if not isinstance(value, dict):
        raise api_error(400, "Bad Request", "1 validation error:\n  {'type': 'dict_type', 'loc': 'body'}", "body")
    return value
