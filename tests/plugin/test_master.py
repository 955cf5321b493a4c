"""The master's and the worker's side of a run, message by message, on a clock that stands still between them."""

from __future__ import annotations

import math
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from locust import argument_parser
from locust.runners import WorkerNode, WorkerNodes

from locust_llm.plugin import master as master_room
from locust_llm.plugin import worker as worker_room
from locust_llm.plugin.master import MARGIN_S, Master
from locust_llm.plugin.worker import CHECK, CHECKED, FINISH, FINISHED, Worker
from locust_llm.wire.target import ConfigurationError
from tests.service import clean_environment


class Timeline:
    """Stands for `time` and `gevent`: to sleep is to let the clock reach the next thing that is to happen."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def at(self, second: float, what: Callable[[], None]) -> None:
        self._due.append((second, what))

    def monotonic(self) -> float:
        return self.now_s

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for due in [each for each in self._due if each[0] <= self.now_s]:
            self._due.remove(due)
            due[1]()


class Cluster:
    """A master whose workers are names; what it sends them is in `sent`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *workers: str) -> None:
        self.timeline = Timeline()
        monkeypatch.setattr(master_room, "time", self.timeline)
        monkeypatch.setattr(master_room, "gevent", self.timeline)
        self.sent: list[tuple[str, str, Any]] = []
        self.merged: list[tuple[str, Any]] = []
        self.divided: list[set[str]] = []
        self.clients = WorkerNodes()
        for name in workers:
            self.clients[name] = WorkerNode(name, "running")
        runner = SimpleNamespace(
            clients=self.clients,
            send_message=lambda kind, data, client_id: self.sent.append((kind, client_id, data)),
            worker_indexes=dict.fromkeys(workers, 0),
            server=SimpleNamespace(send_to_client=lambda msg: self.sent.append((msg.type, msg.node_id, msg.data))),
            quit=lambda: self.sent.append(("quit all", "", None)),
        )
        options = SimpleNamespace(llm_model="m", host="http://h", llm_header=["A: b"])
        environment = SimpleNamespace(runner=runner, parsed_options=options, stop_timeout=10.0)
        self.session = SimpleNamespace(
            environment=environment,
            run="run1",
            lost={},
            simulated=False,
            targets=SimpleNamespace(hosts=lambda: ["http://h"]),
            workload=SimpleNamespace(divide=self.divided.append, reading_s=0.0),
            settings=SimpleNamespace(connect_timeout=10.0),
            listener=SimpleNamespace(merge=lambda name, report: self.merged.append((name, report["stats"]))),
        )
        self.master = Master(self.session)  # type: ignore[arg-type]

    def begin(self) -> None:
        """A test that all workers are able to run."""
        for name in self.clients:
            self.checked(name)
        self.master.check()
        self.sent.clear()

    def checked(self, name: str, trouble: str | None = None, *, run: str = "", at_s: float = 0.0) -> None:
        self._told(self.master._on_checked, name, {"run": run or self.session.run, "trouble": trouble}, at_s)

    def finished(self, name: str, *, run: str = "", at_s: float = 0.0) -> None:
        self._told(self.master._on_finished, name, {"run": run or self.session.run}, at_s)

    def _told(self, hear: Callable[[Any], None], name: str, data: Any, at_s: float) -> None:
        self.timeline.at(at_s, lambda: hear(SimpleNamespace(node_id=name, data=data)))

    def asked(self, kind: str) -> list[str]:
        return sorted(name for said, name, _ in self.sent if said == kind)

    def state(self, name: str, state: str, at_s: float) -> None:
        self.timeline.at(at_s, lambda: setattr(self.clients[name], "state", state))


# -- before a test -------------------------------------------------------------------------------------------------


