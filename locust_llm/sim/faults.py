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
from typing import Literal, get_args

Kind = Literal["reset", "error", "truncate", "stall", "slow"]
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
_PAUSE_S = 2.0  # when a stall or a slow start names none


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault and the share (0–1) of requests that meet it; `seconds` for stall and slow only."""

    kind: Kind
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
    name, _, rest = text.partition(":")
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"unknown fault {name!r}: use one of {', '.join(_KINDS)}")
    share_text, _, seconds_text = rest.partition(":")
    pauses = kind in ("stall", "slow")
    if seconds_text and not pauses:
        raise ValueError(f"{kind} takes no seconds; write {kind}:SHARE")
    try:
        share = float(share_text)
        seconds = float(seconds_text) if seconds_text else _PAUSE_S if pauses else 0.0
    except ValueError:
        raise ValueError(f"{text!r} is not KIND:SHARE[:SECONDS], as in stall:0.05:2") from None
    if not 0 <= share <= 1:
        raise ValueError(f"the share of a fault lies between 0 and 1, not {share_text}")
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"the seconds of a fault must be 0 or more, not {seconds_text}")
    return Fault(kind, share, seconds)
