"""Records: every metric can be computed from the file again; what a kill, a full disk or a wrong file does."""

from __future__ import annotations

import errno
import json
import logging
import os
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.record import Clock, Outcome, RequestRecord, TokenSource, Transit, Usage
from locust_llm.report.record_line import record_from_dict, record_to_dict
from locust_llm.report.records import RecordsError, RecordWriter, read_records, records_path
from tests.measure.build import T0, record
from tests.report.runs import requests, small_run, stats_of

WALL_S = 1_700_000_123.456789


def samples(each: RequestRecord) -> dict[str, Any]:
    """What a record gives each distribution, as lists."""
    told: dict[str, Any] = {}
    for metric in DISTRIBUTIONS:
        value = metric.of(each)
        if isinstance(value, tuple):
            told[metric.key], told[f"{metric.key} weights"] = (part.tolist() for part in value)
        else:
            told[metric.key] = value.tolist() if isinstance(value, np.ndarray) else value
    return told


def through_json(each: RequestRecord, *, text: bool = False) -> RequestRecord:
    return record_from_dict(json.loads(json.dumps(record_to_dict(each, text=text), allow_nan=False)))


@settings(max_examples=100, deadline=None)
@given(requests())
def test_every_metric_can_be_computed_again(each: RequestRecord) -> None:
    """Times on whole microseconds come back exactly, and with them every metric, count and label."""
    each = replace(each, started_wall_s=WALL_S)
    made = through_json(each)
    told, again = samples(each), samples(made)
    for key, value in told.items():
        assert again[key] == (pytest.approx(value) if isinstance(value, float | list) else value), key
    shift = made.started_ns - each.started_ns
    assert made.event_ns == array("q", [at + shift for at in each.event_ns])
    same = ("name", "outcome", "error", "output_tokens", "token_source", "streamed_tokens", "usage", "warmup")
    same += ("event_choice", "event_tokens", "max_tokens", "input_tokens", "finish_reasons", "started_wall_s")
    assert {key: getattr(made, key) for key in same} == {key: getattr(each, key) for key in same}


@settings(max_examples=40, deadline=None)
@given(requests())
def test_counts_are_the_same(each: RequestRecord) -> None:
    assert stats_of([through_json(each)]).counts() == stats_of([each]).counts()


def full() -> RequestRecord:
    """A record in which everything is set."""
    transit = Transit(
        headers_ns=T0 + 60_000_000,
        end_ns=T0 + 131_000_000,
        dns_ns=1_000_000,
        tcp_ns=2_000_000,
        tls_ns=3_000_000,
        lost_ns=4_000_000,
        reused=True,
        stale_retries=1,
        clock=Clock.KERNEL,
        max_lag_ns=0,
        reads=3,
        received_bytes=999,
    )
    each = record([100, 100, 121], n=9, sent=50, started=10, scheduled=5, ended=130, streamed_tokens=7, transit=transit)
    return replace(
        each,
        event_choice=array("q", [0, 1, 0]),
        event_tokens=array("q", [3, 3, 3]),
        url="https://me:hunter2@host/v1/chat?key=abc",
        model="m",
        model_answered="m-1",
        status=200,
        retry_after_s=1.5,
        started_wall_s=WALL_S,
        first_visible_ns=T0 + 121_000_000,
        done_ns=T0 + 122_000_000,
        finish_reasons=("stop", "length"),
        usage=Usage(11, 9, 2, 2),
        hidden_reasoning=True,
        max_tokens=64,
        detail="body",
        text="héllo",
        reasoning="because",
        choices=("héllo", "hi"),
        tool_calls=({"id": "1", "name": "f", "arguments": "{}"},),
    )


def test_everything_survives() -> None:
    made = through_json(full(), text=True)
    shift = made.started_ns - full().started_ns
    instants = ("scheduled_ns", "started_ns", "ended_ns", "done_ns", "first_visible_ns")
    shifted = {name: getattr(full(), name) + shift for name in instants}
    transit = replace(
        full().transit,
        sent_ns=(full().sent_ns or 0) + shift,
        headers_ns=(full().transit.headers_ns or 0) + shift,
        end_ns=(full().transit.end_ns or 0) + shift,
    )
    events = array("q", [at + shift for at in full().event_ns])
    url = "https://***@host/v1/chat?key=***"
    assert made == replace(full(), **shifted, transit=transit, event_ns=events, url=url)


def test_a_line_by_hand() -> None:
    line = record_to_dict(full())
    assert line["started_us"] == -40_000
    assert line["scheduled_us"] == -45_000
    assert line["event_us"] == [50_000, 50_000, 71_000]
    assert line["event_tokens"] == [3, 3, 3]
    assert line["ended_us"] == 80_000
    assert line["headers_us"] == 10_000
    assert line["lost_us"] == 4_000
    assert line["max_lag_us"] == 0
    assert line["started_s"] == WALL_S
    assert (line["input_tokens"], line["output_tokens"], line["streamed_tokens"]) == (11, 9, 7)


def test_what_is_unknown_is_left_out() -> None:
    line = record_to_dict(record([], ended=5, outcome=Outcome.FAILED, error="refused", transit=Transit()))
    assert line == {
        "started_s": 0.0,
        "outcome": "failed",
        "name": "chat",
        "error": "refused",
        "scheduled_us": 0,
        "started_us": 0,
        "ended_us": 5000,
        "sent": True,
        "clock": "read",
        "event_us": [],
    }


def test_never_sent() -> None:
    each = replace(record([], ended=5, outcome=Outcome.FAILED, error="refused"), transit=Transit())
    assert record_to_dict(each)["sent"] is False
    assert through_json(each).sent_ns is None


