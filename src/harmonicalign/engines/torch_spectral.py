"""Kernel graphs and their leading eigenpairs on a torch device.

With n rows, m stored weights and b columns in the block: the kernel costs one sort of its weights, ``O(m
log m)``; the eigenpairs cost ``O(s (m b + n b²))`` for s products, some 60 to 400 in what was measured (the
more, the closer the wanted eigenvalues lie to 1), bound by the bytes that a sparse product gathers. Memory
is ``O(m + n b)``. Eigenpairs have a residual of 1e-5, so their eigenvalues are within 1e-5.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from harmonicalign._typing import FloatArray
from harmonicalign.engines.chebyshev import block_width, filtered_subspace
from harmonicalign.engines.protocols import Eigenpairs, Neighbours
from harmonicalign.engines.rows import kernel_weights, positive_bandwidths
from harmonicalign.engines.torch_device import to_device
from harmonicalign.engines.torch_tiles import accelerated

__all__ = [
    "Csr",
    "Kernel",
    "components",
    "eigenpairs",
    "gram",
    "kernel",
    "normalise",
    "reordered",
]

DENSE_BELOW = 1500  # rows up to which a dense decomposition is the quickest
GRAM_ROWS = 1 << 18  # rows turned to float64 at a time
GRAM_PIECES = 128  # independent partial products of those, to fill a device


class Csr(NamedTuple):
    """A square sparse matrix by rows; columns ascend within a row."""

    crow: Tensor
    col: Tensor
    val: Tensor

    @classmethod
    def from_host(cls, matrix: Any, device: torch.device) -> Csr:
        """A plain or scipy matrix on a device, in float32."""
        # A copy: the matrix may share its indices with another one, whose entries would come out of order.
        matrix = sp.csr_matrix(matrix).sorted_indices()
        number = np.int32 if matrix.nnz < 1 << 31 else np.int64
        crow, col = (torch.from_numpy(part.astype(number)) for part in (matrix.indptr, matrix.indices))
        return cls(crow.to(device), col.to(device), to_device(matrix.data, device))

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


class Kernel(NamedTuple):
    """A kernel K, its row sums, those before anisotropy, and every row's bandwidth ε."""

    matrix: Csr
    degrees: Tensor
    density: Tensor
    bandwidth: Tensor


def kernel(
    neighbours: Neighbours,
    *,
    n_bandwidth: int,
    decay: float = 2.0,
    thresh: float = 1e-4,
    anisotropy: float = 0.0,
) -> Kernel:
    """Adaptive kernel ``K`` from neighbours (without self, ascending).

    ``G_ij = ½ (exp(-(d_ij/ε_i)^decay) + exp(-(d_ij/ε_j)^decay))`` over pairs of which one is a neighbour of
    the other, with ``ε_i`` the distance to neighbour `n_bandwidth` and weights under `thresh` dropped; ones
    on the diagonal; ``K_ij = G_ij / (g_i g_j)^anisotropy``. The weights are those of the CPU
    (`engines.rows`); how they become a matrix is the device's own: scipy's formats are not there.
    """
    indices, (n, k) = neighbours.indices, neighbours.indices.shape
    if not 1 <= n_bandwidth <= k:
        raise ValueError(f"n_bandwidth must be between 1 and the {k} neighbours given, not {n_bandwidth}")
    bandwidth = positive_bandwidths(neighbours.distances[:, :n_bandwidth])
    weight = kernel_weights(neighbours.distances, bandwidth[:, None], bandwidth[indices], decay)
    keep = weight >= max(thresh, torch.finfo(weight.dtype).tiny)
    source = torch.arange(n, device=indices.device)[:, None].expand(n, k)[keep]
    target, weight = indices[keep], weight[keep]
    del keep
    loop = torch.arange(n, device=indices.device)
    key = torch.cat([source * n + target, target * n + source, loop * n + loop])
    value = torch.cat([weight, weight, weight.new_ones(n)])
    del source, target, weight
    key, order = key.sort()
    value = value[order]
    del order
    # every pair occurs at most twice (i chose j, j chose i), both times with one weight but for rounding
    first = torch.ones_like(key, dtype=torch.bool)
    torch.ne(key[1:], key[:-1], out=first[1:])
    value[:-1] = torch.where(first[1:], value[:-1], torch.maximum(value[:-1], value[1:]))
    matrix = _from_keys(key[first], value[first], n)
    density = matrix.sums()
    if anisotropy:
        mass = density.pow(-anisotropy)
        matrix = matrix._replace(val=matrix.val * mass[matrix.rows()] * mass[matrix.col])
    return Kernel(matrix, matrix.sums(), density, bandwidth)


def _from_keys(key: Tensor, value: Tensor, n: int) -> Csr:
    """The matrix with entries at row · n + column, ascending."""
    row = torch.div(key, n, rounding_mode="floor")
    col = (key - row * n).to(torch.int32 if len(key) < 1 << 31 else torch.int64)
    crow = torch.searchsorted(row, torch.arange(n + 1, device=row.device))
    return Csr(crow.to(col.dtype), col, value)


