"""Which of the counts in a stream are N, and which weigh an event (D05, D06, D16, D25, D27, D34, D57)."""

from __future__ import annotations

from typing import Any

from locust_llm.wire.api import Call
from tests.wire.playing import OK, Case, many
from tests.wire_events import DONE, ROLE, STOP, C, U, delta, event, usage


def text(content: str, finish: str | None = None, index: int = 0, **chunk: Any) -> bytes:
    """An event of the completions API."""
    return event({"choices": [{"index": index, "text": content, "finish_reason": finish}], "model": "m"} | chunk)


def _of(index: int, content: str = "x", **chunk: Any) -> bytes:
    return C(content, index=index, **chunk)


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
            (100, C("The quick", usage=usage(5, 4))),
            (140, C(" jumps", usage=usage(5, 8))),
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
        [
            (10, delta({"role": "assistant"}, usage=usage(16, 0))),
            (20, C("a", usage=usage(16, 1))),
            (30, C("b", usage=usage(16, 2)) + STOP + U(16, 2) + DONE),
        ],
        OK | {"N": 2, "prompt": 16, "tokens": [1, 1]},
    ),
    Case(
        "D16 a count never falls",
        [(20, C("a")), (30, C("b") + STOP + U(16, 2) + U(0, 0) + DONE)],
        OK | {"N": 2, "prompt": 16},
    ),
    Case(
        "D25 eight tokens in the first event",
        [
            (500, C("x" * 8, usage=usage(4, 8))),
            *((510 + 10 * k, C("x", usage=usage(4, 9 + k))) for k in range(8)),
            (580, STOP + U(4, 16) + DONE),
        ],
        OK | {"N": 16, "TPOT": 10, "tokens": [8] + [1] * 8},
    ),
    Case(
        "D25 and nobody tells",
        [(500, C("x" * 8)), *many(C("x"), 510, 10, 8), (580, STOP + U(4, 16) + DONE)],
        OK | {"N": 16, "TPOT": 5.333, "tokens": None},
    ),
    Case(
        "D25 hidden reasoning is no part of the first event",
        [
            (500, C("x", usage=usage(4, 101) | {"completion_tokens_details": {"reasoning_tokens": 100}})),
            (510, C("x", usage=usage(4, 102) | {"completion_tokens_details": {"reasoning_tokens": 100}}) + STOP + DONE),
        ],
        OK | {"N": 102, "tokens": [1, 1], "TPOT": 10},
    ),
    Case(
        "D27 fewer tokens than events",
        [(10, C("Hel")), (20, C("lo")), (30, C("!") + STOP + U(1, 2) + DONE)],
        OK | {"N": 2},
    ),
    Case(
        "D34 no usage at all",
        [(10, ROLE), (20, C("a")), (30, C("b")), (40, C("c") + STOP + DONE)],
        OK | {"N": 3, "source": "chunks", "TTFT": 20, "E2E": 40, "prompt": None},
    ),
    Case(
        "D57 null but once",
        [
            (10, C("a", usage=None)),
            (20, delta({}, finish="stop", usage=usage(4, 1))),
            (21, event({"choices": [], "usage": None}) + DONE),
        ],
        OK | {"N": 1, "prompt": 4},
    ),
    Case(
        "D57 with the last text, and nothing in the last event",
        [(10, C("a")), (20, C("b", finish="stop", usage=usage(4, 9))), (21, event({"choices": []}) + DONE)],
        OK | {"N": 9, "tokens": None},
    ),
    Case(
        "D57 empty, then real",
        [(10, C("a", usage={}) + STOP + U(4, 1) + event({"choices": [], "usage": {}}) + DONE)],
        OK | {"N": 1},
    ),
    Case("D57 after the finish reason", [(10, C("a") + STOP), (20, U(4, 1)), (21, DONE)], OK | {"N": 1, "done": 21}),
    Case(
        "D57 odd numbers",
        [
            (10, C("a") + STOP),
            (20, event({"choices": [], "usage": {"prompt_tokens": "4", "completion_tokens": 5.0}}) + DONE),
        ],
        OK | {"N": 5, "prompt": None},
    ),
    Case(
        "D57 LiteLLM's choices are not empty",
        [(10, C("a") + STOP + delta({}, usage=usage(4, 1)) + DONE)],
        OK | {"N": 1, "prompt": 4},
    ),
    Case("llama.cpp counts each choice", [*LIKE_LLAMA, (30, DONE)], OK | {"N": 11, "prompt": 36}),
    Case("llama.cpp, with a total after", [*LIKE_LLAMA, (30, U(36, 11) + DONE)], OK | {"N": 11, "prompt": 36}),
    Case(
        "llama.cpp's usage said twice",
        [(10, C("a") + delta({}, finish="stop", **_timed(4, 3)) + event({"choices": []} | _timed(4, 3)) + DONE)],
        OK | {"N": 3, "prompt": 4},
    ),
    Case(
        "a total beside the timings of one",
        [
            (10, _of(0) + _of(1) + delta({}, index=0, finish="stop")),
            (15, event({"choices": [], "usage": usage(4, 7), "timings": {"predicted_n": 6}})),
            (20, delta({}, index=1, finish="stop")),
            (20, event({"choices": [], "usage": usage(4, 12), "timings": {"predicted_n": 6}}) + DONE),
        ],
        OK | {"N": 12},
    ),
    Case(
        "llama.cpp's two prompts",
        [
            (10, b"data: null\n\n" + text("a", index=0) + text("", "length", index=0, **_timed(8, 4))),
            (20, text("b", index=1) + text("", "length", index=1, **_timed(4, 4)) + DONE),
        ],
        OK | {"N": 8, "prompt": 12, "texts": ("a", "b")},
        api="completions",
        call=TWO_PROMPTS,
    ),
]


