"""Where a run comes from: the `locust` command that repeats it, told from the options as they were in the end.

Options come from the command line, from configuration files, from variables and from the web form. Whatever their way,
Locust's own parser knows which flag sets each, so the command is made of every option that is not at its default.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from locust.argument_parser import get_parser

from locust_llm.measure.record import Transit
from locust_llm.report.files import sha256_of
from locust_llm.report.origin import InputFile, Origin
from locust_llm.report.run import MASK, shown_url, without_secrets

if TYPE_CHECKING:
    from locust_llm.plugin.session import Session

SKIPPED: Final = frozenset(("help", "version", "config"))
OF_PROCESSES: Final = frozenset(("master", "worker", "expect_workers"))
"""What `--processes` sets in the master that it makes."""

FILES: Final = ("locustfile", "llm_prompt_file", "llm_dataset", "llm_arrivals_file", "llm_trace", "llm_ca_cert")


def origin_of_session(session: Session) -> Origin:
    """What the test that is about to start was started with."""
    environment = session.environment
    options = environment.parsed_options
    targets = session.targets
    return Origin(
        command=_command(session) if options is not None else (),
        user_classes=tuple(user.__name__ for user in environment.user_classes),
        files=tuple(_files(options)) if options is not None else (),
        key=_key(session),
        note=session.settings.note,
        path_ms=_path_ms(targets.reports[0].opened if targets.reports else None),
    )


def _command(session: Session) -> tuple[str, ...]:
    """The command's words, with what the environment's variables have settled."""
    environment, targets = session.environment, session.targets
    parser = get_parser()
    values = dict(vars(environment.parsed_options))
    if targets.engine_url and values.get("host") in (targets.engine_url, None, ""):
        values["host"] = "sim"
    elif not values.get("host") and targets.hosts() == [None] and len(set(targets.base_urls.values())) == 1:
        values["host"] = next(iter(targets.base_urls.values()))
    if not values.get("llm_model") and len(targets.models) == 1:
        values["llm_model"] = targets.model
    known = getattr(environment, "available_user_classes", None) or {}
    chosen = [user.__name__ for user in environment.user_classes]
    values["user_classes"] = chosen if known and set(chosen) != set(known) else values.get("user_classes") or []
    return command_words(parser, values)


def command_words(parser: argparse.ArgumentParser, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The words that make `parser` read these values, those at their default left out and secrets as ***.

    User classes come first, where no option can take them for its own.
    """
    shown = without_secrets(values)
    if values.get("host"):
        shown["host"] = shown_url(str(values["host"]))
    words: list[str] = []
    for action in parser._actions:
        skipped = action.dest in SKIPPED or (values.get("processes") and action.dest in OF_PROCESSES)
        if skipped or action.dest not in shown or not _given(values[action.dest], action.default):
            continue
        value = MASK if getattr(action, "is_secret", False) else shown[action.dest]
        if not action.option_strings:
            words = [*map(str, value), *words]
        else:
            words += _words(action, value)
    return tuple(words)


def _given(value: Any, default: Any) -> bool:
    return value not in (None, [], ()) and str(value) != str(default)


def _words(action: argparse.Action, value: Any) -> Iterator[str]:
    """One option: its long flag, and its value or values."""
    flag = next((each for each in action.option_strings if each.startswith("--")), action.option_strings[0])
    if action.nargs == 0:
        yield flag
    elif isinstance(value, list | tuple):
        if action.nargs in ("*", "+"):
            yield from (flag, *map(str, value))
        else:
            for each in value:
                yield from _one(flag, str(each))
    else:
        yield from _one(flag, str(value))


def _one(flag: str, value: str) -> Iterator[str]:
    if value.startswith("-") or not value:
        yield f"{flag}={value}"
    else:
        yield from (flag, value)


def _files(options: Any) -> Iterator[InputFile]:
    for dest in FILES:
        named = str(getattr(options, dest, None) or "")
        for path in named.split(",") if dest == "locustfile" else [named]:
            if path:
                yield InputFile(f"--{dest.replace('_', '-')}", path, sha256_of(path))


def _key(session: Session) -> str:
    """Where the key of the first target came from."""
    for host, api in session.targets.pairs():
        return session.targets.config_for(host, api).credentials.source
    return "none"


def _path_ms(transit: Transit | None) -> dict[str, float]:
    """How long the preflight's first connection took to open, by phase."""
    if transit is None:
        return {}
    phases = {"dns": transit.dns_ns, "tcp": transit.tcp_ns, "tls": transit.tls_ns}
    return {name: ns * 1e-6 for name, ns in phases.items() if ns is not None}
