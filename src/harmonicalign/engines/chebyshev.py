"""Leading eigenpairs by Chebyshev-filtered subspace iteration, for any kind of array.

A polynomial of the operator raises the wanted end of the spectrum in all columns of a block at once;
then the block is made orthonormal, projected, and filtered again, until the wanted pairs hold. The work
is sparse products with a block, which read the matrix once for all columns, and products of tall
matrices. What an engine must bring is in `BlockSpace`; the small problems are solved here, in float64.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Protocol

import numpy as np

from harmonicalign._typing import Array

__all__ = ["BlockSpace", "NotConvergedError", "block_width", "filtered_subspace"]

Block = Any  # (n, width) of the engine's kind

logger = logging.getLogger("harmonicalign")

FIRST_DEGREE, MAX_DEGREE = 8, 240
SAFETY = 5  # by which each round aims past the tolerance


class NotConvergedError(RuntimeError):
    """The eigenpairs found are no eigenpairs."""


class BlockSpace(Protocol):
    """Blocks of columns over n rows, and the operator, as one engine holds them."""

    known_value: float
    """Eigenvalue at which `apply` sees the known eigenvectors: filters raise rounding errors along them."""

    def apply(
        self,
        x: Block,
        z: Block | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        out: Block | None = None,
    ) -> Block:
        """``alpha A x + beta x + gamma z``; `out`, which may be `z`, may be written over."""

    def random(self, width: int) -> Block:
        """A block of standard normal numbers."""

    def remove_known(self, x: Block) -> None:
        """Project the known eigenvectors out of `x`, in place."""

    def gram(self, x: Block, y: Block) -> Array:
        """``xᵀ y`` on the host, accumulated in float64."""

    def times(self, x: Block, small: Block) -> Block:
        """``x small``, for a small array as `lift` returns it."""

    def norms(self, x: Block) -> Array:
        """Lengths of the columns, on the host."""

    def lift(self, small: Array) -> Block:
        """A small array of the host as the engine's kind, to multiply blocks with."""


def block_width(k: int) -> int:
    """Columns of the block for k pairs: somewhat more, in whole lines of the cache."""
    return 32 * math.ceil((1.15 * k + 6) / 32)


def filtered_subspace(
    space: BlockSpace,
    k: int,
    *,
    tol: float,
    max_iter: int = 50,
    start: tuple[Block, float] | None = None,
) -> tuple[Array, Block]:
    """Leading k eigenpairs besides the known ones, largest first, each with ``‖A ψ − λ ψ‖ ≤ tol``.

    Parameters
    ----------
    space
        The operator, with its spectrum within [−1, 1].
    k
        Number of pairs.
    tol
        Largest residual; float32 reaches about 1e-6.
    max_iter
        Filter rounds at most. If the residual is then within a hundred times `tol`, a warning is logged.
    start
        First block, of `block_width` columns, and a value below the k-th eigenvalue, where they are known
        roughly; by default random.

    Raises
    ------
    NotConvergedError
        If it is not.
    """
    low = _lower_bound(space) - 0.01
    x, cut = (space.random(block_width(k)), (1 + low) / 2) if start is None else start
    cut = max(cut, low + 0.05)
    top, degree, products = 1.0, FIRST_DEGREE, 0
    values = residual = np.empty(0)
    for step in range(max_iter):
        products += degree + 1
        space.remove_known(x)
        y = _filter(space, x, low, cut, top, degree)
        for _ in range(2):
            space.remove_known(y)
        y /= space.lift(np.maximum(space.norms(y), np.finfo(np.float32).tiny))
        ay = space.apply(y)
        # Rayleigh-Ritz in the block's span
        s, u = np.linalg.eigh(space.gram(y, y))
        basis = u / np.sqrt(np.maximum(s, s[-1] * 1e-12))
        h = space.gram(y, ay)
        values, rotation = np.linalg.eigh(basis.T @ ((h + h.T) / 2) @ basis)
        values, turn = values[::-1], space.lift(np.ascontiguousarray((basis @ rotation)[:, ::-1]))
        x, ay = space.times(y, turn), space.times(ay, turn)
        ay -= x * space.lift(values)
        residual = space.norms(ay)[:k]
        logger.debug("filter of degree %d above %.4f: residual %.1e", degree, cut, float(residual.max()))
        if float(residual.max()) <= tol:
            break
        # A cut that turned out too high would hold wanted pairs down.
        kept = cut if cut < float(values[k - 1]) - 1e-3 else low + 0.05
        cut = max(float(values[-1]), kept)
        top = max(min(1.0, float(values[0])), cut + 1e-4)
        # far enough for the slowest wanted pair, no farther than float32 holds the others beside the first
        wanted = _degree(low, cut, float(values[k - 1]), SAFETY * float(residual.max()) / tol)
        held = _degree(low, cut, max(top, space.known_value), 1e6 if step else 1e5)
        degree = max(FIRST_DEGREE, min(wanted, held, MAX_DEGREE))
    else:
        if residual.max() > 100 * tol:
            raise NotConvergedError(
                f"{k} harmonics did not converge: residual {residual.max():.1e} after {max_iter} rounds, "
                f"wanted {tol:.0e}; ask for fewer harmonics (n_harmonics) or raise n_neighbors"
            )
        logger.warning(
            "eigenpairs: residual %.1e after %d rounds, wanted %.1e", residual.max(), max_iter, tol
        )
    logger.info("eigenpairs: %d products with a block, residual %.1e", products, residual.max())
    return values[:k], x[:, :k]


