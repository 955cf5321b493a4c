"""docs/METHODS.md tells of every metric and figure there is, of no other, and of options and limits that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from locust_llm.measure.catalogue import DISTRIBUTIONS
from locust_llm.measure.figures import FIGURES
from locust_llm.measure.smoothness import STALL_MS
from locust_llm.measure.summary import ENOUGH
from locust_llm.plugin.options import OPTIONS

PROJECT = Path(__file__).parents[1]
METHODS = (PROJECT / "docs" / "METHODS.md").read_text()


def section(title: str) -> str:
    """The text below a heading."""
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", METHODS, re.MULTILINE | re.DOTALL)
    return str(found)


def keys(title: str) -> list[str]:
    """What stands in the first column of a section's table."""
    cells = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(
    ("title", "known"),
    [
        ("Distributions", [metric.key for metric in DISTRIBUTIONS]),
        ("Figures of a run", [figure.key for figure in FIGURES]),
    ],
)
def test_every_metric_has_an_entry_and_every_entry_a_metric(title: str, known: list[str]) -> None:
    assert sorted(keys(title)) == sorted(known)


def test_every_option_it_names_exists() -> None:
    named = set(re.findall(r"--llm-[\w-]+", METHODS))
    assert named
    assert named <= {option.flag for option in OPTIONS}


def test_limits_are_those_of_the_code() -> None:
    assert "/".join(f"{n:,}" for n in ENOUGH.values()) in METHODS
    assert f"`--llm-stall` ({STALL_MS:g} ms)" in METHODS


def test_every_file_it_names_exists() -> None:
    for name in re.findall(r"\b(?:benchmarks|locustfiles|locust_llm)/[\w./]+\w", METHODS):
        assert (PROJECT / name).exists(), name


def test_the_citation_names_the_project_and_its_licence() -> None:
    fields = dict(re.findall(r"^([\w-]+): *(.*)$", (PROJECT / "CITATION.cff").read_text(), re.MULTILINE))
    assert fields["cff-version"] == "1.2.0"
    assert fields["title"].startswith('"locust_llm')
    assert fields["license"] == "MIT"
