"""Errors that come as events of a stream with status 200 (D01, D41)."""

from __future__ import annotations

from tests.wire.playing import OK, Case, failed, many
from tests.wire_events import DONE, ROLE, C, delta, event

ENGINE_DIED = event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}})
TGI_ERROR = event({"error": "Request failed during generation", "error_type": "generation"})
OLD_ERROR = event({"object": "error", "message": "x", "code": 50001})
QUEUE_FULL = event(
    {"error": {"object": "error", "message": "The queue is full.", "type": "service_unavailable", "code": 503}}
)

CASES = [
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
    Case(
        "D01 finish reason error", [(5, C("a", finish="error") + DONE)], failed("in-stream error: finish_reason error")
    ),
    Case(
        "D01 not errors: null, empty, and the word",
        [
            (10, C("error", error=None)),
            (20, C(': {"error"', error={})),
            (25, delta({}, error={"message": "", "code": None})),
            (30, delta({}, finish="stop", error="") + DONE),
        ],
        OK | {"text": 'error: {"error"', "TTFT": 10, "events": 2},
    ),
    Case(
        "D01 ids and numbers leave the label",
        [(9, event({"error": {"message": "request req_0a1b2c3d4e5f failed on gpu 7 after 1.5s", "type": "Internal"}}))],
        failed("in-stream error: Internal: request … failed on gpu # after #"),
    ),
    Case(
        "D41 admission refused in a stream",
        [(5, QUEUE_FULL + DONE)],
        failed("in-stream error: 503 service_unavailable"),
    ),
]
