"""Talking to a running engine over plain sockets: requests as bytes, answers as bytes."""

from __future__ import annotations

import json
import socket
import time
from http.client import HTTPConnection, HTTPResponse
from typing import Any

DEADLINE_S = 10.0
CHAT = "/v1/chat/completions"
FAST = ("--prefill-tps", "inf", "--decode-ms", "1", "--decode-slope-ms", "0")
COMPLETIONS = "/v1/completions"


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


def connect(url: str) -> HTTPConnection:
    """A keep-alive connection that answers or fails within the deadline."""
    return HTTPConnection("127.0.0.1", port_of(url), timeout=DEADLINE_S)


def chat(words: str = "hi there", **fields: Any) -> dict[str, Any]:
    """The body of a chat request."""
    return {"model": "sim", "messages": [{"role": "user", "content": words}], **fields}


def post(connection: HTTPConnection, path: str, body: Any, headers: dict[str, str] | None = None) -> HTTPResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"content-type": "application/json", **(headers or {})})
    return connection.getresponse()


def ask(url: str, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """One request on a connection of its own: status and the JSON that came."""
    connection = connect(url)
    try:
        response = post(connection, path, body, headers)
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def get(url: str, path: str) -> bytes:
    """A page's body."""
    connection = connect(url)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 200
        return response.read()
    finally:
        connection.close()


def counts(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(url, "/sim/counts"))
    return found


def wait_for_counts(url: str, **expected: int) -> dict[str, Any]:
    """Looks until the counts are as expected; AssertionError with the last ones after the deadline."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        found = counts(url)
        if found.items() >= expected.items():
            return found
        assert time.monotonic() < deadline_s, f"{found} never showed {expected}"
        time.sleep(0.01)


def events(url: str, path: str, body: dict[str, Any]) -> list[str]:
    """The data of every event of a stream."""
    connection = connect(url)
    try:
        response = post(connection, path, {**body, "stream": True})
        assert response.status == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        return data_of(response.read())
    finally:
        connection.close()


def data_of(body: bytes) -> list[str]:
    """The data of every event in a whole event stream, which must consist of canonical frames only."""
    frames = body.decode().split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") for frame in frames)
    return [frame.removeprefix("data: ") for frame in frames]


def raw(url: str, data: bytes) -> bytes:
    """Sends bytes and reads until the server closes."""
    with socket.create_connection(("127.0.0.1", port_of(url)), timeout=DEADLINE_S) as sock:
        sock.sendall(data)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
        return b"".join(parts)
