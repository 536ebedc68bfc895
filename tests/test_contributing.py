"""The examples of CONTRIBUTING.md, run from outside the package as a contributor would."""

import re
from pathlib import Path

import numpy as np
import pytest

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def ran():
    """Names that the examples leave behind, run in order."""
    if not GUIDE.is_file():
        pytest.skip("CONTRIBUTING.md is in the repository only")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(code, str(GUIDE), "exec"), names)
    return names


def test_another_neighbour_engine_gives_the_same_graph(ran):
    from harmonicalign import kernel_graph

    ours = kernel_graph(ran["rows"], n_neighbors=10, max_neighbors=ran["graph"].max_neighbors)
    difference = abs(ours.kernel - ran["graph"].kernel).max()
    assert difference < 1e-6, f"kernels differ by {difference}"


def test_another_hypothesis_is_tried(ran):
    assert "bright features" in ran["tried"], f"tried were {sorted(ran['tried'])}"
    assert {"harmonics", "relations"} <= ran["tried"], "the hypotheses of the package are still tried"


def test_another_anchor_weighting_is_used(ran):
    from harmonicalign import HarmonicAlignment

    usual = HarmonicAlignment(random_state=0).fit([ran["pair"].x, ran["pair"].y])
    assert not np.allclose(usual.embedding_[0], ran["model"].embedding_[0]), "the weighting changed nothing"


def test_a_model_file_refuses_functions_and_says_so(ran, tmp_path):
    with pytest.raises(ValueError, match="anchor_weight is a function, which a model file cannot hold"):
        ran["model"].save(tmp_path / "model.npz")


def test_another_metric(ran):
    assert 0.5 < ran["share"] <= 1, f"digits of one kind are found at {ran['share']:.2f}"


def test_another_command(ran, tmp_path):
    from typer.testing import CliRunner

    from harmonicalign.adapters.cli import application

    np.save(tmp_path / "rows.npy", np.zeros((4, 3)))
    done = CliRunner().invoke(application(), ["shape", str(tmp_path / "rows.npy")])
    assert done.exit_code == 0, done.output
    assert "(4, 3)" in done.output
