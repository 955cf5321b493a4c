"""Arrival processes of open load: seeded generators of offsets in seconds from t0. No clock and no sleep in here.

Every process of a distributed run makes the same offsets from the same seed and takes its stripe of them
(`stripe(offsets, k, n)`), so the whole is the asked process whatever the number of workers.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

CONSTANT, POISSON, GAMMA = "constant", "poisson", "gamma"
KINDS = (CONSTANT, POISSON, GAMMA)


class ArrivalsError(ValueError):
    """The arrivals cannot be made; the message is one sentence."""


def arrivals(kind: str, rate: float, *, burstiness: float = 1.0, seed: str | int = 0) -> Iterator[float]:
    """Offsets of an endless arrival process of `rate` per second.

    `constant`: evenly spaced, the first at one gap. `poisson`: independent, exponential gaps. `gamma`: gaps of a gamma
    distribution with mean 1/rate and shape `burstiness` (squared coefficient of variation 1/burstiness: 1 is Poisson,
    below 1 burstier, above 1 smoother; as in vLLM's benchmark).
    """
    if not (rate > 0 and math.isfinite(rate)):
        raise ArrivalsError(f"the rate must be above 0 requests per second, not {rate:g}")
    if kind == CONSTANT:
        return (count / rate for count in itertools.count(1))  # from the count, so that no error adds up
    draw = random.Random(seed)
    if kind == POISSON:
        return itertools.accumulate(iter(lambda: draw.expovariate(rate), None))
    if kind == GAMMA:
        if not (burstiness > 0 and math.isfinite(burstiness)):
            raise ArrivalsError(f"the burstiness must be above 0, not {burstiness:g}")
        scale = 1 / (rate * burstiness)
        return itertools.accumulate(iter(lambda: draw.gammavariate(burstiness, scale), None))
    raise ArrivalsError(f"arrivals are {', '.join(KINDS)}, not {kind!r}")


def ramped(unit: Iterable[float], begin_rate: float, end_rate: float, ramp_s: float) -> Iterator[float]:
    """A process of rate 1 stretched so that its rate goes linearly from `begin_rate` to `end_rate` in `ramp_s`, then
    stays. (The expected count by time t is R(t) = b·t + (e - b)·t²/(2·T); each unit offset u maps to R⁻¹(u).)"""
    if begin_rate < 0 or end_rate <= 0 or ramp_s <= 0:
        raise ArrivalsError("a ramp needs rates of at least 0 and a duration above 0")
    slope = (end_rate - begin_rate) / ramp_s
    at_end = (begin_rate + end_rate) / 2 * ramp_s
    for offset in unit:
        if offset >= at_end:
            yield ramp_s + (offset - at_end) / end_rate
        elif abs(slope) < 1e-12:
            yield offset / begin_rate
        else:
            yield (math.sqrt(begin_rate * begin_rate + 2 * slope * offset) - begin_rate) / slope


def stripe(offsets: Iterable[float], index: int, count: int) -> Iterator[float]:
    """Every `count`-th offset from the `index`-th on: one worker's share."""
    return itertools.islice(offsets, index, None, count)


def from_file(path: str) -> list[float]:
    """Offsets of a text file, one number of seconds a line ('#' starts a comment), made to start at 0; sorted.

    Raises ArrivalsError that names the line.
    """
    offsets = []
    try:
        with Path(path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                text = line.split("#", 1)[0].strip()
                if text:
                    offsets.append(_seconds(text, path, number))
    except OSError as error:
        raise ArrivalsError(f"--llm-arrivals-file {path}: {error.strerror}") from None
    if not offsets:
        raise ArrivalsError(f"--llm-arrivals-file {path}: it holds no time")
    first = min(offsets)
    return sorted(offset - first for offset in offsets)


def _seconds(text: str, path: str, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArrivalsError(f"--llm-arrivals-file {path}, line {number}: {text[:40]!r} is not a number of seconds")
    return value
