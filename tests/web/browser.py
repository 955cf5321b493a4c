"""A real browser and a real Locust with its web UI, for the tests that look at the page."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Frame, Page, Request, sync_playwright

from tests.locust_process import LocustProcess, start_locust
from tests.service import free_port

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WAIT_S = 60.0
"""The longest wait for what should come in a moment: a busy machine must not fail a test."""

REPO = Path(__file__).parents[2]
CHAT = REPO / "locustfiles" / "chat.py"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's Chromium (CI installs Debian's), ended at the end."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip("needs a browser, the one thing `make` cannot set up: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Faults:
    """All that a page complained of: console errors, exceptions, failed requests, and requests to elsewhere."""

    base: str
    seen: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", lambda m: self._note(m.type in ("error", "warning"), f"console: {m.text}"))
        context.on("weberror", lambda e: self._note(True, f"exception: {e.error}"))
        context.on("requestfailed", lambda r: self._note(not _given_up(r), f"failed: {r.url} {r.failure}"))
        context.on(
            "request", lambda r: self._note(not r.url.startswith((self.base, "data:", "blob:")), f"asked {r.url}")
        )
        context.on("dialog", lambda d: (self._note(True, f"dialog: {d.message}"), d.dismiss()))

    def _note(self, wrong: bool, what: str) -> None:
        if wrong:
            self.seen.append(what)


def _given_up(request: Request) -> bool:
    """Whether the browser itself ended it: the page was left, or it became a download."""
    return request.failure == "net::ERR_ABORTED"


@contextmanager
def context_of(browser: Browser, base: str, **how: object) -> Iterator[tuple[BrowserContext, Faults]]:
    """A fresh browser profile; its faults are asserted to be none at the end."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})  # type: ignore[arg-type]
    context.set_default_timeout(WAIT_S * 1000)
    faults = Faults(base)
    faults.watch(context)
    try:
        yield context, faults
    finally:
        context.close()
    assert not faults.seen, "\n".join(faults.seen)


@contextmanager
def locust_ui(
    folder: Path, *args: str, locustfile: Path = CHAT, base_path: str = "", ready: str = "All users spawned"
) -> Iterator[tuple[str, LocustProcess]]:
    """Locust with its web UI against the embedded engine, once it said `ready`: (URL that ends in a slash, process).

    The test begins by itself where `args` hold --autostart.
    """
    port = free_port()
    argv = ["-f", str(locustfile), "--host", "sim", "--web-host", "127.0.0.1", "--web-port", str(port)]
    argv += ["--users", "4", "--spawn-rate", "4", "--llm-input-tokens", "50", "--llm-max-tokens", "40", *args]
    with start_locust(argv, cwd=folder) as locust:
        locust.await_output(ready)
        _await_server(port)
        yield f"http://127.0.0.1:{port}{base_path}/", locust


def _await_server(port: int) -> None:
    """Locust says that it starts its web server before it listens."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the web server does not listen"
            time.sleep(0.05)


def until(what: str, holds: Callable[[], bool], page: Page) -> None:
    """Return once it holds; AssertionError after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_S:g} s: {what}"
        page.wait_for_timeout(100)


def llm_frame(page: Page) -> Frame:
    """Our page on Locust's tab, once it shows points."""
    page.wait_for_selector("#llm-charts")
    until("our frame is there", lambda: any(f.url.endswith("/llm") for f in page.frames), page)
    frame = next(f for f in page.frames if f.url.endswith("/llm"))
    until("our frame has points", lambda: span(frame) is not None, page)
    return frame


def span(frame: Frame | Page) -> tuple[int, int] | None:
    """The first and the last second that the charts show; None while there is none."""
    first, last = frame.evaluate("() => { const d = document.documentElement?.dataset; return [d?.first, d?.last] }")
    return (int(first), int(last)) if first and last else None


def values(frame: Frame | Page) -> dict[str, int]:
    """How many values each chart draws, by the chart's name."""
    found: dict[str, int] = frame.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".chart")].map(
            chart => [chart.id.replace("chart-", ""), Number(chart.querySelector(".plot").dataset.values)]))"""
    )
    return found


def colours(frame: Frame | Page) -> dict[str, int]:
    """How many pixels of a line's colour each chart's canvas holds, by the chart's name."""
    found: dict[str, int] = frame.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".chart")].map(chart => {
            const shown = chart.querySelector("canvas");
            const { width, height } = shown;
            const copy = Object.assign(document.createElement("canvas"), { width, height });
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(shown, 0, 0);
            const { data } = context.getImageData(0, 0, width, height);
            let coloured = 0;
            for (let i = 0; i < data.length; i += 4) {
                const [r, g, b, a] = data.slice(i, i + 4);
                if (a > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 90) coloured++;
            }
            return [chart.id.replace("chart-", ""), coloured];
        }))"""
    )
    return found


def figure(frame: Frame | Page, key: str) -> str:
    """The value in a headline figure."""
    return frame.locator(f'.headline [data-key="{key}"] .value').inner_text()
