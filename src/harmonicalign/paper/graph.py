r"""Rows to a graph: neighbours, an adaptive kernel, anisotropy, degrees (Eqn. 1, Alg. GaussKernelGraph).

.. math::
    G_{ij} = \tfrac12\left(e^{-(d_{ij}/ε_i)^a} + e^{-(d_{ij}/ε_j)^a}\right), \qquad
    K_{ij} = \frac{G_{ij}}{g_i^q\, g_j^q}, \quad g_i = \sum_j G_{ij}, \qquad
    D_{ii} = \sum_j K_{ij}

A constant bandwidth ``ε = √σ`` with ``a = 2`` and ``q = 1`` is Eqn. 1 to the letter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from harmonicalign._typing import Array, Matrix
from harmonicalign.engines import cpu
from harmonicalign.inputs.validate import check_integer, check_number, check_rows, check_symmetric

__all__ = ["Graph", "kernel_graph"]


EXACT_ROWS = 10_000
"""Up to this many rows every pair of rows is looked at; above it, each row's nearest neighbours."""

_DENSE_FRACTION = 0.2
"""A kernel with more entries than this is quicker as a plain array than as a sparse matrix."""


@dataclass(frozen=True)
class Graph:
    """A weighted graph over the rows of one dataset.

    Attributes
    ----------
    kernel
        The kernel K after anisotropic normalisation, (n, n), symmetric; CSR or a plain array.
    degrees
        Row sums of the kernel, the diagonal of D.
    components
        Component number of every row; 0 is the heaviest component.
    rows
        The rows the graph was built on, kept so that new rows can be joined to it; None for
        precomputed input.
    density
        Row sums g of the kernel before anisotropy.
    bandwidth
        ε of every row; None for precomputed affinities.
    n_neighbors, max_neighbors, decay, thresh, anisotropy
        The settings it was built with (`n_neighbors` is None unless the bandwidth came from it).
    recall
        Share of the true neighbours that the search found, measured on a sample; 1 is an exact search.
    """

    kernel: Matrix
    degrees: Array
    components: Array
    rows: Array | None
    density: Array
    bandwidth: Array | None
    n_neighbors: int | None
    max_neighbors: int
    decay: float
    thresh: float
    anisotropy: float
    recall: float = 1.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.degrees.size)

    @property
    def component_sizes(self) -> Array:
        """Rows in every connected component."""
        return np.bincount(self.components)

    @property
    def operator(self) -> Matrix:
        """The symmetric diffusion operator ``A = D^-½ K D^-½ = I − 𝓛``."""
        return _scale(self.kernel, 1 / np.sqrt(self.degrees))

    @property
    def laplacian(self) -> Matrix:
        """The normalised Laplacian ``𝓛 = I − D^-½ K D^-½``."""
        identity = (
            sp.eye_array(self.n_rows, format="csr") if sp.issparse(self.kernel) else np.eye(self.n_rows)
        )
        return identity - self.operator

    @property
    def transitions(self) -> Matrix:
        """The row-stochastic diffusion operator ``P = D^-1 K``."""
        return _scale(self.kernel, 1 / self.degrees, columns=False)

    def extend(self, x: Any, *, power: int = 1) -> sp.csr_matrix:
        """Transition probabilities from new rows to the rows of the graph.

        A new row gets a bandwidth, kernel weights and anisotropic normalisation by the rule that
        the graph's own rows had; then its weights are made to sum to one.

        Parameters
        ----------
        x
            New rows, (m, d), of the kind the graph was built on.
        power
            Power of the weights before they are made to sum to one; above 1 the nearest count more.

        Returns
        -------
        transitions
            (m, n), rows sum to one.
        """
        if self.rows is None:
            raise ValueError("a graph of precomputed distances or affinities cannot take new rows")
        new = check_rows("x", x)
        new = new.toarray() if sp.issparse(new) else new
        if new.shape[1] != self.rows.shape[1]:
            raise ValueError(f"x has {new.shape[1]} columns; the graph was built on {self.rows.shape[1]}")
        k = min(self.n_rows, self.max_neighbors + 1)
        distances, indices = cpu.nearest(self.rows, k, new, exact=len(new) <= EXACT_ROWS)
        assert self.bandwidth is not None
        if self.n_neighbors is None:
            own = np.broadcast_to(np.median(self.bandwidth), len(new))[:, None]
        else:
            own = _positive_bandwidth(distances[:, : self.n_neighbors])[:, None]
        weights = 0.5 * (
            _decay(distances, own, self.decay) + _decay(distances, self.bandwidth[indices], self.decay)
        )
        # The nearest row always counts, so that a row far from everything still lands somewhere.
        weights[:, 0] = np.maximum(weights[:, 0], np.finfo(np.float64).tiny ** 0.5)
        weights[weights < self.thresh * weights[:, :1]] = 0
        weights /= self.density[indices] ** self.anisotropy
        # Relative to the largest, so that no power of it is too small for floating point.
        weights /= weights.max(axis=1, keepdims=True)
        weights **= power
        weights /= weights.sum(axis=1, keepdims=True)
        indptr = np.arange(0, weights.size + 1, k)
        matrix = sp.csr_matrix((weights.ravel(), indices.ravel(), indptr), shape=(len(new), self.n_rows))
        matrix.eliminate_zeros()
        return matrix


