"""Ollama's own chat: lines of JSON instead of server-sent events (D55)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import OK, Case, failed
from tests.wire_events import DONE, STOP, C

LINES = {"content-type": "application/x-ndjson"}
JSON = {"content-type": "application/json; charset=utf-8"}
UNASKED = Call(stream=False)


def line(
    content: str | None = "", *, done: bool = False, message: dict[str, Any] | None = None, **fields: Any
) -> bytes:
    """One line of an answer."""
    said = {"role": "assistant", "content": content} | (message or {})
    return json.dumps({"model": "m", "message": said, "done": done} | fields, ensure_ascii=False).encode() + b"\n"


def end(content: str = "", prompt: int | None = 26, output: int | None = 2, reason: str | None = "stop") -> bytes:
    counts = {"prompt_eval_count": prompt, "eval_count": output, "done_reason": reason}
    told = {name: value for name, value in counts.items() if value is not None}
    return line(content, done=True, total_duration=5, **told)


TOOLS = [
    {"function": {"name": "f", "arguments": {"a": 1}}},
    {"function": {"name": "g", "arguments": "{}"}},
    {"function": {"name": "h"}},
]
STREAMS = [
    Case(
        "D55 lines",
        [(100, line("Hi")), (120, line("!")), (121, end())],
        OK
        | {"TTFT": 100, "ITL": [20], "TPOT": 20, "E2E": 120, "done": 121, "N": 2, "prompt": 26, "source": "usage"}
        | {"text": "Hi!", "finish": ("stop",), "model": "m", "streamed": True},
    ),
    Case(
        "D55 the case's own bytes",
        [
            (10, b'{"message":{"content":"Hi"},"done":false}\n'),
            (
                20,
                b'{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":2}\n',
            ),
        ],
        OK | {"TTFT": 10, "N": 2, "prompt": 26},
    ),
    Case(
        "D55 an error as the last line",
        [(100, line("Hi")), (120, b'{"error":"an error was encountered"}\n')],
        failed("in-stream error: an error was encountered", events=1, text="Hi"),
    ),
    Case("D55 an error as the only line", [(9, b'{"error":"not found"}')], failed("in-stream error: not found")),
    Case(
        "several lines in one read, one in several",
        [(100, line("a") + line("b") + line("c")[:20]), (130, line("c")[20:] + end(output=3))],
        OK | {"text": "abc", "events": 3, "ITL": [0, 30], "TTFT": 100},
    ),
    Case(
        "CRLF, blank lines, a byte-order mark, no end of the last line",
        [(10, b"\xef\xbb\xbf\r\n" + line("a").replace(b"\n", b"\r\n\r\n")), (20, end().rstrip(b"\n"))],
        OK | {"TTFT": 10, "text": "a", "done": 20},
    ),
    Case(
        "D24 a newline in the text is none in the line",
        [(10, line("a\n\u2028b")), (20, end())],
        OK | {"text": "a\n\u2028b", "events": 1},
    ),
    Case(
        "D04 thinking",
        [(10, line("", message={"thinking": "hm"})), (20, line("a")), (21, end())],
        OK | {"TTFT": 10, "TTFC": 20, "reasoning": "hm", "text": "a"},
    ),
    Case(
        "D36 tool calls come whole",
        [(10, line("", message={"tool_calls": TOOLS})), (20, end(output=30))],
        OK | {"TTFT": 10, "TTFC": 10, "events": 1, "tools": [("f", '{"a": 1}'), ("g", "{}"), ("h", "")]},
    ),
    Case("cached prompts are not counted", [(10, line("a")), (20, end(prompt=None))], OK | {"prompt": None, "N": 2}),
    Case("D34 no counts", [(10, line("a") + line("b")), (20, end(output=None))], OK | {"N": 2, "source": "chunks"}),
    Case("D43 no reason", [(10, line("a")), (20, end(reason=None))], OK | {"finish": (), "done": 20}),
    Case("D60 cut at its limit", [(10, line("a")), (20, end(reason="length"))], OK | {"finish": ("length",)}),
    Case("D02 no end", [(10, line("a")), (20, line("b"))], failed("truncated stream", events=2)),
    Case("D02 half a line", [(10, line("a")), (20, end()[:30])], failed("truncated stream", events=1)),
    Case("D02 half a line alone", [(10, line("a")[:30])], failed("no output events")),
    Case("D02 half a line alone, cut off", [(10, line("a")[:30])], failed("truncated stream", events=0), clean=False),
    Case("D37 empty body", [], failed("no output events"), end_ms=50),
    Case("D37 nothing said", [(10, end(output=1))], OK | {"N": 1, "TTFT": None, "streamed": True}),
    Case("D44 nothing counts after the end", [(10, line("a") + end() + line("b"))], OK | {"text": "a"}),
    Case("broken JSON", [(10, line("a") + b'{"message":{"con\n'), (20, end())], failed("malformed event", events=1)),
    Case("no objects", [(10, b'{"done":false}\n[1]\nnull\nping\n'), (20, line("a") + end())], OK | {"TTFT": 20}),
]  # fmt: skip

LABELLED = [
    Case("D59 lines under another label", [(10, line("a")), (20, end())], OK | {"TTFT": 10}, headers=JSON),
    Case("D59 lines without a label", [(10, line("a")), (20, end())], OK | {"TTFT": 10}, headers={}),
    Case(
        "D59 not streamed, and not asked to be",
        [(900, end("Hi!"))],
        OK | {"streamed": False, "asked": False, "TTFT": None, "E2E": 900, "N": 2, "text": "Hi!", "finish": ("stop",)},
        call=UNASKED,
        headers=JSON,
    ),
    Case(
        "D59 not streamed under the stream's label",
        [(900, end("Hi!"))],
        OK | {"streamed": False, "TTFT": None, "N": 2},
        call=UNASKED,
        headers=LINES,
    ),
    Case(
        "D59 not streamed though asked to be",
        [(900, end("Hi!"))],
        OK | {"streamed": False, "asked": True, "TTFT": None, "E2E": 900, "N": 2, "text": "Hi!"},
        headers=JSON,
    ),
    Case(
        "an error where no stream was asked for",
        [(9, b'{"error":"model is loading"}')],
        failed("in-stream error: model is loading"),
        call=UNASKED,
        headers=JSON,
    ),
    Case("no message at all", [(9, b'{"ok": true}')], failed("unexpected answer"), call=UNASKED, headers=JSON),
    Case(
        "server-sent events where lines were asked for",
        [(9, C("a")), (20, STOP + DONE)],
        failed("unexpected content-type text/event-stream", events=0),
        headers={"content-type": "text/event-stream"},
    ),
    Case(
        "D58 a page",
        [(9, b"<html>login</html>")],
        failed("unexpected content-type text/html"),
        headers={"content-type": "text/html"},
    ),
    Case("a list", [(9, b"[1]")], failed("unexpected answer"), headers=JSON),
]

CASES = [
    *(replace(case, id=f"ollama {case.id}", api="ollama", headers=LINES) for case in STREAMS),
    *(replace(case, id=f"ollama {case.id}", api="ollama") for case in LABELLED),
]
