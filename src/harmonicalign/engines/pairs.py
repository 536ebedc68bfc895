"""Mutual neighbours as plain arrays: matrices of scipy take longer to be made than to be multiplied."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array

__all__ = ["mutual_pairs", "normalised"]


def mutual_pairs(forward: Array, backward: Array) -> tuple[Array, Array]:
    """Pairs (i, j) of rows that are among each other's nearest, in the order of i and then j.

    Parameters
    ----------
    forward
        For every row i, the rows j nearest to it, (n_x, k).
    backward
        For every row j, the rows i nearest to it, (n_y, k).
    """
    j = np.sort(forward, axis=1).ravel()
    i = np.repeat(np.arange(len(forward)), forward.shape[1])
    mutual = (backward[j] == i[:, None]).any(axis=1)
    return i[mutual], j[mutual]


def normalised(i: Array, j: Array, weights: Array, shape: tuple[int, int]) -> Array:
    """Weights of the pairs, divided by the square roots of the sums of their row and column."""
    of_i, of_j = (_inverse(np.bincount(at, weights, n)) for at, n in zip((i, j), shape, strict=True))
    # One root at a time: the product of two large inverses would overflow.
    return np.asarray(weights * np.sqrt(of_i)[i] * np.sqrt(of_j)[j])


def _inverse(sums: Array) -> Array:
    """One over each sum; rows without any weight stay at zero."""
    sums = sums.astype(np.float64, copy=False)  # without pairs numpy counts in whole numbers
    return np.asarray(np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 1e-300))
