"""Kernel graphs and their leading eigenpairs on a torch device.

With n rows, m stored weights and b columns in the block: the kernel costs one sort of its weights, ``O(m
log m)``; the eigenpairs cost ``O(s (m b + n b²))`` for s products, some 60 to 400 in what was measured (the
more, the closer the wanted eigenvalues lie to 1), bound by the bytes that a sparse product gathers. Memory
is ``O(m + n b)``.
"""

from __future__ import annotations

import logging
import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from harmonicalign.backends.torch_neighbours import accelerated

__all__ = ["Csr", "eigenpairs", "gram", "kernel", "normalise"]

logger = logging.getLogger("harmonicalign")

DENSE_BELOW = 1500  # rows up to which a dense decomposition is the quickest
FIRST_DEGREE, MAX_DEGREE = 8, 240
SAFETY = 5  # by which each round aims past the tolerance
GRAM_ROWS = 1 << 18  # rows turned to float64 at a time
GRAM_PIECES = 128  # independent partial products of those, to fill a device


class Csr(NamedTuple):
    """A square sparse matrix by rows; columns ascend within a row."""

    crow: Tensor
    col: Tensor
    val: Tensor

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.crow) - 1

    def rows(self) -> Tensor:
        """Row number of every stored entry."""
        counts = self.crow.diff()
        return torch.repeat_interleave(
            torch.arange(self.n, device=self.col.device, dtype=self.col.dtype),
            counts,
            output_size=len(self.col),
        )

    def sums(self) -> Tensor:
        """Row sums."""
        return torch.segment_reduce(self.val, "sum", offsets=self.crow.long())

    def sparse(self) -> Tensor:
        """The same matrix as a torch sparse tensor."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "Sparse CSR tensor support is in beta state"
            return torch.sparse_csr_tensor(
                self.crow, self.col, self.val, (self.n, self.n), check_invariants=False
            )


def kernel(
    distances: Tensor,
    indices: Tensor,
    *,
    n_bandwidth: int,
    decay: float = 2.0,
    thresh: float = 1e-4,
    anisotropy: float = 0.0,
) -> tuple[Csr, Tensor]:
    """Adaptive kernel ``K`` and its degrees from neighbours (without self, ascending).

    ``W_ij = exp(-(d_ij/ε_i)^decay)`` with ``ε_i`` the distance to neighbour `n_bandwidth`, weights under
    `thresh` dropped, ``G = (W + Wᵀ)/2`` with ones on the diagonal, ``K_ij = G_ij / (g_i g_j)^anisotropy``.
    """
    n, k = indices.shape
    if not 1 <= n_bandwidth <= k:
        raise ValueError(f"n_bandwidth must be between 1 and the {k} neighbours given, not {n_bandwidth}")
    bandwidth = distances[:, n_bandwidth - 1 : n_bandwidth].clamp(min=torch.finfo(distances.dtype).tiny)
    # in a row of duplicates ε is 0: they are at distance 0 and keep weight 1, all else is far
    weight = (distances / bandwidth).pow_(decay).neg_().exp_()
    keep = weight >= max(thresh, torch.finfo(weight.dtype).tiny)
    source = torch.arange(n, device=indices.device)[:, None].expand(n, k)[keep]
    target, half = indices[keep], weight[keep].mul_(0.5)
    del weight, keep
    loop = torch.arange(n, device=indices.device)
    key = torch.cat([source * n + target, target * n + source, loop * n + loop])
    half = torch.cat([half, half, half.new_ones(n)])
    del source, target
    key, order = key.sort()
    half = half[order]
    del order
    # every pair occurs at most twice (i chose j, j chose i): add a second occurrence to the first
    again = torch.zeros_like(key, dtype=torch.bool)
    torch.eq(key[1:], key[:-1], out=again[1:])
    half[:-1] += half[1:] * again[1:]
    first = ~again
    key, value = key[first], half[first]
    small = len(key) < 1 << 31
    row = torch.div(key, n, rounding_mode="floor")
    col = (key - row * n).to(torch.int32 if small else torch.int64)
    crow = torch.searchsorted(row, torch.arange(n + 1, device=row.device))
    graph = Csr(crow.to(col.dtype), col, value)
    if anisotropy:
        mass = graph.sums().pow(-anisotropy)
        graph = graph._replace(val=value * mass[row] * mass[col])
    return graph, graph.sums()


def normalise(graph: Csr, degrees: Tensor) -> Csr:
    """Symmetric diffusion operator ``A = D^-½ K D^-½``."""
    scale = degrees.rsqrt()
    return graph._replace(val=graph.val * scale[graph.rows()] * scale[graph.col])


def gram(a: Tensor, b: Tensor) -> Tensor:
    """``aᵀ b`` of tall matrices, accumulated in float64 piece by piece."""
    total = torch.zeros((a.shape[1], b.shape[1]), dtype=torch.float64, device=a.device)
    for start in range(0, len(a), GRAM_ROWS):
        x, y = (t[start : start + GRAM_ROWS].double() for t in (a, b))
        whole = len(x) - len(x) % GRAM_PIECES
        pieces = (t[:whole].view(GRAM_PIECES, -1, t.shape[1]) for t in (x, y))
        total += torch.bmm(next(pieces).mT, next(pieces)).sum(0)
        total += x[whole:].T @ y[whole:]
    return total


class _Operator:
    """Sparse products in the form of the filter's recurrence."""

    def __init__(self, matrix: Csr) -> None:
        self.matrix = matrix
        self.kernels = accelerated(matrix.val.device)
        self.sparse = matrix.sparse()

    def __call__(
        self,
        x: Tensor,
        z: Tensor | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        out: Tensor | None = None,
    ) -> Tensor:
        """``alpha A x + beta x + gamma z``; `out` may be `z`."""
        if self.kernels is not None:
            result: Tensor = self.kernels.spmm(
                *self.matrix, x, z, torch.empty_like(x) if out is None else out, alpha, beta, gamma
            )
            return result
        y: Tensor = (self.sparse @ x).mul_(alpha)
        if beta:
            y.add_(x, alpha=beta)
        if z is not None:
            y.add_(z, alpha=gamma)
        return y


