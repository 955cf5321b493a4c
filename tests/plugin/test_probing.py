"""Probing: calls ask for longer answers while it is on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from locust_llm.plugin.probing import PROBE, Probing
from locust_llm.wire.call import Call


class Runner:
    """What Probing needs of Locust's runners."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any, str]] = []
        self.heard: dict[str, Any] = {}
        self.clients = SimpleNamespace(all=[SimpleNamespace(id="w1"), SimpleNamespace(id="w2")])

    def send_message(self, name: str, data: Any, client_id: str) -> None:
        self.sent.append((name, data, client_id))

    def register_message(self, name: str, listener: Any) -> None:
        self.heard[name] = listener


def session(*, worker: bool = False, master: bool = False) -> Any:
    return SimpleNamespace(
        run="r1", is_worker=worker, is_master=master, environment=SimpleNamespace(runner=Runner())
    )  # fmt: skip


# id, call, factor, max_tokens, extra
CALLS = [
    ("as usual", Call(max_tokens=40), 1.0, 40, {}),
    ("twice as long", Call(max_tokens=40), 2.0, 80, {}),
    ("min_tokens go along", Call(max_tokens=40, extra={"min_tokens": 40, "top_p": 1}), 2.0, 80,
     {"min_tokens": 80, "top_p": 1}),
    ("no limit is asked for", Call(), 2.0, None, {}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "factor", "tokens", "extra"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_a_call(call: Call, factor: float, tokens: int | None, extra: dict[str, Any]) -> None:
    probing = Probing(session())
    probing.ask(factor)
    sent = probing.lengthened(call)
    assert (sent.max_tokens, dict(sent.extra)) == (tokens, extra)


def test_the_master_tells_its_workers_and_they_forget_at_the_next_test() -> None:
    master, worker = Probing(session(master=True)), Probing(session(worker=True))
    worker.install()
    master.ask(2.0)
    messages = master.session.environment.runner.sent
    assert [client_id for _, _, client_id in messages] == ["w1", "w2"]
    hear = worker.session.environment.runner.heard[PROBE]
    hear(SimpleNamespace(data={**messages[0][1], "run": "another"}))
    assert worker.factor == 1.0
    hear(SimpleNamespace(data=messages[0][1]))
    assert worker.factor == 2.0
    worker.begin()
    assert worker.factor == 1.0
