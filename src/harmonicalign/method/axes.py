r"""Joint principal axes of weighted signals, of which no weighted copy is made.

A run asks for the axes of the same signals again and again, with other weights w, centres c and units f. With
the products of the signals about their means m, ``P = (X − m)ᵀ(X − m)``, those of the centred, weighted
signals of all datasets are

.. math:: \operatorname{diag}(w) \Big( \sum_i \operatorname{diag}(f_i) \left(
          P_i + n_i (m_i - c_i)(m_i - c_i)^T \right) \operatorname{diag}(f_i) \Big) \operatorname{diag}(w),

so that the rows are needed once. Where there are more signals than rows, the rows themselves are smaller, and
are multiplied instead. Signals without weight, which are most where few columns correspond, are left out.
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

_AGAIN = 2
"""Steps from directions near those wanted. Of the variance along the axes of blood cells whose centres move,
two find .9988 and five from random ones .9977."""


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
    start: int | Array,
) -> Array:
    """Leading axes of the weighted signals of all datasets, (d, k), from their products.

    Signals of weight 0 have no part in them.

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
    start
        Where the iteration begins: the seed of random directions, or directions near those wanted, (d, k).
    """
    d, used = len(weights), _used([weights])
    total = np.zeros((len(used), len(used)))
    shifts = np.zeros((len(used), len(centres)))
    for i, (part, centre) in enumerate(zip(parts, centres, strict=True)):
        shifts[:, i] = np.sqrt(part.n_rows) * (part.mean - centre)[used]
        about = part.about if len(used) == d else part.about[np.ix_(used, used)]
        if factors is None:
            total += about
        else:
            factor = factors[i][used]
            shifts[:, i] *= factor
            total += about * factor * factor[:, None]
    total += shifts @ shifts.T
    total *= weights[used]
    total *= weights[used, None]
    if d <= _FEW:
        return _among(_leading(total, k), used, d)
    return _among(_iterated(lambda v: total @ v, start, used, (d, d), k), used, d)


def axes_of_rows(
    signals: Sequence[Any], centres: Sequence[Array], scales: Sequence[Array], k: int, start: int | Array
) -> Array:
    """The same from the rows, dense or sparse, where there are more signals than rows.

    Parameters
    ----------
    signals, centres
        Signals of every dataset, and the centre that is subtracted from them.
    scales
        For every dataset, the weights of its signals, units included.
    k, start
        As in `axes_of_products`.
    """
    n, d, used = sum(s.shape[0] for s in signals), len(centres[0]), _used(scales)
    centres, scales = [c[used] for c in centres], [scale[used] for scale in scales]
    if min(n, d) <= _FEW:
        parts = zip(signals, centres, scales, strict=True)
        stacked = np.vstack([(dense_columns(s, used) - c) * w for s, c, w in parts])
        return _among(leading_axes(stacked, k), used, d)
    some = signals if len(used) == d else [s[:, used] for s in signals]
    rows = [s if sp.issparse(s) else np.asarray(s, dtype=np.float64) for s in some]

    def apply(v: Array) -> Array:
        out = np.zeros_like(v)
        for x, centre, scale in zip(rows, centres, scales, strict=True):
            scaled = scale[:, None] * v
            along = np.asarray(x @ scaled) - centre @ scaled
            out += scale[:, None] * (np.asarray(x.T @ along) - np.outer(centre, along.sum(axis=0)))
        return out

    return _among(_iterated(apply, start, used, (n, d), k), used, d)


def _used(scales: Sequence[Array]) -> Array:
    """Numbers of the signals that have any weight; all of them if none has."""
    used = np.flatnonzero(np.any(scales, axis=0))
    return used if used.size else np.arange(len(scales[0]))


def _among(axes: Array, used: Array, d: int) -> Array:
    """Axes of some signals as axes of all d of them."""
    out = np.zeros((d, axes.shape[1]))
    out[used] = axes
    return out


def _leading(matrix: Array, k: int) -> Array:
    """Leading eigenvectors of a symmetric matrix, largest first."""
    n = len(matrix)
    return np.asarray(scipy.linalg.eigh(matrix, subset_by_index=[n - min(k, n), n - 1])[1][:, ::-1])


def _iterated(
    apply: Callable[[Array], Array], start: int | Array, used: Array, shape: tuple[int, int], k: int
) -> Array:
    """Leading eigenvectors of the symmetric operator of some columns of a matrix, by subspace iteration.

    It begins at random as it would with all columns, or from directions near those wanted and a few others.
    """
    n, d = shape
    near = start if isinstance(start, np.ndarray) else np.empty((d, 0))
    seed = 0 if isinstance(start, np.ndarray) else start
    q = np.random.RandomState(seed).standard_normal((d, min(n, d, k + _MORE)))
    q[:, : near.shape[1]] = near
    q = q[used]
    for _ in range(_AGAIN if near.size else _STEPS):
        q = scipy.linalg.qr(apply(q), mode="economic")[0]
    inside = q.T @ apply(q)
    return np.asarray(q @ _leading((inside + inside.T) / 2, k))
