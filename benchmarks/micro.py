"""What parsing a stream costs: µs of CPU per event of each step, beside sseclient-py + json doing the same.

    python benchmarks/micro.py [--events 20000] [--rounds 5] [--json]

One read holds one event, as it does when a server sends a token at a time. No socket and no gevent: this is the part of
a client's cost that lies between the bytes and the record. Each figure is the best of the rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator

import sseclient

from locust_llm.measure.timeline import CONTENT, Timeline
from locust_llm.wire.answer import Answer
from locust_llm.wire.api import APIS, Call
from locust_llm.wire.openai_answer import OpenAIDecoder
from locust_llm.wire.openai_chunks import read_chunk
from locust_llm.wire.sse import EventStream

HEADERS = {"content-type": "text/event-stream"}

# As llama.cpp and vLLM send them: with and without usage in every event.
LLAMA = (
    '{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" tok%d"}}],"created":1796068318,'
    '"id":"chatcmpl-Bfr8oDSv7kjDP8gQlZ6BgqFqylFhUA5i","model":"smollm2","system_fingerprint":"b0-unknown",'
    '"object":"chat.completion.chunk"}'
)
VLLM = (
    '{"id":"chatcmpl-a3264b88c1788f47","object":"chat.completion.chunk","created":1796068533,"model":"tiny",'
    '"choices":[{"index":0,"delta":{"content":" tok%d"},"logprobs":null,"finish_reason":null,"token_ids":null}],'
    '"usage":{"prompt_tokens":20,"total_tokens":%d,"completion_tokens":%d,"completion_tokens_details":null}}'
)


def payloads(count: int, *, usage: bool) -> list[bytes]:
    if usage:
        return [(VLLM % (place, 20 + place, place)).encode() for place in range(1, count + 1)]
    return [(LLAMA % place).encode() for place in range(1, count + 1)]


def new_timeline() -> Timeline:
    timeline = Timeline("t", started_ns=0)
    timeline.transit.sent_ns = 0
    return timeline


def framing(frames: list[bytes]) -> None:
    stream = EventStream()
    for at_ns, frame in enumerate(frames):
        for _event in stream.feed(at_ns, frame):
            pass


def reading(documents: list[bytes]) -> None:
    for document in documents:
        read_chunk(document)


def decoding(documents: list[bytes]) -> None:
    decode = OpenAIDecoder(new_timeline()).event
    for at_ns, document in enumerate(documents):
        decode(at_ns, "message", document)


def timing(documents: list[bytes]) -> None:
    timeline = new_timeline()
    for at_ns in range(len(documents)):
        timeline.say(CONTENT, 0, " tok")
        timeline.output(at_ns, 0, visible=True)


def answering(frames: list[bytes]) -> None:
    timeline = new_timeline()
    answer = Answer(APIS["chat"], timeline, Call(), status=200, headers=HEADERS)
    for at_ns, frame in enumerate(frames):
        answer.feed(at_ns, frame)
    answer.end(len(frames))
    timeline.freeze(len(frames))


def plain_framing(frames: list[bytes]) -> None:
    for _event in sseclient.SSEClient(iter(frames)).events():
        pass


def plain(frames: list[bytes]) -> None:
    """What a careful script does: sseclient, json, one time a token, usage where it comes."""
    texts, times, tokens = [], [], 0

    def reads() -> Iterator[bytes]:
        yield from frames

    for event in sseclient.SSEClient(reads()).events():
        document = json.loads(event.data)
        if document.get("usage"):
            tokens = document["usage"]["completion_tokens"]
        for choice in document["choices"]:
            content = choice["delta"].get("content")
            if content:
                times.append(time.perf_counter())
                texts.append(content)
    "".join(texts)
    assert len(times) == len(frames)
    assert tokens in (0, len(frames))


def best_us(work: Callable[[list[bytes]], None], items: list[bytes], rounds: int) -> float:
    """CPU µs per item, the least of the rounds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.process_time_ns()
        work(items)
        least = min(least, (time.process_time_ns() - start) / len(items) / 1e3)
    return least


def measure(events: int, rounds: int) -> dict[str, float]:
    """µs per event by step."""
    figures: dict[str, float] = {}
    for kind, usage in (("", False), (" +usage", True)):
        documents = payloads(events, usage=usage)
        frames = [b"data: %s\n\n" % document for document in documents]
        if not usage:
            bytewise = [bytes([byte]) for frame in frames[: events // 100] for byte in frame]
            figures["framing"] = best_us(framing, frames, rounds)
            tens = [b"".join(frames[place : place + 10]) for place in range(0, len(frames), 10)]
            figures["framing, ten events a read"] = best_us(framing, tens, rounds) / 10
            figures["framing, CRLF"] = best_us(framing, [frame.replace(b"\n", b"\r\n") for frame in frames], rounds)
            figures["framing, named events"] = best_us(framing, [b"event: x\n" + frame for frame in frames], rounds)
            figures["framing, through sseclient"] = best_us(framing, [b"id: 1\n" + frame for frame in frames], rounds)
            figures["framing, a byte a read (per byte)"] = best_us(framing, bytewise, rounds)
            figures["timeline"] = best_us(timing, documents, rounds)
            figures["plain framing"] = best_us(plain_framing, frames, rounds)
        figures["json" + kind] = best_us(reading, documents, rounds)
        figures["json + decode + timeline" + kind] = best_us(decoding, documents, rounds)
        figures["whole path" + kind] = best_us(answering, frames, rounds)
        figures["plain whole path" + kind] = best_us(plain, frames, rounds)
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--events", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = options.parse_args()
    gc.disable()
    figures = measure(given.events, given.rounds)
    if given.json:
        json.dump({"events": given.events, "rounds": given.rounds, "us_per_event": figures}, sys.stdout, indent=1)
        return
    print(f"us of CPU per event, best of {given.rounds} rounds of {given.events} events")
    for name, us in figures.items():
        ours = name.replace("plain ", "")
        beside = f"   {us / figures[ours]:5.1f} x ours" if name != ours else ""
        print(f"{name:36}{us:9.3f}{beside}")


if __name__ == "__main__":
    main()
