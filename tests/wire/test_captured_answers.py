"""What real servers sent, decoded: the same as the second opinion in tests/data/captures/*.expected.json."""

from __future__ import annotations

import json
import re
from typing import Any

import httptools
import pytest

from locust_llm.measure.record import RequestRecord
from locust_llm.wire import document, openai_chunks
from locust_llm.wire.api import APIS, Call
from tests.data.expect import CAPTURES, prompts_asked
from tests.wire.playing import MS, Case, bytewise, cuts, play
from tests.wire.test_answers import Refuses


def _expected(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CAPTURES / f"{name}.expected.json").read_text())
    return document


NAMES = [
    name
    for path in sorted(CAPTURES.glob("*.expected.json"))
    for name in [path.name.removesuffix(".expected.json")]
    if _expected(name)["api"] in APIS
]
STREAMS = [name for name in NAMES if (CAPTURES / f"{name}.wire").exists()]
DOCUMENTS = [name for name in NAMES if name not in STREAMS]


class Wire:
    """The body of a captured answer, by the reads it came in: (ms, bytes) of each piece of the body."""

    def __init__(self, name: str) -> None:
        self.steps: list[tuple[float, bytes]] = []
        self.headers: dict[str, str] = {}
        self.clean = False
        self._at_ms = 0.0
        parser = httptools.HttpResponseParser(self)
        wire, place = (CAPTURES / f"{name}.wire").read_bytes(), 0
        for at_s, count in json.loads((CAPTURES / f"{name}.arrivals.json").read_text()):
            if count != "eof":
                self._at_ms = at_s * 1000
                parser.feed_data(wire[place : place + count])
                place += count

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self.steps.append((self._at_ms, data))

    def on_message_complete(self) -> None:
        self.clean = True


def case_of(name: str) -> Case:
    """The capture as a case."""
    call = Call(prompt=["p"] * prompts_asked(name)) if "-completions-" in name else Call()
    api = _expected(name)["api"]
    if name in DOCUMENTS:
        headers = {"content-type": "application/json"}
        return Case(name, [(5, (CAPTURES / f"{name}.json").read_bytes())], {}, api=api, call=call, headers=headers)
    wire = Wire(name)
    return Case(name, wire.steps, {}, clean=wire.clean, api=api, call=call, headers=wire.headers)


def assert_holds(record: RequestRecord, expected: dict[str, Any]) -> None:
    choices = expected["choices"]
    assert record.success == expected["complete"], record.error
    assert record.model_answered == expected["model"]
    assert record.streamed == (expected["output_events"] is not None)
    assert len(record.event_ns) == (expected["output_events"] or 0)
    # A choice without any text is not listed, but that of one choice alone is "" all the same.
    assert list(record.choices) == [choice["text"] for choice in choices]
    assert record.text == choices[0]["text"]
    assert record.reasoning == choices[0]["reasoning"]
    reasons = [choice["finish_reason"] for choice in choices]
    assert list(record.finish_reasons) == [reason for reason in reasons if reason]
    assert record.usage.input_tokens == expected["prompt_tokens"]
    assert record.usage.cached_tokens == expected["cached_tokens"]
    assert record.usage.output_tokens == expected["output_tokens"]
    if record.event_choice is not None:
        counts = [list(record.event_choice).count(choice["index"]) for choice in choices]
        assert counts == [choice["output_events"] for choice in choices]


@pytest.mark.parametrize("name", NAMES)
def test_holds_what_was_seen(name: str) -> None:
    assert_holds(play(case_of(name)), _expected(name))


@pytest.mark.parametrize("name", STREAMS)
def test_byte_by_byte(name: str) -> None:
    case = case_of(name)
    assert play(case, bytewise(case.steps)) == play(case)


@pytest.mark.parametrize("name", NAMES)
def test_tolerant_ways_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(name)
    fast = play(case)
    monkeypatch.setattr(openai_chunks, "_chunk", Refuses())
    assert play(case) == fast
    monkeypatch.setattr(document, "_decoder", Refuses())
    assert play(case) == fast


@pytest.mark.parametrize("name", STREAMS)
def test_line_endings_change_nothing(name: str) -> None:
    case = case_of(name)
    whole = play(case)
    for ending in (b"\r\n", b"\r"):
        steps = [(at_ms, data.replace(b"\n", ending)) for at_ms, data in case.steps]
        assert play(case, steps) == whole


@pytest.mark.parametrize("name", STREAMS)
def test_first_token_is_not_the_first_byte(name: str) -> None:
    """TTFT is the time of the read that held the first text, which is never before the first read of the body."""
    case = case_of(name)
    record = play(case)
    if record.event_ns:
        text = next(at_ms for at_ms, data in case.steps if re.search(rb'"(content|text|delta)":"[^"]', data))
        assert record.event_ns[0] == round(text * MS)


@pytest.mark.long
@pytest.mark.parametrize("name", STREAMS)
def test_cut_at_every_place(name: str) -> None:
    case = case_of(name)
    whole = play(case)
    for steps in cuts([(0.0, b"".join(data for _, data in case.steps))]):
        record = play(case, steps)
        assert (record.text, record.usage, len(record.event_ns)) == (whole.text, whole.usage, len(whole.event_ns))
        assert (record.outcome, record.finish_reasons) == (whole.outcome, whole.finish_reasons)
