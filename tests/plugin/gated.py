"""A locustfile for tests of gates and brakes, and how to run it.

The load of the machine that runs the tests is not what they are about, so the client never counts as too busy unless a
test asks for it. FAIL per cent of the requests are failures, the same ones in every run.
"""

from __future__ import annotations

from pathlib import Path

from tests.locust_process import LocustProcess, LocustResult, start_locust
from tests.plugin.endings import LOCUSTFILE

FAIL_PERCENT = 20

GATED = (
    LOCUSTFILE.replace("constant(0)", "constant(0.05)").replace(
        '        self.client.chat("Hello", name="ask")\n',
        """\
        Asker.asked += 1
        with self.client.chat("Hello", name="ask", catch_response=True) as answer:
            if Asker.asked * 37 % 100 < FAIL:
                answer.failure("wanted")
""",
    )
    + """
from locust_llm.measure.findings import client

FAIL = 0
Asker.asked = 0
client.HUB_LAG_LIMIT_MS = client.CPU_LIMIT = 1e9
"""
)
FAILING = f"{GATED}\nFAIL = {FAIL_PERCENT}\n"

ENGINE = "--slots 64 --prefill-tps inf --decode-ms 5 --decode-slope-ms 0"
SIM = ["--host", "sim", "--llm-sim", ENGINE, "--llm-max-tokens", "6", "--stop-timeout", "20"]
USERS = ["--headless", "--users", "2", "--spawn-rate", "50"]


def gates(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--llm-gate", text)]


def processes(count: int = 2) -> list[str]:
    """The options of a Locust with forked workers."""
    return ["--processes", str(count)]


def start(folder: Path, locustfile: str, *args: str, env: dict[str, str] | None = None) -> LocustProcess:
    """Start it in `folder`."""
    (folder / "locustfile.py").write_text(locustfile)
    return start_locust(["-f", "locustfile.py", *args], cwd=folder, env=env)


def run(folder: Path, locustfile: str, *args: str, env: dict[str, str] | None = None) -> LocustResult:
    """Run it to its end."""
    with start(folder, locustfile, *args, env=env) as locust:
        result = locust.wait(120)
    assert result.orphans == (), result.output
    return result
