"""Leading eigenpairs on the CPU: LAPACK for few rows, blocks or ARPACK for many, others where these fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh, lobpcg

from harmonicalign._typing import Array
from harmonicalign.engines.block import block_eigenpairs
from harmonicalign.engines.chebyshev import NotConvergedError
from harmonicalign.engines.protocols import Eigenpairs
from harmonicalign.engines.threads import blas_threads, owned

__all__ = ["HostSolver", "leading_eigenpairs"]

logger = logging.getLogger("harmonicalign")

_FEW_KNOWN = 16
"""Up to so many known eigenvectors are held as a plain matrix, which multiplies sooner."""


@dataclass(frozen=True)
class HostSolver:
    """Eigenpairs by numpy and scipy, by whichever way is the quickest for as many rows (measured).

    Attributes
    ----------
    dense_rows
        Up to this many rows LAPACK beats ARPACK even for a handful of eigenpairs.
    single_rows
        Plain matrices with more rows are iterated on in single precision, and the result polished.
    block_rows
        Sparse operators with more rows are iterated on by blocks in single precision.
    block_tol
        Residual of the eigenpairs then; the eigenvalues are exact to the square of it over their gaps.
    large_rows, large_tol
        Above so many rows the residual may be larger: pairs lie so close that only their span matters.
    rescue_rows
        Up to so many rows LAPACK takes over where ARPACK does not get on; it needs seconds, ARPACK minutes.
    max_iter
        Most iterations of any one method; None for what each needs.
    """

    dense_rows: int = 800
    single_rows: int = 2000
    block_rows: int = 3000
    block_tol: float = 1e-5
    large_rows: int = 20_000
    large_tol: float = 1e-3
    rescue_rows: int = 4000
    max_iter: int | None = None

    def __call__(
        self, operator: Any, k: int, *, deflate: sp.csr_matrix, random_state: np.random.RandomState
    ) -> Eigenpairs:
        """The k algebraically largest eigenpairs besides those of `deflate`; see `EigenSolver`.

        The known eigenvectors are moved to eigenvalue −1, below everything else, rather than to 0, where
        they would stand amid the spectrum that a full decomposition asks for.
        """
        n = operator.shape[0]
        if not 0 <= k <= n - deflate.shape[1]:
            raise ValueError(f"k must be between 0 and {n - deflate.shape[1]} for {n} rows, not {k}")
        if k == 0:
            return Eigenpairs(np.empty(0), np.empty((n, 0)))
        if n <= self.dense_rows or k > n // 3:
            values, vectors = _decompose(operator, deflate, k)
            return Eigenpairs(values[::-1], vectors[:, ::-1])
        if sp.issparse(operator) and n > self.block_rows:
            seed = int(random_state.randint(2**31))
            tol = self.block_tol if n <= self.large_rows else self.large_tol
            try:
                return block_eigenpairs(
                    operator, k, deflate=deflate, seed=seed, tol=tol, max_iter=self.max_iter or 50
                )
            except NotConvergedError as error:
                logger.warning("%s; ARPACK goes on", error)
        values, vectors = self._one_by_one(operator, k, deflate, random_state)
        order = np.argsort(-values, kind="stable")
        return Eigenpairs(values[order], vectors[:, order])

    def _one_by_one(
        self, operator: Any, k: int, deflate: sp.csr_matrix, random_state: np.random.RandomState
    ) -> tuple[Array, Array]:
        """The same by ARPACK, or by what takes over where it does not get on, in any order."""
        n = operator.shape[0]

        # Hundreds of products with one vector: making a transposed matrix for each would take as long.
        known = deflate.toarray() if deflate.shape[1] <= _FEW_KNOWN else deflate
        back = known.T if isinstance(known, np.ndarray) else known.T.tocsr()

        def apply(v: Array) -> Array:
            return np.asarray(operator @ v - known @ (2 * (back @ v)))

        linear = LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)
        single = not sp.issparse(operator) and n > self.single_rows
        try:
            # ARPACK makes many small calls of BLAS; waking threads for each costs more than they bring.
            with owned():
                values, vectors = self._iterate(
                    _in_single(operator, deflate) if single else linear, k, random_state
                )
        except NotConvergedError:
            if n <= self.rescue_rows:
                return _decompose(operator, deflate, k)
            return _by_blocks(linear, apply, k, random_state, self.max_iter or 500)
        return _polish(vectors.astype(np.float64), apply) if single else (values, vectors)

    def _iterate(
        self, linear: LinearOperator, k: int, random_state: np.random.RandomState
    ) -> tuple[Array, Array]:
        """ARPACK; with a larger subspace if that fails. With few rows it soon gives up: LAPACK is quicker."""
        n = linear.shape[0]
        few = n <= self.rescue_rows
        for subspace in (2 * k + 1,) if few else (2 * k + 1, 4 * k + 20):
            try:
                values, vectors = eigsh(
                    linear,
                    k,
                    which="LA",
                    v0=random_state.uniform(-1, 1, n).astype(linear.dtype),
                    ncv=min(n - 1, max(subspace, 20)),
                    maxiter=self.max_iter or (200 if few else max(1000, 50 * k)),
                )
            except (ArpackNoConvergence, ArpackError):
                continue
            return values, vectors
        raise NotConvergedError(f"ARPACK did not find {k} eigenpairs of a graph of {n} rows")


def leading_eigenpairs(
    operator: Any, k: int, *, deflate: sp.csr_matrix, random_state: np.random.RandomState
) -> Eigenpairs:
    """The k algebraically largest eigenpairs of a symmetric operator, largest first, by `HostSolver`.

    Parameters
    ----------
    operator
        Symmetric (n, n), spectrum within [−1, 1].
    k
        How many pairs, at most n less the columns of `deflate`.
    deflate
        Orthonormal eigenvectors with eigenvalue 1, (n, c), which are left out of the answer.
    random_state
        Source of the start vectors.
    """
    return HostSolver()(operator, k, deflate=deflate, random_state=random_state)


def _decompose(operator: Any, deflate: sp.csr_matrix, k: int) -> tuple[Array, Array]:
    """The k largest eigenpairs by LAPACK, smallest of them first."""
    n = operator.shape[0]
    for driver in ("evr", "ev"):
        dense = operator.toarray() if sp.issparse(operator) else np.array(operator)
        dense -= 2 * (deflate @ deflate.T).toarray()
        some = {"subset_by_index": [n - k, n - 1]} if driver == "evr" else {}
        try:
            with blas_threads():
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


def _in_single(operator: Array, deflate: sp.csr_matrix) -> LinearOperator:
    """A plain operator in single precision: a product with a large matrix is bound by its bytes."""
    single, aside = operator.astype(np.float32), deflate.astype(np.float32)

    def apply(v: Array) -> Array:
        return np.asarray(single @ v - 2 * (aside @ (aside.T @ v)), dtype=np.float32)

    return LinearOperator(operator.shape, matvec=apply, matmat=apply, dtype=np.float32)


def _polish(vectors: Array, apply: Callable[[Array], Array]) -> tuple[Array, Array]:
    """One step of subspace iteration and a Rayleigh-Ritz projection in double precision.

    The error of the eigenvalues is the square of that of the vectors, so they come out exact; the
    vectors keep a residual of about 1e-6 next to the last one and less for those before.
    """
    basis = scipy.linalg.qr(apply(vectors), mode="economic")[0]
    values, turn = scipy.linalg.eigh(basis.T @ apply(basis))
    return values, basis @ turn


def _by_blocks(
    linear: LinearOperator,
    apply: Callable[[Array], Array],
    k: int,
    random_state: np.random.RandomState,
    max_iter: int,
) -> tuple[Array, Array]:
    """LOBPCG, which copes with other spectra than ARPACK; then a clear error."""
    n = linear.shape[0]
    values, vectors = lobpcg(linear, random_state.uniform(-1, 1, (n, k)), tol=1e-8, maxiter=max_iter)
    residual = float(np.max(np.linalg.norm(apply(vectors) - vectors * values, axis=0)))
    if residual > 1e-4:
        raise RuntimeError(
            f"no eigensolver converged on a graph of {n} rows (residual {residual:.1e} for {k} harmonics); "
            "ask for fewer harmonics (n_harmonics) or raise n_neighbors"
        )
    return values, vectors
