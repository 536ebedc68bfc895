"""Anchors: a soft pairing of rows of two datasets, from mutual neighbours and from known pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_both
from harmonicalign.engines.pairs import mutual_pairs, normalised
from harmonicalign.method.config import MethodConfig

__all__ = ["find_anchors", "gaussian_weights", "known_pairs", "masses", "mutual_neighbours"]


def gaussian_weights(squared: Array) -> Array:
    """Weights ``exp(-d²/m)`` of pairs at squared distances d², with m their median; 1 if m is zero."""
    middle = float(np.median(squared)) if squared.size else 0.0
    return np.asarray(np.exp(-squared / middle)) if middle > 0 else np.ones(len(squared))


def mutual_neighbours(
    x: Array,
    y: Array,
    k: int = 10,
    *,
    known: sp.csr_matrix | None = None,
    weight: Callable[[Array], Array] = gaussian_weights,
) -> sp.csr_matrix:
    """Soft pairing Π of rows that are among each other's k nearest in a common space.

    Pairs are weighted by their distance, and the weights W divided by the sums of their row and column,
    ``D_x^-½ W D_y^-½``, as the graph's operator is by its degrees. Rows with many partners then do not
    dominate, but still count for more than those with few. Equal masses for all rows would force classes of
    different shares onto each other. Rows without a mutual neighbour stay unpaired.

    Parameters
    ----------
    x, y
        Coordinates of the two datasets in one space.
    k
        Neighbours in each direction.
    known
        Known pairs, (n_x, n_y); their rows are in no other pair.
    weight
        Weights of pairs, from their squared distances.

    Returns
    -------
    pairing
        (n_x, n_y), non-negative.
    """
    k = min(k, len(x), len(y))
    i, j = mutual_pairs(*nearest_both(x, y, k))
    weights = weight(((x[i] - y[j]) ** 2).sum(axis=1))
    if known is not None:
        given = known.tocoo()
        taken_x, taken_y = (np.asarray(known.sum(axis=axis)).ravel() > 0 for axis in (1, 0))
        free = ~(taken_x[i] | taken_y[j])
        i, j = np.concatenate([i[free], given.row]), np.concatenate([j[free], given.col])
        weights = np.concatenate([weights[free], given.data])
    shape = len(x), len(y)
    return sp.csr_matrix((normalised(i, j, weights, shape), (i, j)), shape=shape)


def find_anchors(
    x: Array, y: Array, config: MethodConfig, known: sp.csr_matrix | None = None
) -> sp.csr_matrix:
    """`mutual_neighbours` with the constants of a configuration."""
    weight = config.anchor_weight or gaussian_weights
    return mutual_neighbours(x, y, config.n_anchors, known=known, weight=weight)


def masses(pairing: sp.csr_matrix) -> tuple[Array, Array]:
    """Mass of each row of both sides in a pairing; each sums to one."""
    of_x = np.asarray(pairing.sum(axis=1), dtype=np.float64).ravel()
    of_y = np.asarray(pairing.sum(axis=0), dtype=np.float64).ravel()
    return of_x / of_x.sum(), of_y / of_y.sum()


def known_pairs(pairs: Any, n_x: int, n_y: int) -> sp.csr_matrix:
    """Pairs of row numbers, (m, 2), as a pairing matrix."""
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"anchors has shape {array.shape} and type {array.dtype}; expected whole numbers, one pair "
            "(row of the first dataset, row of the second) per line"
        )
    if len(array) and (array.min() < 0 or (array.max(axis=0) >= (n_x, n_y)).any()):
        raise ValueError(f"anchors names rows outside the datasets, which have {n_x} and {n_y} rows")
    matrix = sp.csr_matrix((np.ones(len(array)), (array[:, 0], array[:, 1])), shape=(n_x, n_y))
    matrix.sum_duplicates()
    matrix.data[:] = 1  # a pair given twice counts once
    return matrix
