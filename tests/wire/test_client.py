"""LLMClient over real sockets: what leaves, and the record of every way a request can go."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gevent

from locust_llm.measure.record import Outcome
from locust_llm.measure.timeline import Timeline
from locust_llm.wire.client import LLMClient, Quirks
from locust_llm.wire.credentials import Credentials
from tests.replay import DONE, ROLE, STOP, C, Replay, U, answer, stream
from tests.wire.asking import CALL, NO_CREDENTIALS, asked, client_of

MS = 1_000_000
SSE = {"content_type": "text/event-stream"}
WHOLE = stream((0, ROLE), (20, C("a")), (40, C("b") + STOP + U(3, 2) + DONE))


# -- what leaves -----------------------------------------------------------------------------------------------------


def test_the_request() -> None:
    _, server = asked(WHOLE)
    [exchange] = server.exchanges
    assert (exchange.method, exchange.target) == ("POST", "/v1/chat/completions")
    assert exchange.json["messages"] == [{"role": "user", "content": "hi"}]
    assert exchange.json["stream"] is True
    assert exchange.headers == [
        ("host", f"127.0.0.1:{server.port}"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream, application/json"),
        ("accept-encoding", "identity"),
        ("user-agent", "locust-llm"),
        ("content-length", str(len(exchange.body))),
    ]


def test_the_users_headers_win_whatever_their_case() -> None:
    own = (("USER-agent", "mine/100%"), ("X-Two", "1"), ("X-Two", "2"), ("Authorization", "Bearer sk-x"))
    _, server = asked(WHOLE, credentials=Credentials(own, ("sk-x",), "test"))
    headers = server.exchanges[0].headers
    assert [value for name, value in headers if name == "user-agent"] == ["mine/100%"]
    assert [value for name, value in headers if name == "x-two"] == ["1", "2"]
    assert [value for name, value in headers if name == "authorization"] == ["Bearer sk-x"]


def test_a_query_in_the_base_url_stays() -> None:
    with Replay(WHOLE) as server:
        client = client_of(server.url + "/openai/deployments/ü?api-version=1")
        assert client.request(CALL).url == server.url + "/openai/deployments/ü/chat/completions"
        target = "/openai/deployments/%C3%BC/chat/completions?api-version=1"
        assert server.exchanges[0].target == target
        client.close()


def test_retries_are_never_hidden() -> None:
    """D23: 429, 429, 200 are two failures and a success, each with its own time."""
    busy = answer("429 Too Many", b'{"error":{"code":"rate_limit_exceeded"}}', retry_after="2")
    with Replay(busy, busy, WHOLE) as server:
        client = client_of(server.url)
        records = [client.request(CALL) for _ in range(3)]
        client.close()
        assert [record.error for record in records] == [*["HTTP 429 rate_limit_exceeded"] * 2, None]
        assert [record.retry_after_s for record in records] == [2.0, 2.0, None]
        assert [record.ttft_ms is None for record in records] == [True, True, False]
        assert len(server.exchanges) == 3


# -- the record ------------------------------------------------------------------------------------------------------


def test_a_good_one() -> None:
    record, server = asked(WHOLE)
    sent = server.exchanges[0].sent_ns
    assert (record.outcome, record.error, record.status, record.text) == (Outcome.SUCCESS, None, 200, "ab")
    assert (record.output_tokens, record.input_tokens) == (2, 3)
    transit = record.transit
    assert transit.sent_ns is not None
    assert record.started_ns <= transit.sent_ns <= server.exchanges[0].read_ns
    assert [at >= send for at, send in zip(record.event_ns, sent[2:], strict=True)] == [True, True]
    assert record.ended_ns == record.done_ns == record.event_ns[-1]


def test_a_redirect_is_not_followed() -> None:
    """D66: 301 would turn the POST into a GET elsewhere, without the key."""
    with Replay(WHOLE) as other:
        moved = answer("307 Temporary Redirect", b"", location=other.url + "/v1/chat/completions")
        record, _ = asked(moved)
        assert record.error == "redirect 307"
        assert record.detail is not None
        assert other.url in record.detail
        assert other.exchanges == []


def test_secrets_are_in_no_record() -> None:
    """D62: a server that repeats the key it was sent."""
    echo = answer("401 Unauthorized", b'{"error":{"message":"Incorrect API key provided: tok-4711-abcd"}}')
    record, _ = asked(
        echo, credentials=Credentials((("Authorization", "Bearer tok-4711-abcd"),), ("tok-4711-abcd",), "")
    )
    assert record.error == "HTTP 401"
    assert record.detail == "Incorrect API key provided: ***"
    assert "4711" not in repr(record)


# -- the option that some servers refuse (D34) -----------------------------------------------------------------------

REFUSAL = answer("400 Bad Request", b'{"error":{"message":"Unrecognized request argument supplied: stream_options"}}')
OTHER_REFUSAL = answer("400 Bad Request", b'{"error":{"message":"max_tokens is too large"}}')


def test_usage_is_asked_for_once_where_that_is_refused() -> None:
    with Replay(REFUSAL, WHOLE) as server:
        quirks = Quirks()
        first, second = (client_of(server.url, quirks=quirks) for _ in range(2))
        record = first.request(CALL)
        assert (record.error, record.status) == (None, 200)
        assert second.request(CALL).success
        asked_for_it = ["stream_options" in exchange.json for exchange in server.exchanges]
        assert asked_for_it == [True, False, False]
        assert not quirks.include_usage
        assert record.transit.sent_ns is not None
        assert record.transit.sent_ns >= server.exchanges[0].sent_ns[0], "the refused request is in no TTFT"
        assert record.started_ns >= server.exchanges[0].sent_ns[0]
        first.close()
        second.close()


def test_another_refusal_is_a_failure() -> None:
    record, server = asked(OTHER_REFUSAL)
    assert record.error == "HTTP 400"
    assert len(server.exchanges) == 1


def test_it_is_refused_twice() -> None:
    record, server = asked(REFUSAL)
    assert record.error == "HTTP 400"
    assert len(server.exchanges) == 2


# -- around a request ------------------------------------------------------------------------------------------------


def test_who_listens_is_told() -> None:
    told: list[Any] = []
    with Replay(WHOLE) as server:
        client = client_of(server.url)
        record = client.request(CALL, name="n", scheduled_ns=5, warmup=True, on_start=told.append, on_end=told.append)
        client.close()
    timeline, ended = told
    assert isinstance(timeline, Timeline)
    assert (timeline.name, timeline.scheduled_ns, timeline.warmup) == ("n", 5, True)
    assert ended is record
    assert (record.name, record.scheduled_ns, record.warmup) == ("n", 5, True)


def test_a_running_request_can_be_looked_at() -> None:
    """Live figures read its timeline; it is fresh to a part of a second."""
    running: list[Timeline] = []
    with Replay(stream(*((25.0 * number, C("a")) for number in range(40)), (1_000, DONE))) as server:
        client = client_of(server.url)
        asking = gevent.spawn(client.request, CALL, on_start=running.append)
        gevent.sleep(0.6)
        seen = len(running[0].event_ns)
        assert 0 < seen < 40
        assert asking.get(timeout=10).success
        client.close()


def test_one_answer_instead_of_a_stream() -> None:
    """D59 (a)."""
    whole = {
        "choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2},
    }
    record, _ = asked(answer("200 OK", json.dumps(whole).encode(), at_ms=20))
    assert (record.error, record.streamed, record.text, record.output_tokens) == (None, False, "ab", 2)
    assert record.ttft_ms is None
    assert record.e2e_ms is not None
    assert record.e2e_ms >= 20


def test_a_call_that_is_not_to_be_streamed_knows_no_stall() -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    script = answer("200 OK", json.dumps(whole).encode(), at_ms=300)
    record, _ = asked(script, replace(CALL, stream=False), stall_timeout_s=0.1)
    assert record.error is None


def test_a_client_that_was_closed_opens_a_new_connection() -> None:
    with Replay(WHOLE) as server:
        client = client_of(server.url, credentials=NO_CREDENTIALS)
        for _ in range(2):
            assert client.request(CALL).success
            client.close()
        assert server.connections == 2


def test_fifty_run_side_by_side() -> None:
    """D76, D07: no request waits for another's connection: all are on their way before the first one is answered."""
    script = stream((0, ROLE), (500, C("a")), (1_000, C("b") + STOP + DONE))
    with Replay(script) as server:
        clients: list[LLMClient] = [client_of(server.url) for _ in range(50)]
        records = [greenlet.get(timeout=20) for greenlet in [gevent.spawn(one.request, CALL) for one in clients]]
        assert all(record.success for record in records)
        assert max(exchange.read_ns for exchange in server.exchanges) < min(record.ended_ns for record in records)
        assert server.connections == 50
        for client in clients:
            client.close()
