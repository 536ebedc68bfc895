"""Figures of speed stand in one file, and the pages that tell them agree with it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "figures.py"


@pytest.fixture
def figures():
    spec = importlib.util.spec_from_file_location("figures", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_agree_with_the_file():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_other_figures_are_noticed(figures):
    row = {"machine": "H200", "rows": "2000000", "datasets": "2", "seconds": "3.5", "memory_gib": "9"}
    page = "before\n<!-- speed: H200 -->\nold\n<!-- /speed -->\nafter\n"
    new = figures.filled(page, [row])
    assert "| 2·10⁶ | 3.5 | 9 |" in new
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert "old" not in new
    assert figures.filled(new, [row]) == new
    with pytest.raises(SystemExit, match="no figures are called 'H201'"):
        figures.filled(page.replace("H200", "H201"), [row])
    with pytest.raises(SystemExit, match="expected a digit and zeros"):
        figures.power("123000")


def test_many_datasets_have_a_table_of_their_own(figures):
    row = {"machine": "two cores", "rows": "60000", "datasets": "60", "memory_gib": ".6", "accuracy": ".97"}
    row |= {"processor_seconds": "20", "harmony_processor_seconds": "2", "harmony_accuracy": ""}
    page = "<!-- speed: datasets -->\n<!-- /speed -->\n<!-- speed: two cores -->\n<!-- /speed -->\n"
    new = figures.filled(page, [row])
    assert "| 60 × 1000 | 20 | .6 | .97 | 2 | – |" in new
    assert "6·10⁴" not in new, "many datasets stand among the rows of two"
