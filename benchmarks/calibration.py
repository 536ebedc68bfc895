"""Null calibration: how often the evidence claims what is not there, and what it finds where something is.

    python benchmarks/calibration.py p                    # p-values on six designs without correspondence
    python benchmarks/calibration.py features             # false discoveries among features, and true ones kept
    python benchmarks/calibration.py p --fits 50 --designs gaussian heavy

The designs are made here, with known truth; real tasks are read as `tasks` says and left out if absent. The
table of `docs/promises.md` is the output of this file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Matrix = np.ndarray


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
    return _nothing(
        *(rng.randn(k, d)[rng.choice(k, a, p=share)] + noise * rng.randn(a, d) for a in (n, m))
    )


def heavy(rng: np.random.RandomState) -> Drawn:
    """Columns and rows of heavy tails: two degrees of freedom, and log-normal scales of columns."""
    n, m, d = _sizes(rng, 5, 50)
    scale = np.exp(rng.randn(d))
    return _nothing(*(rng.standard_t(2, (a, d)) * np.exp(0.5 * rng.randn(a, 1)) * scale for a in (n, m)))


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
