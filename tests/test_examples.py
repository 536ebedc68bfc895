"""Every example runs, writes its pictures, and prints improvements that its own data bear out."""

import ast
import contextlib
import functools
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot", reason="the examples draw with matplotlib")

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PICTURES = {
    "plot_batch_correction": ["batch_correction_cells.png", "batch_correction_marker.png"],
    "plot_denoising": ["denoising.png"],
    "plot_label_transfer": ["label_transfer.png"],
    "plot_reconstruction": ["reconstruction.png"],
    "plot_reference_mapping": ["reference_mapping.png", "reference_mapping_accuracy.png"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run an example, once; its variables, and its printed numbers by name."""

    @functools.cache
    def start(name):
        out = tmp_path_factory.mktemp(name) / "new" / "folder"
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setattr(sys, "argv", [f"{name}.py", "--out", str(out)])
            variables = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        plt.close("all")
        assert sorted(path.name for path in out.iterdir()) == PICTURES[name]
        for path in out.iterdir():
            image = plt.imread(path)
            assert min(image.shape[:2]) > 300
            assert image[..., :3].std() > 0.05  # something was drawn
        return variables, numbers(printed.getvalue())

    return start


def numbers(text):
    """Lines of the form `  name   0.123  4.567`; a line `name:` opens a part whose name goes before."""
    found, part = {}, ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"(\S.*):", line):
            part = heading[1] + ", "
        elif row := re.fullmatch(r"  (\S.*?)((?:\s+\d+\.\d{3})+)", line):
            found[part + row[1]] = [float(value) for value in row[2].split()]
    return found


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def test_every_example_is_listed_and_tested():
    listed = (ROOT / "docs" / "examples.md").read_text()
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(PICTURES)
    for name in PICTURES:
        assert f"python examples/{name}.py" in listed
        title, underline = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text())).split("\n")[:2]
        assert underline == "=" * len(title)


def test_batch_correction(run):
    made, printed = run("plot_batch_correction")
    error, distance, branch = printed["harmonicalign"]
    assert error == pytest.approx(rms(made["corrected"] - made["truth"]) / made["spread"], abs=6e-4)
    assert error < 0.5 * printed["quantiles matched"][0]
    assert error < 0.25 * printed["uncorrected"][0]
    assert distance < 0.5 * printed["quantiles matched"][1]
    assert branch > max(printed["quantiles matched"][2], printed["uncorrected"][2]) + 0.05
    # Matching quantiles makes the days equal, which they are not.
    assert np.allclose(np.median(made["matched"], axis=0), np.median(made["day1"], axis=0), atol=0.02)


def test_denoising(run):
    made, printed = run("plot_denoising")
    error, distance = printed["then denoised together"]
    truth, n = made["true"].y, len(made["large"])
    assert error == pytest.approx(rms(made["aligned"].values[n:] - truth) / made["spread"], abs=6e-4)
    assert error < 0.95 * printed["then each denoised by itself"][0]
    assert error < 0.7 * printed["aligned and corrected"][0]
    assert error < 0.3 * printed["denoised without alignment"][0]
    assert distance < 0.1 * printed["denoised without alignment"][1]


def test_label_transfer(run):
    made, printed = run("plot_label_transfer")
    before, after = (
        {key.removeprefix(part): value for key, (value, *_) in printed.items() if key.startswith(part)}
        for part in ("without alignment, ", "with alignment, ")
    )
    found, truth = made["found"], made["truth"]
    known = truth != made["missing"]
    right = found.classes[found.probabilities.argmax(axis=1)] == truth
    assert after["accuracy, digits that have labels"] == pytest.approx(right[known].mean(), abs=6e-4)
    assert after["accuracy, digits that have labels"] > before["accuracy, digits that have labels"] + 0.4
    assert after["calibration error"] < 0.05 < before["calibration error"]
    assert np.mean(found.labels[~known] == "unassigned") > 0.85
    assert np.mean(found.labels[known] == "unassigned") < 0.05
    assert after["unassigned, of the fours (unknown)"] > 0.85


def test_reconstruction(run):
    made, printed = run("plot_reconstruction")
    images, digits = made["results"]["with alignment"]
    pair = made["pair"]
    (error,) = printed["reconstruction error with alignment"]
    assert error == pytest.approx(rms(images - pair.y_clean), abs=6e-4)
    assert error < 0.6 * printed["reconstruction error without alignment"][0]
    assert error < 1.2 * printed["reconstruction error had nothing been corrupted"][0]
    assert np.mean(digits == pair.labels_y) > 0.9 > 0.5 > printed["right digit without alignment"][0]


def test_reconstruction_averages_the_commonest_kind(run):
    reconstruct = run("plot_reconstruction")[0]["reconstruct"]
    clean, labels = np.array([[0.0], [1.0], [2.0], [50.0]]), np.array([7, 3, 7, 3])
    images, digits = reconstruct(clean, np.array([[0.6]]), 10 * clean, labels, n_neighbors=3)
    assert digits.tolist() == [7]
    assert images.tolist() == [[10.0]]  # the mean of 0 and 20; the 3 between them has no part in it


def test_reference_mapping(run):
    made, printed = run("plot_reference_mapping")
    assert made["same"]
    assert made["stayed"]
    assert made["model"].keys_ == ["reference", "site A", "site B"]
    for name, (before, after) in made["scores"].items():
        assert printed[name] == pytest.approx([before, after], abs=6e-4)
        assert after > max(0.9, before + 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_command_line_gives_the_same_again(run, tmp_path, name):
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not again.stderr
    assert numbers(again.stdout) == run(name)[1]
    assert sorted(path.name for path in (tmp_path / "example-output").iterdir()) == PICTURES[name]
