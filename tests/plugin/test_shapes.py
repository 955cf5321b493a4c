"""Shapes: the plan that the options ask for, and what makes no sense."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from locust_llm.analysis.knee import KneeSearch
from locust_llm.analysis.rate import RateSearch
from locust_llm.plugin.plans import Plan, RateSweep, Sweep
from locust_llm.plugin.settings import Settings
from locust_llm.plugin.shapes import load_of, plan_of
from locust_llm.plugin.step_load import RateLoad, UserLoad
from locust_llm.wire.target import ConfigurationError


def settings(**given: Any) -> Settings:
    return Settings.parse(SimpleNamespace(**{f"llm_{name}": value for name, value in given.items()}))


# id, options, whether users are open-loop, plan
PLANS: list[tuple[str, dict[str, Any], bool, Plan]] = [
    ("a sweep of users", {"shape": "sweep", "steps": "1, 4 16"}, False, Sweep((1, 4, 16))),
    ("a sweep of rates", {"shape": "sweep", "steps": "0.5,2"}, True, RateSweep((0.5, 2.0))),
    ("a search of users", {"shape": "knee", "max_users": 64}, False, KneeSearch(64, probe=True)),
    ("without a probe", {"shape": "knee", "no_probe": True}, False, KneeSearch(256)),
    ("a search of rates", {"shape": "knee"}, True, RateSearch(100.0, 1.0)),
    ("from a rate of one's own", {"shape": "knee", "rate": 4, "max_rate": 8}, True, RateSearch(8.0, 4.0)),
    ("up to less than one", {"shape": "knee", "max_rate": 0.5}, True, RateSearch(0.5, 0.5)),
    ("SLOs", {"shape": "knee", "slo": ["ttft<1s"]}, False, KneeSearch(256, probe=True, slo_target=0.95)),
    ("a share of them", {"shape": "sweep", "steps": "2", "slo": ["ttft<1s"], "slo_target": "90%"}, False,
     Sweep((2,), 0.9)),
    ("a preset's", {"shape": "knee", "slo_preset": "llama3.1-8b", "slo_target": "0.99"}, True,
     RateSearch(100.0, 1.0, slo_target=0.99)),
    ("a share of none", {"shape": "sweep", "steps": "2", "slo_target": "90%"}, False, Sweep((2,))),
]  # fmt: skip


@pytest.mark.parametrize(("options", "rates", "plan"), [case[1:] for case in PLANS], ids=[case[0] for case in PLANS])
def test_a_plan(options: dict[str, Any], rates: bool, plan: Plan) -> None:
    assert plan_of(settings(**options), rates=rates) == plan


# id, options, whether users are open-loop, sentence
REFUSED: list[tuple[str, dict[str, Any], bool, str]] = [
    ("no numbers", {"steps": "1,x"}, False, "--llm-steps takes numbers of users"),
    ("half a user", {"steps": "0.5"}, False, "--llm-steps takes numbers of users"),
    ("no user", {"steps": "0,1"}, False, "--llm-steps takes numbers of users"),
    ("none at all", {"steps": ","}, True, "--llm-steps takes rates"),
    ("a rate without end", {"steps": "inf"}, True, "--llm-steps takes rates"),
    ("a rate that is none", {"steps": "nan"}, True, "--llm-steps takes rates"),
]


@pytest.mark.parametrize(
    ("options", "rates", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_steps_that_make_no_sense(options: dict[str, Any], rates: bool, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        plan_of(settings(shape="sweep", **options), rates=rates)


@pytest.mark.parametrize("target", ["0", "1.5", "120%", "much"])
def test_a_target_that_makes_no_sense(target: str) -> None:
    with pytest.raises(ConfigurationError, match="--llm-slo-target"):
        settings(slo_target=target)


def session(*, rates: bool, users: int | None = None, **given: Any) -> Any:
    return SimpleNamespace(
        settings=settings(**given),
        open_load=SimpleNamespace(active=rates),
        environment=SimpleNamespace(parsed_options=SimpleNamespace(num_users=users)),
    )


def test_the_senders_of_rates() -> None:
    loads = [load_of(session(rates=True, users=50)), load_of(session(rates=True, max_users=7))]
    assert [load.senders for load in loads if isinstance(load, RateLoad)] == [50, 7]
    assert isinstance(load_of(session(rates=False)), UserLoad)


@pytest.mark.parametrize("slo", [[], ["ttft<1s"]], ids=["without SLOs", "with SLOs"])
def test_windows_are_long_enough_for_the_slo_s_bound(slo: list[str]) -> None:
    load = load_of(session(rates=False, slo=slo, step_time=60))
    assert isinstance(load, UserLoad)
    assert (load._rule.interval, load._rule.max_s) == (bool(slo), 60.0)
