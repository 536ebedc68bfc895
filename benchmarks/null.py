"""Null calibration: one batch, split at random in two, has nothing to correct and must stay as it was.

    python benchmarks/null.py                                  # five splits of each batch
    python benchmarks/null.py --batches pbmc cortex --methods none harmony default --splits 3

Two measures. *Stability*: the share of a row's 15 nearest neighbours that are the same after two different
splits; a method that corrects what is not there moves rows differently each time. *Labels*: accuracy of
5-nearest-neighbour labels over all rows together, less that of principal components. Data are read as `tasks`
says; rows beyond 2,000 are left out.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import combinations

import numpy as np
import scipy.sparse as sp
import tasks
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import NearestNeighbors

from harmonicalign import HarmonicAlignment
from harmonicalign.experiments import baselines

BATCHES = {
    "mnist": ("mnist_p100", 0),
    "pancreas": ("pancreas", 0),
    "pbmc": ("pbmc_all", 1),
    "cell lines": ("cell_lines", 0),
    "cortex": ("cortex", 0),
    "cytometry": ("cytometry_p1_baseline", 0),
    "objects": ("coil", 0),
}
"""Tasks of the suite, and the dataset of each that is split."""

MOST_ROWS, NEIGHBOURS = 2000, 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", nargs="+", choices=BATCHES, default=list(BATCHES))
    parser.add_argument("--methods", nargs="+", default=["none", "harmony", "default"])
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    if options.splits < 2:
        parser.error("--splits must be at least 2: stability compares two of them")
    print(
        f"{'batch':<12}{'rows':>6}" + "".join(f"{m:>20}" for m in options.methods) + "   (stability/labels)"
    )
    for name in options.batches:
        task, number = BATCHES[name]
        if task not in tasks.names():
            print(f"{name:<12} skipped: its file is not in {tasks.data_dir()}", file=sys.stderr)
            continue
        rows, labels = batch(task, number)
        line = f"{name:<12}{rows.shape[0]:>6}"
        plain = tasks.joint_accuracy([components(rows)], [labels])
        for method in options.methods:
            stable, right = measure(method, rows, labels, options.splits)
            line += f"{stable:>13.3f}/{right - plain:+.3f}"
        print(line, flush=True)


def batch(task: str, number: int) -> tuple[tasks.Matrix, np.ndarray]:
    """Rows and labels of one dataset of a task, 2,000 at random at most."""
    made = tasks.make(task)
    rows, labels = made.datasets[number], np.asarray(made.labels[number])
    chosen = np.sort(np.random.default_rng(0).permutation(len(labels))[:MOST_ROWS])
    return rows[chosen], labels[chosen]


def components(rows: tasks.Matrix) -> np.ndarray:
    """The 50 leading principal components, or as many as there are."""
    centred = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    centred = centred - centred.mean(axis=0)
    k = min(50, min(centred.shape) - 1)
    return TruncatedSVD(k, random_state=0).fit_transform(centred)


def measure(method: str, rows: tasks.Matrix, labels: np.ndarray, n_splits: int) -> tuple[float, float]:
    """Stability over pairs of splits, and mean accuracy of labels."""
    found = [aligned(method, rows, seed) for seed in range(n_splits)]
    near = [NearestNeighbors(n_neighbors=NEIGHBOURS).fit(z).kneighbors(return_distance=False) for z in found]
    same = [
        np.mean([len(np.intersect1d(a, b)) for a, b in zip(one, other, strict=True)]) / NEIGHBOURS
        for one, other in combinations(near, 2)
    ]
    right = [tasks.joint_accuracy([z], [labels]) for z in found]
    return float(np.mean(same)), float(np.mean(right))


def aligned(method: str, rows: tasks.Matrix, seed: int) -> np.ndarray:
    """Coordinates of all rows, in their order, after a random split was aligned."""
    order = np.random.default_rng(seed).permutation(rows.shape[0])
    halves = np.array_split(order, 2)
    parts = [rows[np.sort(half)] for half in halves]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "default":
            placed = HarmonicAlignment(random_state=0).fit(parts).embedding_
        else:
            placed = baselines.get(method).fit_transform(parts)
    out = np.empty((rows.shape[0], placed[0].shape[1]))
    for half, z in zip(halves, placed, strict=True):
        out[np.sort(half)] = z
    return out


if __name__ == "__main__":
    main()
