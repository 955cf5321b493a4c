"""Bodies that are not the stream that was asked for: other statuses, pages, documents, JSON lines (D55, D58, D59 …)."""

from __future__ import annotations

import json
from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import OK, Case, failed, many
from tests.wire_events import DONE, STOP, C, U, usage


def typed(content_type: str | None) -> dict[str, str]:
    return {} if content_type is None else {"content-type": content_type}


def refused(name: str, status: int, body: bytes, error: str, *, detail: str | None = None, **headers: str) -> Case:
    """An answer with another status than 200, its body as it is."""
    fields = {key.replace("_", "-"): value for key, value in headers.items()}
    return Case(
        name, [(3, body)] if body else [], failed(error, detail=detail, events=0), status=status, headers=fields
    )


def said(message: dict[str, Any], finish: str | None = "stop", **also: Any) -> bytes:
    """A whole chat answer."""
    choice = {"index": 0, "message": message, "finish_reason": finish}
    document = {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage(7, 40)}
    return json.dumps(document | also, indent=1).encode()


# Not streamed, llama.cpp joins its choices and gives the usage of the first (seen with n=2 and with two prompts).
FIRST_ONLY = {
    "choices": [
        {"finish_reason": "length", "index": 0, "message": {"content": "The quick brown"}},
        {"finish_reason": "length", "index": 1, "message": {"content": "The quick"}},
    ],
    "usage": {"completion_tokens": 6, "prompt_tokens": 5, "total_tokens": 11},
    "timings": {"prompt_n": 5, "predicted_n": 6},
}

RATE_LIMIT = {"message": "Rate limit reached for org-x … try again in 1.234s (req_ab12)", "code": "rate_limit_exceeded"}
SECRET = {
    "message": "Incorrect API key provided: sk-abc123XYZ",
    "type": "invalid_request_error",
    "code": "invalid_api_key",
}
PAGE = b"<html><body onload=x()>gateway\n  block</body></html>"
ESCAPED = "&lt;html&gt;&lt;body onload=x()&gt;gateway block&lt;/body&gt;&lt;/html&gt;"
STREAM = C("a") + STOP + U(4, 1) + DONE


def error(fields: object) -> bytes:
    return json.dumps({"error": fields}, ensure_ascii=False).encode()


STATUSES = [
    refused("D42 429", 429, error(RATE_LIMIT), "HTTP 429 rate_limit_exceeded", detail=RATE_LIMIT["message"]),
    refused("D42 503 page", 503, PAGE, "HTTP 503", detail=ESCAPED, content_type="text/html"),
    refused(
        "D42 529", 529, error({"type": "overloaded_error", "message": "x"}), "HTTP 529 overloaded_error", detail="x"
    ),
    refused("D42 empty", 500, b"", "HTTP 500"),
    refused("D42 no stream is read", 500, b"data: x\n\ndata: [DONE]\n\n", "HTTP 500", detail="data: x data: [DONE]"),
    refused(
        "D42 ids are no codes",
        429,
        error({"code": "req_ab12", "type": "tokens"}),
        "HTTP 429 tokens",
        detail='{"error": {"code": "req_ab12", "type": "tokens"}}',
    ),
    refused(
        "D42 numbers are no codes",
        400,
        error({"code": "400", "type": "Bad Request", "message": "m"}),
        "HTTP 400",
        detail="m",
    ),
    refused(
        "D62 the key in the message",
        401,
        error(SECRET),
        "HTTP 401 invalid_api_key",
        detail="Incorrect API key provided: sk-***",
    ),
    refused(
        "llama.cpp 401",
        401,
        error({"message": "Invalid API Key", "type": "authentication_error", "code": 401}),
        "HTTP 401 authentication_error",
        detail="Invalid API Key",
    ),
    refused("vLLM 401", 401, error("Unauthorized"), "HTTP 401 Unauthorized", detail="Unauthorized"),
    refused("vLLM 404", 404, b'{"detail":"Not Found"}', "HTTP 404", detail="Not Found"),
    refused("Ollama 404", 404, error("model 'x' not found"), "HTTP 404", detail="model 'x' not found"),
    refused(
        "older servers",
        400,
        b'{"object":"error","message":"m","type":"BadRequestError","code":400}',
        "HTTP 400 BadRequestError",
        detail="m",
    ),
    refused("LiteLLM 500", 500, b"Internal Server Error", "HTTP 500", detail="Internal Server Error"),
    refused(
        "D34 the refused option is named",
        422,
        b'{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}',
        "HTTP 422",
        detail="[{'loc': ['body', 'stream_options'], 'msg': 'extra'}]",
    ),
    refused(
        "D66 redirect",
        301,
        PAGE,
        "redirect 301",
        location="https://u:p@h/v1/x?sig=1",
        detail="→ https://***@h/v1/x: not followed; fix the base URL (--host)",
    ),
    refused("D66 no location", 304, b"", "HTTP 304"),
]

