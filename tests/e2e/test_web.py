"""Runs from the web UI, without a browser."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from locust_llm.plugin.options import OPTIONS
from tests.e2e.web import start_web
from tests.plugin.endings import get_json, running_engine
from tests.replay import DONE, ROLE, STOP, C, Replay, U, stream
from tests.service import free_port
from tests.side_by_side import side_by_side

KEY = "sk-web-SECRET-0123456789"
LOCUSTFILE = """
from locust import HttpUser, constant, task
from locust_llm import LLMUser

class Asker(LLMUser):
    wait_time = constant(0.1)

    @task
    def ask(self):
        self.client.chat("Hello", name="ask")
"""
GOOD = stream((0, ROLE + C("Hi") + STOP + U(9, 1) + DONE))


@side_by_side
def test_two_tests_on_sim_and_a_bad_host_between_them(folder: Path, stack: ExitStack) -> None:
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    web = start_web(stack, folder, "--stop-timeout", "5", env={"OPENAI_API_KEY": KEY})

    web.swarm("sim", llm_max_tokens=3)
    web.await_requests("E2E ask (SIMULATED)", 2)
    web.stop()
    rows = web.rows()
    assert rows["Aggregated"] == rows["E2E ask (SIMULATED)"]
    assert rows["ITL ask (SIMULATED)"][0] == 2 * rows["E2E ask (SIMULATED)"][0]
    engine = web.template_args()["host"]
    assert engine.startswith("http://127.0.0.1:")

    nowhere = f"http://127.0.0.1:{free_port()}"
    web.swarm(nowhere, starts=False)
    web.await_true(web.exceptions)
    assert f"cannot reach {nowhere.removeprefix('http://')}" in web.exceptions()[0]
    web.await_true(lambda: web.state() == "stopped")
    web.await_true(lambda: web.rows() == {"Aggregated": (0, 0)})

    # As the form shows it: the engine's own address. It is still simulated, and the exception is gone.
    web.swarm(engine, llm_max_tokens=5)
    web.await_requests("E2E ask (SIMULATED)", 2)
    web.stop()
    assert web.exceptions() == []
    rows = web.rows()
    assert rows["ITL ask (SIMULATED)"][0] == 4 * rows["E2E ask (SIMULATED)"][0]

    web.locust.send_signal(signal.SIGTERM)
    result = web.locust.wait()
    assert (result.exit_code, result.orphans) == (0, ()), result.output
    assert "Traceback" not in result.output
    assert web.locust.stderr().count("All figures are SIMULATED") == 2


@side_by_side
def test_the_page(folder: Path, stack: ExitStack) -> None:
    """It may be asked for again and again; our options are in the form, at most eight; no key is in it."""
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    server = stack.enter_context(Replay(GOOD))
    secrets = ["--llm-header", f"X-Team-Key: {KEY}", "--llm-proxy", f"http://u:{KEY}@127.0.0.1:{server.port}"]
    web = start_web(stack, folder, "--stop-timeout", "5", *secrets, env={"OPENAI_API_KEY": KEY})
    forms = [web.form() for _ in range(3)]
    assert forms[0] == forms[1] == forms[2]
    assert {name for name in forms[0] if name.startswith("llm_")} == {each.dest for each in OPTIONS if each.in_form}
    assert len(forms[0]) <= 8
    web.swarm("http://engine.invalid", llm_model="m")
    web.await_requests("E2E ask")
    seen = [web.get(), web.get("stats/requests"), web.get("exceptions"), web.get("stats/report")]
    web.stop()
    web.swarm("http://u:SECRET@engine.invalid", llm_model="m", starts=False)
    web.await_true(web.exceptions)
    seen += [web.get(), web.get("stats/requests"), web.get("exceptions"), web.get("stats/report"), web.get("logs")]
    assert not [text for text in seen if "SECRET" in text]
    web.locust.send_signal(signal.SIGTERM)
    assert "SECRET" not in web.locust.wait().output
    assert {dict(exchange.headers)["x-team-key"] for exchange in server.exchanges} == {KEY}


@side_by_side
def test_what_the_form_says_reaches_the_workers(folder: Path, stack: ExitStack) -> None:
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    server = stack.enter_context(Replay(GOOD))
    web = start_web(stack, folder, "--llm-max-tokens", "11", "--llm-temperature", "0.5", workers=2)
    for limit in (12, 13):
        before = len(server.exchanges)
        web.swarm(server.url, users=2, llm_model=f"m{limit}", llm_max_tokens=limit, llm_ignore_eos="true")
        web.await_requests("E2E ask", 4)
        web.stop()
        asked = [exchange.json for exchange in server.exchanges[before + 1 :] if exchange.method == "POST"]
        assert {(body["max_tokens"], body["model"], body["ignore_eos"], body["temperature"]) for body in asked} == {
            (limit, f"m{limit}", True, 0.5)
        }
        web.await_true(lambda: [each["state"] for each in web.json("stats/requests")["workers"]] == ["ready"] * 2)
    web.locust.send_signal(signal.SIGTERM)
    assert web.locust.wait().orphans == ()


@side_by_side
def test_a_master_whose_host_is_bad(folder: Path, stack: ExitStack) -> None:
    """The test is aborted, the UI stays, the sentence is shown, and the next test runs."""
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    server = stack.enter_context(Replay(GOOD))
    web = start_web(stack, folder, "--stop-timeout", "5", workers=1)
    web.swarm(f"http://127.0.0.1:{free_port()}", llm_model="m", starts=False)
    web.await_true(web.exceptions)
    assert "cannot reach" in web.exceptions()[0]
    web.await_true(lambda: web.state() == "stopped")
    web.swarm(server.url, llm_model="m")
    web.await_requests("E2E ask", 2)
    assert web.exceptions() == []
    web.stop()
    web.locust.send_signal(signal.SIGTERM)
    result = web.locust.wait()
    assert (result.exit_code, result.orphans) == (0, ())
    # Locust's CSV writer may still tick after Locust has closed its files.
    unhandled = [line for line in result.output.splitlines() if "Unhandled exception" in line]
    assert [line for line in unhandled if "stats_writer" not in line] == []


@side_by_side
@pytest.mark.parametrize("mode", ["local", "processes"])
def test_a_shape_whose_host_is_bad(folder: Path, stack: ExitStack, mode: str) -> None:
    shape = "from locust import LoadTestShape\nclass Flat(LoadTestShape):\n    def tick(self):\n        return (2, 2)\n"
    (folder / "locustfile.py").write_text(LOCUSTFILE + shape)
    server = stack.enter_context(Replay(GOOD))
    web = start_web(stack, folder, "--stop-timeout", "5", workers=1 if mode == "processes" else 0)
    web.swarm(f"http://127.0.0.1:{free_port()}", llm_model="m", starts=False)
    web.await_true(web.exceptions)
    web.await_true(lambda: web.state() == "stopped")
    web.swarm(server.url, llm_model="m")
    web.await_requests("E2E ask", 2)
    web.stop()
    web.locust.send_signal(signal.SIGTERM)
    assert web.locust.wait().exit_code == 0


@pytest.mark.long
@side_by_side
def test_the_class_picker(folder: Path, stack: ExitStack) -> None:
    """Only what is picked is checked and runs; an aborted test does not stick to its classes."""
    two = """
