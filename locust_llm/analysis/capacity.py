"""Other capacities that stand beside the knee, each by its name: saturation, Little's bound, SLO capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from locust_llm.analysis.step import StepResult

SATURATION: Final = 0.95


def saturation(steps: Sequence[StepResult]) -> float | None:
    """The least users that get 95 % of the highest throughput seen, between steps on the logarithmic scale.

    `steps` by rising load. None when nothing came.
    """
    users = np.array([step.users for step in steps])
    rates = np.array([step.throughput.value if step.throughput is not None else 0.0 for step in steps])
    if not len(rates) or rates.max() <= 0:
        return None
    wanted = SATURATION * rates.max()
    above = int(np.argmax(rates >= wanted))
    if above == 0:
        return float(users[0])
    share = (wanted - rates[above - 1]) / (rates[above] - rates[above - 1])
    return float(users[above - 1] * (users[above] / users[above - 1]) ** share)


def littles_bound(steps: Sequence[StepResult]) -> float | None:
    """N* = X_max · R_1: how many users of the lightest step's speed the highest throughput would serve.

    The crossing of the two asymptotes (Denning & Buzen, 1978). With contention the knee lies below it.
    """
    times = [step.seconds_per_unit for step in steps if step.seconds_per_unit is not None]
    rates = [step.throughput.value for step in steps if step.throughput is not None]
    return max(rates) * times[0] if times and rates else None


def meets_slo(step: StepResult, target: float) -> bool:
    """Whether the lower bound of the step's attainment reaches the target (0 … 1)."""
    return step.attainment is not None and step.attainment.low is not None and step.attainment.low >= target


def slo_capacity(steps: Sequence[StepResult], target: float) -> float | None:
    """The highest load up to which every tested load meets the SLOs; None when not even the lightest does."""
    highest = None
    for step in steps:
        if not meets_slo(step, target):
            break
        highest = step.load
    return highest
