"""What engines promise: nearest neighbours and leading eigenpairs, each as one function with one answer.

A neighbour engine is anything that is called as ``engine(x, k, queries=None)`` and returns `Neighbours`; the
package's own are `FaissNeighbours` and `TorchNeighbours`, and any other may be handed to `kernel_graph`:

>>> import numpy as np
>>> from harmonicalign.engines import Neighbours
>>> def brute_force(x, k, queries=None):
...     distances = np.linalg.norm((x if queries is None else queries)[:, None] - x[None], axis=2)
...     if queries is None:
...         np.fill_diagonal(distances, np.inf)  # a row is no neighbour of itself
...     indices = np.argsort(distances, axis=1)[:, :k]
...     return Neighbours(indices, np.take_along_axis(distances, indices, axis=1))
>>> from harmonicalign import kernel_graph
>>> graph = kernel_graph(np.random.default_rng(0).normal(size=(50, 3)), n_neighbors=5, neighbours=brute_force)

An eigen-solver is called as ``solver(operator, k, deflate=..., random_state=...)`` and returns `Eigenpairs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array

__all__ = ["EigenSolver", "Eigenpairs", "NeighbourEngine", "Neighbours", "check_k", "checked_neighbours"]


@dataclass(frozen=True)
class Neighbours:
    """Nearest rows of every query, nearest first.

    Attributes
    ----------
    indices
        Numbers of the rows that were found, (number of queries, k).
    distances
        Their distances, of the same shape, ascending in every row.
    recall
        Share of the true neighbours that were found; 1 where all pairs were compared.
    """

    __repr__ = short_repr

    indices: Any
    distances: Any
    recall: float = 1.0

    def __post_init__(self) -> None:
        shapes = tuple(np.shape(self.indices)), tuple(np.shape(self.distances))
        if len(shapes[0]) != 2 or shapes[0] != shapes[1]:
            raise ValueError(
                f"neighbours have indices of shape {shapes[0]} and distances of shape {shapes[1]}; "
                "expected (number of queries, k) for both"
            )
        if not 0 <= self.recall <= 1:
            raise ValueError(f"neighbours have a recall of {self.recall}; it is a share, from 0 to 1")

    @property
    def k(self) -> int:
        """Neighbours of each query."""
        return int(self.indices.shape[1])

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, queries: Any) -> Neighbours:
        """Neighbours of some of the queries."""
        return Neighbours(self.indices[queries], self.distances[queries], self.recall)


class NeighbourEngine(Protocol):
    """Finds nearest rows."""

    def __call__(self, x: Array, k: int, queries: Array | None = None) -> Neighbours:
        """The k rows of `x` nearest to each query.

        Parameters
        ----------
        x
            Rows to search, (n, d), in float32 or float64.
        k
            How many neighbours, from 1 to n (n − 1 without `queries`); other numbers are a ValueError.
        queries
            Rows to find neighbours of; None for the rows of `x`, each without itself. Rows that are equal to
            a query are found as any others, at distance 0.
        """


class Eigenpairs(NamedTuple):
    """Eigenvalues, largest first, and their eigenvectors as orthonormal columns; arrays of one kind."""

    values: Any
    vectors: Any


class EigenSolver(Protocol):
    """Finds the leading eigenpairs of a graph."""

    def __call__(
        self, operator: Any, k: int, *, deflate: sp.csr_matrix, random_state: np.random.RandomState
    ) -> Eigenpairs:
        """The k algebraically largest eigenpairs besides some known ones.

        Parameters
        ----------
        operator
            Symmetric, (n, n), spectrum within [−1, 1]; a plain array or a scipy CSR matrix.
        k
            How many pairs, at most n less the columns of `deflate`.
        deflate
            Orthonormal eigenvectors with eigenvalue 1, (n, c), which are left out of the answer.
        random_state
            Source of the start vectors; in the same state it leads to the same answer.
        """


def check_k(k: int, n: int, own: bool) -> None:
    """Refuse a number of neighbours that n rows do not have; `own` if they are their own queries."""
    if not 1 <= k <= n - own:
        raise ValueError(f"k must be between 1 and {n - own} for {n} rows, not {k}")


def checked_neighbours(engine: NeighbourEngine, x: Array, k: int, queries: Array | None = None) -> Neighbours:
    """Neighbours from an engine of any origin, as plain arrays, if they are what `NeighbourEngine` promises.

    Raises
    ------
    TypeError
        The engine returned something else than `Neighbours`.
    ValueError
        What it returned cannot be the neighbours asked for; the message says why.
    """
    name = getattr(engine, "__name__", type(engine).__name__)
    found = engine(x, k, queries)
    if not isinstance(found, Neighbours):
        raise TypeError(
            f"neighbour engine {name} returned {type(found).__name__}; "
            "expected harmonicalign.engines.Neighbours(indices, distances)"
        )
    indices, distances = np.asarray(found.indices), np.asarray(found.distances)
    shape = (len(x if queries is None else queries), k)
    wrong = ""
    if indices.shape != shape:
        wrong = f"neighbours of shape {indices.shape}; expected {shape}"
    elif indices.dtype.kind not in "iu":
        wrong = f"indices of type {indices.dtype}; expected whole numbers"
    elif indices.min() < 0 or indices.max() >= len(x):
        wrong = f"indices from {indices.min()} to {indices.max()} of {len(x)} rows"
    elif not np.isfinite(distances).all() or (distances < 0).any():
        wrong = "distances that are negative or not finite"
    elif (np.diff(distances, axis=1) < 0).any():
        wrong = "distances that do not ascend; sort each row of neighbours by distance"
    elif (np.diff(np.sort(indices, axis=1), axis=1) == 0).any():
        wrong = "the same row twice among the neighbours of one query"
    elif queries is None and (indices == np.arange(len(x))[:, None]).any():
        wrong = "rows as neighbours of themselves; leave each out where queries is None"
    if wrong:
        raise ValueError(f"neighbour engine {name} returned {wrong}")
    return Neighbours(indices.astype(np.int64, copy=False), distances.astype(np.float64), found.recall)
