"""Eigenpairs of large sparse operators on the CPU, a block of columns at a time.

Lanczos reads the matrix for one column per step and spends most of its time keeping hundreds of long
vectors orthogonal. A block of columns reads the matrix once for all of them; in an order of rows in which
neighbours are near each other in memory, and shared between threads, its products are several times
quicker per column.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from harmonicalign._typing import Array
from harmonicalign.engines.chebyshev import block_width, filtered_subspace
from harmonicalign.engines.coarse import coarser
from harmonicalign.engines.protocols import Eigenpairs
from harmonicalign.engines.threads import in_threads, owned

__all__ = ["block_eigenpairs"]


_PIECE_ROWS = 8192
"""Rows that a thread works on at a time (measured; fewer reload more of the block, many more share badly)."""

COARSE_ROWS, COARSE_SHARE = 50_000, 16
"""Operators with more rows start from the eigenvectors of one with at most a sixteenth of the rows."""

_COARSE_TOL = 3e-3
"""Residual of those."""

_START_NOISE = 0.5
"""Random share of such a start: pairs that the coarse operator does not know are found from it."""


def block_eigenpairs(
    operator: sp.csr_matrix,
    k: int,
    *,
    deflate: sp.csr_matrix,
    seed: int,
    tol: float,
    max_iter: int = 50,
    coarse_rows: int = COARSE_ROWS,
    coarse_share: int = COARSE_SHARE,
) -> Eigenpairs:
    """The k largest eigenpairs besides those of `deflate`, largest first, vectors in float32.

    Parameters
    ----------
    operator
        Symmetric, sparse, spectrum within [−1, 1].
    k
        Number of pairs.
    deflate
        Orthonormal eigenvectors that are left out, (n, c).
    seed
        Seed of the first block.
    tol
        Largest residual ``‖A ψ − λ ψ‖``.
    max_iter
        Rounds of the filter at most.
    coarse_rows, coarse_share
        Operators with more rows than the first start from the eigenvectors of one with at most one row for
        as many of theirs as the second says.
    """
    order = reverse_cuthill_mckee(operator, symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    matrix = sp.csr_matrix(operator, dtype=np.float32)[order]
    matrix.indices = place[matrix.indices]
    matrix.has_sorted_indices = False  # and need not have: products are as quick
    known = sp.csr_matrix(deflate[order], dtype=np.float32)
    start = _coarse_start(matrix, known, k, seed, coarse_share) if len(order) > coarse_rows else None
    with owned():
        space = _Space(matrix, known, seed)
        del matrix
        values, block = filtered_subspace(space, k, tol=tol, max_iter=max_iter, start=start)
    return Eigenpairs(values, block[place])


def _coarse_start(
    matrix: sp.csr_matrix, known: sp.csr_matrix, k: int, seed: int, share: int = COARSE_SHARE
) -> tuple[Array, float] | None:
    """First block from the eigenvectors of a coarser operator, and a bound that the k-th eigenvalue exceeds.

    The coarse operator is a compression of the fine one, so its eigenvalues lie below the fine ones; twice
    its last one's distance from 1 leaves room. None where a coarse operator would have too few rows.
    """
    n, width = matrix.shape[0], block_width(k)
    small, carry = coarser(matrix, known, n // share)
    taken = width - 8
    if small.shape[0] < 10 * width:
        return None
    values, vectors = block_eigenpairs(small, taken, deflate=carry.T @ known, seed=seed, tol=_COARSE_TOL)
    block = np.random.default_rng(seed).standard_normal((n, width), dtype=np.float32)
    block *= np.float32(_START_NOISE / np.sqrt(n))
    block[:, :taken] += carry @ vectors
    return block, 2 * float(values[-1]) - 1


class _Space:
    """Blocks as float32 arrays; products run piece by piece in threads, so their sums keep one order.

    The known eigenvectors, with eigenvalue 1, are moved to 0: where the others lie well below 1, a filter
    would raise rounding errors along them above everything else.
    """

    known_value = 0.0

    def __init__(self, matrix: sp.csr_matrix, known: sp.csr_matrix, seed: int) -> None:
        self.starts = range(0, matrix.shape[0], _PIECE_ROWS)
        self.numbers = range(len(self.starts))
        self.pieces = [matrix[start : start + _PIECE_ROWS] for start in self.starts]
        self.known_pieces = [known[start : start + _PIECE_ROWS] for start in self.starts]
        self.shape, self.known = matrix.shape, known
        self.rng = np.random.default_rng(seed)

    def apply(
        self,
        x: Array,
        z: Array | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        out: Array | None = None,
    ) -> Array:
        result = np.empty_like(x) if out is None else out
        along = self._along(x)

        def work(i: int) -> None:
            rows = self._rows(i)
            y = self.pieces[i] @ x
            y -= self.known_pieces[i] @ along
            if alpha != 1:
                y *= np.float32(alpha)
            if beta:
                y += np.float32(beta) * x[rows]
            if z is not None:
                y += np.float32(gamma) * z[rows]
            result[rows] = y

        in_threads(work, self.numbers)
        return result

    def random(self, width: int) -> Array:
        return self.rng.standard_normal((self.shape[0], width), dtype=np.float32)

    def _along(self, x: Array) -> Array:
        """Products of the columns with the known eigenvectors."""

        def part(i: int) -> Array:
            return np.asarray(self.known_pieces[i].T @ x[self._rows(i)])

        return np.asarray(np.sum(in_threads(part, self.numbers), axis=0))

    def remove_known(self, x: Array) -> None:
        along = self._along(x)

        def work(i: int) -> None:
            x[self._rows(i)] -= self.known_pieces[i] @ along

        in_threads(work, self.numbers)

    def gram(self, x: Array, y: Array) -> Array:
        def part(i: int) -> Array:
            rows = self._rows(i)
            return np.asarray(x[rows].astype(np.float64).T @ y[rows].astype(np.float64))

        return np.asarray(np.sum(in_threads(part, self.numbers), axis=0))

    def times(self, x: Array, small: Array) -> Array:
        out = np.empty((len(x), small.shape[1]), dtype=np.float32)

        def work(i: int) -> None:
            np.matmul(x[self._rows(i)], small, out=out[self._rows(i)])

        in_threads(work, self.numbers)
        return out

    def _rows(self, i: int) -> slice:
        """Rows of a piece."""
        return slice(self.starts[i], self.starts[i] + self.pieces[i].shape[0])

    def norms(self, x: Array) -> Array:
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", x, x, dtype=np.float64)))

    def lift(self, small: Array) -> Array:
        return small.astype(np.float32)