def test_every_worker_checks_with_our_options(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.checked("a", at_s=1)
    cluster.checked("b", at_s=2)
    cluster.master.check()
    assert cluster.asked(CHECK) == ["a", "b"]
    ours = {"llm_model": "m", "llm_header": ["A: b"]}
    assert cluster.sent[0][2] == {"run": "run1", "hosts": ["http://h"], "options": ours}
    assert 2 <= cluster.timeline.now_s < 2.1
    assert cluster.divided == [set(cluster.clients)]


def test_a_worker_that_is_not_able_stops_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.checked("a")
    cluster.checked("b", "--llm-api-key-env names MINE, which is not set")
    with pytest.raises(ConfigurationError, match="worker b: --llm-api-key-env names MINE"):
        cluster.master.check()


SILENT = [
    ("it says nothing", lambda cluster: None, 15),
    ("it is lost meanwhile", lambda cluster: cluster.state("b", "missing", 3), 3),
    ("it leaves meanwhile", lambda cluster: cluster.timeline.at(3, lambda: cluster.clients.pop("b")), 3),
    ("it speaks of another run", lambda cluster: cluster.checked("b", "no", run="run0"), 15),
]


@pytest.mark.parametrize(("happens", "waits_s"), [row[1:] for row in SILENT], ids=[row[0] for row in SILENT])
def test_a_worker_that_does_not_answer_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[Cluster], None], waits_s: float
) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.checked("a")
    happens(cluster)
    cluster.master.check()
    assert waits_s <= cluster.timeline.now_s < waits_s + 0.1


def test_the_embedded_engine_and_workers_of_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    here, there = f"{socket.gethostname()}_0123abcd", "other_machine_0123abcd"
    cluster.master.refuse_remote([here, there])
    cluster.session.simulated = True
    cluster.master.refuse_remote([here])
    with pytest.raises(ConfigurationError, match="worker other_machine_0123abcd runs on another machine"):
        cluster.master.refuse_remote([here, there])


# -- the end -------------------------------------------------------------------------------------------------------


def test_the_end_waits_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.begin()
    cluster.finished("a", at_s=1)
    cluster.finished("b", at_s=9)
    cluster.master.gather()
    assert cluster.asked(FINISH) == ["a", "b"]
    assert 9 <= cluster.timeline.now_s < 9.1
    assert cluster.session.lost == {}


def test_asked_to_end_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a")
    cluster.begin()
    cluster.finished("a", at_s=1)
    cluster.master.gather()
    cluster.sent.clear()
    cluster.master.gather()
    assert (cluster.sent, cluster.session.lost) == ([], {})


def test_a_worker_that_does_not_finish_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.begin()
    cluster.finished("a", at_s=1)
    cluster.master.gather()
    assert 10 + MARGIN_S <= cluster.timeline.now_s < 10 + MARGIN_S + 0.2
    assert [*cluster.session.lost] == ["b"]


def test_a_worker_that_is_lost_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.begin()
    cluster.finished("a", at_s=1)
    cluster.state("b", "missing", at_s=3)
    cluster.master.gather()
    assert 3 <= cluster.timeline.now_s < 3.1
    assert [*cluster.session.lost] == ["b"]


def test_a_worker_that_was_lost_before_the_end_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a")
    cluster.begin()
    cluster.clients["a"].state = "missing"
    cluster.master._note_missing()
    cluster.master.gather()
    assert [*cluster.session.lost] == ["a"]
    assert cluster.sent == []


def test_a_worker_that_comes_back_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """D73. Also when that is while the others finish: it is asked then."""
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.begin()
    cluster.clients["b"].state = "missing"
    cluster.master._note_missing()
    assert [*cluster.session.lost] == ["b"]
    cluster.state("b", "running", at_s=2)
    cluster.finished("a", at_s=4)
    cluster.finished("b", at_s=5)
    cluster.master.gather()
    assert cluster.session.lost == {}
    assert cluster.asked(FINISH) == ["a", "b"]


def test_a_worker_that_has_finished_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.begin()
    cluster.finished("a", at_s=1)
    cluster.state("a", "missing", at_s=2)
    cluster.timeline.at(3, lambda: cluster.clients.pop("a"))
    cluster.finished("b", at_s=4)
    cluster.master.gather()
    assert cluster.session.lost == {}


