"""The Messages API: which events are output, which counts are N, and how it ends (D31–D33)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import OK, Case, failed

SEALED = "ErUBCkYIARgCIkCY" * 8  # as long as a signature that holds thinking
KEPT_SIGNATURE = "2f1c9a7e5b3d4c6f8a9b0c1d2e3f4a5b"  # as other servers sign
UNASKED = Call(stream=False)
JSON = {"content-type": "application/json"}


def event(kind: str, **fields: Any) -> bytes:
    """One named event."""
    data = json.dumps({"type": kind} | fields, separators=(",", ":"), ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def start(**usage: Any) -> bytes:
    """The head of a message, with that usage."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": None}
    return event("message_start", message=message | {"usage": usage})


def block(index: int = 0, **content: Any) -> bytes:
    """A block begins."""
    return event("content_block_start", index=index, content_block=content)


def delta(index: int = 0, **piece: Any) -> bytes:
    """The next piece of a block."""
    return event("content_block_delta", index=index, delta=piece)


def text(said: str, index: int = 0) -> bytes:
    return delta(index, type="text_delta", text=said)


def thinking(thought: str, index: int = 0) -> bytes:
    return delta(index, type="thinking_delta", thinking=thought)


def signature(signed: str, index: int = 0) -> bytes:
    return delta(index, type="signature_delta", signature=signed)


def arguments(piece: str, index: int = 0) -> bytes:
    return delta(index, type="input_json_delta", partial_json=piece)


def end(reason: str = "end_turn", **usage: Any) -> bytes:
    """The stop reason, with that usage."""
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)


TEXT_BLOCK = block(type="text", text="")
PING = event("ping")
CLOSE = event("content_block_stop", index=0)
STOP = event("message_stop")
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})

USAGE = [
    Case(
        "D31 usage is cumulative",
        [
            (80, start(input_tokens=27, cache_read_input_tokens=100, cache_creation_input_tokens=0, output_tokens=1)),
            (100, TEXT_BLOCK + text("a")),
            (120, text("b") + CLOSE),
            (121, end(input_tokens=27, cache_read_input_tokens=100, output_tokens=47) + STOP),
        ],
        OK | {"prompt": 127, "cached": 100, "N": 47, "source": "usage", "TTFT": 100, "E2E": 120, "done": 121},
    ),
    Case(
        "D31 the end counts output only",
        [
            (80, start(input_tokens=27, cache_read_input_tokens=100, output_tokens=1) + text("a")),
            (90, end(output_tokens=47) + STOP),
        ],
        OK | {"prompt": 127, "cached": 100, "N": 47},
    ),
    Case(
        "D31 what went into the cache is part of the prompt",
        [(80, start(input_tokens=3, cache_creation_input_tokens=500)), (90, text("a") + end(output_tokens=1) + STOP)],
        OK | {"prompt": 503, "cached": None},
    ),
    Case(
        "D31 counts of the two events are put together",
        [(80, start(input_tokens=27)), (90, text("a") + end(cache_read_input_tokens=100, output_tokens=1) + STOP)],
        OK | {"prompt": 127, "cached": 100},
    ),
    Case(
        "D31 a trailing 0 erases nothing",
        [
            (80, start(input_tokens=27, cache_read_input_tokens=100)),
            (90, text("a") + end(input_tokens=0, cache_read_input_tokens=0, output_tokens=2) + STOP),
        ],
        OK | {"prompt": 127, "cached": 100, "N": 2},
    ),
    Case(
        "D31 the prompt is known at the end only",
        [(80, start(input_tokens=0, output_tokens=0)), (90, text("a") + end(input_tokens=27, output_tokens=2) + STOP)],
        OK | {"prompt": 27, "N": 2},
    ),
    Case(
        "D31 an answer that breaks off has not one token, as its head says",
        [(80, start(input_tokens=27, output_tokens=1)), (90, text("a")), (100, text("b")), (110, text("c"))],
        failed("truncated stream", events=3, prompt=27, N=3, source="chunks"),
    ),
    Case(
        "D34 no usage at all",
        [(80, start()), (90, text("a")), (100, text("b") + end() + STOP)],
        OK | {"prompt": None, "N": 2, "source": "chunks"},
    ),
    Case(
        "usage that does not fit",
        [(80, start(input_tokens="many", output_tokens=None)), (90, text("a") + end(output_tokens=2.0) + STOP)],
        OK | {"prompt": None, "N": 2},
    ),
]

