"""Fitting: a few requests before a test that find out how one target counts, and how it takes exact lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from locust_llm.measure.record import RequestRecord
from locust_llm.wire.call import Call
from locust_llm.wire.checks.examination import small_call
from locust_llm.wire.client import LLMClient
from locust_llm.wire.target import ConfigurationError
from locust_llm.workload.calibration import TOLERANCE, Calibration, Point, calibrate
from locust_llm.workload.prompts import Prompts

IGNORE_EOS, MIN_TOKENS = "ignore_eos", "min_tokens"
BOTH = frozenset((IGNORE_EOS, MIN_TOKENS))
_EXACT_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found of one target.

    `exact`: the fields that make answers of an exact length; None where that was not asked.
    """

    calibration: Calibration | None = None
    exact: frozenset[str] | None = None
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def told(self) -> bool:
        """Whether anything was found."""
        return self.calibration is not None or self.exact is not None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "words_pad_tokens": self.calibration.to_list() if self.calibration is not None else None,
            "exact": sorted(self.exact) if self.exact is not None else None,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Fit:
        """What `to_dict` described."""
        points, exact = told["words_pad_tokens"], told["exact"]
        return cls(
            Calibration.from_list(points) if points is not None else None,
            frozenset(exact) if exact is not None else None,
        )


class _NoUsage(Exception):
    """The server does not tell how many tokens a prompt had."""


def fit_lengths(client: LLMClient, like: Call, targets: Sequence[int], prompts: Prompts) -> Fit:
    """Calibrate generated prompts of `targets` tokens on one target.

    Raises CalibrationError, and ConfigurationError for a request that fails.
    """
    like = replace(like, max_tokens=1 if like.max_tokens is not None else None)
    sent: list[Point] = []

    def measure(words: int, pad: str) -> int:
        text = prompts.measured(words, pad)
        record = client.request(small_call(client, like, text), name="calibration", warmup=True)
        if not record.success:
            raise ConfigurationError(_failed(record, words))
        if record.input_tokens is None:
            raise _NoUsage
        sent.append(Point(words, pad, record.input_tokens))
        return record.input_tokens

    try:
        found = calibrate(measure, targets)
    except _NoUsage:
        return Fit(warnings=("the server reports no token usage: lengths of prompts are in words, not in tokens",))
    off = max(found.error(target) for target in targets)
    shown = ", ".join(f"{target:,}" for target in sorted(targets))
    sentence = f"lengths calibrated by {len(sent)} requests: {shown} input tokens within {off:.1%}"
    return Fit(found, None, (sentence,)) if off <= TOLERANCE else Fit(found, None, (), (sentence,))


def _failed(record: RequestRecord, words: int) -> str:
    detail = f" ({record.detail.strip()})" if record.detail and record.detail.strip() else ""
    return f"--llm-calibrate-lengths: a prompt of {words:,} words failed: {record.error}{detail}"


def fit_exact(client: LLMClient, like: Call, fit: Fit) -> Fit:
    """Find out which of the fields for exact lengths the server lets pass."""
    for fields in (BOTH, frozenset((IGNORE_EOS,)), frozenset((MIN_TOKENS,))):
        call = as_exact(replace(like, max_tokens=_EXACT_TOKENS), fields, client.config.api.name)
        record = client.request(small_call(client, call, "Count."), name="exact length", warmup=True)
        if record.status not in (400, 422):
            return replace(fit, exact=fields)
    warning = "the server takes neither ignore_eos nor min_tokens: answers may end before their length"
    return replace(fit, exact=frozenset[str](), warnings=(*fit.warnings, warning))


def as_exact(call: Call, fields: frozenset[str], api: str) -> Call:
    """The call for an answer of just `max_tokens` tokens. `min_tokens` is a field of the OpenAI APIs alone."""
    extra = dict(call.extra)
    if MIN_TOKENS in fields and api in ("chat", "completions"):
        extra.setdefault(MIN_TOKENS, call.max_tokens)
    return replace(call, ignore_eos=call.ignore_eos or IGNORE_EOS in fields, extra=extra)
