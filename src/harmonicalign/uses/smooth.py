"""Averages over neighbouring rows of all datasets: denoising by diffusion, imputation across datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._repr import short_repr
from harmonicalign._typing import Array, Matrix, MatrixLike
from harmonicalign.engines.faiss_neighbours import FaissNeighbours
from harmonicalign.engines.threads import in_threads, owned, row_slices
from harmonicalign.evidence.confidence import row_confidence
from harmonicalign.inputs.validate import check_data, check_integer, check_rows

__all__ = [
    "Denoised",
    "Imputation",
    "balanced_transitions",
    "check_coordinates",
    "denoise",
    "impute",
    "plain",
    "row_trust",
]


_CHUNK_ENTRIES = 2_000_000
"""Number of entries in a chunk of columns: more leave the cache, and take twice as long."""

_PRODUCT_ROWS = 4096
"""Rows of a product with a sparse matrix that a thread computes at a time."""

_EXACT_ROWS = 10_000
"""Distances to the neighbours of more rows stay in single precision: weights change by 1e-6."""

_RECALL = 0.9
"""Share of the neighbours of so many rows that is found; a mean hardly notices those that are not."""

_MOST_STEPS = 10_000
"""Maximum number of diffusion steps."""

_DOUBT = (0.7, 0.9)
"""Confidence at which the weight of a row is 0, and at which it is 1; linear in between."""


@dataclass(frozen=True)
class Denoised:
    """Values after `t` steps of diffusion, (n, d), dense."""

    __repr__ = short_repr

    values: Array
    t: int


@dataclass(frozen=True)
class Imputation:
    """Values for rows in which they were not measured, with their accuracy.

    Attributes
    ----------
    values
        (n_target, d), dense.
    correlation, rmse
        For every feature, correlation and root mean square error between the values of the source and their
        prediction from its other rows. They hold for targets as close to the rows of the source as those are
        to each other. The correlation of a constant feature is NaN.
    """

    __repr__ = short_repr

    values: Array
    correlation: Array
    rmse: Array


@owned()
def balanced_transitions(
    coordinates: Sequence[Array], *, confidence: Sequence[Array] | None = None, n_neighbors: int = 10
) -> sp.csr_matrix:
    """Diffusion operator on the rows of all datasets in which every dataset has equal weight.

    On an ordinary neighbour graph, neighbours are mostly of the same dataset wherever a difference remains,
    and diffusion preserves it. Here each pair of datasets has its own Gaussian kernel of nearest neighbours,
    balanced (Sinkhorn) so that all rows contribute in proportion to their confidence: if datasets are samples
    of one population, their means then agree after a single step. The lower the confidence of a row, the
    less weight it puts on other datasets.

    Parameters
    ----------
    coordinates
        Joint coordinates of the rows of every dataset.
    confidence
        Confidence of each row, in [0, 1]; by default `row_confidence`.
    n_neighbors
        Neighbours in each dataset.

    Returns
    -------
    transitions
        (n, n) for the rows of all datasets, one dataset after another; rows sum to one.
    """
    places = check_coordinates(coordinates)
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    weights = row_trust(confidence, places)
    n = len(places)
    blocks: list[list[Any]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            there = _kernel(places[j], places[i], n_neighbors)
            kernel = there + (there if i == j else _kernel(places[i], places[j], n_neighbors)).T
            masses = [weights[i], weights[j]] if i != j else [np.ones(len(places[i]))] * 2
            balanced = _sinkhorn(kernel, *masses)
            blocks[j][i] = _scaled(_stochastic(balanced.T), weights[j] / n)
            blocks[i][j] = _scaled(
                _stochastic(balanced), weights[i] / n if i != j else 1 - weights[i] * (n - 1) / n
            )
    return sp.csr_matrix(sp.block_array(blocks, format="csr"))


@owned()
def denoise(values: MatrixLike, transitions: Matrix, *, t: int | str = "auto", max_t: int = 20) -> Denoised:
    """Low-pass filter of columns: each row becomes its expected value after t steps of diffusion.

    Parameters
    ----------
    values
        (n, d), dense or sparse. The result is dense, so choose columns if there are many.
    transitions
        (n, n), rows sum to one: from `balanced_transitions`, or ``Graph.transitions``.
    t
        Number of steps. "auto" is the first step that changes the columns by at most 5 % of their variation
        after one step (root mean squares over at most 100 columns, each scaled to variance 1).
    max_t
        Maximum number of steps for "auto".

    Returns
    -------
    denoised
        Values and the number of steps.
    """
    matrix = check_data("values", values)
    n, d = matrix.shape
    if transitions.shape != (n, n):
        raise ValueError(
            f"transitions has shape {transitions.shape} but values has {n} rows; stack the values of all "
            "datasets in the order of the coordinates that the transitions were built on"
        )
    if isinstance(t, str) and t == "auto":
        t = _diffusion_time(matrix, transitions, check_integer("max_t", max_t, minimum=1))
    t = check_integer("t", t, maximum=_MOST_STEPS)
    out = np.empty((n, d), dtype=matrix.dtype)
    by_column = matrix.tocsc() if sp.issparse(matrix) else matrix
    transitions = transitions.astype(matrix.dtype, copy=False)  # half the bytes for single precision
    for columns in _even_chunks(d, n):
        block = plain(by_column[:, columns])
        for _ in range(t):
            block = _product(transitions, block)
        out[:, columns] = block
    return Denoised(values=out, t=t)


@owned()
def impute(values: MatrixLike, source: Array, target: Array, *, n_neighbors: int = 15) -> Imputation:
    """Unmeasured features of the target, predicted from neighbouring rows of the source in the common space.

    Parameters
    ----------
    values
        Features of the rows of the source, (n_source, d), dense or sparse. The result is dense.
    source, target
        Joint coordinates of the rows of the two datasets.
    n_neighbors
        Number of rows of the source to average over, with Gaussian weights.

    Returns
    -------
    imputation
        Values for the target, and the error of predicting each row of the source from the others.
    """
    matrix = check_data("values", values)
    n, d = matrix.shape
    source, target = check_coordinates([source, target], names=["source", "target"])
    if n != len(source):
        raise ValueError(f"values has {n} rows but source has {len(source)}; pass one for each")
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1, maximum=n - 1)
    weights = _stochastic(_kernel(source, target, n_neighbors))
    held_out = _stochastic(_kernel(source, None, n_neighbors))
    out = np.empty((len(target), d), dtype=matrix.dtype)
    correlation, rmse = np.full(d, np.nan), np.empty(d)
    by_column = matrix.tocsc() if sp.issparse(matrix) else matrix
    for columns in _even_chunks(d, max(n, len(target))):
        truth = plain(by_column[:, columns]).astype(np.float64)
        found = _product(held_out, truth)
        out[:, columns] = _product(weights, truth)
        rmse[columns] = np.sqrt(np.mean((found - truth) ** 2, axis=0))
        spread = found.std(axis=0) * truth.std(axis=0)
        covariance = np.mean((found - found.mean(axis=0)) * (truth - truth.mean(axis=0)), axis=0)
        np.divide(covariance, spread, out=correlation[columns], where=spread > 0)
    return Imputation(values=out, correlation=correlation, rmse=rmse)


def _kernel(rows: Array, queries: Array | None, k: int) -> sp.csr_matrix:
    """Gaussian weights of the k nearest rows of each query; without queries, of the nearest other rows."""
    k = min(k, len(rows) - (queries is None))
    n_queries = len(rows if queries is None else queries)
    engine = FaissNeighbours() if n_queries <= _EXACT_ROWS else FaissNeighbours(exact=False, recall=_RECALL)
    near = engine(rows, k, queries)
    distances, indices = near.distances, near.indices
    scale = np.maximum(distances[:, -1:], np.finfo(np.float64).tiny)
    weights = np.exp(-((distances / scale) ** 2))
    indptr = np.arange(0, weights.size + 1, k)
    return sp.csr_matrix((weights.ravel(), indices.ravel(), indptr), shape=(len(distances), len(rows)))


def _product(matrix: Matrix, block: Array) -> Array:
    """A product with a dense block, in threads."""
    if not sp.issparse(matrix):
        return np.asarray(matrix @ block)
    rows, block = sp.csr_matrix(matrix), np.ascontiguousarray(block)  # else copied for every part
    out = np.empty((rows.shape[0], block.shape[1]), dtype=np.result_type(rows.dtype, block.dtype))

    def fill(some: slice) -> None:
        out[some] = rows[some] @ block

    in_threads(fill, row_slices(len(out), 1, block_bytes=_PRODUCT_ROWS))
    return out


def _sinkhorn(kernel: sp.csr_matrix, row_mass: Array, column_mass: Array, n_steps: int = 20) -> sp.csr_matrix:
    """The kernel with its rows and columns scaled so that their sums are proportional to the masses."""
    kernel, back = sp.csr_matrix(kernel), sp.csr_matrix(kernel.T)
    row_mass, column_mass = row_mass / row_mass.sum(), column_mass / column_mass.sum()
    u = np.ones(len(row_mass))
    for _ in range(n_steps):
        v = column_mass / np.maximum(back @ u, 1e-300)
        u = row_mass / np.maximum(kernel @ v, 1e-300)
    return _scaled(_scaled(kernel, u).T, v).T


def _stochastic(kernel: sp.csr_matrix) -> sp.csr_matrix:
    return _scaled(kernel, 1 / np.asarray(kernel.sum(axis=1)).ravel())


def _scaled(matrix: sp.csr_matrix, by: Array) -> sp.csr_matrix:
    return sp.csr_matrix(sp.diags_array(by) @ matrix)


def _diffusion_time(matrix: Matrix, transitions: Matrix, max_t: int) -> int:
    some = np.unique(np.linspace(0, matrix.shape[1] - 1, min(100, matrix.shape[1])).astype(np.int64))
    block = plain(matrix[:, some])
    scale = block.std(axis=0)
    block = block[:, scale > 0] / scale[scale > 0]
    after = _product(transitions, block)
    variation = np.linalg.norm(after - after.mean(axis=0))
    for t in range(2, max_t + 1):
        block, after = after, _product(transitions, after)
        if np.linalg.norm(after - block) <= 0.05 * variation:
            return t
    return max_t


def _even_chunks(d: int, n: int) -> Iterator[slice]:
    step = max(1, _CHUNK_ENTRIES // n)
    for start in range(0, d, step):
        yield slice(start, min(d, start + step))


def plain(block: Matrix) -> Array:
    """A dense or sparse matrix as a dense array."""
    return np.asarray(block.toarray() if sp.issparse(block) else block)


def check_coordinates(
    coordinates: Sequence[Array], n_rows: Sequence[int] | None = None, names: Sequence[str] | None = None
) -> list[Array]:
    """Joint coordinates of every dataset as dense arrays with equally many columns."""
    names = names or [f"coordinates[{i}]" for i in range(len(coordinates))]
    places = [plain(check_rows(n, z)).astype(np.float64) for n, z in zip(names, coordinates, strict=True)]
    if not places:
        raise ValueError("coordinates is empty; pass the joint coordinates of every dataset")
    found = [len(z) for z in places]
    if n_rows is not None and list(n_rows) != found:
        raise ValueError(f"signals have {list(n_rows)} rows but coordinates {found}; pass the same datasets")
    if len({z.shape[1] for z in places}) > 1:
        widths = [z.shape[1] for z in places]
        raise ValueError(f"{' and '.join(names)} have {widths} columns; pass coordinates in one joint space")
    return places


def row_trust(confidence: Sequence[Array] | None, coordinates: Sequence[Array]) -> list[Array]:
    """Weight of every row, in (0, 1], from its confidence."""
    given = row_confidence(coordinates) if confidence is None else confidence
    arrays = [np.asarray(c, dtype=np.float64) for c in given]
    expected = [(len(z),) for z in coordinates]
    if [c.shape for c in arrays] != expected:
        raise ValueError(
            f"confidence has shapes {[c.shape for c in arrays]}; expected one per row, {expected}"
        )
    if not all(((c >= 0) & (c <= 1)).all() for c in arrays):
        raise ValueError("confidence must lie in [0, 1]; pass what `row_confidence` returns")
    low, high = _DOUBT
    return [np.clip((c - low) / (high - low), 1e-6, 1) for c in arrays]
