"""How a stream ends, and what its last events may lack (D02, D37, D38, D43, D44, D60, D86)."""

from __future__ import annotations

from tests.wire.error_cases import ENGINE_DIED
from tests.wire.playing import OK, Case, failed
from tests.wire_events import DONE, ROLE, STOP, C, U, delta, event

CASES = [
    Case(
        "D02a half an event",
        [(100, C("a")), (120, C("b")), (130, b'data: {"choi')],
        failed("truncated stream", events=2),
    ),
    Case("D02b ends well, without a finish", [(100, C("a")), (120, C("b"))], failed("truncated stream", events=2)),
    Case("D02c cut off", [(100, C("a")), (120, C("b"))], failed("truncated stream", events=2), clean=False),
    Case("D02e complete", [(100, C("a") + STOP + DONE)], OK | {"N": 1}),
    Case(
        "D37a nothing said", [(50, ROLE + STOP + U(9, 0) + DONE)], OK | {"N": 0, "TTFT": None, "TPOT": None, "E2E": 50}
    ),
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
    Case(
        "D38a one token", [(1261, C("4") + STOP + U(9, 1) + DONE)], OK | {"TTFT": 1261, "TPOT": None, "ITL": [], "N": 1}
    ),
    Case(
        "D38b one burst",
        [(900, C("x" * 50) + STOP + U(9, 50) + DONE)],
        OK | {"TTFT": 900, "TPOT": None, "ITL": [], "N": 50},
    ),
    Case("D43a no DONE", [(10, C("a")), (20, C("b") + STOP)], OK | {"N": 2, "E2E": 20, "done": None}),
    Case("D43b no finish reason", [(10, C("a")), (20, C("b") + DONE)], OK | {"N": 2, "finish": ()}),
    Case(
        "D43c finish with the last text",
        [(10, C("a")), (20, C("b", finish="stop"))],
        OK | {"N": 2, "finish": ("stop",)},
    ),
    Case("D43 cut off after its finish", [(10, C("a") + STOP)], OK | {"N": 1}, clean=False),
    Case(
        "D44a open after DONE", [(100, C("x")), (120, C("y") + STOP + U(4, 2) + DONE)], OK | {"done": 120, "E2E": 120}
    ),
    Case("D44b DONE twice", [(100, C("x")), (120, C("y") + STOP + U(4, 2) + DONE + DONE)], OK | {"done": 120, "N": 2}),
    Case(
        "D44c more after DONE",
        [
            (100, C("x")),
            (120, C("y") + STOP + U(4, 2) + DONE + b'data: {"late":1}\n\n' + C("z") + U(4, 9) + ENGINE_DIED),
        ],
        OK | {"done": 120, "N": 2, "text": "xy"},
    ),
    Case("D46 two spaces before DONE", [(10, C("a")), (20, b"data:  [DONE]\n\n")], OK | {"done": 20}),
    Case(
        "D60 empty reasons end nothing",
        [(10, C("a", finish="")), (20, C("b", finish="")), (30, C("c", finish="stop"))],
        OK | {"N": 3, "finish": ("stop",)},
    ),
    *(
        Case(f"D60 {reason}", [(10, C("a")), (20, C("b", finish=reason) + DONE)], OK | {"N": 2, "finish": (reason,)})
        for reason in ("length", "content_filter", "tool_calls")
    ),
    Case("D60 no such key", [(10, event({"choices": [{"delta": {"content": "a"}}]})), (20, DONE)], OK | {"finish": ()}),
    Case(
        "D65 another model answers",
        [(10, event({"model": "", "choices": []}) + C("a", model="gemma") + STOP)],
        OK | {"model": "gemma"},
    ),
    Case(
        "D86 halves of a pair",
        [
            (10, delta({"content": "A"}).replace(b"A", rb"\ud83d")),
            (20, delta({"content": "A"}).replace(b"A", rb"\ude00") + STOP + U(1, 2) + DONE),
        ],
        OK | {"N": 2, "text": "😀", "events": 2},
    ),
    Case(
        "D86 a half alone",
        [(10, delta({"content": "A"}).replace(b"A", rb"a\ud83d") + STOP + DONE)],
        OK | {"text": "a\ufffd"},
    ),
    Case("D49 invalid UTF-8", [(10, C("AB").replace(b"AB", b"A\xe8\xbfB") + STOP + DONE)], OK | {"text": "A\ufffdB"}),
    Case("a keep-alive word is no event", [(10, b"data: ping\n\n"), (20, C("a") + STOP + DONE)], OK | {"TTFT": 20}),
    Case(
        "broken JSON may have been a token",
        [(10, C("a") + b'data: {"choices":[{"delta"\n\n' + STOP + DONE)],
        failed("malformed event"),
    ),
]