def kernel_graph(
    x: Any,
    *,
    n_neighbors: int = 15,
    bandwidth: str | float | Array | Callable[[Array], Array] = "knn",
    decay: float = 2.0,
    thresh: float = 1e-4,
    anisotropy: float = 1.0,
    metric: str = "euclidean",
    max_neighbors: int | None = None,
) -> Graph:
    """Build the kernel graph of one dataset (Eqn. 1, Alg. GaussKernelGraph).

    Parameters
    ----------
    x
        Rows by columns, dense or any scipy sparse format; or, by `metric`, a square matrix.
    n_neighbors
        Which neighbour's distance is the bandwidth when `bandwidth` is "knn".
    bandwidth
        "knn"; one positive number ε for all rows; one per row; or a function of the rows that
        returns one per row.
    decay
        The exponent a; 2 is the Gaussian, larger is closer to a hard cut at ε.
    thresh
        Weights below this are dropped, which makes the kernel sparse. 0 keeps all.
    anisotropy
        q in [0, 1]: 1 takes sampling density out of the geometry, 0 leaves it in.
    metric
        "euclidean", or "distance" / "affinity" when `x` is a precomputed symmetric matrix. In a
        sparse distance matrix an absent entry is an unknown, large distance; in a sparse
        affinity matrix it is 0.
    max_neighbors
        How many nearest rows each row looks at. By default all of them up to 10,000 rows (which
        makes the kernel exact), and five times `n_neighbors` above.

    Returns
    -------
    graph
        The kernel, its degrees and its connected components.
    """
    decay = check_number("decay", decay, above=0)
    thresh = check_number("thresh", thresh, minimum=0, maximum=0.5)
    anisotropy = check_number("anisotropy", anisotropy, minimum=0, maximum=1)
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    matrix = check_rows("x", x, min_rows=3)
    n = matrix.shape[0]
    if max_neighbors is None:
        max_neighbors = n - 1 if n <= EXACT_ROWS else 5 * n_neighbors
    max_neighbors = min(n - 1, check_integer("max_neighbors", max_neighbors, minimum=1))
    if isinstance(bandwidth, str):
        if bandwidth != "knn":
            raise ValueError(f"bandwidth is {bandwidth!r}; expected 'knn', a number, an array or a function")
        if metric != "affinity" and n_neighbors > n - 1:
            raise ValueError(f"n_neighbors is {n_neighbors} but each row has only {n - 1} others; lower it")
        max_neighbors = max(max_neighbors, n_neighbors)

    rows: Array | None = None
    eps: Array | None = None
    recall = 1.0
    if metric == "affinity":
        kernel = _checked_affinity(matrix)
    elif metric == "distance":
        kernel, eps = _kernel_from_distances(matrix, n_neighbors, bandwidth, decay, thresh)
    elif metric == "euclidean":
        rows = matrix.toarray() if sp.issparse(matrix) else matrix
        if max_neighbors >= n - 1:
            distances = cpu.all_distances(rows)
            eps = _bandwidths(bandwidth, rows, n, lambda: _kth_smallest(distances, n_neighbors))
            kernel = _dense_kernel(distances, eps, decay, thresh)
        else:
            near, indices, recall = cpu.nearest_rows(rows, max_neighbors, exact=len(rows) <= EXACT_ROWS)
            eps = _bandwidths(bandwidth, rows, n, lambda: _positive_bandwidth(near[:, :n_neighbors]))
            kernel = _sparse_kernel(near, indices, eps, decay, thresh)
    else:
        raise ValueError(f"metric is {metric!r}; expected 'euclidean', 'distance' or 'affinity'")

    density = _row_sums(kernel)
    if anisotropy > 0:
        kernel = _scale(kernel, density**-anisotropy)
    degrees = _row_sums(kernel)
    return Graph(
        kernel=kernel,
        degrees=degrees,
        components=_components(kernel, degrees),
        rows=rows,
        density=density,
        bandwidth=eps,
        n_neighbors=n_neighbors if isinstance(bandwidth, str) else None,
        max_neighbors=max_neighbors,
        decay=decay,
        thresh=thresh,
        anisotropy=anisotropy,
        recall=recall,
    )


