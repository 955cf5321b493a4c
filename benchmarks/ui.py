"""What an open web UI costs the client: CPU per token with a page open, beside the same run headless.

    python benchmarks/ui.py [--users 500] [--seconds 10] [--repeat 2] [--ahead] [--json]

A real `locust` process with so many LLMUsers on one core, the embedded engine on another (steps of 20 ms, 50 tok/s a
stream). With the page open, the requests that Locust's own page and the LLM tab send are sent for them: every two
seconds /stats/requests, /exceptions and /tasks, and /llm/series with and without the table. A browser is left out: it
would take the engine's core. CPU is the user and system time of the locust process in the middle of the run.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import servers
from runs import CLIENT_CORE, SERVER_CORE

LOCUSTFILE = Path(__file__).parent.parent / "locustfiles" / "chat.py"
POLL_S = 2.0
SETTLE_S = 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--ahead", action="store_true", help="go ahead of all else on a busy machine (root)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.ahead:
        servers.ahead_of_others()
    rows = []
    for _ in range(options.repeat):
        for page in (False, True):
            rows.append({"page": page, **run(options.users, options.seconds, page=page)})
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'':>10}{'tok/s':>8}{'us/token':>10}{'core':>6}")
    for row in rows:
        name = "page open" if row["page"] else "headless"
        print(f"{name:>10}{row['tokens_per_s']:>8.0f}{row['cpu_us_per_token']:>10.2f}{row['core']:>6.0%}")
    headless, opened = (min(r["cpu_us_per_token"] for r in rows if r["page"] is page) for page in (False, True))
    print(f"a page costs {opened / headless - 1:+.1%} CPU per token (best of each)")


def run(users: int, seconds: float, *, page: bool) -> dict[str, Any]:
    """One run; the tokens are those that the engine counted meanwhile."""
    port = free_port()
    with servers.embedded_engine(SERVER_CORE) as url:
        command = [
            sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--host", url, "-u", str(users), "-r", str(users),
            "--llm-max-tokens", "256", "--llm-input-tokens", "20", "--loglevel", "WARNING", "--only-summary",
        ]  # fmt: skip
        mode = ["--autostart", "--web-host", "127.0.0.1", "--web-port", str(port)] if page else ["--headless"]
        with subprocess.Popen(
            servers.pinned(CLIENT_CORE, [*command, *mode]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as locust:
            over = threading.Event()
            reader = threading.Thread(target=look, args=(f"http://127.0.0.1:{port}", over), daemon=True)
            try:
                time.sleep(SETTLE_S)
                if page:
                    reader.start()
                    time.sleep(POLL_S)
                process = psutil.Process(locust.pid)
                before, tokens, began = used_s(process), sent_tokens(url), time.monotonic()
                time.sleep(seconds)
                cpu_s, tokens = used_s(process) - before, sent_tokens(url) - tokens
                span_s = time.monotonic() - began
            finally:
                over.set()
                locust.terminate()
                locust.wait(30)
    return {"tokens_per_s": tokens / span_s, "cpu_us_per_token": cpu_s * 1e6 / tokens, "core": cpu_s / span_s}


def look(base: str, over: threading.Event) -> None:
    """What the pages ask for, until `over`."""
    since: int | None = None
    while not over.wait(POLL_S):
        with suppress(OSError):
            for path in ("stats/requests", "exceptions", "tasks"):
                urlopen(f"{base}/{path}", timeout=10).read()
            query = "" if since is None else f"&since={since}"
            reply = json.loads(urlopen(f"{base}/llm/series?table=1{query}", timeout=10).read())
            since = (reply["now"] or 0) - 60


def used_s(process: psutil.Process) -> float:
    """User and system time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def sent_tokens(url: str) -> int:
    """Tokens that the engine has sent so far."""
    counts: dict[str, Any] = json.loads(urlopen(f"{url}/sim/counts", timeout=10).read())
    return int(counts["tokens_sent"])


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
