r"""Rows to a graph: neighbours, an adaptive kernel, anisotropy, degrees (Eqn. 1, Alg. GaussKernelGraph).

.. math::
    G_{ij} = \tfrac12\left(e^{-(d_{ij}/ε_i)^a} + e^{-(d_{ij}/ε_j)^a}\right), \qquad
    K_{ij} = \frac{G_{ij}}{g_i^q\, g_j^q}, \quad g_i = \sum_j G_{ij}, \qquad
    D_{ii} = \sum_j K_{ij}

A constant bandwidth ``ε = √σ`` with ``a = 2`` and ``q = 1`` is exactly Eqn. 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, Matrix
from harmonicalign.engines.distances import all_distances
from harmonicalign.engines.faiss_neighbours import FaissNeighbours
from harmonicalign.engines.protocols import NeighbourEngine, Neighbours, checked_neighbours
from harmonicalign.engines.rows import heaviest_first, kernel_weights, positive_bandwidths
from harmonicalign.inputs.validate import check_integer, check_number, check_rows
from harmonicalign.paper.kernels import (
    bandwidths,
    checked_affinity,
    dense_kernel,
    kernel_from_distances,
    kth_smallest,
    row_sums,
    sparse_kernel,
)

__all__ = ["Graph", "kernel_graph"]


EXACT_ROWS = 10_000
"""Up to this many rows the kernel uses all pairs; above it, nearest neighbours."""


@dataclass(frozen=True)
class Graph:
    """A weighted graph over the rows of one dataset.

    Attributes
    ----------
    kernel
        The kernel K after anisotropic normalisation, (n, n), symmetric; CSR or dense.
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

    __repr__ = short_repr

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

    def extend(self, x: Any, *, power: int = 1, neighbours: NeighbourEngine | None = None) -> sp.csr_matrix:
        """Transition probabilities from new rows to the rows of the graph.

        A new row gets a bandwidth, kernel weights and anisotropic normalisation by the rule that
        the graph's own rows had; then its weights are made to sum to one.

        Parameters
        ----------
        x
            New rows, (m, d), with the columns the graph was built on.
        power
            Power of the weights before they are made to sum to one; above 1 the nearest rows weigh more.
        neighbours
            What finds the nearest rows; give the engine that the graph was built with, if there was one.

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
        found = _search(neighbours, self.rows, k, new)
        distances, indices = found.distances, found.indices
        assert self.bandwidth is not None
        if self.n_neighbors is None:
            own = np.broadcast_to(np.median(self.bandwidth), len(new))[:, None]
        else:
            own = positive_bandwidths(distances[:, : self.n_neighbors])[:, None]
        weights = kernel_weights(distances, own, self.bandwidth[indices], self.decay)
        # The nearest row always counts, so that a row far from all others still has a neighbour.
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
    neighbours: NeighbourEngine | None = None,
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
        q in [0, 1]: 1 divides the sampling density out, 0 keeps it.
    metric
        "euclidean", or "distance" / "affinity" when `x` is a precomputed symmetric matrix. In a
        sparse distance matrix an absent entry is an unknown, large distance; in a sparse
        affinity matrix it is 0.
    max_neighbors
        Number of nearest rows considered for each row. By default all of them up to 10,000 rows (which
        makes the kernel exact), and five times `n_neighbors` above or if `neighbours` is given.
    neighbours
        What finds each row's nearest rows: a function of the rows, how many, and queries, that returns
        `harmonicalign.engines.Neighbours` (see `harmonicalign.engines.NeighbourEngine`). By default the
        package's own search.

    Returns
    -------
    graph
        The kernel, its degrees and its connected components.
    """
    decay = check_number("decay", decay, above=0)
    thresh = check_number("thresh", thresh, minimum=0, maximum=0.5)
    anisotropy = check_number("anisotropy", anisotropy, minimum=0, maximum=1)
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    _check_choices(bandwidth, metric, neighbours)
    matrix = check_rows("x", x, min_rows=3)
    n = matrix.shape[0]
    most = default_neighbours(n, n_neighbors, EXACT_ROWS if neighbours is None else 0)
    most = check_integer("max_neighbors", most if max_neighbors is None else max_neighbors, minimum=1)
    max_neighbors = min(n - 1, most)
    if isinstance(bandwidth, str):
        if metric != "affinity" and n_neighbors > n - 1:
            raise ValueError(f"n_neighbors is {n_neighbors} but each row has only {n - 1} others; lower it")
        max_neighbors = max(max_neighbors, n_neighbors)

    rows: Array | None = None
    eps: Array | None = None
    near: Neighbours | None = None
    if metric == "affinity":
        kernel = checked_affinity(matrix)
    elif metric == "distance":
        kernel, eps = kernel_from_distances(matrix, n_neighbors, bandwidth, decay, thresh)
    else:
        rows = matrix.toarray() if sp.issparse(matrix) else matrix
        if neighbours is not None or max_neighbors < n - 1:
            near = _search(neighbours, rows, max_neighbors)
        kernel, eps = _kernel_of_rows(rows, near, n_neighbors, bandwidth, decay, thresh)

    density = row_sums(kernel)
    if anisotropy > 0:
        kernel = _scale(kernel, density**-anisotropy)
    degrees = row_sums(kernel)
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
        recall=1.0 if near is None else near.recall,
    )


