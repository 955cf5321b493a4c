"""Answers of the OpenAI APIs and what they mean: sections A and part of B of the project's cases (D01 …)."""

from __future__ import annotations

from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import Case
from tests.wire_events import DONE, ROLE, STOP, C, R, U, delta, event, usage
from tests.wire_script import Step

OK = {"outcome": "success", "error": None}


def failed(error: str, **also: Any) -> dict[str, Any]:
    """A failure with that label and without any latency."""
    return {"outcome": "failed", "error": error, "TTFT": None, "TPOT": None, "E2E": None, "ITL": []} | also


def text(content: str, finish: str | None = None, index: int = 0, **chunk: Any) -> bytes:
    """An event of the completions API."""
    return event({"choices": [{"index": index, "text": content, "finish_reason": finish}], "model": "m"} | chunk)


def many(event_: bytes, first_ms: float, every_ms: float, count: int) -> list[Step]:
    return [(first_ms + every_ms * place, event_) for place in range(count)]


ENGINE_DIED = event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}})
TGI_ERROR = event({"error": "Request failed during generation", "error_type": "generation"})
OLD_ERROR = event({"object": "error", "message": "x", "code": 50001})
QUEUE_FULL = event(
    {"error": {"object": "error", "message": "The queue is full.", "type": "service_unavailable", "code": 503}}
)
PROMPT_FILTER = event(
    {
        "id": "", "choices": [], "created": 0, "model": "", "object": "",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}],
    }
)  # fmt: skip

ERRORS = [
    Case(
        "D01 engine dies mid-stream",
        [(200, ROLE + C("Hi")), (220, C(" there")), (240, ENGINE_DIED + DONE)],
        failed("in-stream error: InternalServerError: engine died", events=2, text="Hi there", detail="engine died"),
    ),
    Case(
        "D01 TGI",
        [(200, ROLE + C("Hi")), (240, TGI_ERROR)],
        failed("in-stream error: generation: Request failed during generation", events=1),
    ),
    Case("D01 older servers", [(200, C("Hi")), (240, OLD_ERROR + DONE)], failed("in-stream error: x", events=1)),
    Case("D01 first event", [(5, ENGINE_DIED)], failed("in-stream error: InternalServerError: engine died", events=0)),
    Case(
        "D01 after 500 tokens",
        [*many(C("x"), 100, 1, 500), (900, ENGINE_DIED + DONE)],
        failed("in-stream error: InternalServerError: engine died", events=500),
    ),
    Case("D01 error is a text", [(5, event({"error": "Unauthorized"}))], failed("in-stream error: Unauthorized")),
    Case(
        "D01 the event's name says it",
        [(5, C("a")), (9, b'event: error\ndata: {"message":"overloaded"}\n\n')],
        failed("in-stream error: overloaded", events=1),
    ),
    Case("D01 named, with bare text", [(9, b"event: error\ndata: boom\n\n")], failed("in-stream error: boom")),
    Case(
        "D01 error beside choices",
        [(5, C("a")), (9, delta({"content": ""}, finish="error", error={"code": 502, "message": "upstream"}) + DONE)],
        failed("in-stream error: 502", events=1, detail="upstream"),
    ),
    Case("D01 finish reason error", [(5, C("a", finish="error") + DONE)], failed("in-stream error: finish_reason error")),
    Case(
        "D01 not errors: null, empty, and the word",
        [(10, C("error", error=None)), (20, C(': {"error"', error={})), (30, delta({}, finish="stop", error="") + DONE)],
        OK | {"text": 'error: {"error"', "TTFT": 10, "events": 2},
    ),
    Case(
        "D01 ids and numbers leave the label",
        [(9, event({"error": {"message": "request req_0a1b2c3d4e5f failed on gpu 7 after 1.5s", "type": "Internal"}}))],
        failed("in-stream error: Internal: request … failed on gpu # after #"),
    ),
    Case("D41 admission refused in a stream", [(5, QUEUE_FULL + DONE)], failed("in-stream error: 503 service_unavailable")),
]  # fmt: skip

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
        [(9, delta({"reasoning_details": [{"type": "reasoning.encrypted", "data": "AA="}]})), (30, C("a") + STOP + DONE)],
        OK | {"TTFT": 30, "events": 1},
    ),
]  # fmt: skip

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
        [(150, delta({"function_call": {"name": "f", "arguments": ""}})),
         (170, delta({"function_call": {"arguments": "{}"}}, finish="function_call") + DONE)],
        OK | {"TTFT": 150, "ITL": [20], "tools": [("f", "{}")]},
    ),
    Case("D36 refusal", [(150, ROLE), (160, delta({"refusal": "I"}) + STOP + DONE)], OK | {"TTFT": 160, "TTFC": 160}),
    Case(
        "D36 audio",
        [(150, delta({"audio": {"id": "a1", "data": "UklGRg=="}})),
         (170, delta({"audio": {"transcript": "hi"}}) + delta({"audio": {"expires_at": 5}}) + STOP + DONE)],
        OK | {"TTFT": 150, "TTFC": 150, "events": 2},
    ),
    Case(
        "D36 null tool calls beside text",
        [(10, delta({"content": "a", "tool_calls": None, "refusal": None, "function_call": None}) + STOP + DONE)],
        OK | {"events": 1, "text": "a", "tools": []},
    ),
    Case(
        "D36 empty pieces are no output",
        [(10, _arguments("")), (20, delta({"refusal": "", "audio": None, "tool_calls": []})), (30, C("a") + STOP + DONE)],
        OK | {"TTFT": 30, "events": 1},
    ),
    Case(
        "content as a list of parts",
        [(10, delta({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) + STOP + DONE)],
        OK | {"events": 1, "text": "ab"},
    ),
]  # fmt: skip


