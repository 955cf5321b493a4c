"""Option: one of our command-line options, and how a value of it is read, wherever it comes from."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Plain = str | int | float | bool | None

TRUTHS = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `kind`: str, int, float or bool; `many`: repeatable; `in_form`: shown in the web UI's form.

    `check` reads a text and raises ValueError when it makes no sense.
    """

    flag: str
    kind: type
    default: Plain
    help: str
    metavar: str | None = None
    many: bool = False
    in_form: bool = False
    minimum: float | None = None
    choices: tuple[str, ...] | None = None
    check: Callable[[str], Any] | None = None

    @property
    def dest(self) -> str:
        """The attribute of `parsed_options`."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "LOCUST_" + self.dest.upper()


class BadValue(ValueError):
    """A value that an option does not take. Its text names the option; `said` is the rest, for who names it himself."""

    def __init__(self, option: Option, said: str, joint: str = " ") -> None:
        super().__init__(f"{option.flag}{joint}{said}")
        self.said = said


def read_value(option: Option, value: Any) -> Any:
    """One value as typed, configured or sent by the form; raises BadValue with the reason."""
    if option.kind is bool:
        return value if isinstance(value, bool) else str(value).strip().lower() in TRUTHS
    if value is None or (option.kind is not str and isinstance(value, str) and not value.strip()):
        return option.default
    try:
        number = option.kind(value)
    except (TypeError, ValueError):
        wanted = {int: "a whole number", float: "a number"}.get(option.kind, "text")
        raise BadValue(option, f"takes {wanted}, not {value!r}") from None
    if (option.kind is float and number != number) or number in (float("inf"), float("-inf")):
        raise BadValue(option, "takes a finite number")
    if option.check is not None and (number or option.many):
        try:
            option.check(number)
        except ValueError as error:
            raise BadValue(option, str(error), ": ") from None
    if option.minimum is not None and number < option.minimum:
        raise BadValue(option, f"must be at least {option.minimum:g}, not {value}")
    return number


def argparse_type(option: Option) -> Callable[[str], Any]:
    """`read_value` as the type of an argument; argparse names the option itself."""

    def read(text: str) -> Any:
        try:
            return read_value(option, text)
        except BadValue as error:
            raise argparse.ArgumentTypeError(error.said) from None

    return read


def help_of(option: Option) -> str:
    """Its help as argparse wants it, with the default."""
    tail = "" if option.default in (None, "", False) else f" (default: {option.default})"
    return (option.help + tail).replace("%", "%%")
