"""Alignment without any shared feature: error against known pairs, refusals, and cost.

    python benchmarks/shape.py [--part paired refused cost] [--rows 500] [--pairs 40] [--data FOLDER]

``paired`` hides the pairing of cells measured in two modalities: FOSCTTM of `ShapeAlignment` on three random
parts of each set, of the same search without its harmonic starts, and of SCOT with the self-tuning that its
paper describes, all in the same space. ``refused`` aligns datasets of different tissues, or of one and noise.
``cost`` times 2 × 2,000 rows. SCOT's transport needs POT: pip install pot.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA, TruncatedSVD

from harmonicalign import AlignmentWarning, ShapeAlignment
from harmonicalign.experiments._data import read_npz
from harmonicalign.metrics import foscttm
from harmonicalign.shape import starts

DATA = Path(os.environ.get("HARMONICALIGN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
Rows = np.ndarray


# --- spaces: the same for all methods -----------------------------------------------------------------------


def log_normalised(counts: sp.csr_matrix) -> sp.csr_matrix:
    depth = np.asarray(counts.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags_array(1e4 / np.maximum(depth, 1)) @ counts.astype(float)).log1p()


def variable(values: sp.csr_matrix, n: int = 2000) -> Rows:
    """The columns whose variance is largest for their mean."""
    dense = values.toarray()
    mean, variance = dense.mean(axis=0), dense.var(axis=0)
    score = np.where(mean > 0.02, variance / (mean + 0.05), 0)
    return dense[:, np.argsort(-score, kind="stable")[:n]]


def rna(counts: sp.csr_matrix) -> Rows:
    return PCA(20, random_state=0).fit_transform(variable(log_normalised(counts)))


def chromatin(values: sp.csr_matrix) -> Rows:
    """Latent semantic indexing; the first component, which is depth, is left out."""
    return TruncatedSVD(31, random_state=0).fit_transform(values)[:, 1:]


def unit(values: Rows) -> Rows:
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def log_ratio(counts: Rows) -> Rows:
    logs = np.log1p(counts.astype(float))
    return logs - logs.mean(axis=1, keepdims=True)


FILES = {
    "scGEM": "scgem/scgem.npz",
    "SNARE-seq lines": "snare_cellline/snare_cellline.npz",
    "CITE-seq": "citeseq_citefuse/citeseq_citefuse.npz",
    "mouse cortex": "snare_mouse_cortex/snare_mouse_cortex.npz",
    "sci-CAR A549": "scicar_a549/scicar_a549_scai.npz",
}
SIDES: dict[str, tuple[tuple[str, Callable], tuple[str, Callable]]] = {
    "scGEM": (("X_expr", np.asarray), ("X_meth", lambda m: m.astype(float))),
    "SNARE-seq lines": (("X_rna", unit), ("X_atac", unit)),
    "CITE-seq": (("rna", rna), ("adt", log_ratio)),
    "mouse cortex": (("rna", rna), ("atac", lambda m: chromatin(log_normalised(m)))),
    "sci-CAR A549": (
        ("rna", lambda m: PCA(20, random_state=0).fit_transform(variable(m))),
        ("atac", lambda m: chromatin(m.log1p())),
    ),
}


def part_of(stored: dict, name: str, rng: np.random.RandomState, n_rows: int) -> tuple[Rows, Rows]:
    """Both modalities of a random part: nine tenths of the rows, at most so many."""
    (first, make_x), (second, make_y) = SIDES[name]
    n = stored[first].shape[0]
    rows = rng.permutation(n)[: min(n_rows, int(0.9 * n))]
    return make_x(stored[first][rows]), make_y(stored[second][rows])


# --- SCOT, from its paper -----------------------------------------------------------------------------------


def scot_distances(x: Rows, k: int) -> Rows:
    """Shortest paths on the graph of k nearest neighbours by correlation, divided by the longest."""
    order = np.argsort(cdist(x, x, "correlation"), axis=1)
    while True:
        near = np.zeros((len(x), len(x)), dtype=bool)
        near[np.arange(len(x))[:, None], order[:, : k + 1]] = True
        if connected_components(near, directed=False)[0] == 1 or k > len(x) // 2:
            break
        k += 5
    paths = shortest_path(near | near.T, unweighted=True, directed=False)
    paths[~np.isfinite(paths)] = paths[np.isfinite(paths)].max()
    return paths / paths.max()


def scot(x: Rows, y: Rows) -> tuple[Rows, Rows]:
    """SCOT with k and ε chosen by the Gromov–Wasserstein loss, first one by one, then around the best.

    P. Demetci, R. Santorella, B. Sandstede, W. S. Noble, R. Singh. SCOT: single-cell multi-omics alignment
    with optimal transport. Journal of Computational Biology 29, 3-18 (2022).
    """
    import ot

    plans: dict[tuple[int, float], tuple[float, Rows]] = {}
    distances: dict[int, tuple[Rows, Rows]] = {}

    def attempt(k: int, epsilon: float) -> float:
        if (k, epsilon) not in plans:
            if k not in distances:
                distances[k] = scot_distances(x, k), scot_distances(y, k)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plan, log = ot.gromov.entropic_gromov_wasserstein(
                    *distances[k], epsilon=epsilon, max_iter=100, tol=1e-6, log=True, numItermax=200
                )
            good = np.isfinite(plan).all() and abs(plan.sum() - 1) < 1e-3
            plans[k, epsilon] = (float(log["gw_dist"]) if good else np.inf, plan)
        return plans[k, epsilon][0]

    most = max(10, min(len(x), len(y)) // 5)
    k = min(50, most)
    epsilon = min(np.logspace(-3, -1.5, 5), key=lambda e: attempt(k, e))
    k = min(np.unique(np.linspace(10, min(100, most), 5).astype(int)), key=lambda k: attempt(int(k), epsilon))
    for near_k in {max(5, int(0.8 * k)), int(1.2 * k)}:
        for near_epsilon in (0.6 * epsilon, 1.6 * epsilon):
            attempt(near_k, near_epsilon)
    plan = min(plans.values(), key=lambda found: found[0])[1]
    return plan @ y / plan.sum(axis=1, keepdims=True), y


# --- the three tables ---------------------------------------------------------------------------------------


def align(x: Rows, y: Rows, seed: int) -> ShapeAlignment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        return ShapeAlignment(random_state=seed).fit([x, y])


def paired(folder: Path, n_rows: int, with_scot: bool) -> None:
    print(f"{'set':16} rows |  ours | no harmonics |  SCOT | loss  ratio  aligned  seconds")
    for name, file in FILES.items():
        stored = read_npz(folder / file)
        for seed in range(3):
            rng = np.random.RandomState(seed)
            x, y = part_of(stored, name, rng, n_rows)
            order = rng.permutation(len(x))
            back, hidden = np.argsort(order), y[order]
            start = time.perf_counter()
            model = align(x, hidden, seed)
            seconds = time.perf_counter() - start
            ours = foscttm(model.embedding_[0], model.embedding_[1][back])
            with mock.patch.object(starts, "_turns", return_value=[]):
                plain = align(x, hidden, seed).embedding_
            without = foscttm(plain[0], plain[1][back])
            other = np.nan
            if with_scot:
                zx, zy = scot(x, hidden)
                other = foscttm(zx, zy[back])
            found = model.verdict_
            print(
                f"{name:16} {len(x):4d} | {ours:.3f} | {without:12.3f} | {other:.3f} | {found.loss:.3f} "
                f"{found.ratio:6.2f}  {found.aligned!s:7} {seconds:7.1f}",
                flush=True,
            )


def refused(folder: Path, n_rows: int, n_pairs: int) -> None:
    """Half of the pairs are of two tissues, half of one dataset and noise."""
    rng = np.random.RandomState(0)
    cached = {name: read_npz(folder / file) for name, file in FILES.items()}
    sides = [(name, side) for name in FILES for side in (0, 1)]
    across = [(a, b) for a, b in combinations(sides, 2) if a[0] != b[0]]
    kept = 0
    for i in range(n_pairs):
        n = n_rows
        a, b = across[rng.randint(len(across))] if i % 2 else (sides[rng.randint(len(sides))], None)
        x = part_of(cached[a[0]], a[0], rng, n)[a[1]]
        if b is not None:
            y, other = part_of(cached[b[0]], b[0], rng, n)[b[1]], f"{b[0]} {b[1]}"
        else:
            decay = np.exp(-np.arange(20) / rng.choice([4, 10, 1e9]))
            y, other = rng.normal(size=(len(x), 20)) * decay, "noise"
        found = align(x, y, i).verdict_
        kept += not found.aligned
        print(
            f"{a[0]} {a[1]} – {other}: loss {found.loss:.3f} ratio {found.ratio:.2f} "
            f"{'ALIGNED' if found.aligned else 'refused'}",
            flush=True,
        )
    print(f"refused: {kept} of {n_pairs}")


def cost(folder: Path) -> None:
    stored = read_npz(folder / FILES["mouse cortex"])
    x, y = part_of(stored, "mouse cortex", np.random.RandomState(0), 2000)
    start, cpu = time.perf_counter(), time.process_time()
    ShapeAlignment(random_state=0, verbose=True).fit([x, y])
    print(f"2 × {len(x)} rows: {time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", default=["paired", "refused", "cost"])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--no-scot", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"no data at {options.data}: give --data a folder")
    if "paired" in options.part:
        paired(options.data, options.rows, not options.no_scot)
    if "refused" in options.part:
        refused(options.data, min(options.rows, 300), options.pairs)
    if "cost" in options.part:
        cost(options.data)


if __name__ == "__main__":
    main()
