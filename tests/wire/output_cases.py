"""What is an output event, and of which choice: text, reasoning, tools (D03, D04, D26, D35, D36, D56)."""

from __future__ import annotations

from typing import Any

from tests.wire.playing import OK, Case, failed, many
from tests.wire_events import DONE, ROLE, STOP, C, R, U, delta, event, usage
from tests.wire_script import Step

PROMPT_FILTER = event(
    {
        "id": "",
        "choices": [],
        "created": 0,
        "model": "",
        "object": "",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}],
    }
)
ROLE_NULL = delta({"role": "assistant", "content": None})
ROLE_BARE = delta({"role": "assistant"})

FIRST_TOKEN = [
    *(
        Case(
            f"D03 role event {number}",
            [(5, role), (214, C("Hi")), (234, C("!") + STOP + U(9, 2) + DONE)],
            OK | {"TTFT": 214, "ITL": [20], "N": 2, "TPOT": 20, "source": "usage", "text": "Hi!", "prompt": 9},
        )
        for number, role in enumerate([ROLE, ROLE_NULL, ROLE_BARE])
    ),
    Case(
        "D03 one space is a token, null is no text",
        [(5, delta({"content": None})), (10, C(" ")), (20, C("null") + STOP + DONE)],
        OK | {"TTFT": 10, "events": 2, "text": " null"},
    ),
    Case(
        "D26 bookkeeping events are no tokens",
        [(100, ROLE), (300, C("a")), (320, C("b")), (340, C("c")), (341, STOP), (342, U(5, 3)), (343, DONE)],
        OK | {"TTFT": 300, "ITL": [20, 20], "TPOT": 20, "E2E": 340, "done": 343, "N": 3},
    ),
    Case(
        "D56 Azure's filter results come first",
        [(50, PROMPT_FILTER), (60, ROLE), (300, C("a") + STOP + DONE)],
        OK | {"TTFT": 300, "events": 1, "model": "m"},
    ),
    Case(
        "D56 null choices, null delta, null event",
        [(10, b"data: null\n\n" + event({"choices": None})), (20, delta(None)), (300, C("a") + STOP + DONE)],
        OK | {"TTFT": 300, "events": 1},
    ),
]


def _thinking(fields: dict[str, Any]) -> list[Step]:
    said = delta(fields)
    return [(100, ROLE), (300, said), *many(said, 320, 20, 4), (400, C("\n\n")), (420, C("4") + STOP + U(10, 7) + DONE)]


_THOUGHT = OK | {"TTFT": 300, "TTFC": 400, "ITL": [20] * 6, "N": 7, "TPOT": 20, "reasoning": " x" * 5, "text": "\n\n4"}

REASONING = [
    Case("D04 reasoning_content", _thinking({"reasoning_content": " x"}), _THOUGHT),
    Case("D04 reasoning", _thinking({"reasoning": " x"}), _THOUGHT),
    Case("D04 beside empty content", _thinking({"content": "", "reasoning_content": " x"}), _THOUGHT),
    Case("D04 details", _thinking({"reasoning_details": [{"type": "reasoning.text", "text": " x"}]}), _THOUGHT),
    Case(
        "D04 both fields are said once",
        _thinking({"reasoning": " x", "reasoning_details": [{"type": "reasoning.text", "text": " x"}]}),
        _THOUGHT,
    ),
    Case(
        "D04 a part of the content",
        _thinking({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": " x"}]}]}),
        _THOUGHT,
    ),
    Case(
        "D04 reasoning only",
        [(100, ROLE), (300, R("Okay")), (320, R(" so") + delta({}, finish="length") + U(10, 2) + DONE)],
        OK | {"TTFT": 300, "TTFC": None, "N": 2, "finish": ("length",), "text": ""},
    ),
    Case(
        "D04 DeepSeek's first event is no token",
        [(100, delta({"role": "assistant", "content": None, "reasoning_content": ""})), (300, R("a") + STOP + DONE)],
        OK | {"TTFT": 300, "events": 1},
    ),
    Case(
        "D04 text and reasoning in one event are one output event",
        [(300, delta({"content": "a", "reasoning_content": "b"}) + STOP + DONE)],
        OK | {"events": 1, "TTFC": 300, "text": "a", "reasoning": "b"},
    ),
    Case(
        "D04 summaries only: how fast tokens were made is unknown",
        [
            (300, delta({"reasoning_details": [{"type": "reasoning.summary", "summary": "s"}]})),
            (320, C("a") + STOP + U(1, 90) + DONE),
        ],
        OK | {"TTFT": 300, "TPOT": None, "N": 90, "reasoning": "s"},
    ),
    Case(
        "D33 an encrypted blob is no output",
        [
            (9, delta({"reasoning_details": [{"type": "reasoning.encrypted", "data": "AA="}]})),
            (30, C("a") + STOP + DONE),
        ],
        OK | {"TTFT": 30, "events": 1},
    ),
]

TOOL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}


def _arguments(piece: str, **chunk: Any) -> bytes:
    return delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, **chunk)


