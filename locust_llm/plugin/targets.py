"""Targets: where the LLM users of one Environment send their requests, settled once per test.

Locust's own host is left alone (writing it would overwrite that of every other user class), except to replace a typed
`sim` by the engine's URL.
"""

from __future__ import annotations

import itertools
import json
import logging
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from locust_llm.plugin.asking import call_like, client_config, named_model
from locust_llm.plugin.engine import EmbeddedEngine
from locust_llm.plugin.settings import Settings
from locust_llm.plugin.workload import aim_of
from locust_llm.wire.api import APIS
from locust_llm.wire.call import Call
from locust_llm.wire.client import ClientConfig, LLMClient, Quirks
from locust_llm.wire.preflight import Report, check, reach, warm_up
from locust_llm.wire.target import (
    SIM,
    ConfigurationError,
    Target,
    environment_value,
    parse_target,
    without_userinfo,
)

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

logger = logging.getLogger(__name__)


class Targets:
    """One per Session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.environment = session.environment
        self.models: dict[str, str] = {}
        self.base_urls: dict[str, str] = {}
        self.roots: dict[str, str] = {}
        """By host as typed: the other place that its path can mean, where preflight found the API there."""
        self.engine_url = ""
        self.reports: list[Report] = []
        self._engine: EmbeddedEngine | None = None
        self._quirks = Quirks()
        self._configs: dict[tuple[str | None, str], ClientConfig] = {}
        self._calls: dict[tuple[str | None, str], Call] = {}

    @property
    def _settings(self) -> Settings:
        return self._session.settings

    @property
    def simulated(self) -> bool:
        """Whether the embedded engine answers."""
        return bool(self.engine_url)

    @property
    def url(self) -> str:
        """Where requests go: the endpoint's URL, or several joined by commas; '' before the first test."""
        return ", ".join(dict.fromkeys(report.url for report in self.reports))

    @property
    def engine_command(self) -> tuple[str, ...]:
        """What started the embedded engine; empty when a real endpoint answers."""
        return self._engine.command if self._engine is not None and self.simulated else ()

    def hosts(self) -> list[str | None]:
        """The hosts that this test's LLM users will ask, as typed; None is the default target."""
        return list(dict.fromkeys(host for host, _ in self.pairs()))

    def pairs(self) -> list[tuple[str | None, str]]:
        """(host, API) of this test's LLM users; raises ConfigurationError for an API that we do not know."""
        from locust_llm.plugin.user import LLMUser

        users = [user for user in self.environment.user_classes if issubclass(user, LLMUser)]
        for user in users:
            if user.llm_api and user.llm_api not in APIS:
                raise ConfigurationError(f"{user.__name__}.llm_api is {user.llm_api!r}: give one of {', '.join(APIS)}")
        found = dict.fromkeys(
            (self.environment.host or user.host or None, user.llm_api or self._settings.api) for user in users
        )
        second = self._session.sides.host
        return list(found | dict.fromkeys((second, api) for _, api in found) if second is not None else found)

    # -- before a test: local or master ------------------------------------------------------------------------

    def settle(self) -> None:
        """Find target, key and model, and check them by one small request each; raises ConfigurationError."""
        self._forget()
        self._quirks = Quirks()
        self.reports = []
        self.models = {}
        self.roots = {}
        self._settle_target()
        for host, api in self.pairs():
            self._check(host, api)
            self._check_second(host, api)

    def tell(self, options: Any) -> None:
        """Leave what was settled in Locust's options, which it sends to the workers."""
        options.llm_resolved_models = json.dumps(self.models)
        options.llm_base_urls = json.dumps(self.base_urls)
        options.llm_roots = json.dumps(self.roots)
        options.llm_engine_url = self.engine_url
        options.llm_usage_refused = not self._quirks.include_usage

    def read(self, options: Any) -> None:
        """Read what `tell` left there, here or on the master; what is known stays where nothing did."""
        self.models = json.loads(getattr(options, "llm_resolved_models", "") or "{}") or self.models
        self.base_urls = json.loads(getattr(options, "llm_base_urls", "") or "{}") or self.base_urls
        self.roots = json.loads(getattr(options, "llm_roots", "") or json.dumps(self.roots))
        self.engine_url = getattr(options, "llm_engine_url", self.engine_url)
        self._quirks = Quirks(include_usage=not getattr(options, "llm_usage_refused", False))
        self._forget()

    def _forget(self) -> None:
        """Options or what was found have changed: what was made of them is made anew."""
        self._configs.clear()
        self._calls.clear()

    def _settle_target(self) -> None:
        """Find the default target; start the embedded engine where it is wanted, and put its URL in place of `sim`."""
        typed = (self.environment.host or "").strip()
        if without_userinfo(typed) != typed:  # refused below; the web UI's pages show the host
            self._set_host(without_userinfo(typed))
            parse_target(typed)
        variables = {api: APIS[api].access.base_url for host, api in self.pairs() if host is None}
        self.base_urls = {api: url for api, name in variables.items() if (url := environment_value(name))}
        unset = [api for api in variables if api not in self.base_urls]
        self.engine_url = ""
        own_url = self._engine.url if self._engine is not None else SIM
        if {SIM, own_url} & {typed, *self.hosts()} or unset:
            if unset:
                self._session.gates.refuse_default()
            if self._engine is None or not self._engine.running:
                self._engine = EmbeddedEngine(_words(self._settings.sim))
            self.engine_url = self._engine.url
            self.base_urls |= dict.fromkeys(unset, self.engine_url)
            if unset:
                names = " and no ".join(dict.fromkeys(variables[api] for api in unset))
                logger.warning("No --host and no %s: using the embedded engine. All figures are SIMULATED.", names)
            else:
                logger.warning("Using the embedded engine. All figures are SIMULATED.")
            if typed in (SIM, own_url):
                self._set_host(self.engine_url)

    def _set_host(self, host: str) -> None:
        self.environment.host = host
        if self.environment.parsed_options is not None:
            self.environment.parsed_options.host = host

    def _check(self, host: str | None, api: str) -> None:
        """Preflight and warm-up of one target."""
        settings = self._settings
        client = LLMClient(self.config_for(host, api))
        try:
            report = self._examine(client, self.call(host, api))
            self.models[host or ""] = report.model
            self._calls.clear()
            self._follow(host, api, client, report)
            self.reports.append(report)
            workload = self._session.workload
            wants_fit = workload.wants_fit(api)
            if settings.warmup or wants_fit:
                client.close()
                client = LLMClient(self.config_for(host, api))
            if wants_fit:
                workload.fit(client, self.call(host, api), aim_of(host, api))
            if settings.warmup:
                records = warm_up(client, self.call(host, api), settings.warmup, workload.before_test())
                failed = sum(not record.success for record in records)
                logger.info("%d warm-up requests, %d of them failed, are in no figure", len(records), failed)
        finally:
            client.close()

    def _check_second(self, host: str | None, api: str) -> None:
        """Preflight of the second model of --llm-ab; nothing without one."""
        model = self._session.sides.model
        if model is None:
            return
        if model == self.models.get(host or ""):
            raise ConfigurationError(f"--llm-ab {model} is the model that is asked anyway: name another, or a URL")
        client = LLMClient(self.config_for(host, api))
        try:
            self._examine(client, replace(self.call(host, api), model=model))
        finally:
            client.close()

    def _examine(self, client: LLMClient, call: Call) -> Report:
        """The preflight of one target and model, told in the log."""
        report = check(client, call, send=not self._settings.no_preflight)
        for warning in report.warnings:
            logger.warning(warning)
        logger.info(report.sentence)
        return report

    def _follow(self, host: str | None, api: str, client: LLMClient, report: Report) -> None:
        """Go where preflight found the API, if that is not where it was thought to be."""
        found = report.target
        if found is not None and found.root != client.config.target.root:
            self.roots[host or ""] = found.root
            del self._configs[host or None, api]

    def probe(self, hosts: Sequence[str | None]) -> str | None:
        """None when every host answers, else a sentence on the first that does not."""
        apis = dict.fromkeys(api for _, api in self.pairs())
        for host, api in itertools.product(hosts, apis):
            client = LLMClient(self.config_for(host, api))
            try:
                trouble = None if self._settings.no_preflight else reach(client)
            finally:
                client.close()
            if trouble is not None:
                return trouble
        return None

    # -- during a test: every process -------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """The model that is asked for; the first one where several targets have each their own."""
        return next(iter(self.models.values()), named_model(self._settings, self._settings.api))

    def call(self, host: str | None, api: str) -> Call:
        """What every request to a host asks for, by the options and by what preflight found."""
        call = self._calls.get((host, api))
        if call is None:
            model = self.models.get(host or "", named_model(self._settings, api))
            call = self._calls[host, api] = call_like(self._settings, api, model)
        return call

    def config_for(self, host: str | None, api: str) -> ClientConfig:
        """The client configuration for a host as typed (None: the default target); raises ConfigurationError."""
        key = (host or None, api)
        config = self._configs.get(key)
        if config is None:
            url = self.engine_url if host == SIM else host or self._default_url(api)
            config = client_config(self._settings, api, url, self._quirks)
            root = self.roots.get(host or "")
            if root and config.target.other_root == root:
                config = replace(config, target=Target(root, config.target.query))
            self._configs[key] = config
        return config

    def _default_url(self, api: str) -> str:
        """Where an API is asked when no host is given; one that no user class is for goes where its family does."""
        access = APIS[api].access
        family = [url for known, url in self.base_urls.items() if APIS[known].access is access]
        settled = [*([self.base_urls[api]] if api in self.base_urls else ()), *family]
        return (
            next(iter(settled), None) or environment_value(access.base_url) or next(iter(self.base_urls.values()), "")
        )


def _words(options: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(options))
    except ValueError as error:
        raise ConfigurationError(f"--llm-sim cannot be read as options: {error}") from None
