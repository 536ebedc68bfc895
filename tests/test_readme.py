"""The README works when it is pasted from top to bottom: every block runs, in order, in one session."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)

# What a reader does once and what needs a network; the tests below hold these lines against the files.
SETTING_UP = ("pip ", "git ", "make ", "cd ")

SESSION = """
import json, subprocess, sys, warnings

names = {"__name__": "__main__"}
for number, (language, code) in enumerate(json.load(open("blocks.json"))):
    try:
        if language == "python":
            exec(compile(code, f"block {number}", "exec"), names)
        else:
            for line in filter(None, code.splitlines()):
                subprocess.run(line, shell=True, check=True)
    except Exception as error:
        sys.exit(f"block {number}: {type(error).__name__}: {error}\\n{code}")
shapes = {
    "zx": names["zx"].shape, "z": names["z"].shape, "z_new": names["z_new"].shape,
    "labels": names["found"].labels.shape, "guess": names["guess"].values.shape,
    "keys": names["model"].keys_, "umap": names["joined"].obsm["X_umap"].shape,
    "harmonic": "X_harmonic" in names["cells"].obsm,
}
print(json.dumps(shapes))
"""


def lines_of(language):
    return [
        line.split("  #")[0].strip()
        for kind, code in BLOCKS
        if kind == language
        for line in code.splitlines()
    ]


@pytest.mark.slow
def test_every_block_runs_in_order(tmp_path):
    pytest.importorskip("scanpy")
    pytest.importorskip("typer")
    runnable = []
    for language, code in BLOCKS:
        kept = [line for line in code.splitlines() if language == "python" or not line.startswith(SETTING_UP)]
        runnable.append((language, "\n".join(kept)))
    (tmp_path / "blocks.json").write_text(json.dumps(runnable))
    (tmp_path / "session.py").write_text(SESSION)
    environment = {
        **os.environ,
        "MPLBACKEND": "Agg",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, "session.py"], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shapes = json.loads(done.stdout.splitlines()[-1])
    n = 1797  # images of scikit-learn's digits
    assert shapes["zx"][0] + shapes["labels"][0] == n
    assert shapes["z"][0] == n
    assert shapes["z_new"][0] == 3
    assert shapes["guess"] == [shapes["labels"][0], 5]
    assert shapes["umap"] == [n, 2]
    assert shapes["harmonic"]
    written = {path.name for path in tmp_path.rglob("*")}
    assert {
        "model.npz",
        "model.html",
        "umap_aligned.png",
        "aligned.h5ad",
        "aligned.html",
        "again.h5ad",
    } <= written


def test_two_files_to_a_umap_in_ten_lines():
    (code,) = [code for language, code in BLOCKS if language == "python" and "scverse.align({" in code]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = [line.split()[1] for line in lines_of("sh") if line.startswith("make ")]
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}: ", makefile, flags=re.MULTILINE)


def test_pip_lines_name_what_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    for name in re.findall(r"(?:harmonicalign|\.|\.whl\))\[(\w+)\]", README):
        assert name in extras
    for wanted in re.findall(r"'((?:scanpy|pynndescent)[<>=.\d]+)'", README):
        assert wanted in project["optional-dependencies"]["dev"]


def test_files_that_are_linked_exist():
    for target in re.findall(r"\]\(([^)#]+)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
