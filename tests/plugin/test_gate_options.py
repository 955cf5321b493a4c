"""The options of gates, SLOs and brakes, as typed, configured and read again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from locust_llm.measure.gate import parse_gate
from locust_llm.measure.slo import PRESETS, parse_slo
from locust_llm.plugin.settings import Settings
from locust_llm.wire.target import ConfigurationError


def settings(**given: Any) -> Settings:
    return Settings.parse(SimpleNamespace(**{f"llm_{name}": value for name, value in given.items()}))


def test_nothing_is_wanted_by_default() -> None:
    none = settings()
    assert (none.gate, none.slo, none.strict, none.stop_on_errors) == ((), (), False, None)
    assert (none.max_requests, none.max_total_tokens, none.junit, none.markdown) == (0, 0, "", "")


def test_they_are_read() -> None:
    gates = ["ttft:p95<500ms", "errors<1%"]
    told = settings(gate=gates, slo=["e2e<4s"], slo_preset="mixtral-8x7b", stop_on_errors="20%", strict=True)
    assert told.gate == (parse_gate("ttft:p95<500ms"), parse_gate("errors<1%"))
    assert told.slo == (parse_slo("e2e<4s"), *PRESETS["mixtral-8x7b"])
    assert told.stop_on_errors == 0.2
    assert told.strict


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"gate": ["errors<1%", "tft:p95<5ms"]}, "--llm-gate: no metric 'tft'; is it ttft?, at character 1:"),
    ({"gate": [""]}, "--llm-gate: a comparison is missing"),
    ({"slo": ["ttft:p95<5ms"]}, "--llm-slo: an SLO is for each request"),
    ({"stop_on_errors": "20"}, "--llm-stop-on-errors: a percentage is expected, such as 20%"),
    ({"stop_on_errors": "0%"}, "--llm-stop-on-errors: a percentage above 0"),
    ({"max_requests": -1}, "--llm-max-requests must be at least 0"),
    ({"max_total_tokens": "many"}, "--llm-max-total-tokens takes a whole number"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_what_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        settings(**given)
    assert str(refused.value).startswith(sentence)
