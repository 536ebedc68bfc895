"""Neighbours and eigenpairs on the CPU: faiss for the former, LAPACK and ARPACK for the latter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh, lobpcg
from threadpoolctl import threadpool_limits

from harmonicalign._typing import Array
from harmonicalign.engines.block import block_eigenpairs, threads
from harmonicalign.engines.chebyshev import NotConvergedError

__all__ = [
    "Neighbours",
    "all_distances",
    "in_threads",
    "leading_eigenpairs",
    "nearest",
    "nearest_rows",
    "row_distances",
    "row_slices",
]

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger("harmonicalign")

_BLOCK_BYTES = 2**27
"""Temporary arrays are built in blocks of rows of about this size."""

EXACT_PAIRS = 1e8
"""Up to this many pairs of rows are compared with each other; beyond, an inverted file is searched."""

RECALL = 0.96
"""Share of the true neighbours that an inverted file is made to find."""

_FEW_ROWS = 1000
"""Fewer rows than this are all compared, however many queries there are: lists of them would be too short."""

_PROBED_QUERIES = 256

_HUGE = 1e150
"""Numbers beyond this are scaled before they are added up."""

BLOCK_EIGEN_ROWS = 3000
"""Sparse operators with more rows are iterated on by blocks in single precision (measured)."""

BLOCK_TOL = 1e-5
"""Residual of the eigenpairs then; the eigenvalues are exact to the square of it over their gaps."""

LARGE_ROWS, LARGE_TOL = 20_000, 1e-3
"""Above so many rows the residual may be larger: pairs lie so close that only their span matters."""

SINGLE_EIGEN_ROWS = 2000
"""Plain matrices with more rows are iterated on in single precision, and the result polished."""

RESCUE_ROWS = 4000
"""Up to so many rows LAPACK takes over where ARPACK does not get on; it needs seconds, ARPACK minutes."""

DENSE_EIGEN_ROWS = 800
"""Below this many rows LAPACK beats ARPACK even for a handful of eigenpairs (measured)."""


def _unit_scale(*arrays: Array) -> float:
    """Largest magnitude in `arrays`, or 1: dividing by it keeps squares within range."""
    largest = max((max(float(a.max()), -float(a.min())) for a in arrays if a.size), default=0.0)
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
    for rows in row_slices(len(xs), 9 * len(ys)):
        block = squared[rows]
        close_i, close_j = np.nonzero(block <= 1e-9 * (x_norms[rows, None] + y_norms[None, :]))
        difference = xs[close_i + rows.start] - ys[close_j]
        block[close_i, close_j] = np.einsum("ij,ij->i", difference, difference)
    np.sqrt(squared, out=squared)
    if same:
        np.fill_diagonal(squared, 0.0)
    squared *= scale
    return np.asarray(squared)


def row_slices(n_rows: int, bytes_per_row: int) -> list[slice]:
    """Slices of rows whose temporaries stay near `_BLOCK_BYTES`."""
    step = max(1, _BLOCK_BYTES // max(1, bytes_per_row))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def in_threads(work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """What `work` gives for each part, in as many threads as we may use; for large operations of numpy."""
    if len(parts) == 1:
        return [work(parts[0])]
    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(work, parts))


class Neighbours(NamedTuple):
    """Nearest rows of every query, nearest first."""

    distances: Array
    indices: Array
    recall: float
    """Share of the true neighbours that were found; 1 where all pairs were compared."""


def nearest(x: Array, k: int, queries: Array | None = None, *, exact: bool = True) -> tuple[Array, Array]:
    """Distances and indices of `nearest_rows`."""
    found = nearest_rows(x, k, queries, exact=exact)
    return found.distances, found.indices


def nearest_rows(x: Array, k: int, queries: Array | None = None, *, exact: bool = True) -> Neighbours:
    """The k nearest rows of `x` for each query row, nearest first.

    All pairs are compared while that is quick; beyond `EXACT_PAIRS` an inverted file is searched, deep
    enough to find `RECALL` of the true neighbours of a sample of the queries.

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
    neighbours
        Distances and indices, both (number of queries, k), and the recall measured.
    """
    base, scale, centre = _single(x, x if queries is None else queries)
    if queries is not None:
        sought = _shifted(queries, scale, centre)
        squared, indices, recall = _search(base, sought, k)
    else:
        queries = x
        # One more than asked for, because a row finds itself; equal rows may hide it, hence the mask.
        squared, found, recall = _search(base, base, min(k + 1, len(x)))
        other = found != np.arange(len(x))[:, None]
        crowded = other.all(axis=1)
        other[crowded, -1] = False
        indices = found[other].reshape(len(x), -1)[:, :k]
        squared = squared[other].reshape(len(x), -1)[:, :k]
    if not exact:
        return Neighbours(np.sqrt(np.maximum(squared, 0), dtype=np.float64) * scale, indices, recall)
    distances = row_distances(queries, x, indices)
    order = np.argsort(distances, axis=1, kind="stable")
    return Neighbours(
        np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1), recall
    )


def _single(x: Array, queries: Array) -> tuple[Array, float, Array]:
    """Rows in single precision, scaled and centred so that its digits are spent on differences."""
    scale = _unit_scale(x) if queries is x else _unit_scale(x, queries)
    x = _with_room(x, scale)
    centre = x.mean(axis=0, dtype=np.float64) / scale if scale < _HUGE else (x / scale).mean(axis=0)
    return _shifted(x, scale, centre), scale, centre


def _with_room(x: Array, scale: float) -> Array:
    """Rows in a type that can hold the scale; that of the queries may be beyond single precision."""
    return x if scale <= float(np.finfo(x.dtype).max) else x.astype(np.float64)


def _shifted(x: Array, scale: float, centre: Array) -> Array:
    x = _with_room(x, scale)
    out = np.empty(x.shape, dtype=np.float32)

    def fill(rows: slice) -> None:
        out[rows] = x[rows] / scale - centre

    in_threads(fill, row_slices(len(x), 16 * x.shape[1]))
    return out


def _search(base: Array, sought: Array, k: int) -> tuple[Array, Array, float]:
    """Squared distances and numbers of the k nearest rows of `base`, in single precision, and the recall."""
    import faiss
    from faiss.contrib import ivf_tools

    tools: Any = ivf_tools  # not typed
    if len(base) * len(sought) <= EXACT_PAIRS or len(base) < _FEW_ROWS:
        flat = faiss.IndexFlatL2(base.shape[1])
        flat.add(base)
        squared, found = flat.search(sought, k)
        return squared, found, 1.0
    rng = np.random.RandomState(0)
    own = sought is base
    base, sought = _without_empty_directions(base, sought, rng)
    n_lists = int(max(2 * len(base) ** 0.5, len(base) / 200))
    quantizer = faiss.IndexFlatL2(base.shape[1])
    index = faiss.IndexIVFFlat(quantizer, base.shape[1], n_lists)
    index.cp.niter, index.cp.min_points_per_centroid = 4, 1
    index.train(base[rng.randint(len(base), size=min(len(base), 16 * n_lists))])
    lists = _nearest_list(quantizer, base)
    tools.add_preassigned(index, base, lists)
    recall = _probe_deep_enough(index, base, sought[rng.randint(len(sought), size=_PROBED_QUERIES)], k)
    logger.info(
        "neighbours: inverted file of %d lists, %d searched, recall %.3f", n_lists, index.nprobe, recall
    )
    # Queries of one list after each other scan the same lists, which are then still in the cache.
    order = np.argsort(lists if own else _nearest_list(quantizer, sought), kind="stable")
    squared, found = np.empty((len(sought), k), np.float32), np.empty((len(sought), k), np.int64)
    for rows in row_slices(len(sought), 4 * (sought.shape[1] + 3 * k)):
        some = order[rows]
        squared[some], found[some] = index.search(sought[some], k)
    short = np.flatnonzero(found[:, -1] < 0)
    if short.size:
        # Near the edge of the data the lists searched may hold fewer than k rows.
        whole = faiss.IndexFlatL2(base.shape[1])
        whole.add(base)
        squared[short], found[short] = whole.search(sought[short], k)
    return squared, found, recall


def _without_empty_directions(base: Array, sought: Array, rng: np.random.RandomState) -> tuple[Array, Array]:
    """The same rows in fewer columns, where some directions hold nothing: distances stay as they are."""
    some = base[rng.randint(len(base), size=20_000)].astype(np.float64)
    some -= some.mean(axis=0)
    variances, axes = scipy.linalg.eigh(some.T @ some)
    kept = int((variances > 1e-7 * variances[-1]).sum())
    if kept == 0 or kept > 0.9 * base.shape[1]:
        return base, sought
    turn = np.ascontiguousarray(axes[:, -kept:], dtype=np.float32)
    turned = base @ turn
    return turned, turned if sought is base else sought @ turn


def _nearest_list(quantizer: Any, rows: Array) -> Array:
    """Number of the list whose centre is nearest to each row."""
    parts = [quantizer.search(rows[some], 1)[1][:, 0] for some in row_slices(len(rows), 4 * rows.shape[1])]
    return np.concatenate(parts)


def _probe_deep_enough(index: Any, base: Array, sample: Array, k: int) -> float:
    """Set the number of lists that are searched so that a sample's recall is `RECALL`; return its recall.

    How deep that is depends on the data's dimension, so it is measured and not guessed.
    """
    import faiss

    flat = faiss.IndexFlatL2(base.shape[1])
    flat.add(base)
    reach = flat.search(sample, k)[0][:, -1:]
    index.nprobe = 8
    while True:
        # Counted by distance: among equally near rows any will do.
        recall = float((index.search(sample, k)[0] <= reach * (1 + 1e-5) + 1e-12).mean())
        if recall >= RECALL or index.nprobe >= index.nlist:
            return recall
        index.nprobe = min(index.nlist, int(1.15 * index.nprobe))


def row_distances(queries: Array, x: Array, indices: Array) -> Array:
    """Distances from each query to the rows of `x` that its row of `indices` names, in float64."""
    scale = _unit_scale(queries, x)
    out = np.empty(indices.shape, dtype=np.float64)

    def measure(rows: slice) -> None:
        neighbours = x[indices[rows]].astype(np.float64, copy=False)
        neighbours -= queries[rows, None, :]
        neighbours /= scale
        out[rows] = np.sqrt(np.einsum("ijk,ijk->ij", neighbours, neighbours))

    in_threads(measure, row_slices(len(queries), 64 * indices.shape[1] * x.shape[1]))
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
        values, vectors = _decompose(operator, deflate, k)
        return values[::-1], vectors[:, ::-1]

    if sp.issparse(operator) and n > BLOCK_EIGEN_ROWS:
        seed = int(random_state.randint(2**31))
        tol = BLOCK_TOL if n <= LARGE_ROWS else LARGE_TOL
        try:
            return block_eigenpairs(operator, k, deflate=deflate, seed=seed, tol=tol)
        except NotConvergedError as error:
            logger.warning("%s; ARPACK goes on", error)

    def apply(v: Array) -> Array:
        return np.asarray(operator @ v - 2 * (deflate @ (deflate.T @ v)))

    linear = LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)
    try:
        # ARPACK makes many small calls of BLAS; waking threads for each costs more than they bring.
        with threadpool_limits(1, user_api="blas"):
            if sp.issparse(operator) or n <= SINGLE_EIGEN_ROWS:
                values, vectors = _iterate(linear, k, random_state)
            else:
                values, vectors = _iterate_single(operator, deflate, k, random_state)
    except NotConvergedError:
        if n <= RESCUE_ROWS:
            values, vectors = _decompose(operator, deflate, k)
        else:
            values, vectors = _by_blocks(linear, apply, k, random_state)
    if vectors.dtype == np.float32:
        values, vectors = _polish(vectors.astype(np.float64), apply)
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]


def _decompose(operator: Any, deflate: sp.csr_matrix, k: int) -> tuple[Array, Array]:
    """The k largest eigenpairs by LAPACK, smallest of them first."""
    n = operator.shape[0]
    for driver in ("evr", "ev"):
        dense = operator.toarray() if sp.issparse(operator) else np.array(operator)
        dense -= 2 * (deflate @ deflate.T).toarray()
        some = {"subset_by_index": [n - k, n - 1]} if driver == "evr" else {}
        try:
            values, vectors = scipy.linalg.eigh(dense, driver=driver, overwrite_a=True, **some)
        except np.linalg.LinAlgError:
            continue
        values, vectors = values[-k:], vectors[:, -k:]
        # On some clusters of equal eigenvalues the quick driver gives up, returns fewer pairs than asked for,
        # or vectors that lean to each other; the other never does.
        whole = vectors.shape[1] == k
        if driver == "ev" or (whole and np.abs(vectors.T @ vectors - np.eye(k)).max() < 1e-9):
            return values, vectors
    raise RuntimeError(
        f"LAPACK could not decompose the graph of {n} rows; raise n_neighbors or drop outliers"
    )


def _iterate_single(
    operator: Array, deflate: sp.csr_matrix, k: int, random_state: np.random.RandomState
) -> tuple[Array, Array]:
    """The same in single precision: a product with a large plain matrix is bound by its bytes."""
    single, aside = operator.astype(np.float32), deflate.astype(np.float32)

    def apply(v: Array) -> Array:
        return np.asarray(single @ v - 2 * (aside @ (aside.T @ v)), dtype=np.float32)

    linear = LinearOperator(operator.shape, matvec=apply, matmat=apply, dtype=np.float32)
    return _iterate(linear, k, random_state)


def _polish(vectors: Array, apply: Callable[[Array], Array]) -> tuple[Array, Array]:
    """One step of subspace iteration and a Rayleigh-Ritz projection in double precision.

    The error of the eigenvalues is the square of that of the vectors, so they come out exact; the
    vectors keep a residual of about 1e-6 next to the last one and less for those before.
    """
    basis = scipy.linalg.qr(apply(vectors), mode="economic")[0]
    values, turn = scipy.linalg.eigh(basis.T @ apply(basis))
    return values, basis @ turn


def _iterate(linear: LinearOperator, k: int, random_state: np.random.RandomState) -> tuple[Array, Array]:
    """ARPACK; with a larger subspace if that fails. With few rows it soon gives up: LAPACK is quicker."""
    n = linear.shape[0]
    few = n <= RESCUE_ROWS
    for subspace in (2 * k + 1,) if few else (2 * k + 1, 4 * k + 20):
        try:
            values, vectors = eigsh(
                linear,
                k,
                which="LA",
                v0=random_state.uniform(-1, 1, n).astype(linear.dtype),
                ncv=min(n - 1, max(subspace, 20)),
                maxiter=200 if few else max(1000, 50 * k),
            )
        except (ArpackNoConvergence, ArpackError):
            continue
        return values, vectors
    raise NotConvergedError(f"ARPACK did not find {k} eigenpairs of a graph of {n} rows")


def _by_blocks(
    linear: LinearOperator, apply: Callable[[Array], Array], k: int, random_state: np.random.RandomState
) -> tuple[Array, Array]:
    """LOBPCG, which copes with other spectra than ARPACK; then a clear error."""
    n = linear.shape[0]
    values, vectors = lobpcg(linear, random_state.uniform(-1, 1, (n, k)), tol=1e-8, maxiter=500)
    residual = float(np.max(np.linalg.norm(apply(vectors) - vectors * values, axis=0)))
    if residual > 1e-4:
        raise RuntimeError(
            f"no eigensolver converged on a graph of {n} rows (residual {residual:.1e} for {k} harmonics); "
            "ask for fewer harmonics (n_harmonics) or raise n_neighbors"
        )
    return values, vectors
