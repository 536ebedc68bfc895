r"""Joint principal axes of weighted signals, of which no weighted copy is made.

A run asks for the axes of the same signals again and again, with other weights w, centres c and units f. With
the products of the signals about their means m, ``P = (X − m)ᵀ(X − m)``, those of the centred, weighted
signals of all datasets are

.. math:: \operatorname{diag}(w) \Big( \sum_i \operatorname{diag}(f_i) \left(
          P_i + n_i (m_i - c_i)(m_i - c_i)^T \right) \operatorname{diag}(f_i) \Big) \operatorname{diag}(w),

so that the rows are needed once. Where there are more signals than rows, the rows themselves are smaller, and
are multiplied instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.inputs.rows import dense_columns
from harmonicalign.paper.reduction import leading_axes

__all__ = ["Products", "axes_of_products", "axes_of_rows"]

_FEW = 300
"""Up to so many signals all axes are computed; of more, the leading ones by subspace iteration."""

_MORE, _STEPS = 20, 5
"""Directions beside those wanted, and steps of the iteration, as in `harmonicalign.paper.leading_axes`."""


@dataclass(frozen=True)
class Products:
    """What the axes need of a dataset's signals.

    Attributes
    ----------
    n_rows
        Number of rows.
    mean
        Mean of every signal, (d,).
    about
        Products of the signals about their means, (d, d).
    """

    n_rows: int
    mean: Array
    about: Array

    @classmethod
    def of(cls, signals: Any) -> Products:
        """Products of some signals, dense or sparse."""
        rows = dense_columns(signals, np.arange(signals.shape[1]))
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(len(rows), mean, centred.T @ centred)


def axes_of_products(
    parts: Iterable[Products],
    centres: Sequence[Array],
    weights: Array,
    factors: Sequence[Array] | None,
    k: int,
    random_state: int,
) -> Array:
    """Leading axes of the weighted signals of all datasets, (d, k), from their products.

    Parameters
    ----------
    parts
        Products of the signals of every dataset.
    centres
        For every dataset, the centre that is subtracted from its signals.
    weights
        Weight of every signal.
    factors
        For every dataset, factors of its signals; None if there are none.
    k
        Maximum number of axes.
    random_state
        Seed of the iteration.
    """
    total = np.zeros((len(weights),) * 2)
    shifts = np.zeros((len(weights), len(centres)))
    for i, (part, centre) in enumerate(zip(parts, centres, strict=True)):
        shifts[:, i] = np.sqrt(part.n_rows) * (part.mean - centre)
        if factors is None:
            total += part.about
        else:
            shifts[:, i] *= factors[i]
            total += part.about * factors[i] * factors[i][:, None]
    across = weights[:, None]
    if len(weights) <= _FEW:
        total += shifts @ shifts.T
        return _leading(total * weights * across, k)
    return _iterated(
        lambda v: across * (total @ (across * v) + shifts @ (shifts.T @ (across * v))),
        len(weights),
        k,
        random_state,
        len(weights),
    )


def axes_of_rows(
    signals: Sequence[Any], centres: Sequence[Array], scales: Sequence[Array], k: int, random_state: int
) -> Array:
    """The same from the rows, dense or sparse, where there are more signals than rows.

    Parameters
    ----------
    signals, centres
        Signals of every dataset, and the centre that is subtracted from them.
    scales
        For every dataset, the weights of its signals, units included.
    k, random_state
        As in `axes_of_products`.
    """
    n, d = sum(s.shape[0] for s in signals), len(centres[0])
    if min(n, d) <= _FEW:
        parts = zip(signals, centres, scales, strict=True)
        return leading_axes(np.vstack([(dense_columns(s, np.arange(d)) - c) * w for s, c, w in parts]), k)
    rows = [s if sp.issparse(s) else np.asarray(s, dtype=np.float64) for s in signals]

    def apply(v: Array) -> Array:
        out = np.zeros_like(v)
        for x, centre, scale in zip(rows, centres, scales, strict=True):
            scaled = scale[:, None] * v
            along = np.asarray(x @ scaled) - centre @ scaled
            out += scale[:, None] * (np.asarray(x.T @ along) - np.outer(centre, along.sum(axis=0)))
        return out

    return _iterated(apply, d, k, random_state, n)


def _leading(matrix: Array, k: int) -> Array:
    """Leading eigenvectors of a symmetric matrix, largest first."""
    n = len(matrix)
    return np.asarray(scipy.linalg.eigh(matrix, subset_by_index=[n - min(k, n), n - 1])[1][:, ::-1])


def _iterated(apply: Callable[[Array], Array], d: int, k: int, random_state: int, rank: int) -> Array:
    """Leading eigenvectors of a symmetric operator of at most some rank, by subspace iteration."""
    q = np.random.RandomState(random_state).standard_normal((d, min(d, rank, k + _MORE)))
    for _ in range(_STEPS):
        q = scipy.linalg.qr(apply(q), mode="economic")[0]
    inside = q.T @ apply(q)
    return np.asarray(q @ _leading((inside + inside.T) / 2, k))