OTHERS = [
    Case(
        "D58 a page",
        [(5, PAGE)],
        failed("unexpected content-type text/html", detail=ESCAPED),
        headers=typed("text/html;charset=UTF-8"),
    ),
    *(
        Case(
            f"D58 a page labelled {label}",
            [(5, b"\n " + PAGE)],
            failed("unexpected content-type text/html"),
            headers=typed(label),
        )
        for label in (None, "text/event-stream", "application/json")
    ),
    Case(
        "D58 a long page", [(5, PAGE * 5000)], failed("unexpected content-type text/html"), headers=typed("text/html")
    ),
    Case(
        "D58 plain text",
        [(5, b"Bad gateway")],
        failed("unexpected content-type text/plain", detail="Bad gateway"),
        headers=typed("text/plain"),
    ),
    Case("D58 odd label", [(5, b"hello")], failed("unexpected content-type none"), headers=typed("<b>1</b>")),
    Case("D59b a stream labelled JSON", [(5, STREAM)], OK | {"N": 1, "TTFT": 5}, headers=typed("application/json")),
    Case("D59b not labelled", [(5, STREAM)], OK | {"N": 1, "TTFT": 5}, headers={}),
    Case(
        "D59b labelled text, comments first",
        [(2, b"\r\n: hi\n\n"), (5, STREAM)],
        OK | {"TTFT": 5},
        headers=typed("text/plain"),
    ),
    Case("D59b blank lines and a mark first", [(1, b"\xef\xbb\xbf\n"), (2, b"\n \n"), (5, STREAM)], OK | {"TTFT": 5}),
    Case("D59 with a byte-order mark", [(5, b"\xef\xbb\xbf" + STREAM)], OK | {"TTFT": 5}, headers={}),
]

WHOLE = OK | {"streamed": False, "TTFT": None, "TPOT": None, "ITL": [], "events": 0, "E2E": 900, "N": 40, "prompt": 7}
JSON_LINES = (
    b'{"message":{"content":"Hi"},"done":false}\n'
    b'{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":2}\n'
)

DOCUMENTS = [
    Case(
        "llama.cpp's usage of the first of two choices is not N",
        [(900, json.dumps(FIRST_ONLY).encode())],
        WHOLE | {"N": None, "prompt": 5, "texts": ("The quick brown", "The quick")},
    ),
    Case(
        "nor of two prompts",
        [(900, json.dumps(FIRST_ONLY).replace('"message": {"content"', '"x": {"text"').encode())],
        WHOLE | {"N": None, "prompt": None},
        api="completions",
        call=Call(prompt=["p", "q"]),
    ),
    Case(
        "two choices with the usage of both",
        [(900, json.dumps(FIRST_ONLY | {"timings": None}).encode())],
        WHOLE | {"N": 6, "prompt": 5},
    ),
    Case(
        "blank lines for as long as there is nothing to say",
        [*many(b"\r\n \n", 0, 100, 9), (900, said({"content": "Hi"}))],
        WHOLE | {"text": "Hi"},
    ),
    Case(
        "D59a not streamed",
        [(900, said({"content": "Hi"}))],
        WHOLE | {"text": "Hi", "finish": ("stop",), "model": "m"},
        headers=typed("application/json"),
    ),
    Case(
        "D59a in two reads, labelled a stream",
        [(800, said({"content": "Hi"})[:40]), (900, said({"content": "Hi"})[40:])],
        WHOLE,
    ),
    Case(
        "D59a not asked to be",
        [(900, said({"content": "Hi", "reasoning_content": "h"}))],
        WHOLE | {"text": "Hi", "reasoning": "h"},
        call=Call(stream=False),
        headers=typed("application/json"),
    ),
    Case(
        "D59a tool call",
        [
            (
                900,
                said(
                    {
                        "content": None,
                        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                    },
                    "tool_calls",
                ),
            )
        ],
        WHOLE | {"tools": [("f", "{}")]},
    ),
    Case("D59a no finish reason", [(900, said({"content": "Hi"}, None))], WHOLE),
    Case("D59a byte-order mark", [(900, b"\xef\xbb\xbf" + said({"content": "Hi"}))], WHOLE),
    Case("D59a empty answer", [(900, said({"content": ""}))], WHOLE | {"text": ""}),
    Case(
        "D59a completions",
        [(900, said({}, text="x").replace(b'"message": {}', b'"text": "Hi"'))],
        WHOLE | {"text": "Hi"},
        api="completions",
    ),
    Case("D59a no usage", [(900, said({"content": "Hi"}, usage=None))], WHOLE | {"N": None, "prompt": None}),
    Case(
        "D59a an error",
        [(9, error({"message": "engine died", "type": "InternalServerError", "code": 500}))],
        failed("in-stream error: InternalServerError: engine died"),
        headers=typed("application/json"),
    ),
    Case(
        "D59a an error in a list",
        [(9, b"[" + error({"code": 429, "status": "x", "message": "m"}) + b"]")],
        failed("in-stream error: 429"),
    ),
    Case("D59a something else", [(9, b'{"status": "ok"}')], failed("unexpected answer", detail='{"status": "ok"}')),
    Case("D59a no choices", [(9, b'{"choices": []}')], failed("unexpected answer")),
    Case("D59a a list", [(9, b"[1]")], failed("unexpected answer")),
    Case("D59a a list of objects", [(9, b'[{"error": null}]')], failed("unexpected answer")),
    Case("D59a cut off", [(9, said({"content": "Hi"})[:60])], failed("truncated stream"), clean=False),
    Case("D59a cut off, though it ended well", [(9, said({"content": "Hi"})[:60])], failed("truncated stream")),
    Case(
        "D59a not JSON", [(9, b"{{page}}")], failed("unexpected content-type text/plain"), headers=typed("text/plain")
    ),
    Case(
        "D55 lines of JSON",
        [(9, JSON_LINES)],
        failed("unexpected content-type application/x-ndjson"),
        headers=typed("application/x-ndjson"),
    ),
    Case(
        "D55 with another label", [(9, JSON_LINES)], failed("unexpected content-type application/x-ndjson"), headers={}
    ),
    Case(
        "D55 one line, an error",
        [(9, b'{"error":"an error was encountered"}\n')],
        failed("unexpected content-type application/x-ndjson"),
        headers=typed("application/x-ndjson"),
    ),
]

CASES = [*STATUSES, *OTHERS, *DOCUMENTS]