OTHER_CHANNELS = [
    Case(
        "D36 tool call",
        [
            (150, delta({"content": None, "tool_calls": [TOOL]})),
            (170, _arguments('{"a"')),
            (190, _arguments(":1}", finish="tool_calls") + U(20, 9) + DONE),
        ],
        OK | {"TTFT": 150, "TTFC": 150, "E2E": 190, "N": 9, "tools": [("f", '{"a":1}')], "finish": ("tool_calls",)},
    ),
    Case(
        "D36 function call",
        [
            (150, delta({"function_call": {"name": "f", "arguments": ""}})),
            (170, delta({"function_call": {"arguments": "{}"}}, finish="function_call") + DONE),
        ],
        OK | {"TTFT": 150, "ITL": [20], "tools": [("f", "{}")]},
    ),
    Case("D36 refusal", [(150, ROLE), (160, delta({"refusal": "I"}) + STOP + DONE)], OK | {"TTFT": 160, "TTFC": 160}),
    Case(
        "D36 audio",
        [
            (150, delta({"audio": {"id": "a1", "data": "UklGRg=="}})),
            (170, delta({"audio": {"transcript": "hi"}}) + delta({"audio": {"expires_at": 5}}) + STOP + DONE),
        ],
        OK | {"TTFT": 150, "TTFC": 150, "events": 2},
    ),
    Case(
        "D36 null tool calls beside text",
        [(10, delta({"content": "a", "tool_calls": None, "refusal": None, "function_call": None}) + STOP + DONE)],
        OK | {"events": 1, "text": "a", "tools": []},
    ),
    Case(
        "D36 text beside an empty piece",
        [(10, delta({"content": "a", "tool_calls": [{"index": 0, "function": {"arguments": ""}}]}) + STOP + DONE)],
        OK | {"TTFC": 10, "events": 1},
    ),
    Case(
        "D36 empty pieces are no output",
        [
            (10, _arguments("")),
            (20, delta({"refusal": "", "audio": None, "tool_calls": []})),
            (30, C("a") + STOP + DONE),
        ],
        OK | {"TTFT": 30, "events": 1},
    ),
    Case(
        "content as a list of parts",
        [(10, delta({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) + STOP + DONE)],
        OK | {"events": 1, "text": "ab"},
    ),
]


def _of(index: int, content: str = "x", **chunk: Any) -> bytes:
    return C(content, index=index, **chunk)


CHOICES = [
    Case(
        "D35 two choices interleaved",
        [
            (100, _of(0)),
            (105, _of(1)),
            (120, _of(0)),
            (125, _of(1)),
            (126, delta({}, index=0, finish="stop")),
            (145, _of(1)),
            (146, delta({}, index=1, finish="length") + U(4, 5) + DONE),
        ],
        OK
        | {
            "TTFT": 100,
            "ITL": [20, 20, 20],
            "N": 5,
            "E2E": 145,
            "TPOT": 20,
            "finish": ("stop", "length"),
            "texts": ("xx", "xxx"),
        },
    ),
    Case(
        "D35 the second one speaks first",
        [(100, _of(1)), (105, _of(0)), (126, delta({}, index=1, finish="stop") + delta({}, index=0, finish="stop"))],
        OK | {"TTFT": 100, "ITL": []},
    ),
    Case(
        "D35 both in one event",
        [
            (
                100,
                event({"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}),
            ),
            (
                120,
                event(
                    {
                        "choices": [
                            {"index": 0, "delta": {"content": "c"}, "finish_reason": "stop"},
                            {"index": 1, "delta": {"content": "d"}, "finish_reason": "stop"},
                        ]
                    }
                ),
            ),
        ],
        OK | {"texts": ("ac", "bd"), "events": 4, "ITL": [20, 20]},
    ),
    Case(
        "D35 one choice never finished",
        [(100, _of(0) + _of(1)), (120, delta({}, index=0, finish="stop"))],
        failed("truncated stream", events=2),
    ),
    Case(
        "D35 usage of each choice in every event (vLLM)",
        [
            (10, _of(0, usage=usage(4, 1))),
            (11, _of(1, usage=usage(4, 2))),
            (20, _of(0, usage=usage(4, 4))),
            (21, _of(1, usage=usage(4, 3), finish="stop") + delta({}, finish="stop") + U(4, 7) + DONE),
        ],
        OK | {"N": 7, "tokens": [1, 2, 3, 1], "prompt": 4},
    ),
]

CASES = [*FIRST_TOKEN, *REASONING, *OTHER_CHANNELS, *CHOICES]