def test_a_worker_that_comes_during_the_end_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a")
    cluster.begin()
    cluster.timeline.at(1, lambda: cluster.clients.__setitem__("late", WorkerNode("late", "ready")))
    cluster.finished("a", at_s=2)
    cluster.finished("late", at_s=2)
    cluster.master.gather()
    assert cluster.asked(FINISH) == ["a", "late"]


def test_what_comes_late_is_none_of_the_next_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report and a word of the run before: the worker is still waited for, and its report is dropped."""
    cluster = Cluster(monkeypatch, "a")
    cluster.begin()
    cluster.session.run = "run2"
    cluster.begin()
    cluster.finished("a", run="run1", at_s=1)
    cluster.finished("a", run="run2", at_s=3)
    cluster.master._on_worker_report("a", {"llm": {"run": "run1", "stats": "old"}})
    cluster.master._on_worker_report("a", {"llm": {"run": "run2", "stats": "new"}})
    cluster.master._on_worker_report("a", {})
    cluster.master.gather()
    assert 3 <= cluster.timeline.now_s < 3.1
    assert cluster.merged == [("a", "new")]


def test_between_tests_nobody_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a")
    cluster.clients["a"].state = "missing"
    cluster.master._note_missing()
    assert cluster.session.lost == {}


def test_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, "a", "b")
    cluster.begin()
    cluster.master._on_finished(SimpleNamespace(node_id="a", data={"run": "run1"}))
    cluster.master.hurry()
    assert cluster.sent == [(FINISH, "b", {"run": "run1", "now": True})]


def test_all_workers_are_sent_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that Locust does not know just now, because it stopped a moment ago."""
    cluster = Cluster(monkeypatch, "a", "b")
    del cluster.clients["b"]
    cluster.master.dismiss()
    assert cluster.sent == [("quit", "b", None), ("quit all", "", None)]


# -- the worker's side ---------------------------------------------------------------------------------------------


class Helper:
    """A worker whose runner notes what is asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, run: str = "run1") -> None:
        self.done: list[Any] = []
        self.trouble: Any = None
        runner = SimpleNamespace(
            last_received_spawn_timestamp=5.0,
            stop=lambda: (gevent.sleep(0.01), self.done.append("stop")),
            _send_stats=lambda: self.done.append("report"),
            send_message=lambda kind, data: self.done.append((kind, data)),
            register_message=lambda kind, listener, concurrent: None,
            user_greenlets=SimpleNamespace(kill=lambda block: self.done.append("cut off")),
        )
        self.options = SimpleNamespace(llm_model="")
        events = SimpleNamespace(report_to_master=SimpleNamespace(add_listener=lambda listener: None))
        self.environment = SimpleNamespace(runner=runner, parsed_options=self.options, stop_timeout=10.0, events=events)
        self.session = SimpleNamespace(
            environment=self.environment, run=run, probe=self._probe, listener=SimpleNamespace(running=set())
        )
        self.worker = Worker(self.session)  # type: ignore[arg-type]

    def _probe(self, hosts: list[str | None]) -> str | None:
        self.done.append(("probe", hosts))
        if isinstance(self.trouble, Exception):
            raise self.trouble
        return self.trouble  # type: ignore[no-any-return]

    def finish(self, run: str = "run1", *, now: bool = False) -> None:
        self.worker._on_finish(SimpleNamespace(data={"run": run, "now": now}))


def test_the_word_comes_after_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = Helper(monkeypatch)
    helper.finish()
    assert helper.done == ["stop", "report", (FINISHED, {"run": "run1"})]


def test_asked_to_finish_twice_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the master and by its own Ctrl-C: it is done once, and both wait for it."""
    helper = Helper(monkeypatch)
    asked = [gevent.spawn(helper.finish), gevent.spawn(helper.worker.finish), gevent.spawn(helper.finish)]
    gevent.joinall(asked, raise_error=True)
    assert helper.done == ["stop", "report", (FINISHED, {"run": "run1"})]