def _logged(content: str, count: int, **chunk: Any) -> bytes:
    """An event with that many logprobs."""
    entry = {"token": "t", "logprob": -0.5, "bytes": [1], "top_logprobs": []}
    choice = {"index": 0, "delta": {"content": content}, "logprobs": {"content": [entry] * count}}
    return event({"choices": [choice]} | chunk)


LOGPROBS = [
    Case(
        "logprobs weigh events",
        [(10, _logged("a", 1)), (20, _logged("bcd", 3) + STOP + DONE)],
        OK | {"N": 4, "source": "logprobs", "tokens": [1, 3], "TPOT": 3.333},
    ),
    Case(
        "part of a character counts with the event that completes it",
        [(10, _logged("", 1)), (20, _logged("é", 1)), (30, _logged("b", 1) + STOP + U(1, 3) + DONE)],
        OK | {"N": 3, "source": "usage", "tokens": [2, 1], "TPOT": 10},
    ),
    Case(
        "usage outweighs logprobs",
        [(10, event({"choices": [{"delta": {"content": "a"}, "token_ids": [1]}], "usage": usage(1, 2)}) + STOP + DONE)],
        OK | {"N": 2, "tokens": [2]},
    ),
    Case(
        "usage in the last event alone tells nothing of it, its logprobs do",
        [(10, _logged("a", 1)), (20, _logged("bc", 2, usage=usage(4, 3)) + STOP + DONE)],
        OK | {"N": 3, "tokens": [1, 2], "TPOT": 5},
    ),
    Case(
        "an event without logprobs counts as one token",
        [(10, _logged("a", 2)), (20, C("b") + STOP + DONE)],
        OK | {"N": 3, "source": "logprobs"},
    ),
    Case(
        "token ids, and OpenAI's completions",
        [
            (10, event({"choices": [{"text": "ab", "token_ids": [7, 8]}]})),
            (20, event({"choices": [{"text": "c", "logprobs": {"tokens": ["c"], "token_logprobs": [-1]}}]})),
            (30, text("", "stop") + DONE),
        ],
        OK | {"N": 3, "tokens": [2, 1]},
        api="completions",
    ),
]

CASES = [*USAGE, *LOGPROBS]
