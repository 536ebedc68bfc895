"""Gromov–Wasserstein transport between two geometries, over several kinds of distances at once.

A plan T, (n_x, n_y), says how much of row i of x lies on row j of y; its rows and columns have equal mass.
Its loss is the mean over kinds of distances k of ``Σ (C^x_k[i, i'] − C^y_k[j, j'])² T[i, j] T[i', j']``.

References
----------
F. Mémoli. Gromov–Wasserstein distances and the metric approach to object matching. Foundations of
Computational Mathematics 11, 417-487 (2011).
"""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.shape.geometry import Geometry

__all__ = ["balanced", "flat_plan", "improve", "relative_loss"]

_LEAST = np.float32(1e-30)
"""Entries of a plan stay above this, or they could never grow again."""


_LAST = 100
"""Iterations by which a plan is balanced in the end."""


def flat_plan(x: Geometry, y: Geometry) -> Array:
    """The plan of independent datasets."""
    return np.full((x.n_rows, y.n_rows), 1 / (x.n_rows * y.n_rows), dtype=np.float32)


def improve(x: Geometry, y: Geometry, plan: Array, *, rate: float, rounds: int, n_balance: int) -> Array:
    """Lower the loss of a plan by proximal steps, ``T ← balance(T · exp(−gradient / rate))``.

    Parameters
    ----------
    x, y
        The two datasets.
    plan
        Where to start.
    rate
        Size of the steps' denominator: small values take long steps.
    rounds
        Most steps; fewer are taken if the plan stops changing.
    n_balance
        Iterations by which each plan is balanced.
    """
    scale = np.float32(x.n_rows * y.n_rows)
    weights = np.ones(y.n_rows, dtype=np.float32)
    for _ in range(rounds):
        slope = _gradient(x, y, plan)
        slope -= slope.min()
        slope *= np.float32(-1 / rate)
        np.exp(slope, out=slope)
        slope *= plan
        slope *= scale
        new, weights = _balance(slope, weights, n_balance)
        moved = float(np.abs(new - plan).sum())
        plan = new
        if moved < 1e-3:
            break
    # The loss of a plan that leaves out rows which fit badly would be too low.
    return balanced(plan, _LAST)


def relative_loss(x: Geometry, y: Geometry, plan: Array) -> float:
    """Loss of a plan over that of the independent plan: 0 is the same shape, 1 nothing in common."""
    flat = flat_plan(x, y)
    own, chance = (float((_gradient(x, y, p) * p).sum(dtype=np.float64)) for p in (plan, flat))
    return max(own, 0.0) / chance if chance > 0 else 0.0


def balanced(weights: Array, n_iterations: int) -> Array:
    """Weights scaled until rows and columns have equal mass (Sinkhorn's iteration); all mass is 1."""
    return _balance(weights, np.ones(weights.shape[1], dtype=weights.dtype), n_iterations)[0]


def _balance(weights: Array, v: Array, n_iterations: int) -> tuple[Array, Array]:
    """The same from known factors of the columns, and the new ones; they change little between rounds."""
    kernel = np.maximum(weights, _LEAST)
    n, m = kernel.shape
    for _ in range(n_iterations):
        u = 1 / (n * (kernel @ v))
        v = 1 / (m * (kernel.T @ u))
    kernel *= u[:, None]
    kernel *= v
    return np.asarray(kernel), v


def _gradient(x: Geometry, y: Geometry, plan: Array) -> Array:
    """Half the gradient of the loss: what each pair of rows costs under the plan."""
    moved = x.vectors.T @ plan
    for own, other in zip(x.kinds, y.kinds, strict=True):
        middle = (x.values[own, None] * (moved[own] @ y.vectors[:, other])) * y.values[other]
        moved[own] = middle @ y.vectors[:, other].T
    out = x.vectors @ moved
    out *= np.float32(-2 / len(x.kinds))
    out += x.squares.mean(axis=0)[:, None]
    out += y.squares.mean(axis=0)
    return np.asarray(out)