ERRORS = [
    Case(
        "D32 an error in the stream is counted with those of status 529",
        [(80, start(input_tokens=5)), (100, text("a")), (120, text("b")), (140, text("c")), (150, OVERLOADED)],
        failed("in-stream error: 529 overloaded_error", events=3, text="abc", detail="Overloaded"),
    ),
    Case(
        "D32 an error first of all",
        [(5, event("error", error={"type": "rate_limit_error", "message": "slow down"}))],
        failed("in-stream error: 429 rate_limit_error", events=0),
    ),
    Case(
        "D32 an error without a status of its own",
        [(5, start() + event("error", error={"type": "api_error", "message": "Internal server error"}))],
        failed("in-stream error: api_error: Internal server error"),
    ),
    Case(
        "D32 named, with a bare body",
        [(5, start() + text("a")), (9, b"event: error\ndata: boom\n\n")],
        failed("in-stream error: boom", events=1),
    ),
    Case(
        "D32 named, with a text as its body",
        [(5, start() + text("a")), (9, b'event: error\ndata: "boom"\n\n')],
        failed("in-stream error: boom", events=1),
    ),
    Case(
        "D32 named, with an untyped body",
        [(5, start() + text("a")), (9, b'event: error\ndata: {"message":"overloaded"}\n\n')],
        failed("in-stream error: overloaded"),
    ),
    Case(
        "D32 by its content alone",
        [(5, start() + text("a")), (9, b'data: {"error":{"message":"engine died","type":"InternalServerError"}}\n\n')],
        failed("in-stream error: InternalServerError: engine died"),
    ),
    Case(
        "D32 not an error: the word, and an empty field",
        [(5, start() + text("error")), (9, delta(type="text_delta", text="!", error=None) + end() + STOP)],
        OK | {"text": "error!"},
    ),
]

TOOL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
CHANNELS = [
    Case(
        "D33 only output starts the clock",
        [
            (80, start(input_tokens=9, output_tokens=1)),
            (81, PING),
            (90, block(type="thinking", thinking="", signature="")),
            (400, thinking("hm")),
            (900, signature(KEPT_SIGNATURE)),
            (902, CLOSE),
            (905, block(1, type="text", text="")),
            (910, text("a", 1)),
            (920, block(2, **TOOL)),
            (930, arguments('{"a":1}', 2)),
            (940, end("tool_use", output_tokens=30) + STOP),
        ],
        OK
        | {
            "TTFT": 400,
            "TTFC": 910,
            "ITL": [510, 20],
            "E2E": 930,
            "N": 30,
            "text": "a",
            "reasoning": "hm",
            "tools": [("f", '{"a":1}')],
            "finish": ("tool_use",),
            "TPOT": 18.276,
        },
    ),
    Case(
        "D33 a tool's arguments in pieces, the first one empty",
        [
            (80, start(input_tokens=9)),
            (150, block(**TOOL)),
            (151, arguments("")),
            (160, arguments('{"a"')),
            (180, arguments(":1}") + CLOSE + end("tool_use", output_tokens=12) + STOP),
        ],
        OK | {"TTFT": 160, "TTFC": 160, "ITL": [20], "tools": [("f", '{"a":1}')]},
    ),
    Case(
        "D36 two tools",
        [
            (150, start() + block(**TOOL) + arguments("{}")),
            (180, block(1, **(TOOL | {"name": "g"})) + arguments('{"b":2}', 1) + end("tool_use") + STOP),
        ],
        OK | {"tools": [("f", "{}"), ("g", '{"b":2}')]},
    ),
    Case(
        "a block that begins with output",
        [
            (10, start() + block(type="text", text="Hi")),
            (20, block(1, **(TOOL | {"input": {"a": 1}})) + end("tool_use") + STOP),
        ],
        OK | {"TTFT": 10, "events": 2, "text": "Hi", "tools": [("f", '{"a": 1}')]},
    ),
    Case(
        "D37 nothing said",
        [(50, start(input_tokens=9) + end(output_tokens=1) + STOP)],
        OK | {"N": 1, "TTFT": None, "E2E": 50, "finish": ("end_turn",)},
    ),
    Case(
        "D10 types that nobody knows",
        [
            (10, start() + event("content_block_delta", index=0, delta={"type": "citations_delta", "citation": {}})),
            (20, event("vendor_event", text="x") + b"data: [1]\n\ndata: null\n\n" + text("a") + end() + STOP),
        ],
        OK | {"TTFT": 20, "events": 1},
    ),
    Case(
        "D86 halves of a pair",
        [(10, start() + text("A").replace(b"A", rb"\ud83d")), (20, text("A").replace(b"A", rb"\ude00") + end() + STOP)],
        OK | {"text": "😀", "events": 2},
    ),
]