def test_told_to_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = Helper(monkeypatch)
    helper.finish(now=True)
    assert helper.done == ["cut off", "stop", "report", (FINISHED, {"run": "run1"})]


def test_a_worker_that_never_started_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = Helper(monkeypatch, run="")
    helper.finish("run7")
    helper.worker.finish()
    assert helper.done == [(FINISHED, {"run": "run7"})]


def test_it_takes_no_users_until_the_next_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locust's worker discards a spawn message that is not newer than the last one it took."""
    helper = Helper(monkeypatch)
    helper.finish()
    assert helper.environment.runner.last_received_spawn_timestamp == math.inf
    assert helper.environment.stop_timeout == 0
    helper.worker._on_check(SimpleNamespace(data={"run": "run2", "hosts": [None], "options": {"llm_model": "m2"}}))
    assert helper.environment.runner.last_received_spawn_timestamp == 0
    assert helper.options.llm_model == "m2"
    assert helper.done[-2:] == [("probe", [None]), (CHECKED, {"run": "run2", "trouble": None})]


@pytest.mark.parametrize("trouble", ["cannot reach h", ConfigurationError("cannot reach h")], ids=["said", "raised"])
def test_what_it_cannot_do_it_tells(monkeypatch: pytest.MonkeyPatch, trouble: Any) -> None:
    helper = Helper(monkeypatch)
    helper.trouble = trouble
    helper.worker._on_check(SimpleNamespace(data={"run": "run2", "hosts": ["h"], "options": {}}))
    assert helper.done[-1] == (CHECKED, {"run": "run2", "trouble": "cannot reach h"})


def test_locusts_options_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_parser, "default_args_dict", lambda: {"made": "anew"})
    Helper(monkeypatch).worker.install()
    assert argument_parser.default_args_dict() is argument_parser.default_args_dict()


def test_last_words_are_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = Timeline()
    monkeypatch.setattr(worker_room, "time", timeline)
    monkeypatch.setattr(worker_room, "gevent", timeline)
    running = {"request"}
    session: Any = SimpleNamespace(listener=SimpleNamespace(running=running))
    timeline.at(1, running.clear)
    worker_room.await_last_words(session)
    assert 1 <= timeline.now_s < 1.1
    running.add("request that stays")
    worker_room.await_last_words(session)
    assert 3 <= timeline.now_s < 3.2


# -- signals -------------------------------------------------------------------------------------------------------

BUSY = """
import gevent, os, signal, sys, time
from gevent import monkey
monkey.patch_all()
from locust_llm.plugin.interrupts import Interrupts

raised = []

def busy():
    try:
        while not raised:
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                pass
            gevent.sleep(0)
    except KeyboardInterrupt:
        print("raised amid its work")

Interrupts(lambda: False).install(sigterm=True)
working = gevent.spawn(busy)
gevent.spawn_later(0.2, print, "READY", flush=True)
for _ in range(2):
    try:
        gevent.sleep(60)
    except KeyboardInterrupt:
        print("raised in main", flush=True)
raised.append(True)
working.join()
try:
    print("in a loop", flush=True)
    while True:
        pass
except KeyboardInterrupt:
    print("the third at once")
"""


def test_ctrl_c_is_raised_where_the_main_greenlet_waits(tmp_path: Path) -> None:
    """Never amid the reading of a stream, whose bytes would be lost."""
    (tmp_path / "busy.py").write_text(BUSY)
    argv = [sys.executable, "busy.py"]
    env = clean_environment(tmp_path)
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline().strip()]
            for _ in range(2):
                process.send_signal(signal.SIGINT)
                said.append(process.stdout.readline().strip())
            assert process.stdout.readline() == "in a loop\n"
            process.send_signal(signal.SIGINT)
            said += process.stdout.read().splitlines()
        finally:
            process.kill()
    assert said == ["READY", "raised in main", "raised in main", "the third at once"]
