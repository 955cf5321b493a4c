"""Dialects: one answer whose every value by the other tools' definitions was worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from locust_llm.cli.report import run as report
from locust_llm.measure.record import Outcome, RequestRecord, Transit, Usage
from locust_llm.report.dialect_table import WIDTH, dialect_text
from locust_llm.report.dialects import DIALECTS, samples
from locust_llm.report.document import document, write_document
from locust_llm.report.records import RecordWriter
from tests.measure.build import ns, record
from tests.report.runs import view_of

# Called at 0, sent at 10; reasoning at 110, content at 150, 190 and 290 ms, [DONE] at 300; 9 tokens.
ANSWER = record(
    (110, 150, 190, 290),
    n=9,
    started=0,
    sent=10,
    ended=301,
    done_ns=ns(300),
    first_visible_ns=ns(150),
    transit=Transit(end_ns=ns(301)),
    usage=Usage(input_tokens=5, output_tokens=9),
)
FAILED = record((20,), outcome=Outcome.FAILED, error="HTTP 500")

# tool, metric, samples as (ms, weight)
VALUES = [
    ("vllm", "TTFT", [(110, 1)]),
    ("vllm", "TPOT", [(180 / 8, 1)]),
    ("vllm", "ITL", [(40, 1), (40, 1), (100, 1)]),
    ("vllm", "E2EL", [(290, 1)]),
    ("sglang", "TTFT", [(150, 1)]),
    ("sglang", "TPOT", [(150 / 8, 1)]),
    ("sglang", "ITL", [(40, 1), (100, 1)]),
    ("sglang", "E2E", [(300, 1)]),
    ("aiperf", "Time to First Token", [(110, 1)]),
    ("aiperf", "Time to Second Token", [(40, 1)]),
    ("aiperf", "Inter Token Latency", [(180 / 8, 1)]),
    ("aiperf", "Inter Chunk Latency", [(40, 1), (40, 1), (100, 1)]),
    ("aiperf", "Request Latency", [(290, 1)]),
    ("guidellm", "TTFT", [(110, 1)]),
    ("guidellm", "TPOT", [(290 / 9, 9)]),
    ("guidellm", "ITL", [(180 / 8, 8)]),
    ("guidellm", "Request latency", [(300, 1)]),
]


@pytest.mark.parametrize(("tool", "title", "expected"), VALUES, ids=[f"{tool} {title}" for tool, title, _ in VALUES])
def test_a_metric_is_as_the_tool_defines_it(tool: str, title: str, expected: list[tuple[float, float]]) -> None:
    (term,) = (term for term in DIALECTS[tool].terms if term.title == title)
    found = samples(term, [ANSWER, FAILED])
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected])
    assert [weight for _, weight in found] == pytest.approx([weight for _, weight in expected])


def test_every_metric_was_worked_out() -> None:
    assert {(tool, term.title) for tool, each in DIALECTS.items() for term in each.terms} == {v[:2] for v in VALUES}


def test_aiperf_takes_the_first_chunks_tokens_where_they_were_told() -> None:
    told = record((100, 200), n=6, tokens=[4, 2])
    term = next(term for term in DIALECTS["aiperf"].terms if term.title == "Inter Token Latency")
    assert samples(term, [told]) == [(pytest.approx(100 / 2), 1.0)]


# id, record
NOTHING = [
    ("failed", FAILED),
    ("not streamed", record((100, 200), n=5, streamed=False)),
    ("warm-up", record((100, 200), n=5, warmup=True, first_visible_ns=ns(100))),
    ("no output", record((), n=0)),
]


@pytest.mark.parametrize("each", [case[1] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_what_has_no_sample_gives_none(each: RequestRecord) -> None:
    assert all(samples(term, [each]) == [] for tool in DIALECTS.values() for term in tool.terms)


@pytest.mark.parametrize("tool", sorted(DIALECTS))
def test_the_table_has_ours_beside_theirs_and_the_differences(tool: str) -> None:
    text = dialect_text(DIALECTS[tool], [ANSWER, FAILED], 1)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "1 successful of 2 requests" in text
    assert "ours: TTFT" in text
    assert "Here that is 10.0 ms on average." in " ".join(text.split())
    for number, _ in enumerate(DIALECTS[tool].differences, 1):
        assert f"\n{number}. " in text


def test_percentiles_by_their_rules() -> None:
    """numpy's rule lies between samples; GuideLLM's weighted ranks are samples."""
    pair = [record((100, 200), n=2), record((100, 400), n=2)]
    (vllm,) = (line for line in dialect_text(DIALECTS["vllm"], pair, 1).splitlines() if line.startswith("  TPOT"))
    assert vllm.split() == ["TPOT", "2", "200", "200", "280", "298"]
    long = [record((100, 200), n=2), record((100, 1000), n=10)]
    (itl,) = (line for line in dialect_text(DIALECTS["guidellm"], long, 1).splitlines() if line.startswith("  ITL"))
    assert itl.split() == ["ITL", "2", "100", "100", "100", "100"]


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_document(tmp_path / "run.json", document(view_of([ANSWER], simulated=True)))
    writer = RecordWriter(str(tmp_path / "records.jsonl"))
    writer.add(ANSWER)
    writer.close()
    files = [str(tmp_path / "run.json"), "--records", str(tmp_path / "records.jsonl")]
    assert report(["--dialect", "vllm", *files]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("SIMULATED\nIn the words of vLLM")
    assert report(["--dialect", "vllm", files[0], "--records", str(tmp_path / "run.json")]) == 2
    assert "records" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        report(["--dialect", "vllm", files[0]])
    assert "--dialect and --records belong together" in capsys.readouterr().err
