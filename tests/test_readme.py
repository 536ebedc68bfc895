"""What the README shows, as it stands there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harmonicalign.datasets import load_digits_pair

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = [part.split("```")[0] for part in README.split("```python\n")[1:]]


def block(mark):
    (found,) = [b for b in BLOCKS if mark in b]
    return found


def run(code, folder):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_and_stages(tmp_path):
    run(block("load_digits_pair") + block("unified_map"), tmp_path)


def test_uses(tmp_path):
    given = """
import numpy as np
stacked_values = np.vstack([pair.x, pair.y])
values, new_rows, another_dataset = pair.x[:, :5], pair.y[:3] + 0.01, pair.x[:200]
"""
    run(block("load_digits_pair") + given + block("model.transfer("), tmp_path)
    assert (tmp_path / "model.npz").is_file()


@pytest.mark.slow
def test_two_files_to_a_umap(tmp_path):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("scanpy")
    pair = load_digits_pair(preserved=0.5, n_x=150, n_y=150, random_state=0)
    names = [f"pixel{i}" for i in range(pair.x.shape[1])]
    for name, x in (("a", pair.x), ("b", pair.y)):
        rows = anndata.AnnData(np.asarray(x, dtype=np.float32))
        rows.var_names = names
        rows.obs_names = [f"{name}{i}" for i in range(len(x))]
        rows.write_h5ad(tmp_path / f"{name}.h5ad")
    code = block("scverse.align({")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    said = run(code + '\nprint(joined.obsm["X_umap"].shape)', tmp_path)
    assert "(300, 2)" in said
    assert (tmp_path / "figures" / "umap_aligned.png").is_file()
