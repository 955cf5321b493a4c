"""Faults a simulated request can meet, drawn from the engine's seed, so that a client's handling can be tested.

reset     the connection is reset after some tokens
error     an error event stands in the stream after some tokens, then it ends
truncate  the stream ends after some tokens in an orderly way, but with neither finish reason nor `[DONE]`
stall     the stream pauses for `seconds` after some tokens, its slot held, then goes on
slow      the request holds its slot for `seconds` before its prefill begins
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

_SECONDS = {"reset": None, "error": None, "truncate": None, "stall": 2.0, "slow": 2.0}


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault and the share (0–1) of requests that meet it; `seconds` for stall and slow only."""

    kind: str
    share: float
    seconds: float = 0.0


def draw_fault(faults: tuple[Fault, ...], random: Random) -> Fault | None:
    """The fault one request meets, if any: at most one, each with its share."""
    if not faults:
        return None
    at = random.random()
    for fault in faults:
        if at < fault.share:
            return fault
        at -= fault.share
    return None


def parse_fault(text: str) -> Fault:
    """Reads "kind:share[:seconds]"; raises ValueError with a sentence when it cannot."""
    kind, _, rest = text.partition(":")
    if kind not in _SECONDS:
        raise ValueError(f"unknown fault {kind!r}: use one of {', '.join(_SECONDS)}")
    share_text, _, seconds_text = rest.partition(":")
    default_s = _SECONDS[kind]
    if seconds_text and default_s is None:
        raise ValueError(f"{kind} takes no seconds; write {kind}:SHARE")
    try:
        share = float(share_text)
        seconds = float(seconds_text) if seconds_text else default_s
    except ValueError:
        raise ValueError(f"{text!r} is not KIND:SHARE[:SECONDS], as in stall:0.05:2") from None
    if not 0 <= share <= 1:
        raise ValueError(f"the share of a fault lies between 0 and 1, not {share_text}")
    if seconds is not None and not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"the seconds of a fault must be 0 or more, not {seconds_text}")
    return Fault(kind, share, seconds if seconds is not None else 0.0)
