"""Null calibration: how often the evidence claims what is not there, and what it finds where something is.

    python benchmarks/calibration.py p                    # p-values on designs without correspondence
    python benchmarks/calibration.py features             # false discoveries among features
    python benchmarks/calibration.py kept                 # true features found in real tasks, before and now
    python benchmarks/calibration.py p --fits 50 --designs gaussian heavy

The designs are made here, with known truth; real tasks are read as `tasks` says and left out if absent. The
table of `docs/promises.md` is the output of this file. `p` runs the permutation test on the graphs that a fit
would build, without the alignment itself, which the test does not use; the other two fit.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tasks

from harmonicalign import HarmonicAlignment, calibrate, harmonics, kernel_graph
from harmonicalign.evidence.relations import relate
from harmonicalign.evidence.significance import Significance, permutation_test
from harmonicalign.method import DEFAULT
from harmonicalign.paper.harmonics import Harmonics

Matrix = np.ndarray
LEVELS = (0.05, 0.01, 0.001)
KEPT = (
    "mnist_p10",
    "mnist_p15",
    "mnist_p35",
    "pbmc_3pv1_3pv2_rotated",
    "pbmc_3pv2_5p_rotated",
    "cytometry_p1_baseline_rotated",
    "cytometry_p2_3month_rotated",
)
"""Tasks in which it is known which columns correspond."""


@dataclass(frozen=True)
class Drawn:
    """Two datasets, and which of their columns correspond."""

    x: Matrix
    y: Matrix
    truth: np.ndarray


def gaussian(rng: np.random.RandomState) -> Drawn:
    """Independent noise of 5 to 50 columns."""
    n, m, d = _sizes(rng, 5, 50)
    return _nothing(rng.randn(n, d), rng.randn(m, d))


def skewed(rng: np.random.RandomState) -> Drawn:
    """Skewed factors behind skewed columns, all of which have changed places in the second dataset."""
    return _exchanged(rng, 1.0)


def skewed_half(rng: np.random.RandomState) -> Drawn:
    """The same, of which half have changed places and half correspond."""
    return _exchanged(rng, 0.5)


def factors(rng: np.random.RandomState) -> Drawn:
    """A few factors and noise, with loadings that have nothing to do with each other."""
    n, m, d = _sizes(rng, 10, 50)
    k, noise = rng.randint(2, 8), rng.uniform(0.1, 1)
    return _nothing(*(rng.randn(a, k) @ rng.randn(k, d) + noise * rng.randn(a, d) for a in (n, m)))


def clusters(rng: np.random.RandomState) -> Drawn:
    """Clusters of unequal size around unrelated centres."""
    n, m, d = _sizes(rng, 5, 50)
    k, noise = rng.randint(3, 9), rng.uniform(0.2, 1)
    share = rng.dirichlet(np.full(k, 2.0))
    return _nothing(*(rng.randn(k, d)[rng.choice(k, a, p=share)] + noise * rng.randn(a, d) for a in (n, m)))


def heavy(rng: np.random.RandomState) -> Drawn:
    """Columns and rows of heavy tails: two degrees of freedom, and log-normal scales of columns."""
    n, m, d = _sizes(rng, 5, 50)
    return _nothing(
        *(rng.standard_t(2, (a, d)) * np.exp(0.5 * rng.randn(a, 1) + rng.randn(d)) for a in (n, m))
    )


def scaled(rng: np.random.RandomState) -> Drawn:
    """Noise of unequal scales, the same in both datasets: not exchangeable, so beyond the promise."""
    n, m, d = _sizes(rng, 5, 50)
    scale = np.exp(rng.randn(d))
    return _nothing(rng.randn(n, d) * scale, rng.randn(m, d) * scale)


def autocorrelated(rng: np.random.RandomState) -> Drawn:
    """Columns that change slowly down the rows, as in time series."""
    n, m, d = _sizes(rng, 5, 50)
    keep = rng.uniform(0.8, 0.99)

    def walk(a: int) -> Matrix:
        steps, out = rng.randn(a, d), np.zeros((a, d))
        for i in range(1, a):
            out[i] = keep * out[i - 1] + steps[i]
        return out

    return _nothing(walk(n), walk(m))


NULLS: dict[str, Callable[[np.random.RandomState], Drawn]] = {
    "gaussian": gaussian,
    "skewed": skewed,
    "factors": factors,
    "clusters": clusters,
    "heavy": heavy,
    "autocorrelated": autocorrelated,
}
"""Designs without any correspondence, on which the promises are made."""

DESIGNS = {**NULLS, "skewed half": skewed_half, "scaled": scaled}


def _sizes(rng: np.random.RandomState, least: int, most: int) -> tuple[int, int, int]:
    return rng.randint(150, 301), rng.randint(150, 301), rng.randint(least, most + 1)


def _nothing(x: Matrix, y: Matrix) -> Drawn:
    return Drawn(x, y, np.zeros(x.shape[1], dtype=bool))


def _exchanged(rng: np.random.RandomState, share: float) -> Drawn:
    n, m, d = _sizes(rng, 10, 50)
    loadings, noise = rng.randn(4, d), rng.uniform(0.2, 0.6)
    x, y = (np.exp(0.7 * rng.randn(a, 4)) @ loadings + noise * rng.randn(a, d) for a in (n, m))
    moved = rng.permutation(d)[: max(2, round(share * d))]
    y[:, moved] = y[:, np.roll(moved, 1)]
    truth = np.ones(d, dtype=bool)
    truth[moved] = False
    return Drawn(x, y, truth)


# --------------------------------------------------------------------------------------------------------
# measures


def described(rows: Matrix) -> Harmonics:
    """Harmonics as a fit makes them."""
    n = len(rows)
    least, most = DEFAULT.neighbour_bounds
    near = int(np.clip(round(n**0.5 / DEFAULT.neighbour_root), least, most))
    graph = kernel_graph(
        rows,
        n_neighbors=min(near, n - 1),
        anisotropy=DEFAULT.anisotropy,
        max_neighbors=DEFAULT.kernel_neighbours,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters fall apart, as they may
        return harmonics(graph, min(DEFAULT.n_harmonics, max(2, n // DEFAULT.rows_per_harmonic)))


def tested(drawn: Drawn) -> Significance:
    """The permutation test of a pair."""
    found = [described(rows) for rows in (drawn.x, drawn.y)]
    k = min(h.k for h in found)
    hx, hy = calibrate([h.truncate(k) for h in found])
    spectral = [h.gft(rows - rows.mean(axis=0)) for h, rows in ((hx, drawn.x), (hy, drawn.y))]
    return permutation_test(hx, hy, *spectral, relations=relate(drawn.x, drawn.y))


def p_values(designs: Sequence[str], n_fits: int) -> None:
    """Share of p below each level, by design and over all that make a promise."""
    print(f"{'design':<16}{'fits':>6}" + "".join(f"{f'p < {level}':>12}" for level in LEVELS))
    promised: list[float] = []
    for name in designs:
        found = [tested(DESIGNS[name](np.random.RandomState(seed))).p for seed in range(n_fits)]
        if name in NULLS:
            promised += found
        print(_shares(name, found), flush=True)
    print(_shares("all without", promised))


def _shares(name: str, found: Sequence[float]) -> str:
    p = np.asarray(found)
    return f"{name:<16}{len(p):>6}" + "".join(f"{np.mean(p < level):>12.2%}" for level in LEVELS)


def features(designs: Sequence[str], n_fits: int) -> None:
    """False discoveries among selected features, weights of false ones, and share of true ones found."""
    print(f"{'design':<16}{'fits':>6}{'false':>10}{'± s.e.':>10}{'weight':>10}{'found':>10}")
    for name in designs:
        false, weight, kept = [], [], []
        for seed in range(n_fits):
            drawn = DESIGNS[name](np.random.RandomState(seed))
            model = fitted([drawn.x, drawn.y])
            chosen, truth = model.feature_selected_, drawn.truth
            false.append((chosen & ~truth).sum() / max(1, chosen.sum()))
            weight.append(model.feature_weights_[~truth].mean())
            kept.append(chosen[truth].mean() if truth.any() else np.nan)
        error = np.std(false) / np.sqrt(n_fits)
        share = np.nanmean(kept) if np.isfinite(kept).any() else np.nan
        print(
            f"{name:<16}{n_fits:>6}{np.mean(false):>10.1%}{error:>10.1%}{np.mean(weight):>10.3f}{share:>10.1%}",
            flush=True,
        )


def kept(names: Sequence[str]) -> None:
    """True and false features selected in real tasks, and the test's p."""
    print(f"{'task':<32}{'p':>10}{'true':>6}{'of':>6}{'false':>7}")
    for name in names:
        if name not in tasks.names():
            print(f"{name:<32} skipped: its file is not in {tasks.data_dir()}", file=sys.stderr)
            continue
        task = tasks.make(name)
        assert task.truth is not None
        model, truth = fitted(task.datasets[:2]), task.truth
        chosen, p = model.feature_selected_, model.significance_.p
        counts = (chosen & truth).sum(), truth.sum(), (chosen & ~truth).sum()
        print(f"{name:<32}{p:>10.1g}{counts[0]:>6}{counts[1]:>6}{counts[2]:>7}", flush=True)


def fitted(parts: Sequence[Matrix]) -> HarmonicAlignment:
    """A fit whose warnings are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HarmonicAlignment(random_state=0).fit(list(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=["p", "features", "kept"])
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--tasks", nargs="+", default=list(KEPT))
    parser.add_argument("--fits", type=int, default=350, help="fits of every design")
    options = parser.parse_args()
    if options.fits < 1:
        parser.error("--fits must be at least 1")
    if options.measure == "kept":
        kept(options.tasks)
    else:
        {"p": p_values, "features": features}[options.measure](options.designs, options.fits)


if __name__ == "__main__":
    main()
