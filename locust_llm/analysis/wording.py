"""The words of a verdict: one sentence that answers, notes that qualify it."""

from __future__ import annotations

from locust_llm.analysis.step import Status, StepResult
from locust_llm.analysis.verdict import Evidence, Verdict, VerdictKind


def sentence(verdict: Verdict, evidence: Evidence, found: StepResult) -> str:
    """What the verdict says; `found` is the best step."""
    top = evidence.steps[-1]
    reached = f"{found.throughput.value:.4g} {found.unit}" if found.throughput is not None else "no throughput"
    match verdict.kind:
        case VerdictKind.KNEE:
            assert verdict.knee is not None
            assert verdict.zone is not None
            low, high = verdict.bracket
            text = (
                f"Knee at {_users(verdict.knee)} (between {low:.0f} and {high:.0f}): {reached} at {found.load:.0f} "
                f"users; from {verdict.zone[0]:.0f} to {verdict.zone[1]:.0f} users the trade of throughput against "
                "time is within 5 % of the best."
            )
        case VerdictKind.ABOVE:
            text = f"No knee up to {_users(top.load)}: throughput still grows faster than time ({reached})."
        case VerdictKind.BELOW:
            where = "at or below" if found is evidence.steps[0] else "around or below"
            text = f"The knee is {where} {_users(found.load)} ({reached}): from there on users mostly wait."
        case VerdictKind.CLIENT_LIMITED:
            text = nothing(evidence) + f" No knee shows up to {_users(top.load)}."
        case _:
            text = nothing(evidence)
    if verdict.slo_target is not None:
        text = _slo(verdict) + " " + text
    if verdict.cause is not None:
        text += " " + verdict.cause.sentence
    return text


def nothing(evidence: Evidence) -> str:
    """Why there is no answer."""
    spoilt = evidence.spoilt
    if spoilt is not None:
        why = f": {spoilt.why}" if spoilt.why else ""
        if spoilt.status is Status.CLIENT_LIMITED:
            return (
                f"The client, not the server, was the bottleneck at {_users(spoilt.load)}{why}. What lies beyond "
                "proves nothing; use more workers."
            )
        return f"The step of {_users(spoilt.load)} was too short to judge{why}. Give it more time."
    if evidence.steps and not evidence.complete:
        return f"Cut off at {_users(evidence.steps[-1].load)} before a knee showed."
    return "No step had a successful request." if evidence.steps else "No step was run."


def _slo(verdict: Verdict) -> str:
    target = f"{100 * verdict.slo_target:.3g} %" if verdict.slo_target is not None else ""
    if verdict.slo_capacity is None:
        return f"SLO capacity: not even the lightest step shows that {target} of the requests meet the SLOs."
    return f"SLO capacity: up to {_users(verdict.slo_capacity)} {target} of the requests meet the SLOs."


def notes(evidence: Evidence) -> tuple[str, ...]:
    """What a reader of the verdict should know of its steps."""
    said = [] if evidence.complete else ["Not all steps were run."]
    said += [
        f"The step of {_users(step.load)} is {step.status.value}{f': {step.why}' if step.why else ''}."
        for step in evidence.steps
        if step.status is not Status.STEADY
    ]
    said += [
        f"{_users(step.load)} were asked for and {step.users:.1f} ran."
        for step in evidence.steps
        if abs(step.users / step.load - 1) > 0.05
    ]
    said += [
        f"At {_users(step.load)} requests start in waves (variance / mean of the starts per second is "
        f"{step.waves:.3g}): users run in step and queue for each other."
        for step in evidence.steps
        if step.waves is not None
    ]
    said += [
        f"At {_users(step.load)} requests in flight are {step.little:.2f} times what Little's law gives from "
        "residence: the window is not steady."
        for step in evidence.steps
        if step.little_holds is False
    ]
    return tuple(said)


def _users(load: float) -> str:
    whole = round(load)
    return f"{whole} user" if whole == 1 else f"{whole} users"