def _bandwidths(bandwidth: Any, rows: Array | None, n: int, from_neighbours: Callable[[], Array]) -> Array:
    """One positive ε per row from whatever form the user gave."""
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


def _kth_smallest(distances: Array, k: int) -> Array:
    """Distance of every row to its k-th neighbour, from the matrix of all distances."""
    # The row itself is the smallest, so position k is the k-th neighbour.
    return _positive_bandwidth(np.partition(distances, k, axis=1)[:, 1 : k + 1])


def _positive_bandwidth(near: Array) -> Array:
    """Largest distance in each row of `near`; for a row of only zeros, a typical small distance.

    A row with k exact copies has its k-th neighbour at distance 0. It needs some bandwidth, and
    the smallest that any other row has keeps it tied to its copies alone.
    """
    eps = near.max(axis=1)
    positive = eps > 0
    if not positive.all():
        eps = np.where(positive, eps, eps[positive].min() if positive.any() else 1.0)
    return np.asarray(eps)


def _decay(distances: Array, eps: Array, decay: float) -> Array:
    """``exp(-(d/ε)^a)``; a ratio too large for floating point is a weight of 0, as it should be."""
    with np.errstate(over="ignore", under="ignore"):
        ratio = distances / eps
        # Squaring is several times quicker than the general power.
        np.multiply(ratio, ratio, out=ratio) if decay == 2 else np.power(ratio, decay, out=ratio)
        np.negative(ratio, out=ratio)
        return np.asarray(np.exp(ratio, out=ratio))


def _dense_kernel(distances: Array, eps: Array, decay: float, thresh: float) -> Matrix:
    """The kernel from all distances; sparse if the threshold leaves few entries."""
    half = _decay(distances, eps[:, None], decay)
    kernel = half + half.T
    kernel *= 0.5
    if thresh > 0:
        kernel[kernel < thresh] = 0
        if np.count_nonzero(kernel) < _DENSE_FRACTION * kernel.size:
            return sp.csr_matrix(kernel)
    return kernel