def test_text_only_when_asked_and_never_a_key() -> None:
    kept = json.dumps(record_to_dict(full()))
    assert not {"body", "héllo", "because", "arguments"} & set(kept.replace('"', " ").split())
    assert "hunter2" not in kept
    assert "abc" not in kept
    assert record_to_dict(full(), text=True)["text"] == "héllo"


def test_an_answer_counted_otherwise_than_by_usage() -> None:
    """Tokens by usage and by another source both survive."""
    each = replace(full(), output_tokens=8, token_source=TokenSource.TOKENIZER)
    made = through_json(each)
    assert (made.output_tokens, made.usage.output_tokens) == (8, 9)


# -- files ---------------------------------------------------------------------------------------------------------


def nothing_to_note(text: str) -> None:
    raise AssertionError(text)


def written(path: Path, records: list[RequestRecord], **more: Any) -> RecordWriter:
    writer = RecordWriter(str(path), run="r1", process="local", **more)
    for each in records:
        writer.add(each)
    return writer


def test_file_has_a_header_and_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    written(path, small_run(), simulated=True).close()
    header, *lines = path.read_text("utf-8").splitlines()
    assert json.loads(header) == {
        "schema": "locust_llm.records/1",
        "definitions": 1,
        "run": "r1",
        "process": "local",
        "simulated": True,
        "text": False,
    }
    assert [json.loads(line)["outcome"] for line in lines] == ["success", "failed", "success", "cancelled"]
    made = list(read_records(path, nothing_to_note))
    assert stats_of(made, stop_ms=None).counts() == stats_of(small_run(), stop_ms=None).counts()


def test_lines_wait_for_the_limit_or_a_flush(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    writer = written(path, small_run()[:2], limit=3)
    assert len(path.read_bytes().splitlines()) == 1
    writer.add(small_run()[2])
    assert len(path.read_bytes().splitlines()) == 4
    writer.add(small_run()[3])
    assert len(path.read_bytes().splitlines()) == 4
    writer.flush()
    assert len(path.read_bytes().splitlines()) == 5
    writer.close()


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_broken_last_line_is_named_and_left_out(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "records.jsonl"
    written(path, [full()] * 3, text=True).close()
    data = path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    path.write_bytes(data[: last + cut] if cut > 0 else data[: cut - 1])
    notes: list[str] = []
    assert len(list(read_records(path, notes.append))) == 2
    assert len(notes) == 1
    assert "records.jsonl" in notes[0]
    assert "(4)" in notes[0]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    written(path, small_run()).close()
    path.write_bytes(path.read_bytes()[:-1])
    assert len(list(read_records(path, nothing_to_note))) == 4


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    written(path, small_run()).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"name": "cut\n', *lines[2:]]))
    with pytest.raises(RecordsError, match=r"records\.jsonl: line 3 is not a record"):
        list(read_records(path))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"Type,Name\n", "no header", id="csv"),
        pytest.param(b"[1]\n", "no header", id="list"),
        pytest.param(b"5\n", "no header", id="number"),
        pytest.param(b'{"name": "chat"}\n', "not a file of records", id="no-header"),
        pytest.param(b'{"schema": "locust_llm.run/1"}\n', "not a file of records", id="run-document"),
        pytest.param(b'{"schema": "locust_llm.records/9"}\n', "version 9", id="newer"),
        pytest.param(b'{"schema": "locust_llm.records/1"}\n{"a": 1}\n', "line 2 is not a record", id="other-line"),
        pytest.param(b'{"schema": "locust_llm.records/1"}\n[2]\n', "line 2 is not a record", id="list-line"),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, data: bytes | None, expected: str) -> None:
    path = tmp_path / "records.jsonl"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(RecordsError) as error:
        list(read_records(path))
    assert expected in str(error.value)
    assert "records.jsonl" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_full_disk_is_said_once_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    writer = written(path, small_run()[:1], limit=1)
    write = os.write

    def full_after_half(file: int, data: bytes) -> int:
        if path.stat().st_size > before:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[: len(data) // 2])

    before = path.stat().st_size
    monkeypatch.setattr(os, "write", full_after_half)
    with caplog.at_level(logging.ERROR):
        for each in small_run()[1:]:
            writer.add(each)
        assert writer.lost == 3
        writer.close()
    monkeypatch.undo()
    assert len(caplog.messages) == 2
    assert "No space left on device" in caplog.messages[0]
    assert "3 requests" in caplog.messages[1]
    notes: list[str] = []
    assert len(list(read_records(path, notes.append))) == 1
    assert len(notes) == 1


def test_a_file_that_cannot_be_opened_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        writer = written(tmp_path / "missing" / "records.jsonl", small_run())
        writer.flush()
        writer.close()
    assert caplog.messages[0].endswith("records.jsonl: No such file or directory")
    assert len(caplog.messages) == 2


def test_half_a_surrogate_pair_in_a_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    written(path, [record([1], n=1, name="a\ud800b")]).close()
    assert [each.name for each in read_records(path, nothing_to_note)] == ["a?b"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("r.jsonl",), "r.jsonl"),
        (("r.jsonl", "worker0"), "r.jsonl.worker0.jsonl"),
        (("r.jsonl", "host/1 x"), "r.jsonl.host_1_x.jsonl"),
        (("r.jsonl", None, 2), "r.2.jsonl"),
        (("r.jsonl", "worker1", 3), "r.jsonl.worker1.3.jsonl"),
    ],
)
def test_each_process_has_its_own_file(arguments: Any, expected: str) -> None:
    assert records_path(*arguments) == expected
