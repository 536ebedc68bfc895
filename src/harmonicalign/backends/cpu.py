"""Neighbours and eigenpairs on the CPU: faiss for the former, LAPACK and ARPACK for the latter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh, lobpcg
from threadpoolctl import threadpool_limits

__all__ = ["all_distances", "leading_eigenpairs", "nearest", "row_distances"]

Array = np.ndarray[Any, Any]

_BLOCK_BYTES = 2**27
"""Temporary arrays are built in blocks of rows of about this size."""

EXACT_PAIRS = 4e8
"""Up to this many pairs of rows are compared with each other; beyond, an inverted file is searched."""

SINGLE_EIGEN_ROWS = 2000
"""Plain matrices with more rows are iterated on in single precision, and the result polished."""

DENSE_EIGEN_ROWS = 800
"""Below this many rows LAPACK beats ARPACK even for a handful of eigenpairs (measured)."""


def _unit_scale(*arrays: Array) -> float:
    """Largest magnitude in `arrays`, or 1: dividing by it keeps squares within range."""
    largest = max((float(np.max(np.abs(a))) for a in arrays if a.size), default=0.0)
    return largest if largest > 0 else 1.0


def all_distances(x: Array, y: Array | None = None) -> Array:
    """Euclidean distances between all rows of `x` and `y` (or `x` itself), in float64.

    The quick form ‖x‖² + ‖y‖² − 2⟨x, y⟩ loses all digits where two rows almost coincide, so those
    few pairs are computed again from their differences: equal rows are at distance exactly 0.
    """
    same = y is None
    x = np.asarray(x, dtype=np.float64)
    y = x if y is None else np.asarray(y, dtype=np.float64)
    scale = _unit_scale(x, y)
    centre = (x / scale).mean(axis=0)
    xs = x / scale - centre
    ys = xs if same else y / scale - centre
    x_norms = np.einsum("ij,ij->i", xs, xs)
    y_norms = x_norms if same else np.einsum("ij,ij->i", ys, ys)
    squared = xs @ ys.T
    squared *= -2
    squared += x_norms[:, None]
    squared += y_norms[None, :]
    for start, stop in _row_blocks(len(xs), 9 * len(ys)):
        block = squared[start:stop]
        close_i, close_j = np.nonzero(block <= 1e-9 * (x_norms[start:stop, None] + y_norms[None, :]))
        difference = xs[close_i + start] - ys[close_j]
        block[close_i, close_j] = np.einsum("ij,ij->i", difference, difference)
    np.sqrt(squared, out=squared)
    if same:
        np.fill_diagonal(squared, 0.0)
    squared *= scale
    return np.asarray(squared)


def _row_blocks(n_rows: int, bytes_per_row: int) -> list[tuple[int, int]]:
    """Ranges of rows whose temporaries stay near `_BLOCK_BYTES`."""
    step = max(1, _BLOCK_BYTES // max(1, bytes_per_row))
    return [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def nearest(x: Array, k: int, queries: Array | None = None, *, exact: bool = True) -> tuple[Array, Array]:
    """The k nearest rows of `x` for each query row, nearest first: distances and indices.

    All pairs are compared while that is quick; beyond `EXACT_PAIRS` an inverted file finds about 99 %
    of the true neighbours in a fraction of the time.

    Parameters
    ----------
    x
        Rows to search, (n, d).
    k
        How many neighbours, at most n (n − 1 without `queries`).
    queries
        Rows to find neighbours of. By default the rows of `x` themselves, each without itself.
    exact
        True computes the distances of the neighbours found again in float64, exactly 0 for equal
        rows; False leaves them at the search's single precision, which is much quicker.

    Returns
    -------
    distances, indices
        Both (number of queries, k).
    """
    scale = _unit_scale(x) if queries is None else _unit_scale(x, queries)
    centre = (x / scale).mean(axis=0)
    base = np.ascontiguousarray(x / scale - centre, dtype=np.float32)
    if queries is not None:
        sought = np.ascontiguousarray(queries / scale - centre, dtype=np.float32)
        squared, indices = _search(base, sought, k)
    else:
        queries = x
        # One more than asked for, because a row finds itself; equal rows may hide it, hence the mask.
        squared, found = _search(base, base, min(k + 1, len(x)))
        other = found != np.arange(len(x))[:, None]
        crowded = other.all(axis=1)
        other[crowded, -1] = False
        indices = found[other].reshape(len(x), -1)[:, :k]
        squared = squared[other].reshape(len(x), -1)[:, :k]
    if not exact:
        return np.sqrt(np.maximum(squared, 0), dtype=np.float64) * scale, indices
    distances = row_distances(queries, x, indices)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)


def _search(base: Array, sought: Array, k: int) -> tuple[Array, Array]:
    """Squared distances and numbers of the k nearest rows of `base`, in single precision."""
    import faiss

    flat = faiss.IndexFlatL2(base.shape[1])
    if len(base) * len(sought) <= EXACT_PAIRS or len(base) < 5000:
        flat.add(base)
        squared, found = flat.search(sought, k)
        return squared, found
    n_lists = int(len(base) ** 0.5)
    index = faiss.IndexIVFFlat(flat, base.shape[1], n_lists)
    # The lists are found on a sample; faiss wants at least 39 rows for each and uses at most 256.
    index.train(base[np.random.RandomState(0).permutation(len(base))[: 64 * n_lists]])
    index.add(base)
    index.nprobe = int(np.clip(n_lists // 8, 8, 40))
    squared, found = index.search(sought, k)
    short = np.flatnonzero(found[:, -1] < 0)
    if short.size:
        # Near the edge of the data the lists searched may hold fewer than k rows.
        whole = faiss.IndexFlatL2(base.shape[1])
        whole.add(base)
        squared[short], found[short] = whole.search(sought[short], k)
    return squared, found


def row_distances(queries: Array, x: Array, indices: Array) -> Array:
    """Distances from each query to the rows of `x` that its row of `indices` names, in float64."""
    scale = _unit_scale(queries, x)
    out = np.empty(indices.shape, dtype=np.float64)
    for start, stop in _row_blocks(len(queries), 8 * indices.shape[1] * x.shape[1]):
        neighbours = x[indices[start:stop]].astype(np.float64)
        neighbours -= queries[start:stop, None, :]
        neighbours /= scale
        out[start:stop] = np.sqrt(np.einsum("ijk,ijk->ij", neighbours, neighbours))
    out *= scale
    return out


def leading_eigenpairs(
    operator: Any,
    k: int,
    *,
    deflate: sp.csr_matrix,
    random_state: np.random.RandomState,
) -> tuple[Array, Array]:
    """The k algebraically largest eigenpairs of a symmetric operator, largest first.

    Parameters
    ----------
    operator
        Symmetric (n, n), spectrum within [−1, 1].
    k
        How many pairs, at most n less the columns of `deflate`.
    deflate
        Orthonormal eigenvectors with eigenvalue 1, (n, c), which are left out of the answer.
        They are moved to eigenvalue −1, below everything else, rather than to 0, where they
        would stand amid the spectrum that a full decomposition asks for.
    random_state
        Source of the start vectors.
    """
    n = operator.shape[0]
    if k == 0:
        return np.empty(0), np.empty((n, 0))
    if n <= DENSE_EIGEN_ROWS or k > n // 3:
        dense = operator.toarray() if sp.issparse(operator) else np.array(operator)
        dense -= 2 * (deflate @ deflate.T).toarray()
        values, vectors = scipy.linalg.eigh(dense, subset_by_index=[n - k, n - 1], overwrite_a=True)
        return values[::-1], vectors[:, ::-1]

    def apply(v: Array) -> Array:
        return np.asarray(operator @ v - 2 * (deflate @ (deflate.T @ v)))

    linear = LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)
    # ARPACK makes many small calls of BLAS; waking threads for each costs more than they bring.
    with threadpool_limits(1, user_api="blas"):
        if sp.issparse(operator) or n <= SINGLE_EIGEN_ROWS:
            values, vectors = _iterate(linear, apply, k, random_state)
        else:
            values, vectors = _iterate_single(operator, deflate, k, random_state)
    if vectors.dtype == np.float32:
        values, vectors = _polish(vectors.astype(np.float64), apply)
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]


def _iterate_single(
    operator: Array, deflate: sp.csr_matrix, k: int, random_state: np.random.RandomState
) -> tuple[Array, Array]:
    """The same in single precision: a product with a large plain matrix is bound by its bytes."""
    single, aside = operator.astype(np.float32), deflate.astype(np.float32)

    def apply(v: Array) -> Array:
        return np.asarray(single @ v - 2 * (aside @ (aside.T @ v)), dtype=np.float32)

    linear = LinearOperator(operator.shape, matvec=apply, matmat=apply, dtype=np.float32)
    return _iterate(linear, apply, k, random_state)


def _polish(vectors: Array, apply: Callable[[Array], Array]) -> tuple[Array, Array]:
    """One step of subspace iteration and a Rayleigh-Ritz projection in double precision.

    The error of the eigenvalues is the square of that of the vectors, so they come out exact; the
    vectors keep a residual of about 1e-6 next to the last one and less for those before.
    """
    basis = scipy.linalg.qr(apply(vectors), mode="economic")[0]
    values, turn = scipy.linalg.eigh(basis.T @ apply(basis))
    return values, basis @ turn


def _iterate(
    linear: LinearOperator, apply: Callable[[Array], Array], k: int, random_state: np.random.RandomState
) -> tuple[Array, Array]:
    """ARPACK; with a larger subspace if that fails; then LOBPCG; then a clear error."""
    n = linear.shape[0]
    for subspace in (2 * k + 1, 4 * k + 20):
        try:
            values, vectors = eigsh(
                linear,
                k,
                which="LA",
                v0=random_state.uniform(-1, 1, n).astype(linear.dtype),
                ncv=min(n - 1, max(subspace, 20)),
                maxiter=max(1000, 50 * k),
            )
        except (ArpackNoConvergence, ArpackError):
            continue
        return values, vectors
    start = random_state.uniform(-1, 1, (n, k))
    values, vectors = lobpcg(linear, start, tol=1e-8, maxiter=500)
    residual = float(np.max(np.linalg.norm(apply(vectors) - vectors * values, axis=0)))
    if residual > 1e-4:
        raise RuntimeError(
            f"no eigensolver converged on a graph of {n} rows (residual {residual:.1e} for {k} harmonics); "
            "ask for fewer harmonics (n_harmonics) or raise n_neighbors"
        )
    return values, vectors