def _of(index: int, content: str = "x", **chunk: Any) -> bytes:
    return C(content, index=index, **chunk)


CHOICES = [
    Case(
        "D35 two choices interleaved",
        [
            (100, _of(0)), (105, _of(1)), (120, _of(0)), (125, _of(1)), (126, delta({}, index=0, finish="stop")),
            (145, _of(1)), (146, delta({}, index=1, finish="length") + U(4, 5) + DONE),
        ],
        OK | {"TTFT": 100, "ITL": [20, 20, 20], "N": 5, "E2E": 145, "TPOT": 20, "finish": ("stop", "length"),
              "texts": ("xx", "xxx")},
    ),
    Case(
        "D35 the second one speaks first",
        [(100, _of(1)), (105, _of(0)), (126, delta({}, index=1, finish="stop") + delta({}, index=0, finish="stop"))],
        OK | {"TTFT": 100, "ITL": []},
    ),
    Case(
        "D35 both in one event",
        [(100, event({"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]})),
         (120, event({"choices": [{"index": 0, "delta": {"content": "c"}, "finish_reason": "stop"},
                                  {"index": 1, "delta": {"content": "d"}, "finish_reason": "stop"}]}))],
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
            (10, _of(0, usage=usage(4, 1))), (11, _of(1, usage=usage(4, 2))), (20, _of(0, usage=usage(4, 4))),
            (21, _of(1, usage=usage(4, 3), finish="stop") + delta({}, finish="stop") + U(4, 7) + DONE),
        ],
        OK | {"N": 7, "tokens": [1, 2, 3, 1], "prompt": 4},
    ),
]  # fmt: skip


def _timed(prompt: int, completion: int, **choice: Any) -> dict[str, Any]:
    """llama.cpp's usage of one sequence."""
    return {"usage": usage(prompt, completion), "timings": {"predicted_n": completion, "predicted_ms": 1.5}} | choice


TWO_PROMPTS = Call(prompt=["a", "b"])
LIKE_LLAMA = [
    (10, _of(1) + _of(0) + delta({}, index=1, finish="stop") + event({"choices": []} | _timed(36, 6))),
    (20, _of(0) + delta({}, index=0, finish="stop") + event({"choices": []} | _timed(36, 5))),
]

USAGE = [
    Case(
        "D05 many tokens an event",
        [(100, C("The quick brown fox")), (140, C(" jumps over the lazy")), (180, C(" dog") + STOP + U(5, 12) + DONE)],
        OK | {"N": 12, "TPOT": 7.273, "ITL": [40, 40], "tokens": None},
    ),
    Case(
        "D05 usage in every event",
        [
            (100, C("The quick", usage=usage(5, 4))), (140, C(" jumps", usage=usage(5, 8))),
            (180, C(" dog", usage=usage(5, 12)) + STOP + U(5, 12) + DONE),
        ],
        OK | {"N": 12, "TPOT": 10, "tokens": [4, 4, 4]},
    ),
    Case(
        "D06 few tokens of a large cap",
        [(10, text("x")), (20, text("x")), (30, text("x")), (31, text("", "stop", usage=usage(8, 3)) + DONE)],
        OK | {"N": 3, "prompt": 8, "TPOT": 10},
        api="completions",
        call=Call(prompt="p", max_tokens=256),
    ),
    Case(
        "D16 cumulative usage is not summed",
        [(10, delta({"role": "assistant"}, usage=usage(16, 0))), (20, C("a", usage=usage(16, 1))),
         (30, C("b", usage=usage(16, 2)) + STOP + U(16, 2) + DONE)],
        OK | {"N": 2, "prompt": 16, "tokens": [1, 1]},
    ),
    Case(
        "D16 a count never falls",
        [(20, C("a")), (30, C("b") + STOP + U(16, 2) + U(0, 0) + DONE)],
        OK | {"N": 2, "prompt": 16},
    ),
    Case(
        "D25 eight tokens in the first event",
        [(500, C("x" * 8, usage=usage(4, 8))),
         *((510 + 10 * k, C("x", usage=usage(4, 9 + k))) for k in range(8)), (580, STOP + U(4, 16) + DONE)],
        OK | {"N": 16, "TPOT": 10, "tokens": [8] + [1] * 8},
    ),
    Case(
        "D25 and nobody tells",
        [(500, C("x" * 8)), *many(C("x"), 510, 10, 8), (580, STOP + U(4, 16) + DONE)],
        OK | {"N": 16, "TPOT": 5.333, "tokens": None},
    ),
    Case(
        "D25 hidden reasoning is no part of the first event",
        [(500, C("x", usage=usage(4, 101) | {"completion_tokens_details": {"reasoning_tokens": 100}})),
         (510, C("x", usage=usage(4, 102) | {"completion_tokens_details": {"reasoning_tokens": 100}}) + STOP + DONE)],
        OK | {"N": 102, "tokens": [1, 1], "TPOT": 10},
    ),
    Case("D27 fewer tokens than events", [(10, C("Hel")), (20, C("lo")), (30, C("!") + STOP + U(1, 2) + DONE)], OK | {"N": 2}),
    Case(
        "D34 no usage at all",
        [(10, ROLE), (20, C("a")), (30, C("b")), (40, C("c") + STOP + DONE)],
        OK | {"N": 3, "source": "chunks", "TTFT": 20, "E2E": 40, "prompt": None},
    ),
    Case(
        "D57 null but once",
        [(10, C("a", usage=None)), (20, delta({}, finish="stop", usage=usage(4, 1))), (21, event({"choices": [], "usage": None}) + DONE)],
        OK | {"N": 1, "prompt": 4},
    ),
    Case(
        "D57 with the last text, and nothing in the last event",
        [(10, C("a")), (20, C("b", finish="stop", usage=usage(4, 9))), (21, event({"choices": []}) + DONE)],
        OK | {"N": 9, "tokens": None},
    ),
    Case("D57 empty, then real", [(10, C("a", usage={}) + STOP + U(4, 1) + event({"choices": [], "usage": {}}) + DONE)], OK | {"N": 1}),
    Case("D57 after the finish reason", [(10, C("a") + STOP), (20, U(4, 1)), (21, DONE)], OK | {"N": 1, "done": 21}),
    Case(
        "D57 odd numbers",
        [(10, C("a") + STOP), (20, event({"choices": [], "usage": {"prompt_tokens": "4", "completion_tokens": 5.0}}) + DONE)],
        OK | {"N": 5, "prompt": None},
    ),
    Case("D57 LiteLLM's choices are not empty", [(10, C("a") + STOP + delta({}, usage=usage(4, 1)) + DONE)], OK | {"N": 1, "prompt": 4}),
    Case("llama.cpp counts each choice", LIKE_LLAMA + [(30, DONE)], OK | {"N": 11, "prompt": 36}),
    Case("llama.cpp, with a total after", [*LIKE_LLAMA, (30, U(36, 11) + DONE)], OK | {"N": 11, "prompt": 36}),
    Case(
        "llama.cpp's usage said twice",
        [(10, C("a") + delta({}, finish="stop", **_timed(4, 3)) + event({"choices": []} | _timed(4, 3)) + DONE)],
        OK | {"N": 3, "prompt": 4},
    ),
    Case(
        "a total beside the timings of one",
        [(10, _of(0) + _of(1) + delta({}, index=0, finish="stop") + delta({}, index=1, finish="stop")),
         (20, event({"choices": [], "usage": usage(4, 12), "timings": {"predicted_n": 6}}) * 2 + DONE)],
        OK | {"N": 12},
    ),
    Case(
        "llama.cpp's two prompts",
        [(10, b"data: null\n\n" + text("a", index=0) + text("", "length", index=0, **_timed(8, 4))),
         (20, text("b", index=1) + text("", "length", index=1, **_timed(4, 4)) + DONE)],
        OK | {"N": 8, "prompt": 12, "texts": ("a", "b")},
        api="completions",
        call=TWO_PROMPTS,
    ),
]  # fmt: skip


def _logged(content: str, count: int) -> bytes:
    """An event with that many logprobs."""
    entry = {"token": "t", "logprob": -0.5, "bytes": [1], "top_logprobs": []}
    choice = {"index": 0, "delta": {"content": content}, "logprobs": {"content": [entry] * count}}
    return event({"choices": [choice]})


LOGPROBS = [
    Case("logprobs weigh events", [(10, _logged("a", 1)), (20, _logged("bcd", 3) + STOP + DONE)],
         OK | {"N": 4, "source": "logprobs", "tokens": [1, 3], "TPOT": 3.333}),
    Case("part of a character counts with the event that completes it",
         [(10, _logged("", 1)), (20, _logged("é", 1)), (30, _logged("b", 1) + STOP + U(1, 3) + DONE)],
         OK | {"N": 3, "source": "usage", "tokens": [2, 1], "TPOT": 10}),
    Case("usage outweighs logprobs",
         [(10, event({"choices": [{"delta": {"content": "a"}, "token_ids": [1]}], "usage": usage(1, 2)}) + STOP + DONE)],
         OK | {"N": 2, "tokens": [2]}),
    Case("an event without logprobs counts as one token", [(10, _logged("a", 2)), (20, C("b") + STOP + DONE)],
         OK | {"N": 3, "source": "logprobs"}),
    Case("token ids, and OpenAI's completions",
         [(10, event({"choices": [{"text": "ab", "token_ids": [7, 8]}]})),
          (20, event({"choices": [{"text": "c", "logprobs": {"tokens": ["c"], "token_logprobs": [-1]}}]})),
          (30, text("", "stop") + DONE)],
         OK | {"N": 3, "tokens": [2, 1]}, api="completions"),
]  # fmt: skip

ENDS = [
    Case("D02a half an event", [(100, C("a")), (120, C("b")), (130, b'data: {"choi')], failed("truncated stream", events=2)),
    Case("D02b ends well, without a finish", [(100, C("a")), (120, C("b"))], failed("truncated stream", events=2)),
    Case("D02c cut off", [(100, C("a")), (120, C("b"))], failed("truncated stream", events=2), clean=False),
    Case("D02e complete", [(100, C("a") + STOP + DONE)], OK | {"N": 1}),
    Case("D37a nothing said", [(50, ROLE + STOP + U(9, 0) + DONE)], OK | {"N": 0, "TTFT": None, "TPOT": None, "E2E": 50}),
    Case(
        "D37b the one token was the end",
        [(50, ROLE), (60, delta({"content": ""}, finish="length") + U(9, 1) + DONE)],
        OK | {"N": 1, "TTFT": None, "TPOT": None, "finish": ("length",)},
    ),
    Case("D37c only DONE", [(50, DONE)], failed("no output events")),
    Case("D37c a role and DONE", [(50, ROLE + DONE)], failed("no output events")),
    Case("D37d empty body", [], failed("no output events"), end_ms=50),
    Case("D37d empty and cut off", [], failed("truncated stream"), clean=False),
    Case("D37d comments only", [(50, b": ping\n\n: ping\n\n")], failed("no output events")),
    Case("D38a one token", [(1261, C("4") + STOP + U(9, 1) + DONE)], OK | {"TTFT": 1261, "TPOT": None, "ITL": [], "N": 1}),
    Case("D38b one burst", [(900, C("x" * 50) + STOP + U(9, 50) + DONE)], OK | {"TTFT": 900, "TPOT": None, "ITL": [], "N": 50}),
    Case("D43a no DONE", [(10, C("a")), (20, C("b") + STOP)], OK | {"N": 2, "E2E": 20, "done": None}),
    Case("D43b no finish reason", [(10, C("a")), (20, C("b") + DONE)], OK | {"N": 2, "finish": ()}),
    Case("D43c finish with the last text", [(10, C("a")), (20, C("b", finish="stop"))], OK | {"N": 2, "finish": ("stop",)}),
    Case("D43 cut off after its finish", [(10, C("a") + STOP)], OK | {"N": 1}, clean=False),
    Case("D44a open after DONE", [(100, C("x")), (120, C("y") + STOP + U(4, 2) + DONE)], OK | {"done": 120, "E2E": 120}),
    Case("D44b DONE twice", [(100, C("x")), (120, C("y") + STOP + U(4, 2) + DONE + DONE)], OK | {"done": 120, "N": 2}),
    Case(
        "D44c more after DONE",
        [(100, C("x")), (120, C("y") + STOP + U(4, 2) + DONE + b'data: {"late":1}\n\n' + C("z") + U(4, 9) + ENGINE_DIED)],
        OK | {"done": 120, "N": 2, "text": "xy"},
    ),
    Case("D46 two spaces before DONE", [(10, C("a")), (20, b"data:  [DONE]\n\n")], OK | {"done": 20}),
    Case("D60 empty reasons end nothing", [(10, C("a", finish="")), (20, C("b", finish="")), (30, C("c", finish="stop"))],
         OK | {"N": 3, "finish": ("stop",)}),
    *(
        Case(f"D60 {reason}", [(10, C("a")), (20, C("b", finish=reason) + DONE)], OK | {"N": 2, "finish": (reason,)})
        for reason in ("length", "content_filter", "tool_calls")
    ),
    Case("D60 no such key", [(10, event({"choices": [{"delta": {"content": "a"}}]})), (20, DONE)], OK | {"finish": ()}),
    Case("D65 another model answers", [(10, event({"model": "", "choices": []}) + C("a", model="gemma") + STOP)], OK | {"model": "gemma"}),
    Case("D86 halves of a pair",
         [(10, delta({"content": "A"}).replace(b"A", rb"\ud83d")), (20, delta({"content": "A"}).replace(b"A", rb"\ude00") + STOP + U(1, 2) + DONE)],
         OK | {"N": 2, "text": "😀", "events": 2}),
    Case("D86 a half alone", [(10, delta({"content": "A"}).replace(b"A", rb"a\ud83d") + STOP + DONE)], OK | {"text": "a\ufffd"}),
    Case("D49 invalid UTF-8", [(10, C("AB").replace(b"AB", b"A\xe8\xbfB") + STOP + DONE)], OK | {"text": "A\ufffdB"}),
    Case("a keep-alive word is no event", [(10, b"data: ping\n\n"), (20, C("a") + STOP + DONE)], OK | {"TTFT": 20}),
    Case("broken JSON may have been a token", [(10, C("a") + b'data: {"choices":[{"delta"\n\n' + STOP + DONE)], failed("malformed event")),
]  # fmt: skip

CASES = [*ERRORS, *FIRST_TOKEN, *REASONING, *OTHER_CHANNELS, *CHOICES, *USAGE, *LOGPROBS, *ENDS]
