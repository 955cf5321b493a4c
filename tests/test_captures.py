"""The captured streams are whole, and what is expected of them is what was seen in them by eye."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.data.expect import CAPTURES, as_text, body_of, expected, names
from tests.engine.tiny_text import TEXT, said

NAMES = names()
STREAMS = [path.stem for path in sorted(CAPTURES.glob("*.wire"))]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_says_what_the_capture_says(name: str) -> None:
    assert (CAPTURES / f"{name}.expected.json").read_text() == as_text(expected(name))


def test_every_expectation_has_its_capture() -> None:
    assert {path.name for path in CAPTURES.glob("*.expected.json")} == {f"{name}.expected.json" for name in NAMES}


@pytest.mark.parametrize("name", STREAMS)
def test_the_parts_of_a_capture_agree(name: str) -> None:
    wire = (CAPTURES / f"{name}.wire").read_bytes()
    arrivals = json.loads((CAPTURES / f"{name}.arrivals.json").read_text())
    assert sum(size for _, size in arrivals if size != "eof") == len(wire)
    assert [at_s for at_s, _ in arrivals] == sorted(at_s for at_s, _ in arrivals)
    events = CAPTURES / f"{name}.sse"
    if events.exists():
        assert body_of(wire) == (events.read_bytes(), True)


# Read from the captures by a person, not by the script: output events, prompt, cached and output tokens of the whole
# answer; text and finish reason of each choice.
N2 = said(6)
SEEN: dict[str, tuple[int | None, int | None, int | None, int | None, list[tuple[str, str | None]]]] = {
    # Two usage events, one for each choice; choice 1 speaks first.
    "llamacpp-tiny-chat-stream-n2": (12, 20, 19, 12, [(N2, "length"), (N2, "length")]),
    "llamacpp-smollm2-chat-stream-n2": (12, 36, 35, 12, [("The number is 11", "length"), ("1. 1\n2", "length")]),
    "vllm-tiny-chat-stream-n2": (12, 20, None, 12, [(N2, "length"), (N2, "length")]),
    "vllm-tiny-apikey-interval5-chat-stream-n2": (4, 20, None, 12, [(N2, "length"), (N2, "length")]),
    # The first event is `null`, and each prompt's finish event has its own usage.
    "llamacpp-tiny-completions-stream-twoprompts": (8, 12, 7, 8, [(said(4), "length"), (said(4), "length")]),
    "vllm-tiny-completions-stream-twoprompts": (8, 12, None, 8, [(said(4), "length"), (said(4), "length")]),
    # Characters split over tokens make fewer events than tokens. No role event in the second.
    "llamacpp-tiny-chat-stream-utf8": (42, 57, 0, 48, [(said(48), "length")]),
    "llamacpp-smollm2-chat-stream-utf8": (16, 60, 24, 48, [("🚀" * 16, "length")]),
    "vllm-tiny-apikey-interval5-chat-stream-utf8": (11, 57, None, 48, [(said(48), "length")]),
    # Tools were asked for, but neither model calls one. The end-of-sequence token counts and shows no event.
    "llamacpp-tiny-chat-stream-tools": (48, 20, 19, 55, [(TEXT, "stop")]),
    # Up to five tokens an event, the first alone.
    "vllm-tiny-apikey-interval5-chat-stream-usage": (6, 20, None, 24, [(said(24), "length")]),
    "vllm-tiny-apikey-interval5-chat-stream-nousage": (6, None, None, None, [(said(24), "length")]),
    # Usage so far in every event; the last one counts.
    "vllm-tiny-chat-stream-continuoususage": (4, 20, None, 4, [(said(4), "length")]),
    "vllm-tiny-apikey-interval5-chat-stream-continuoususage": (2, 20, None, 4, [(said(4), "length")]),
    "llamacpp-tiny-chat-stream-max1": (1, 20, 19, 1, [("The", "length")]),
    "vllm-tiny-chat-stream-max1": (1, 20, None, 1, [("The", "length")]),
    # Five comments, then an answer whose first token ends it.
    "llamacpp-smollm2-ping1s-chat-stream-slowprompt": (0, 931, 0, 1, [("", "stop")]),
    "llamacpp-smollm2-killed-midstream": (11, None, None, None, [("Once upon a time, in a land far away,", None)]),
    "llamacpp-tiny-keepalive-chat-stream": (5, 5, 4, 5, [(said(5), "length")]),
    # input_tokens leave out the 19 cached ones.
    "llamacpp-tiny-messages-stream": (16, 20, 19, 16, [(said(16), "max_tokens")]),
    "vllm-tiny-messages-stream": (16, 20, None, 16, [(said(16), "max_tokens")]),
    "vllm-tiny-responses-stream": (12, 20, 0, 16, [(said(16), "max_output_tokens")]),
    "llamacpp-tiny-responses-stream": (16, 20, 19, 16, [(said(16), "completed")]),
}


@pytest.mark.parametrize("name", SEEN)
def test_the_odd_ones(name: str) -> None:
    summary: dict[str, Any] = json.loads((CAPTURES / f"{name}.expected.json").read_text())
    counts = tuple(summary[key] for key in ("output_events", "prompt_tokens", "cached_tokens", "output_tokens"))
    choices = [(choice["text"], choice["finish_reason"]) for choice in summary["choices"]]
    assert (*counts, choices) == SEEN[name]


def test_only_the_answer_of_the_killed_server_is_incomplete() -> None:
    incomplete = [name for name in NAMES if not expected(name)["complete"]]
    assert incomplete == ["llamacpp-smollm2-killed-midstream"]
