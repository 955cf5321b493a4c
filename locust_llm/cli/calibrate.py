"""`locust-llm calibrate`: how true this machine's figures are, and up to how many streams; or what a path is like.

Without --host: an engine whose send times are known and a real `locust` process run on this machine, one against the
other, at rising numbers of streams. With --host URL: a few small requests show what the client can know of the path.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from locust_llm.analysis.calibration import Level
from locust_llm.analysis.calibration_safe import LIMITS
from locust_llm.cli.calibrate_path import look_at_path
from locust_llm.cli.calibrate_run import GAP_MS, MODES, CalibrationError, calibrate
from locust_llm.report.calibration import Calibration, text_of
from locust_llm.report.calibration_html import html_of
from locust_llm.report.calibration_path import path_dict, path_text
from locust_llm.report.calibration_store import Safe, save, set_up
from locust_llm.report.files import trouble, write_whole
from locust_llm.wire.api import APIS
from locust_llm.wire.target import ConfigurationError

STREAMS: Final = (50, 200, 400, 600, 900, 1200, 1600, 2000, 2500, 3000, 4000, 5000)
MAX_STREAMS: Final = 1200
LEVEL_OVERHEAD_S: Final = 3.2
"""Starting the users and letting the last answers end, beside the measured window."""

SPARE_DESCRIPTORS: Final = 200


def run(arguments: Sequence[str]) -> int:
    """Calibrate, print and write what is asked for; returns the exit code."""
    given = _parser().parse_args(arguments)
    for path in (given.json, given.html):
        folder = os.path.dirname(path or "") or "."
        if path and (os.path.isdir(path) or not (os.path.isdir(folder) and os.access(folder, os.W_OK))):
            sys.stderr.write(
                f"locust-llm calibrate: {path} cannot be written: name a file in a folder that is there.\n"
            )
            return 2
    if given.host is not None:
        return _path(given)
    try:
        return _machine(given)
    except CalibrationError as error:
        sys.stderr.write(f"locust-llm calibrate: {error}.\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nlocust-llm calibrate: stopped; nothing is saved.\n")
        return 130


def _path(given: argparse.Namespace) -> int:
    """What a path is like."""
    try:
        found = look_at_path(given)
    except ConfigurationError as error:
        sys.stderr.write(f"locust-llm calibrate: {error}.\n")
        return 1
    print(path_text(found))
    return write(given.json, lambda: json.dumps(path_dict(found), indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="locust-llm calibrate", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write all figures as JSON")
    machine = parser.add_argument_group("this machine")
    machine.add_argument("--html", metavar="FILE", help="write a page with charts and the table")
    machine.add_argument(
        "--seconds", type=_positive, default=2, metavar="N", help="measured at each number of streams (default 2)"
    )
    machine.add_argument(
        "--max-streams",
        type=_positive,
        default=MAX_STREAMS,
        metavar="N",
        help=f"most streams to try (default {MAX_STREAMS}; stops before when the figures are no longer right)",
    )
    machine.add_argument("--mode", choices=MODES, help="only streams spread evenly, or only bursts; both by default")
    machine.add_argument("--no-save", action="store_true", help="do not keep the safe number for later runs")
    path = parser.add_argument_group("a path to an endpoint")
    path.add_argument("--host", metavar="URL", help="the endpoint: costs a few small requests there")
    path.add_argument("--llm-api", choices=tuple(APIS), default="chat", help="the API to speak (default chat)")
    path.add_argument("--llm-model", default="", metavar="NAME", help="model to ask for; else the first that is listed")
    path.add_argument("--llm-api-key-env", metavar="NAME", help="variable that holds the key, else the API's usual one")
    path.add_argument(
        "--llm-header", action="append", default=[], metavar="LINE", help="a header 'Name: value' to send"
    )
    path.add_argument("--llm-ca-cert", default="", metavar="FILE", help="PEM file of the certificates to trust")
    path.add_argument("--llm-insecure", action="store_true", help="accept any certificate")
    path.add_argument("--llm-proxy", default="", metavar="URL", help="HTTP proxy, or `none`")
    path.add_argument("--requests", type=_positive, default=5, metavar="N", help="small requests to send (default 5)")
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _machine(given: argparse.Namespace) -> int:
    modes = (given.mode,) if given.mode is not None else MODES
    streams = levels_up_to(given.max_streams)
    raise_descriptor_limit(streams[-1])
    progress = Progress(len(streams) * len(modes), given.seconds)
    levels: list[Level] = []
    for mode in modes:
        levels += calibrate(mode, streams, given.seconds, progress.begin)
        progress.reached(len(streams) * (modes.index(mode) + 1))
    progress.end()
    found = Calibration(levels, set_up(), time.strftime("%Y-%m-%d"), 1000 / GAP_MS, given.max_streams)
    print(text_of(found))
    failed = _write(given, found)
    return _keep(found, given.mode is None and not given.no_save) or failed


def levels_up_to(most: int) -> list[int]:
    """The numbers of streams to try, rising, `most` the last."""
    return [*(streams for streams in STREAMS if streams < most), most]


def raise_descriptor_limit(streams: int) -> None:
    """Let our processes have a socket for each stream; raises CalibrationError where the system forbids that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = streams + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise CalibrationError(
                f"{streams} streams need as many open files and this system allows {hard}: give --max-streams "
                f"{max(hard - SPARE_DESCRIPTORS, 1)}, or raise `ulimit -n`"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _write(given: argparse.Namespace, found: Calibration) -> int:
    failed = write(given.json, lambda: json.dumps(found.to_dict(), indent=1) + "\n")
    return write(given.html, lambda: html_of(found)) or failed


def write(path: str | None, make: Callable[[], str]) -> int:
    """Write a file that was asked for; 1 when that failed, which it says."""
    if not path:
        return 0
    try:
        write_whole(path, [make()])
    except OSError as error:
        sys.stderr.write(f"locust-llm calibrate: {trouble(path, error)}\n")
        return 1
    return 0


def _keep(found: Calibration, wanted: bool) -> int:
    """Save the safe number for later runs on this machine; 1 when there is none, or none to rely on."""
    if not wanted:
        return 0
    streams = found.safe(LIMITS[0])
    if streams is None or found.disturbed is not None:
        print("Nothing is saved.")
        return 1
    try:
        path = save(Safe(streams, found.safe(LIMITS[1]), found.stream_tokens_per_s, found.date))
    except OSError as error:
        sys.stderr.write(f"locust-llm calibrate: the safe number cannot be saved: {error.strerror or error}\n")
        return 1
    print(f"Saved in {path}: a run on this machine that goes past {streams:,} streams a process will say so.")
    return 0


class Progress:
    """A line on standard error: a bar that grows on a terminal, a line for each level elsewhere."""

    WIDTH = 24

    def __init__(self, steps: int, window_s: int) -> None:
        self._steps = steps
        self._done = 0
        self._terminal = sys.stderr.isatty()
        sys.stderr.write(f"Calibrating: about {steps * (window_s + LEVEL_OVERHEAD_S) + 5:.0f} s at most.\n")

    def begin(self, mode: str, streams: int) -> None:
        """A level begins."""
        self._show(f"{mode}, {streams:,} streams")
        self._done += 1

    def reached(self, steps: int) -> None:
        """So many are over, or not needed."""
        self._done = steps

    def end(self) -> None:
        """All is over."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")

    def _show(self, what: str) -> None:
        full = self.WIDTH * self._done // self._steps
        bar = f"[{'#' * full}{'.' * (self.WIDTH - full)}] {what}"
        sys.stderr.write(f"\r\x1b[K{bar}" if self._terminal else f"{bar}\n")
        sys.stderr.flush()
