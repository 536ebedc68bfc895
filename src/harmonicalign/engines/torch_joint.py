"""The joint space and its graph on a torch device: rows go up once, results come down once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from harmonicalign.engines.torch_device import (
    EXACT_BELOW,
    recall,
    resolve_device,
    to_device,
    to_host,
)
from harmonicalign.engines.torch_neighbours import build_index, exact_search, search
from harmonicalign.engines.torch_spectral import Kernel, components, eigenpairs, kernel, normalise, reordered

__all__ = ["JointGraph", "on_planes", "placed_rows", "resolve_device", "stacked", "to_device", "to_host"]

Array = NDArray[Any]

_CANDIDATES = 1 << 27
"""Numbers in the temporaries of a displacement, at most."""


def stacked(coordinates: Sequence[Tensor]) -> Tensor:
    """Rows of all datasets, one after the other."""
    return torch.cat(list(coordinates))


def _directions(x: Tensor, kept: float, longest: float) -> Tensor:
    """The same as `harmonicalign.method.maps.directions`, which may not be imported here."""
    length = x.norm(dim=1, keepdim=True)
    return torch.where(length > 0, x / length * length.clamp(max=longest) ** kept, 0.0)


def placed_rows(
    mapped: Tensor,
    signals: Tensor,
    kept: tuple[float, float],
    longest: float,
    balance: float,
    places: Array | None,
    displacement: Array | None,
) -> Tensor:
    """Joint coordinates of rows: directions of mapped components and signals, blended and displaced.

    Parameters
    ----------
    mapped, signals
        The rows' components and signals after their linear maps.
    kept
        How much of the length of either is kept, in [0, 1].
    longest
        Length that longer rows are taken to have.
    balance
        How much the signals count, in [0, 1].
    places, displacement
        Where a local displacement is known, and what it is there; None for none.
    """
    length = math.hypot(1 - balance, balance)
    q, s = (_directions(x, part, longest) for x, part in zip((mapped, signals), kept, strict=True))
    z = torch.cat([(1 - balance) / length * q, balance / length * s], 1)
    if places is None or displacement is None:
        return z
    known, moves = to_device(places, z.device), to_device(displacement, z.device)
    k = min(5, len(known))
    step = max(1, _CANDIDATES // (k * z.shape[1]))
    for start in range(0, len(z), step):
        rows = z[start : start + step]
        distances, indices = exact_search(known, rows, k)
        scale = distances[:, -1:]
        ratio = torch.where(scale > 0, distances / scale, torch.where(distances > 0, torch.inf, 0.0))
        weights = (-(ratio**2)).exp()
        weights /= weights.sum(1, keepdim=True)
        # the neighbours were found from where the rows stood, so each piece may be moved at once
        rows += torch.einsum("ij,ijk->ik", weights, moves[indices])
    return z


def on_planes(parts: Sequence[Tensor], k: int, seed: int) -> tuple[list[Tensor], Array]:
    """Rows laid onto the planes of their k ≤ n nearest, part by part, and on the host where they were.

    The same as `harmonicalign.method.planes.laid_together` within datasets, on a device.
    """
    rows, sizes = stacked(parts), [len(part) for part in parts]
    batch = torch.repeat_interleave(torch.tensor(sizes, device=rows.device))
    member = torch.eye(len(sizes), dtype=rows.dtype, device=rows.device)[batch]
    if len(rows) < EXACT_BELOW:
        indices = exact_search(rows, rows, k)[1]
    else:
        # The index keeps its rows sorted by list.
        index = build_index(rows, seed)
        found = search(index, k - 1, random_state=seed)[2]
        indices = torch.empty((len(rows), k), dtype=torch.int64, device=rows.device)
        indices[index.order, 1:] = index.order[found.long()]
        indices[index.order, 0] = index.order
    laid = torch.empty_like(rows)
    identity = torch.eye(k, dtype=torch.float64, device=rows.device)
    step = max(1, _CANDIDATES // (k * (rows.shape[1] + len(sizes) + 4 * k)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        near, of = rows[indices[some]], member[indices[some]]
        mean = near.mean(1, keepdim=True)
        near -= mean
        own = rows[some, None] - mean
        n = of.sum(1)[:, :, None]
        left = (k - (n > 0).sum(1, keepdim=True)) / max(k - 1, 1)
        near -= of @ (left.to(near.dtype) * (of.mT @ near) / n.clamp(min=1))
        gram, seen = (near @ near.mT).double(), (near @ own.mT).double()
        average = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        average = torch.where(average == 0, 1.0, average)
        gram /= average
        square = gram @ gram
        weights = torch.linalg.solve(square @ square + identity, square @ (gram @ (seen / average)))
        laid[some] = (mean + weights.mT.to(rows.dtype) @ near)[:, 0]
    return list(torch.split(laid, sizes)), to_host(rows)


class JointGraph:
    """A kernel graph over rows on a device.

    Above `EXACT_BELOW` rows it is kept in the order of the inverted file, in which near rows are near in
    memory; what is handed to the host is in the order of the rows.
    """

    def __init__(
        self,
        rows: Tensor,
        *,
        n_neighbors: int,
        max_neighbors: int,
        decay: float,
        thresh: float,
        anisotropy: float,
        seed: int,
    ) -> None:
        self.seed, self.recall = seed, 1.0
        self.order: Tensor | None = None
        if len(rows) < EXACT_BELOW:
            own = torch.arange(len(rows), device=rows.device)
            distances, indices = exact_search(rows, rows, max_neighbors, own)
        else:
            index = build_index(rows, seed)
            _, distances, indices = search(index, max_neighbors, random_state=seed)
            self.order = index.order
            self.recall = recall(index.rows, indices, random_state=seed)
            del index
        self.kernel: Kernel = kernel(
            distances,
            indices,
            n_bandwidth=n_neighbors,
            decay=decay,
            thresh=thresh,
            anisotropy=anisotropy,
        )

    def _in_row_order(self, values: Tensor) -> Tensor:
        if self.order is None:
            return values
        out = torch.empty_like(values)
        out[self.order] = values
        return out

    def components(self) -> Array:
        """Component number of every row, the heaviest component first."""
        label = components(self.kernel.matrix)
        numbers = torch.unique(label, return_inverse=True)[1]
        mass = np.bincount(to_host(numbers), weights=to_host(self.kernel.degrees))
        rank = np.empty(len(mass), dtype=np.int64)
        rank[np.argsort(-mass, kind="stable")] = np.arange(len(mass))
        found: Array = rank[to_host(self._in_row_order(numbers))]
        return found

    def harmonics(self, k: int, tol: float) -> tuple[Array, Array]:
        """Leading eigenvalues and eigenvectors but the trivial one, signs settled."""
        operator = normalise(self.kernel.matrix, self.kernel.degrees)
        values, psi = eigenpairs(operator, self.kernel.degrees, k, tol=tol, random_state=self.seed)
        psi = self._in_row_order(psi)
        largest = psi.gather(0, psi.abs().argmax(dim=0, keepdim=True))
        psi *= torch.where(largest < 0, -1.0, 1.0)
        return to_host(values).astype(np.float64), to_host(psi)

    def to_host(self) -> dict[str, Any]:
        """Kernel, degrees, density and bandwidth as arrays."""
        matrix = self.kernel.matrix if self.order is None else reordered(self.kernel.matrix, self.order)
        crow, col, val = (to_host(part) for part in matrix)
        rows = {
            name: to_host(self._in_row_order(getattr(self.kernel, name))).astype(np.float64)
            for name in ("degrees", "density", "bandwidth")
        }
        return {"kernel": csr_matrix((val, col, crow), shape=(matrix.n, matrix.n)), **rows}