def _check_choices(bandwidth: Any, metric: str, neighbours: NeighbourEngine | None) -> None:
    """Refuse words that stand for nothing, and a search where there is nothing to search."""
    if isinstance(bandwidth, str) and bandwidth != "knn":
        raise ValueError(f"bandwidth is {bandwidth!r}; expected 'knn', a number, an array or a function")
    if metric not in ("euclidean", "distance", "affinity"):
        raise ValueError(f"metric is {metric!r}; expected 'euclidean', 'distance' or 'affinity'")
    if neighbours is not None and metric != "euclidean":
        raise ValueError(f"neighbours are found among rows, and with metric={metric!r} there are none")


def default_neighbours(n: int, n_neighbors: int, exact_rows: int = EXACT_ROWS) -> int:
    """How many nearest rows each of n rows looks at: all others up to `exact_rows` rows, some above."""
    return n - 1 if n <= exact_rows else 5 * n_neighbors


def own_search(n_queries: int) -> FaissNeighbours:
    """The package's own search for the neighbours of so many rows."""
    return FaissNeighbours(exact=n_queries <= EXACT_ROWS)


def _kernel_of_rows(
    rows: Array, near: Neighbours | None, n_neighbors: int, bandwidth: Any, decay: float, thresh: float
) -> tuple[Matrix, Array]:
    """The kernel over rows and their neighbours, or over all pairs if `near` is None, and the bandwidths."""
    if near is None:
        distances = all_distances(rows)
        eps = bandwidths(bandwidth, rows, len(rows), lambda: kth_smallest(distances, n_neighbors))
        return dense_kernel(distances, eps, decay, thresh), eps
    nearest = near.distances[:, :n_neighbors]
    eps = bandwidths(bandwidth, rows, len(rows), lambda: np.asarray(positive_bandwidths(nearest)))
    return sparse_kernel(near, eps, decay, thresh), eps


def _search(engine: NeighbourEngine | None, rows: Array, k: int, queries: Array | None = None) -> Neighbours:
    """Neighbours from the user's engine, checked, or from our own, whose answers have tests instead."""
    if engine is None:
        return own_search(len(rows if queries is None else queries))(rows, k, queries)
    return checked_neighbours(engine, rows, k, queries)


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


def _components(kernel: Matrix, degrees: Array) -> Array:
    """Component numbers, the heaviest component first."""
    if sp.issparse(kernel):
        labels = connected_components(kernel, directed=False)[1]
    elif _one_piece(kernel):
        return np.zeros(len(degrees), dtype=np.int64)
    else:
        labels = connected_components(sp.csr_matrix(kernel), directed=False)[1]
    return heaviest_first(labels, degrees)


def _one_piece(kernel: Array) -> bool:
    """Whether a dense kernel is connected, visiting as few rows as necessary."""
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