def _lower_bound(operator: _Operator, start: Tensor, steps: int = 20) -> float:
    """Bound from below on the spectrum: the least Ritz value of a short Lanczos run, less twice its residual.

    An eigenvalue a little under it does no harm: the filter still raises it less than the other end.
    """
    diagonal: list[float] = []
    side: list[float] = []
    v, before = start / start.norm(), torch.zeros_like(start)
    for _ in range(steps):
        w = operator(v)
        a = float((v * w).sum())
        w = w - a * v - (side[-1] if side else 0.0) * before
        b = float(w.norm())
        diagonal.append(a)
        side.append(b)
        if b < 1e-6:
            break
        v, before = w / b, v
    t = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    for i, b in enumerate(side[:-1]):
        t[i, i + 1] = t[i + 1, i] = b
    ritz, vectors = torch.linalg.eigh(t)
    return max(-1.0, float(ritz[0] - 2 * side[-1] * vectors[-1, 0].abs()))


def _filter(operator: _Operator, x: Tensor, low: float, cut: float, top: float, degree: int) -> Tensor:
    """Chebyshev polynomial of the operator that is small on ``[low, cut]`` and one at `top`, times x."""
    centre, half = (cut + low) / 2, (cut - low) / 2
    sigma = half / (top - centre)
    tau = 2 / sigma
    y = operator(x, alpha=sigma / half, beta=-centre * sigma / half)
    before = x
    for _ in range(2, degree + 1):
        following = 1 / (tau - sigma)
        z = operator(
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
    return math.ceil(math.acosh(ratio) / growth)


def eigenpairs(
    operator: Csr,
    degrees: Tensor,
    k: int,
    *,
    tol: float = 1e-5,
    random_state: int = 0,
    max_iter: int = 50,
) -> tuple[Tensor, Tensor]:
    """Leading `k` eigenpairs of ``A``, largest first, beside the trivial vector ``√D/‖√D‖``.

    Chebyshev-filtered subspace iteration on a block somewhat wider than `k`: filter away the spectrum under
    the block's least Ritz value, orthonormalise (small matrices in float64), project, repeat until every
    wanted pair has ``‖A ψ − λ ψ‖ ≤ tol``. Signs and the basis within a repeated eigenvalue are as they come.

    Parameters
    ----------
    operator
        The symmetric operator, as from `normalise`.
    degrees
        Row sums of the kernel.
    k
        Number of pairs.
    tol
        Largest residual; float32 reaches about 1e-6.
    random_state
        Seed of the first block.
    max_iter
        Filter rounds after which the pairs are returned as they are, with a warning logged.
    """
    n, device, dtype = operator.n, operator.val.device, operator.val.dtype
    if not 1 <= k < n:
        raise ValueError(f"k must be between 1 and n - 1 = {n - 1}, not {k}")
    trivial = degrees.sqrt()
    trivial = (trivial / trivial.norm())[:, None]
    width = 32 * math.ceil((1.15 * k + 6) / 32)  # whole lines of the cache
    if n <= max(DENSE_BELOW, 4 * width):
        dense = operator.sparse().to_dense().double()
        dense -= 2 * (trivial.double() @ trivial.double().T)
        values, vectors = torch.linalg.eigh((dense + dense.T) / 2)
        return values.flip(0)[:k].to(dtype), vectors.flip(1)[:, :k].to(dtype).contiguous()

    apply = _Operator(operator)
    generator = torch.Generator(device=device).manual_seed(random_state)
    x = torch.randn((n, width), generator=generator, device=device, dtype=dtype)
    low = _lower_bound(apply, x[:, :1].contiguous()) - 0.01
    cut, top, degree = (1 + low) / 2, 1.0, FIRST_DEGREE
    values = residual = torch.empty(0)
    products = 0
    for step in range(max_iter):
        products += degree + 1
        x -= trivial @ (trivial.T @ x)
        y = _filter(apply, x, low, cut, top, degree)
        for _ in range(2):
            y -= trivial @ (trivial.T @ y)
        y /= y.norm(dim=0).clamp(min=torch.finfo(dtype).tiny)
        ay = apply(y)
        # Rayleigh-Ritz in the block's span, the small problems in float64 on the host
        s, u = torch.linalg.eigh(gram(y, y).cpu())
        basis = u * s.clamp(min=s[-1] * 1e-12).rsqrt()
        h = gram(y, ay).cpu()
        values, rotation = torch.linalg.eigh(basis.T @ ((h + h.T) / 2) @ basis)
        values, rotation = values.flip(0), rotation.flip(1)
        turn = (basis @ rotation).to(device=device, dtype=dtype)
        x = y @ turn
        ax = ay @ turn
        residual = (ax - x * values.to(device=device, dtype=dtype)).norm(dim=0)[:k].cpu()
        logger.debug("filter of degree %d above %.4f: residual %.1e", degree, cut, float(residual.max()))
        if float(residual.max()) <= tol:
            break
        cut = max(float(values[-1]), low + 0.05)
        top = max(min(1.0, float(values[0])), cut + 1e-4)
        # far enough for the slowest wanted pair, no farther than float32 holds the others beside the first
        wanted = _degree(low, cut, float(values[k - 1]), SAFETY * float(residual.max()) / tol)
        held = _degree(low, cut, top, 1e6 if step else 1e5)
        degree = max(FIRST_DEGREE, min(wanted, held, MAX_DEGREE))
    else:
        logger.warning(
            "eigenpairs: residual %.1e after %d rounds, wanted %.1e", residual.max(), max_iter, tol
        )
    logger.info("eigenpairs: %d products with a block of %d, residual %.1e", products, width, residual.max())
    return values[:k].to(device=device, dtype=dtype), x[:, :k].contiguous()
