"""Kernels before anisotropy, from distances of any form: all of them, neighbours, or precomputed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.protocols import Neighbours
from harmonicalign.engines.rows import decayed, kernel_weights, positive_bandwidths
from harmonicalign.engines.threads import in_threads, row_slices
from harmonicalign.inputs.validate import check_symmetric

__all__ = [
    "bandwidths",
    "checked_affinity",
    "dense_kernel",
    "kernel_from_distances",
    "kth_smallest",
    "row_sums",
    "sparse_kernel",
]

_DENSE_FRACTION = 0.2
"""A kernel with more entries than this is faster as a dense array than as a sparse matrix."""


def bandwidths(bandwidth: Any, rows: Array | None, n: int, from_neighbours: Callable[[], Array]) -> Array:
    """One positive ε per row, from any accepted form."""
    if isinstance(bandwidth, str):
        return from_neighbours()
    if callable(bandwidth):
        if rows is None:
            raise ValueError("bandwidth as a function needs rows; give numbers with precomputed distances")
        bandwidth = bandwidth(rows)
    try:
        eps = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bandwidth must hold numbers, got {bandwidth!r}") from error
    if eps.ndim > 1 or (eps.ndim == 1 and eps.shape != (n,)):
        raise ValueError(f"bandwidth has shape {eps.shape}; expected one number, or one for each of {n} rows")
    if not np.isfinite(eps).all() or (eps <= 0).any():
        raise ValueError(f"bandwidth must be positive and finite, its smallest is {float(eps.min()):g}")
    return np.array(np.broadcast_to(eps, n))


def kth_smallest(distances: Array, k: int) -> Array:
    """Distance of every row to its k-th neighbour, from the matrix of all distances."""
    # The row itself is the smallest, so position k is the k-th neighbour.
    return np.asarray(positive_bandwidths(np.partition(distances, k, axis=1)[:, 1 : k + 1]))


def dense_kernel(distances: Array, eps: Array, decay: float, thresh: float) -> Matrix:
    """The kernel from all distances; sparse if the threshold leaves few entries."""
    half = decayed(distances, eps[:, None], decay)
    kernel = half + half.T
    kernel *= 0.5
    if thresh > 0:
        kernel[kernel < thresh] = 0
        if np.count_nonzero(kernel) < _DENSE_FRACTION * kernel.size:
            return sp.csr_matrix(kernel)
    return kernel


def sparse_kernel(found: Neighbours, eps: Array, decay: float, thresh: float) -> sp.csr_matrix:
    """The kernel over the pairs that are neighbours in at least one direction."""
    n, k = found.indices.shape
    columns = np.empty((n, k + 1), dtype=np.int32 if n < 2**31 else np.int64)
    columns[:, 0], columns[:, 1:] = np.arange(n), found.indices
    weights = np.ones((n, k + 1))

    def fill(rows: slice) -> None:
        distances, indices = found.distances[rows], found.indices[rows]
        weights[rows, 1:] = kernel_weights(distances, eps[rows, None], eps[indices], decay)

    in_threads(fill, row_slices(n, 32 * k))
    weights[weights < max(thresh, np.finfo(np.float64).tiny)] = 0
    one_way = sp.csr_matrix(
        (weights.ravel(), columns.ravel(), np.arange(0, weights.size + 1, k + 1)), shape=(n, n)
    )
    one_way.eliminate_zeros()
    # Both directions give the same weight, so the larger of the two fills in one-way pairs.
    return sp.csr_matrix(one_way.maximum(one_way.T))


def kernel_from_distances(
    matrix: Matrix, n_neighbors: int, bandwidth: Any, decay: float, thresh: float
) -> tuple[Matrix, Array]:
    """The kernel from a precomputed matrix of distances, dense or sparse."""
    check_symmetric("x", matrix)
    values = matrix.data if sp.issparse(matrix) else matrix
    if (values < 0).any():
        raise ValueError(f"x holds negative distances (down to {float(values.min()):g})")
    n = matrix.shape[0]
    if not sp.issparse(matrix):
        if np.diagonal(matrix).any():
            raise ValueError("x has non-zero distances on its diagonal; a row is at distance 0 from itself")
        eps = bandwidths(bandwidth, None, n, lambda: kth_smallest(matrix, n_neighbors))
        return dense_kernel(matrix.astype(np.float64), eps, decay, thresh), eps
    coo = matrix.tocoo()
    off = coo.row != coo.col
    row, column, near = coo.row[off], coo.col[off], coo.data[off]
    counts = np.bincount(row, minlength=n)
    if isinstance(bandwidth, str) and counts.min() < 1:
        raise ValueError(f"x gives no neighbour for row {int(counts.argmin())}; every row needs at least one")
    eps = bandwidths(bandwidth, None, n, lambda: _sparse_kth(matrix, n_neighbors))
    weights = kernel_weights(near, eps[row], eps[column], decay)
    kept = weights >= max(thresh, np.finfo(np.float64).tiny)
    kernel = sp.csr_matrix((weights[kept], (row[kept], column[kept])), shape=(n, n)) + sp.eye_array(n)
    return sp.csr_matrix(kernel), eps


def _sparse_kth(matrix: sp.csr_matrix, k: int) -> Array:
    """Distance to the k-th stored neighbour of every row (the last one where there are fewer)."""
    near = np.zeros((matrix.shape[0], 1))
    for i in range(matrix.shape[0]):
        inside = slice(matrix.indptr[i], matrix.indptr[i + 1])
        stored = np.sort(matrix.data[inside][matrix.indices[inside] != i])
        near[i] = stored[min(k, stored.size) - 1]
    return np.asarray(positive_bandwidths(near))


def checked_affinity(matrix: Matrix) -> Matrix:
    """Precomputed affinities, if they are symmetric, not negative, and tie every row to something."""
    check_symmetric("x", matrix)
    values = matrix.data if sp.issparse(matrix) else matrix
    if (values < 0).any():
        raise ValueError(f"x holds negative affinities (down to {float(values.min()):g})")
    empty = np.flatnonzero(row_sums(matrix) <= 0)
    if empty.size:
        raise ValueError(f"x has {empty.size} row(s) without any affinity (first: {empty[0]}); remove them")
    return matrix.astype(np.float64)


def row_sums(matrix: Matrix) -> Array:
    """Row sums of a plain or sparse matrix."""
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
