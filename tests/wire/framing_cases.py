"""How the bytes of events can be laid out, and what must come of it: framing cases of the project's cases (D10 …)."""

from __future__ import annotations

import json

from tests.wire.playing import OK, Case, failed
from tests.wire_events import DONE, ROLE, STOP, C, U, delta

LATE = C("c").index(b'ices"')
COMMENTS_ONLY_BYTES = b"\x0b\x0c\x1c\x1d\x1e\xc2\x85\xe2\x80\xa8"


def lines(data: bytes, ending: bytes) -> bytes:
    """The same events with other line endings."""
    return data.replace(b"\n", ending)


HALF = C("a") + C("b")
ALL = C("a") + C("b") + C("c") + STOP + U(3, 3) + DONE
THREE = OK | {"events": 3, "N": 3, "TTFT": 100, "text": "abc"}
LONG = "x" * 300_000

READS = [
    Case("D10 one read", [(100, ALL)], THREE | {"ITL": [0, 0], "E2E": 100}),
    Case(
        "D10 an event cut in two",
        [(100, HALF + C("c")[:LATE]), (130, C("c")[LATE:]), (140, STOP + U(3, 3) + DONE)],
        THREE | {"ITL": [0, 30], "E2E": 130},
    ),
    Case(
        "D54 an event over many reads",
        [*((100 + place, bytes([byte])) for place, byte in enumerate(C("c"))), (900, STOP + DONE)],
        OK | {"events": 1, "TTFT": 100 + len(C("c")) - 1},
    ),
    Case("D53 a long line", [(100, C(LONG)), (120, STOP + DONE)], OK | {"events": 1, "text": LONG}),
    *(
        Case(
            f"D12 {name}",
            [(100, C(f"a{letter}b")), (120, C("c") + STOP + DONE)],
            OK | {"events": 2, "text": f"a{letter}bc"},
        )
        for name, letter in (("U+2028", "\u2028"), ("U+2029", "\u2029"), ("U+0085", "\x85"), ("DEL", "\x7f"))
    ),
    Case("D12 in a comment", [(50, b": " + COMMENTS_ONLY_BYTES + b"\n\n"), (100, ALL)], THREE),
]

_CHARACTER = C("进😀") + STOP + DONE
_AT = _CHARACTER.index("进".encode())

CHARACTERS = [
    Case(
        f"D49 a character cut after byte {cut}",
        [(100, _CHARACTER[: _AT + cut]), (130, _CHARACTER[_AT + cut :])],
        OK | {"TTFT": 130, "text": "进😀", "events": 1},
    )
    for cut in (1, 2, 3, 4, 5, 6)
]

ENDINGS = [
    Case("D45a CRLF", [(100, lines(ALL, b"\r\n"))], THREE),
    Case("D45b CR", [(100, lines(ALL, b"\r"))], THREE),
    Case(
        "D45c mixed",
        [(100, C("a")[:-1] + b"\r\n" + C("b")[:-2] + b"\r\r" + C("c")[:-2] + b"\r\n\r\n" + STOP + U(3, 3) + DONE)],
        THREE,
    ),
    Case(
        "D45d CR and LF in different reads",
        [
            (100, C("a")[:-1] + b"\r"),
            (130, b"\n" + C("b")[:-2] + b"\r\n\r"),
            (160, b"\n" + C("c")[:-2] + b"\r\r"),
            (190, b"\n" + STOP + U(3, 3) + DONE),
        ],
        THREE | {"ITL": [30, 30], "E2E": 160},
    ),
    Case(
        "D45 CR events do not wait for the next read",
        [(100, lines(C("a"), b"\r")), (130, lines(C("b"), b"\r")), (160, lines(C("c") + STOP + U(3, 3) + DONE, b"\r"))],
        THREE | {"ITL": [30, 30]},
    ),
]