def _sparse_kernel(
    distances: Array, indices: Array, eps: Array, decay: float, thresh: float
) -> sp.csr_matrix:
    """The kernel over the pairs that are neighbours in at least one direction."""
    n, k = distances.shape
    columns = np.empty((n, k + 1), dtype=np.int32 if n < 2**31 else np.int64)
    columns[:, 0], columns[:, 1:] = np.arange(n), indices
    weights = np.ones((n, k + 1))

    def fill(rows: slice) -> None:
        near = distances[rows]
        both = _decay(near, eps[rows, None], decay) + _decay(near, eps[indices[rows]], decay)
        weights[rows, 1:] = 0.5 * both

    cpu.in_threads(fill, cpu.row_slices(n, 32 * k))
    weights[weights < max(thresh, np.finfo(np.float64).tiny)] = 0
    one_way = sp.csr_matrix(
        (weights.ravel(), columns.ravel(), np.arange(0, weights.size + 1, k + 1)), shape=(n, n)
    )
    one_way.eliminate_zeros()
    # Both directions give the same weight, so the larger of the two fills in one-way pairs.
    return sp.csr_matrix(one_way.maximum(one_way.T))


def _kernel_from_distances(
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
        eps = _bandwidths(bandwidth, None, n, lambda: _kth_smallest(matrix, n_neighbors))
        return _dense_kernel(matrix.astype(np.float64), eps, decay, thresh), eps
    coo = matrix.tocoo()
    off = coo.row != coo.col
    row, column, near = coo.row[off], coo.col[off], coo.data[off]
    counts = np.bincount(row, minlength=n)
    if isinstance(bandwidth, str) and counts.min() < 1:
        raise ValueError(f"x gives no neighbour for row {int(counts.argmin())}; every row needs at least one")
    eps = _bandwidths(bandwidth, None, n, lambda: _sparse_kth(matrix, n_neighbors))
    weights = 0.5 * (_decay(near, eps[row], decay) + _decay(near, eps[column], decay))
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
    return _positive_bandwidth(near)


def _checked_affinity(matrix: Matrix) -> Matrix:
    check_symmetric("x", matrix)
    values = matrix.data if sp.issparse(matrix) else matrix
    if (values < 0).any():
        raise ValueError(f"x holds negative affinities (down to {float(values.min()):g})")
    empty = np.flatnonzero(_row_sums(matrix) <= 0)
    if empty.size:
        raise ValueError(f"x has {empty.size} row(s) without any affinity (first: {empty[0]}); remove them")
    return matrix.astype(np.float64)


def _scale(matrix: Matrix, factor: Array, columns: bool = True) -> Matrix:
    """``diag(factor) M diag(factor)``, or only the rows."""
    if sp.issparse(matrix):
        data = matrix.data * np.repeat(factor, np.diff(matrix.indptr))
        if columns:
            data *= factor[matrix.indices]
        return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    scaled = matrix * factor[:, None]
    if columns:
        scaled *= factor[None, :]
    return scaled


def _row_sums(matrix: Matrix) -> Array:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()


def _components(kernel: Matrix, degrees: Array) -> Array:
    """Component numbers, the heaviest component first."""
    if sp.issparse(kernel):
        labels = connected_components(kernel, directed=False)[1]
    elif _one_piece(kernel):
        return np.zeros(len(degrees), dtype=np.int64)
    else:
        labels = connected_components(sp.csr_matrix(kernel), directed=False)[1]
    order = np.argsort(-np.bincount(labels, weights=degrees), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return np.asarray(rank[labels])


def _one_piece(kernel: Array) -> bool:
    """Whether a dense kernel is connected, found by looking at as few of its rows as it takes."""
    reached = kernel[0] > 0
    waiting = reached.copy()
    while not reached.all():
        batch = np.flatnonzero(waiting)[:64]
        if not batch.size:
            return False
        waiting[batch] = False
        found = (kernel[batch] > 0).any(axis=0)
        waiting |= found & ~reached
        reached |= found
    return True
