"""Preflight: one small request before users spawn, and a sentence for whatever is wrong.

It goes through those stages of `checks.stages` that are marked for it, asks as the test will ask, and the first stage
that fails ends it. `locust-llm doctor` goes through all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from locust_llm.measure.record import RequestRecord
from locust_llm.wire import failures
from locust_llm.wire.call import Call
from locust_llm.wire.checks.asking import same_model
from locust_llm.wire.checks.examination import Examination, Report, models_url, small_call
from locust_llm.wire.checks.stage import Status, go_through
from locust_llm.wire.checks.stages import MODELS, STAGES
from locust_llm.wire.client import LLMClient
from locust_llm.wire.target import ConfigurationError

__all__ = ["Report", "check", "reach", "same_model", "warm_up"]

PREFLIGHT_TOKENS = 4


def check(client: LLMClient, like: Call, *, send: bool = True) -> Report:
    """Find the model if `like` names none and, with `send`, try one small request of its kind.

    Raises ConfigurationError with one sentence that names cause and fix; without `send` it only warns.
    """
    exam = Examination(client, like, tokens=PREFLIGHT_TOKENS, as_asked=True)
    stages = [stage for stage in STAGES if stage.preflight and (stage is not MODELS or not like.model)]
    if not send:
        stages = [stage for stage in stages if stage is MODELS]
    report = exam.report
    try:
        for result in go_through(stages, exam):
            if result.status is Status.FAILED:
                if send:
                    tail = "" if result.hopeless else "; --llm-no-preflight starts the test all the same"
                    raise ConfigurationError(result.told.sentence + tail)
                report.warnings.append(result.told.sentence)
            report.warnings += result.told.warnings
    finally:
        exam.close()
    report.record, report.opened = exam.stream, exam.opened
    return report


def warm_up(client: LLMClient, like: Call, count: int, prompt: Callable[[], str]) -> list[RequestRecord]:
    """`count` requests, one after the other, that no figure counts."""
    return [client.request(small_call(client, like, prompt()), name="warm-up", warmup=True) for _ in range(count)]


def reach(client: LLMClient) -> str | None:
    """Whether this process reaches the server at all: None, or a sentence on why not. Sends no work."""
    try:
        client.http.get(models_url(client), timeout=client.config.connect_timeout_s or None).read()
    except Exception as error:
        label, detail = failures.exception_failure(error, client.config.credentials.secrets)
        return f"cannot reach {urlsplit(client.config.url).netloc}: {label}{f' ({detail})' if detail else ''}"
    return None
