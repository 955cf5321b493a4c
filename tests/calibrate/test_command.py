"""The command itself, against real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from locust_llm.cli.calibrate import levels_up_to, run
from locust_llm.measure.findings.client import CPU_LIMIT
from tests.service import Service, clean_environment, free_port

KEY = "sk-calibrate-1234"


def command(*arguments: str, home: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "locust_llm.cli", "calibrate", *arguments],
        env=clean_environment(home, {"XDG_STATE_HOME": str(home)} | extra),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_few_streams_are_right_on_any_machine(tmp_path: Path) -> None:
    """The whole chain: an engine, a locust process, figures against the truth, files, the saved number."""
    files = "--json", str(tmp_path / "c.json"), "--html", str(tmp_path / "c.html")
    done = command("--max-streams", "5", "--seconds", "1", "--mode", "bursts", *files, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[........................] bursts, 5 streams" in done.stderr
    assert "for an error below 1 %" in done.stdout
    (level,) = json.loads((tmp_path / "c.json").read_text())["levels"]
    assert level["streams"] == 5
    assert level["failed"] == 0
    assert level["requests"] >= 5
    assert abs(level["stamp_us"]["p50"]) < 20_000  # on one clock, and less than a gap
    assert level["ttft_ms"]["p50"]["true"] > 100
    assert level["engine_ttft_ms"]["p50"] > 100
    assert 0 < level["core_share"] < 1.1 * CPU_LIMIT
    assert level["tokens_per_s"]["true"] == pytest.approx(level["tokens_per_s"]["reported"], rel=0.1)
    assert "</html>" in (tmp_path / "c.html").read_text()
    assert not (tmp_path / "locust-llm").exists()  # half a calibration is not kept


@pytest.mark.parametrize(
    ("most", "expected"), [(5, [5]), (50, [50]), (300, [50, 200, 300]), (400, [50, 200, 400])], ids=str
)
def test_the_levels_end_at_the_most_streams(most: int, expected: list[int]) -> None:
    assert levels_up_to(most) == expected


@pytest.mark.parametrize(
    "arguments",
    [("--seconds", "0"), ("--max-streams", "-1"), ("--max-streams", "x"), ("--mode", "odd"), ("extra",)],
    ids=" ".join,
)
def test_wrong_options_say_so(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(arguments)
    assert caught.value.code == 2
    assert "locust-llm calibrate: error: " in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--json", "--html"])
@pytest.mark.parametrize("place", ["", "nowhere/file"], ids=["a-folder", "no-folder"])
def test_a_file_that_cannot_be_written_is_known_before_any_load(
    flag: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([flag, str(tmp_path / place)]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("engine")
    argv = [sys.executable, "-m", "locust_llm.sim", "--api-key", KEY, "--decode-ms", "4"]
    service = Service.start("engine", argv, folder=folder, environment=clean_environment(folder))
    yield service
    service.stop()


def test_a_path(engine: Service, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    done = command("--host", engine.url, "--json", str(file), home=tmp_path, OPENAI_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    told = json.loads(file.read_text())
    assert (told["requests"], told["failed"], told["reused"], told["connections"]) == (5, 0, 4, 5)
    assert told["rtt_ms"] > 0
    assert told["events"] == 5 * 31
    assert KEY not in done.stdout + done.stderr + file.read_text()
    assert "4 of 4 later requests reused the connection" in done.stdout


@pytest.mark.parametrize(
    ("host", "key", "words"),
    [
        ("{url}", "sk-wrong-987654", "401"),
        ("{url}", "", "401"),
        ("http://127.0.0.1:{free}", KEY, "cannot reach"),
        ("ht tp://x", KEY, "is not an HTTP URL"),
        ("http://user:secretword@h", KEY, "user name or password"),
    ],
    ids=["wrong-key", "no-key", "nobody-listens", "no-url", "password"],
)
def test_a_wrong_path_is_one_sentence(host: str, key: str, words: str, engine: Service, tmp_path: Path) -> None:
    typed = host.format(url=engine.url, free=free_port())
    done = command("--host", typed, home=tmp_path, OPENAI_API_KEY=key)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("locust-llm calibrate: ")
    assert words in line
    assert "secretword" not in line
    assert "sk-wrong-987654" not in line