THOUGHT = [
    (10, start(input_tokens=9) + block(type="thinking", thinking="")),
    (300, thinking("a")),
    (310, thinking("b")),
]
HIDDEN = [(10, start(input_tokens=9) + block(type="thinking", thinking="")), (300, signature(SEALED))]
ANSWERED = [(400, text("x", 1)), (420, text("y", 1))]
THINKING = [
    Case(
        "D04 thinking that is streamed",
        [*THOUGHT, *ANSWERED, (421, end(output_tokens=4) + STOP)],
        OK | {"TTFT": 300, "TTFC": 400, "TPOT": 40, "reasoning": "ab", "hidden": False},
    ),
    Case(
        "D33 thinking that is summed up: how fast tokens were made is unknown",
        [*THOUGHT, (311, signature(SEALED)), *ANSWERED, (421, end(output_tokens=400) + STOP)],
        OK | {"TTFT": 300, "TTFC": 400, "TPOT": None, "N": 400, "reasoning": "ab"},
    ),
    Case(
        "D33 thinking that is summed up, and counted",
        [
            *THOUGHT,
            (311, signature(SEALED)),
            *ANSWERED,
            (421, end(output_tokens=400, output_tokens_details={"thinking_tokens": 380}) + STOP),
        ],
        OK | {"TPOT": None, "N": 400},
    ),
    Case(
        "D33 thinking that is not shown",
        [*HIDDEN, *ANSWERED, (421, end(output_tokens=400) + STOP)],
        OK | {"TTFT": 400, "TPOT": None, "N": 400},
    ),
    Case(
        "D33 thinking that is not shown, but counted",
        [*HIDDEN, *ANSWERED, (421, end(output_tokens=400, output_tokens_details={"thinking_tokens": 398}) + STOP)],
        OK | {"TTFT": 400, "TPOT": 20, "N": 400, "hidden": True},
    ),
    Case(
        "D33 thinking that is redacted",
        [
            (10, start() + block(type="redacted_thinking", data="EmwKAhgB")),
            *ANSWERED,
            (421, end(output_tokens=400) + STOP),
        ],
        OK | {"TTFT": 400, "TPOT": None},
    ),
]

ENDS = [
    Case("D33 a stop reason is enough", [(10, start() + text("a") + end(output_tokens=1))], OK | {"done": None}),
    Case("D33 message_stop is enough", [(10, start() + text("a")), (20, STOP)], OK | {"finish": (), "done": 20}),
    Case("D02 neither", [(10, start() + text("a")), (20, CLOSE)], failed("truncated stream", events=1)),
    Case("D02 a head alone", [(10, start())], failed("truncated stream", events=0)),
    Case(
        "D44 nothing counts after the end",
        [(10, start() + text("a") + end(output_tokens=1) + STOP + OVERLOADED + text("z"))],
        OK | {"text": "a"},
    ),
    Case(
        "D44 a gateway's [DONE]",
        [(10, start() + text("a")), (20, b"data: [DONE]\n\n")],
        OK | {"done": 20, "text": "a"},
    ),
    Case(
        "D60 cut at its limit",
        [(10, start() + text("a") + end("max_tokens", output_tokens=1) + STOP)],
        OK | {"finish": ("max_tokens",)},
    ),
    Case(
        "D48 events without names",
        [
            (10, b"".join(line + b"\n\n" for line in start().splitlines()[1:2])),
            (20, b"".join(line + b"\n\n" for line in text("a").splitlines()[1:2])),
            (30, b"".join(line + b"\n\n" for line in STOP.splitlines()[1:2])),
        ],
        OK | {"TTFT": 20, "done": 30},
    ),
    Case(
        "broken JSON may have been a token",
        [(10, start() + b'event: content_block_delta\ndata: {"type":"content\n\n' + STOP)],
        failed("malformed event"),
    ),
]


def message(*content: dict[str, Any], reason: str = "end_turn", **usage: Any) -> bytes:
    """A whole answer."""
    document = {"type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": reason}
    return json.dumps(document | {"usage": usage}, indent=1).encode()


WHOLE = [
    Case(
        "D59 not streamed, and not asked to be",
        [
            (
                900,
                message(
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "Hi"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
                    reason="tool_use",
                    input_tokens=3,
                    cache_read_input_tokens=4,
                    output_tokens=12,
                ),
            )
        ],
        OK
        | {"streamed": False, "asked": False, "TTFT": None, "TPOT": None, "E2E": 900, "N": 12, "prompt": 7}
        | {"text": "Hi", "reasoning": "hm", "tools": [("f", '{"a": 1}')], "finish": ("tool_use",), "model": "m"},
        call=UNASKED,
        headers=JSON,
    ),
    Case(
        "D59 not streamed though asked to be",
        [(900, message({"type": "text", "text": "Hi"}, output_tokens=2))],
        OK | {"streamed": False, "asked": True, "TTFT": None, "E2E": 900, "N": 2},
        headers=JSON,
    ),
    Case(
        "streamed though not asked to be: never a TTFT",
        [(100, start() + text("a")), (120, text("b") + end(output_tokens=2) + STOP)],
        OK | {"streamed": False, "asked": False, "TTFT": None, "TPOT": None, "ITL": [], "E2E": 120, "N": 2},
        call=UNASKED,
    ),
    Case(
        "D01 an error as the whole answer",
        [(9, json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}).encode())],
        failed("in-stream error: 529 overloaded_error"),
        call=UNASKED,
        headers=JSON,
    ),
    Case("no message at all", [(9, b'{"ok": true}')], failed("unexpected answer"), call=UNASKED, headers=JSON),
]

CASES = [
    replace(case, id=f"messages {case.id}", api="messages")
    for case in [*USAGE, *ERRORS, *CHANNELS, *THINKING, *ENDS, *WHOLE]
]