def reordered(graph: Csr, order: Tensor) -> Csr:
    """The matrix whose row and column ``order[i]`` are row and column i of `graph`."""
    row, col = order[graph.rows()], order[graph.col]
    key, by = (row * graph.n + col).sort()
    return _from_keys(key, graph.val[by], graph.n)


def components(graph: Csr) -> Tensor:
    """For every row the least number of a row in its connected component.

    On the host scipy does this, by a walk that no device can take; here labels spread instead.
    """
    row, col = graph.rows().long(), graph.col.long()
    label = torch.arange(graph.n, device=col.device)
    while True:
        # each row takes the least label around it, then the label of that label's row
        least = label.scatter_reduce(0, row, label[col], "amin")
        least = least[least]
        if torch.equal(least, label):
            return label
        label = least


def normalise(graph: Csr, degrees: Tensor) -> Csr:
    """Symmetric diffusion operator ``A = D^-½ K D^-½``."""
    scale = degrees.rsqrt()
    return graph._replace(val=graph.val * scale[graph.rows()] * scale[graph.col])


def gram(a: Tensor, b: Tensor, *, rows: int = GRAM_ROWS) -> Tensor:
    """``aᵀ b`` of tall matrices, accumulated in float64 piece by piece."""
    total = torch.zeros((a.shape[1], b.shape[1]), dtype=torch.float64, device=a.device)
    for start in range(0, len(a), rows):
        x, y = (t[start : start + rows].double() for t in (a, b))
        whole = len(x) - len(x) % GRAM_PIECES
        pieces = (t[:whole].view(GRAM_PIECES, -1, t.shape[1]) for t in (x, y))
        total += torch.bmm(next(pieces).mT, next(pieces)).sum(0)
        total += x[whole:].T @ y[whole:]
    return total


class _Space:
    """Blocks and sparse products on a torch device, in the form of the filter's recurrence."""

    known_value = 1.0

    def __init__(self, matrix: Csr, known: Tensor, random_state: int) -> None:
        self.matrix, self.known = matrix, known
        self.kernels = accelerated(matrix.val.device)
        self.sparse = matrix.sparse()
        self.generator = torch.Generator(device=matrix.val.device).manual_seed(random_state)

    def apply(
        self,
        x: Tensor,
        z: Tensor | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        out: Tensor | None = None,
    ) -> Tensor:
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

    def random(self, width: int) -> Tensor:
        value = self.matrix.val
        return torch.randn(
            (self.matrix.n, width), generator=self.generator, device=value.device, dtype=value.dtype
        )

    def remove_known(self, x: Tensor) -> None:
        x -= self.known @ (self.known.T @ x)

    def gram(self, x: Tensor, y: Tensor) -> FloatArray:
        return np.asarray(gram(x, y).cpu())

    def times(self, x: Tensor, small: Tensor) -> Tensor:
        return x @ small

    def norms(self, x: Tensor) -> FloatArray:
        return np.asarray(x.norm(dim=0).cpu())

    def lift(self, small: FloatArray) -> Tensor:
        # torch takes no negative strides
        return torch.from_numpy(np.array(small)).to(
            device=self.matrix.val.device, dtype=self.matrix.val.dtype
        )


def eigenpairs(
    operator: Csr,
    k: int,
    *,
    deflate: Tensor,
    tol: float = 1e-5,
    random_state: int = 0,
    max_iter: int = 50,
    dense_below: int = DENSE_BELOW,
) -> Eigenpairs:
    """Leading `k` eigenpairs of ``A``, largest first, beside those that are known.

    Chebyshev-filtered subspace iteration on a block somewhat wider than `k`: filter away the spectrum under
    the block's least Ritz value, orthonormalise (small matrices in float64), project, repeat until every
    wanted pair has ``‖A ψ − λ ψ‖ ≤ tol``. Signs and the basis within a repeated eigenvalue are as they come.

    Parameters
    ----------
    operator
        The symmetric operator, as from `normalise`.
    k
        Number of pairs.
    deflate
        Orthonormal eigenvectors with eigenvalue 1 that are left out, (n, c).
    tol
        Largest residual; float32 reaches about 1e-6.
    random_state
        Seed of the first block.
    max_iter
        Filter rounds after which the pairs are returned as they are, with a warning logged.
    dense_below
        Up to so many rows a dense decomposition is the quickest.
    """
    n, dtype, most = operator.n, operator.val.dtype, operator.n - deflate.shape[1]
    if not 1 <= k <= most:
        raise ValueError(f"k must be between 1 and {most} for {n} rows, not {k}")
    if n <= max(dense_below, 4 * block_width(k)):
        dense = operator.sparse().to_dense().double()
        dense -= 2 * (deflate.double() @ deflate.double().T)
        values, vectors = torch.linalg.eigh((dense + dense.T) / 2)
        return Eigenpairs(values.flip(0)[:k].to(dtype), vectors.flip(1)[:, :k].to(dtype).contiguous())
    space = _Space(operator, deflate, random_state)
    found, block = filtered_subspace(space, k, tol=tol, max_iter=max_iter)
    return Eigenpairs(space.lift(found), block.contiguous())
