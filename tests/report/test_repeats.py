"""Repeats in the run document, and back; and in the panel's facts."""

from __future__ import annotations

import json

import pytest

from locust_llm.analysis.rate import RateKind, RateVerdict
from locust_llm.analysis.repeats import together
from locust_llm.analysis.verdict import Verdict, VerdictKind
from locust_llm.report.knee_panel import _facts
from locust_llm.report.step_results import results_dict, verdict_of

KNEES = [Verdict(VerdictKind.KNEE, f"Knee at {users:g} users.", knee=users) for users in (8.0, 12.5, 10.0)]
RATES = [RateVerdict(RateKind.FOUND, f"{rate:g} requests/s are sustained.", rate, 2 * rate) for rate in (4.0, 5.0)]
NONE = Verdict(VerdictKind.ABOVE, "No knee up to 64 users.")

CASES = [
    ("three knees", together(KNEES, 3), [("Found by each run", "8, 12.5, 10"), ("Between runs, 95 %", "5.74 to 17.4")]),
    ("one without a knee", together([KNEES[0], NONE], 2), [("Found by each run", "8, none")]),
    ("two rates", together(RATES, 2), [("Found by each run", "4, 5")]),
    ("none", KNEES[0], []),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "facts"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_repeats_come_back(verdict: Verdict | RateVerdict, facts: list[tuple[str, str]]) -> None:
    told = json.loads(json.dumps(results_dict([], verdict)))
    assert verdict_of(told) == verdict
    assert [(title, text) for title, text in _facts(verdict) if "run" in title.lower()] == facts
