"""The Responses API: typed events, the status that counts, reasoning that is summed up or hidden."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import OK, Case, failed

UNASKED = Call(stream=False)
JSON = {"content-type": "application/json"}


def event(kind: str, **fields: Any) -> bytes:
    """One named event."""
    data = json.dumps({"type": f"response.{kind}"} | fields, separators=(",", ":"), ensure_ascii=False)
    return f"event: response.{kind}\ndata: {data}\n\n".encode()


def response(
    status: str = "completed", *output: dict[str, Any], why: str | None = None, **usage: Any
) -> dict[str, Any]:
    """A response as it is at its end."""
    details = {"reason": why} if why is not None else None
    kept = {"id": "resp_1", "object": "response", "model": "m", "status": status, "error": None}
    return kept | {"incomplete_details": details, "output": list(output), "usage": usage or None}


def text(said: str, **fields: Any) -> bytes:
    return event("output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta=said, **fields)


def reasoning(thought: str) -> bytes:
    return event("reasoning_text.delta", item_id="rs_1", delta=thought)


def arguments(piece: str, item: str = "fc_1") -> bytes:
    return event("function_call_arguments.delta", item_id=item, delta=piece)


def added(**item: Any) -> bytes:
    return event("output_item.added", output_index=0, item=item)


def end(status: str = "completed", kind: str = "completed", **fields: Any) -> bytes:
    return event(kind, response=response(status, **fields))


CREATED = event("created", response=response("in_progress")) + event("in_progress", response=response("in_progress"))
MESSAGE = added(id="msg_1", type="message", content=[]) + event("content_part.added", part={"type": "output_text"})
REPEATED = event("output_text.done", text="ab") + event("content_part.done", part={"type": "output_text", "text": "ab"})
USED = {"input_tokens": 20, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 16}}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}

STREAMS = [
    Case(
        "only deltas are output",
        [(10, CREATED), (90, MESSAGE + text("a")), (110, text("b")), (111, REPEATED + end(**USED))],
        OK
        | {"TTFT": 90, "ITL": [20], "TPOT": 20, "E2E": 110, "done": 111, "N": 2, "prompt": 20, "cached": 16}
        | {"text": "ab", "finish": ("completed",), "model": "m", "source": "usage"},
    ),
    Case(
        "cut at the limit, as OpenAI says it",
        [(90, text("a")), (110, text("b") + end("incomplete", "incomplete", why="max_output_tokens", **USED))],
        OK | {"finish": ("max_output_tokens",), "N": 2},
    ),
    Case(
        "cut at the limit, as vLLM says it",
        [(90, text("a")), (110, text("b") + end("incomplete", "completed", why="max_output_tokens", **USED))],
        OK | {"finish": ("max_output_tokens",)},
    ),
    Case("D60 content filter", [(90, text("a") + end("incomplete", "incomplete", why="content_filter"))],
         OK | {"finish": ("content_filter",), "source": "chunks"}),
    Case(
        "empty deltas are no output",
        [(90, text("") + reasoning("")), (95, arguments("")), (100, text("a") + end())],
        OK | {"TTFT": 100, "events": 1, "tools": []},
    ),
    Case(
        "D05 logprobs tell the tokens of an event",
        [(90, text("a b", logprobs=[{}, {}])), (110, text("c", logprobs=[{}]) + end())],
        OK | {"N": 3, "source": "logprobs", "tokens": [2, 1], "TPOT": 20},
    ),
    Case("D36 refusal", [(90, event("refusal.delta", delta="No")), (91, end())], OK | {"TTFC": 90, "text": ""}),
    Case(
        "D36 audio",
        [(90, event("audio.delta", delta="UklGRg==") + event("audio.transcript.delta", delta="hi")), (91, end())],
        OK | {"TTFC": 90, "events": 2},
    ),
    Case(
        "all came with the last event",
        [(10, CREATED), (90, event("completed", response=response("completed", SAID, **USED)))],
        OK | {"TTFT": 90, "E2E": 90, "events": 1, "text": "ab", "N": 2, "TPOT": None},
    ),
    Case("D37 nothing said", [(10, CREATED), (50, end(input_tokens=9, output_tokens=1))], OK | {"N": 1, "TTFT": None}),
    Case(
        "D10 types that nobody knows",
        [(10, event("vendor.delta", delta="x") + b"data: [1]\n\n"), (20, text("a") + end())],
        OK | {"TTFT": 20, "events": 1},
    ),
    Case("D44 nothing counts after the end", [(10, text("a") + end() + text("b") + b"data: [DONE]\n\n")],
         OK | {"text": "a"}),
]  # fmt: skip

CALL = {"id": "fc_1", "type": "function_call", "name": "f", "call_id": "call_1", "arguments": ""}
CHANNELS = [
    Case(
        "D36 function calls",
        [
            (90, added(**CALL) + added(**(CALL | {"id": "fc_2", "name": "g"}))),
            (100, arguments('{"a"')),
            (120, arguments(":1}") + event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}')),
            (130, arguments("{}", "fc_2") + end(input_tokens=5, output_tokens=9)),
        ],
        OK | {"TTFT": 100, "TTFC": 100, "ITL": [20, 10], "tools": [("f", '{"a":1}'), ("g", "{}")]},
    ),
    Case(
        "D36 a custom tool's input",
        [(90, added(**(CALL | {"type": "custom_tool_call"}))),
         (100, event("custom_tool_call_input.delta", item_id="fc_1", delta="ls") + end())],
        OK | {"TTFT": 100, "tools": [("f", "ls")]},
    ),
    Case(
        "D04 reasoning that is streamed",
        [(90, reasoning("a")), (110, reasoning("b")), (130, text("c") + end(input_tokens=5, output_tokens=3))],
        OK | {"TTFT": 90, "TTFC": 130, "TPOT": 20, "reasoning": "ab", "text": "c", "hidden": False},
    ),
    Case(
        "D04 reasoning that is summed up: how fast tokens were made is unknown",
        [
            (90, event("reasoning_summary_text.delta", item_id="rs_1", delta="s")),
            (110, text("c")),
            (120, text("d") + end(output_tokens=90, output_tokens_details={"reasoning_tokens": 88})),
        ],
        OK | {"TTFT": 90, "TTFC": 110, "TPOT": None, "N": 90, "reasoning": "s"},
    ),
    Case(
        "D04 reasoning that is hidden",
        [(110, text("c")), (120, text("d") + end(output_tokens=90, output_tokens_details={"reasoning_tokens": 88}))],
        OK | {"TTFT": 110, "TPOT": 10, "N": 90, "hidden": True},
    ),
]  # fmt: skip

SERVER_ERROR = {"code": "server_error", "message": "engine died"}
ERRORS = [
    Case(
        "D01 failed",
        [(90, text("a")), (100, event("failed", response=response("failed") | {"error": SERVER_ERROR}))],
        failed("in-stream error: server_error: engine died", events=1, detail="engine died"),
    ),
    Case(
        "D01 failed, said to be completed",
        [(90, text("a")), (100, event("completed", response=response("failed") | {"error": SERVER_ERROR}))],
        failed("in-stream error: server_error: engine died"),
    ),
    Case(
        "D01 failed for no reason",
        [(90, text("a") + event("failed", response={"status": "failed"}))],
        failed("in-stream error: status failed"),
    ),
    Case(
        "D01 cancelled",
        [(90, text("a") + event("cancelled", response={}))],
        failed("in-stream error: status cancelled"),
    ),
    Case(
        "D01 an error event",
        [(90, text("a") + b'event: error\ndata: {"type":"error","code":"server_error","message":"died"}\n\n')],
        failed("in-stream error: server_error: died", events=1),
    ),
    Case(
        "D41 an error of another API",
        [(9, b'data: {"error":{"message":"The queue is full.","type":"service_unavailable","code":503}}\n\n')],
        failed("in-stream error: 503 service_unavailable"),
    ),
    Case("D02 no end", [(90, text("a")), (95, REPEATED)], failed("truncated stream", events=1)),
    Case("D02 a head alone", [(10, CREATED)], failed("truncated stream", events=0)),
    Case("broken JSON", [(10, b'data: {"type":"response.out\n\n' + end())], failed("malformed event")),
]


def whole(document: dict[str, Any]) -> list[tuple[float, bytes]]:
    return [(900, json.dumps(document, indent=1).encode())]


REASONED = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}
CALLED = CALL | {"arguments": '{"a":1}'}
WHOLE = [
    Case(
        "D59 not streamed, and not asked to be",
        whole(response("completed", REASONED, SAID, CALLED, **USED)),
        OK
        | {"streamed": False, "asked": False, "TTFT": None, "TPOT": None, "E2E": 900, "N": 2, "prompt": 20}
        | {"text": "ab", "reasoning": "s", "tools": [("f", '{"a":1}')], "finish": ("completed",), "model": "m"},
        call=UNASKED,
        headers=JSON,
    ),
    Case(
        "D59 not streamed though asked to be",
        whole(response("incomplete", SAID, why="max_output_tokens", **USED)),
        OK | {"streamed": False, "asked": True, "E2E": 900, "finish": ("max_output_tokens",)},
        headers=JSON,
    ),
    Case(
        "D01 failed as a whole",
        whole(response("failed") | {"error": SERVER_ERROR}),
        failed("in-stream error: server_error: engine died"),
        call=UNASKED,
        headers=JSON,
    ),
    Case(
        "left to work in the background",
        whole(response("queued")),
        failed("unexpected answer"),
        call=UNASKED,
        headers=JSON,
    ),
    Case("no response at all", whole({"ok": True}), failed("unexpected answer"), call=UNASKED, headers=JSON),
    Case(
        "a refusal",
        whole(response("completed", {"type": "message", "content": [{"type": "refusal", "refusal": "No"}]})),
        OK | {"text": "", "N": None, "E2E": 900},
        call=UNASKED,
        headers=JSON,
    ),
]

CASES = [replace(case, id=f"responses {case.id}", api="responses") for case in [*STREAMS, *CHANNELS, *ERRORS, *WHOLE]]
