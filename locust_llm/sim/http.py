"""Response bytes of the simulated server: heads, chunk framing, vLLM's error bodies."""

from __future__ import annotations

import json
from typing import Any

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_SERVER = "server: locust-llm-sim\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpError(Exception):
    """A request that is answered with an error: its status and whole body."""

    def __init__(self, status: int, body: dict[str, Any], retry_after_s: int | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s


def api_error(status: int, kind: str, message: str, param: str | None = None) -> HttpError:
    """An error in the shape OpenAI-compatible servers share, with vLLM's words."""
    return HttpError(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})


def missing_field(name: str) -> HttpError:
    """vLLM's answer when a required field of the body is absent."""
    message = f"1 validation error:\n  {{'type': 'missing', 'loc': 'body.{name}', 'msg': 'Field required'}}"
    return api_error(400, "Bad Request", message, f"body.{name}")


def invalid_field(name: str, problem: str) -> HttpError:
    """vLLM's answer when a field of the body has the wrong type or value."""
    message = f"1 validation error:\n  {{'loc': 'body.{name}', 'msg': '{problem}'}}"
    return api_error(400, "Bad Request", message, f"body.{name}")


def whole_response(
    status: int, body: bytes, *, keep_alive: bool, content_type: str = "application/json", extra: str = ""
) -> bytes:
    """A complete response with its length. `extra` holds whole header lines."""
    close = "" if keep_alive else "connection: close\r\n"
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n{_SERVER}{extra}{close}"
        f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


def error_response(error: HttpError, *, keep_alive: bool) -> bytes:
    """A complete error response, with Retry-After when the error says one."""
    extra = f"retry-after: {error.retry_after_s}\r\n" if error.retry_after_s is not None else ""
    return whole_response(error.status, json.dumps(error.body).encode(), keep_alive=keep_alive, extra=extra)


def stream_head(content_type: str, *, keep_alive: bool) -> bytes:
    """The head of a response whose body follows in chunks."""
    close = "" if keep_alive else "connection: close\r\n"
    return (
        f"HTTP/1.1 200 OK\r\n{_SERVER}{close}content-type: {content_type}\r\n"
        "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
    ).encode()


def chunk(data: bytes) -> bytes:
    """One chunk of the transfer coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)