class Elsewhere(Asker):
    host = "http://127.0.0.1:1"

class Plain(HttpUser):
    @task
    def get(self):
        self.client.get("/plain")
"""
    (folder / "locustfile.py").write_text(LOCUSTFILE.replace('"ask"', "type(self).__name__") + two)
    server = stack.enter_context(Replay(GOOD))
    web = start_web(stack, folder, "--class-picker", workers=1)
    web.swarm("", llm_model="m", user_classes="Elsewhere", starts=False)
    web.await_true(web.exceptions)
    assert "cannot reach 127.0.0.1:1" in web.exceptions()[0]
    web.await_true(lambda: web.state() == "stopped")
    web.swarm(server.url, llm_model="m", user_classes="Asker")
    web.await_requests("E2E Asker", 2)
    web.stop()
    assert set(web.rows()) == {"E2E Asker", "TTFT Asker", "Aggregated"}
    web.swarm(server.url, user_classes="Plain")
    web.await_requests("GET /plain", 2)
    web.stop()
    assert {name for name in web.rows() if name.startswith(("E2E", "TTFT"))} == set()
    web.locust.send_signal(signal.SIGTERM)
    web.locust.wait()


@side_by_side
def test_below_a_base_path_and_behind_a_login(folder: Path, stack: ExitStack) -> None:
    login = """