FIELDS = [
    Case("D46 no space", [(100, ALL.replace(b"data: ", b"data:"))], THREE),
    Case(
        "D47 comments",
        [
            (0, b": OPENROUTER PROCESSING\n\n"),
            (1000, b": OPENROUTER PROCESSING\n\n"),
            (2000, b":\n\n"),
            (3100, C("x") + STOP + U(4, 1) + DONE),
        ],
        OK | {"TTFT": 3100, "N": 1, "events": 1},
    ),
    Case(
        "D47 a comment glued to data",
        [(100, b": hi\n" + C("a") + b":\n" + C("b") + b": x\n" + C("c") + STOP + U(3, 3) + DONE)],
        THREE,
    ),
    Case(
        "D48 control events and other fields",
        [
            (50, b"retry: 3000\n\nid: 7\n\nevent: ping\n\ndata:\n\ndata: \n\ndata\n\nfoo: bar\n\n"),
            (
                100,
                b"event: completion\nid: 8\n"
                + C("a")
                + b"event: x\n"
                + C("b")
                + b"id\n"
                + C("c")
                + STOP
                + U(3, 3)
                + DONE,
            ),
        ],
        THREE,
    ),
    Case(
        "D50 data over several lines",
        [(100, b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"x"}}]}\n\n' + STOP + DONE)],
        OK | {"events": 1, "text": "x"},
    ),
    Case(
        "D51 byte-order mark",
        [(100, b"\xef\xbb\xbf" + C("a")), (120, C("\ufeffb") + STOP + DONE)],
        OK | {"events": 2, "TTFT": 100, "text": "a\ufeffb"},
    ),
    Case(
        "D51 only one is dropped",
        [(100, b"\xef\xbb\xbf\xef\xbb\xbf" + C("a")), (120, C("b") + STOP + DONE)],
        OK | {"events": 1, "text": "b"},
    ),
    Case(
        "blank lines between events",
        [(100, b"\n\n\n" + C("a") + b"\n" + C("b") + b"\n\n\n" + C("c") + STOP + U(3, 3) + DONE)],
        THREE,
    ),
]

_TAIL = b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":1}}\n'

TAILS = [
    Case(
        "D52 usage without its blank line",
        [(100, C("a") + STOP), (120, _TAIL)],
        OK | {"N": 1, "source": "usage", "prompt": 4},
    ),
    Case("D52 without any newline", [(100, C("a") + STOP), (120, _TAIL[:-1])], OK | {"source": "usage"}),
    Case("D52 CR", [(100, C("a") + STOP), (120, _TAIL[:-1] + b"\r")], OK | {"source": "usage"}),
    Case("D52 DONE", [(100, C("a")), (120, b"data: [DONE]")], OK | {"done": 120}),
    Case("D52 text", [(100, C("a")), (120, C("b", finish="stop")[:-2])], OK | {"text": "ab", "ITL": [20]}),
    Case("D52 half a JSON", [(100, C("a")), (120, C("b", finish="stop")[:-5])], failed("truncated stream", text="a")),
    Case("D52 half a JSON after the finish", [(100, C("a") + STOP), (120, U(1, 1)[:-5])], OK | {"source": "chunks"}),
    Case("D52 half of DONE", [(100, C("a")), (120, b"data: [DON")], failed("truncated stream")),
]

ROLES = [
    Case("D03 with CRLF", [(5, lines(ROLE, b"\r\n")), (50, lines(C("a") + STOP + DONE, b"\r\n"))], OK | {"TTFT": 50})
]

SPACED = json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}}]}, indent=1).encode()
PRETTY = [
    Case(
        "D50 pretty-printed",
        [(100, b"\n".join(b"data: " + line for line in SPACED.split(b"\n")) + b"\n\n" + delta({}, finish="stop"))],
        OK | {"events": 1, "text": "a"},
    )
]

CASES = [*READS, *CHARACTERS, *ENDINGS, *FIELDS, *TAILS, *ROLES, *PRETTY]