def _lower_bound(space: BlockSpace, steps: int = 20) -> float:
    """Bound from below on the spectrum: the least Ritz value of a short Lanczos run, less twice its residual.

    An eigenvalue a little under it does no harm: the filter still raises it less than the other end.
    """
    diagonal: list[float] = []
    side: list[float] = []
    v = space.random(1)
    v = v / float(space.norms(v)[0])
    before = v * 0
    for _ in range(steps):
        w = space.apply(v)
        a = float(space.gram(v, w)[0, 0])
        w = w - a * v - (side[-1] if side else 0.0) * before
        b = float(space.norms(w)[0])
        diagonal.append(a)
        side.append(b)
        if b < 1e-6:
            break
        v, before = w / b, v
    t = np.diag(diagonal) + np.diag(side[: len(diagonal) - 1], 1) + np.diag(side[: len(diagonal) - 1], -1)
    ritz, vectors = np.linalg.eigh(t)
    return max(-1.0, float(ritz[0] - 2 * side[-1] * abs(vectors[-1, 0])))


def _filter(space: BlockSpace, x: Block, low: float, cut: float, top: float, degree: int) -> Block:
    """Chebyshev polynomial of the operator that is small on ``[low, cut]`` and one at `top`, times x."""
    centre, half = (cut + low) / 2, (cut - low) / 2
    sigma = half / (top - centre)
    tau = 2 / sigma
    y = space.apply(x, alpha=sigma / half, beta=-centre * sigma / half)
    before = x
    for _ in range(2, degree + 1):
        following = 1 / (tau - sigma)
        z = space.apply(
            y,
            before,
            alpha=2 * following / half,
            beta=-2 * centre * following / half,
            gamma=-sigma * following,
            out=None if before is x else before,  # the oldest block is written over, the caller's x never
        )
        before, y, sigma = y, z, following
    return y


def _degree(low: float, cut: float, value: float, ratio: float) -> int:
    """Degree at which the filter raises eigenvalue `value` over the cut by `ratio`."""
    centre, half = (cut + low) / 2, (cut - low) / 2
    growth = math.acosh(max((value - centre) / half, 1 + 1e-6))
    return math.ceil(math.acosh(max(ratio, 1.0)) / growth)