from flask_login import UserMixin, login_user
from locust import events

class Somebody(UserMixin):
    def get_id(self):
        return "somebody"

@events.init.add_listener
def on_init(environment, web_ui, **_):
    web_ui.app.config["SECRET_KEY"] = "for the cookie"
    web_ui.login_manager.user_loader(lambda name: Somebody())
    web_ui.auth_args = dict(username_password_callback="./enter")

    @web_ui.app.route("/load/enter")
    def enter():
        login_user(Somebody())
        return "in"
"""
    (folder / "locustfile.py").write_text(LOCUSTFILE + login)
    engine = stack.enter_context(running_engine(folder))
    web = start_web(stack, folder, "--web-login", base_path="/load")
    assert "extra_options" not in web.get()
    assert web.get("llm") == web.get()
    assert web.get("enter") == "in"
    assert "llm_max_tokens" in web.form()
    web.swarm(engine.url, llm_max_tokens=2)
    web.await_requests("E2E ask", 2)
    assert web.get("llm") != web.get()
    web.stop()
    web.locust.send_signal(signal.SIGTERM)
    assert web.locust.wait().exit_code == 0


@side_by_side
def test_autostart_with_a_mistake_ends_the_process(folder: Path, stack: ExitStack) -> None:
    """Nobody may be looking at the UI."""
    (folder / "locustfile.py").write_text(LOCUSTFILE)
    with pytest.raises(AssertionError, match="cannot reach 127"):
        start_web(stack, folder, "--autostart", "--host", "http://127.0.0.1:1", "--llm-model", "m")


@side_by_side
def test_a_program_that_brings_its_own_runner(folder: Path, stack: ExitStack) -> None:
    """Locust as a library: no preflight, no signals, nothing from the `locust` command."""
    engine = stack.enter_context(running_engine(folder))
    program = f"""
import signal
from locust.env import Environment
from locust import constant, task
from locust_llm import LLMUser
from locust_llm.plugin.session import session_of

class Asker(LLMUser):
    wait_time = constant(0)

    @task
    def ask(self):
        self.client.chat(self.prompt(), max_tokens=3)

environment = Environment(user_classes=[Asker], host={engine.url!r})
runner = environment.create_local_runner()
import gevent
for _ in range(2):
    runner.start(3, spawn_rate=3)
    gevent.sleep(1)
    runner.stop()
    counts = session_of(environment).stats.counts()
    total = environment.stats.total
    assert total.num_requests == counts.succeeded == environment.stats.entries["chat", "E2E"].num_requests > 3
    assert counts.started == counts.succeeded + counts.cancelled, counts
runner.quit()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("sent", counts.started)
"""
    (folder / "program.py").write_text(program)
    import subprocess

    from tests.service import clean_environment

    argv = [sys.executable, "-W", "error", "program.py"]
    ended = subprocess.run(argv, cwd=folder, env=clean_environment(folder), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "sent" in ended.stdout
    assert get_json(f"{engine.url}/sim/counts")["received"] > 6
