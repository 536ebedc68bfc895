"""The joint space and its graph on a torch device: rows go up once, results come down once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from harmonicalign._typing import Array
from harmonicalign.engines.protocols import Neighbours
from harmonicalign.engines.rows import canonical_signs, displace, heaviest_first, smooth
from harmonicalign.engines.rows import tangent_projection as projected
from harmonicalign.engines.torch_device import to_device, to_host
from harmonicalign.engines.torch_neighbours import EXACT_BELOW, knn, knn_in_lists
from harmonicalign.engines.torch_spectral import Kernel, components, eigenpairs, kernel, normalise, reordered
from harmonicalign.engines.torch_tiles import exact_search, workspace

__all__ = [
    "JointGraph",
    "along_axes",
    "displaced",
    "moments",
    "on_planes",
    "onto_planes",
    "smoothed",
    "smoothed_among",
    "stacked",
    "to_device",
    "to_host",
]

_CANDIDATES = 1 << 27
"""Numbers in the temporaries of a displacement or of a projection, at most."""

_COMPARED = 1 << 31
"""Pairs of new and known rows that are all compared; a device does so many in less than it takes to sort.

A tuning constant of the engine: it decides on time and, within the recall of lists, on neighbours.
`benchmarks/gpu.py` times `transform` and `add`.
"""


def stacked(coordinates: Sequence[Tensor]) -> Tensor:
    """Rows of all datasets, one after the other."""
    return torch.cat(list(coordinates))


def displaced(z: Tensor, places: Array, displacement: Array, n_places: int) -> Tensor:
    """Rows moved, in place, by the displacement of the known places nearest to each.

    Parameters
    ----------
    z
        The rows.
    places, displacement
        Where a displacement is known, and what it is there.
    n_places
        How many places count for each row, at most.
    """
    known, moves = to_device(places, z.device), to_device(displacement, z.device)
    k = min(n_places, len(known))
    # smaller pieces on the CPU, where they stay in the cache and take a third of the time
    step = max(1, min(_CANDIDATES, workspace(z.device)) // (k * z.shape[1]))
    for start in range(0, len(z), step):
        some = slice(start, start + step)
        # the neighbours are found from where the rows stand, so each piece may be moved at once
        displace(z[some], moves, exact_search(known, z[some], k))
    return z


def on_planes(
    rows: Tensor, k: int, dimensions: float, seed: int, *, exact_below: int = EXACT_BELOW
) -> Tensor:
    """Rows projected onto the planes of their k ≤ n nearest.

    The same as `harmonicalign.method.tangents.project`, on a device.
    """
    others = knn(rows, k - 1, exact_below=exact_below, random_state=seed).indices
    indices = torch.cat([torch.arange(len(rows), device=rows.device)[:, None], others], 1)
    return _projected(rows, rows, indices, dimensions)


def onto_planes(
    rows: Tensor, places: Tensor, k: int, dimensions: float | None = None, seed: int = 0
) -> Tensor:
    """New rows projected onto the planes of their k nearest places.

    The same as `harmonicalign.method.tangents.project`, on a device.
    """
    indices = knn(places, k, rows, exact_below=_all_pairs(rows, places), random_state=seed).indices
    return _projected(rows, places, indices, dimensions)


def _projected(rows: Tensor, places: Tensor, indices: Tensor, dimensions: float | None) -> Tensor:
    """Rows on the planes of the places that are near them, some thousands at a time."""
    middle = places.double().mean(0).to(places.dtype)
    known, laid, k = places - middle, torch.empty_like(rows), indices.shape[1]
    step = max(1, _CANDIDATES // (k * (rows.shape[1] + 5 * k)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        near = indices[some]
        laid[some] = middle + projected(known[near], rows[some] - middle, dimensions)
    return laid


def smoothed(
    rows: Tensor,
    sample: Array,
    own: Array,
    k: int,
    share: float,
    seed: int,
    *,
    exact_below: int = EXACT_BELOW,
) -> tuple[Tensor, Tensor]:
    """Rows moved part of the way to the weighted mean of their k nearest among a sample of them.

    The same as `harmonicalign.method.embed.smoothed`, on a device. Returned are the rows, and the sample as
    it was before; both stay there.

    Parameters
    ----------
    rows
        Rows of all datasets.
    sample, own
        Numbers of the rows in the sample; for every row its number in the sample, or −1.
    k, share
        Neighbours, and how far rows move.
    seed
        Seed of the neighbour search.
    exact_below
        See `knn`.
    """
    if len(sample) == len(rows):
        near = knn(rows, min(k, len(rows) - 1), exact_below=exact_below, random_state=seed)
        return smooth(rows, rows, near, share), rows
    known = rows[torch.from_numpy(sample).to(rows.device)]
    found = knn(known, k + 1, rows, exact_below=exact_below, random_state=seed)
    return smooth(rows, known, _without_itself(found, own), share), known


def smoothed_among(
    rows: Tensor, known: Tensor, own: Array | None, k: int, share: float, seed: int = 0
) -> Tensor:
    """New rows moved part of the way to the weighted mean of their k nearest known rows.

    Parameters
    ----------
    rows, known
        Rows to move, and rows among which neighbours are found.
    own
        For each row its number among the known ones; None if none is known.
    k, share
        Neighbours, and how far rows move.
    seed
        Seed of the neighbour search.
    """
    few = _all_pairs(rows, known)
    found = knn(known, k + (own is not None), rows, exact_below=few, random_state=seed)
    moved: Tensor = smooth(rows, known, found if own is None else _without_itself(found, own), share)
    return moved


def _all_pairs(rows: Tensor, known: Tensor) -> int:
    """Number of known rows below which they are compared with all rows: few rows are not worth lists."""
    return len(known) + 1 if len(rows) * len(known) <= _COMPARED else EXACT_BELOW


def _without_itself(found: Neighbours, own: Array) -> Neighbours:
    """Neighbours of known rows without the rows themselves, or without the last."""
    other = found.indices != torch.from_numpy(own).to(found.indices.device)[:, None]
    other[:, -1] &= ~other.all(1)
    shape = len(own), found.k - 1
    return Neighbours(found.indices[other].reshape(shape), found.distances[other].reshape(shape))


def moments(rows: Tensor) -> tuple[Array, Array]:
    """Mean of the rows, and the sum of their products about it, in double precision on the host."""
    mean = rows.mean(0, dtype=torch.float64)
    sums = torch.zeros((rows.shape[1],) * 2, dtype=torch.float64, device=rows.device)
    step = max(1, workspace(rows.device) // (4 * rows.shape[1]))
    for start in range(0, len(rows), step):
        centred = rows[start : start + step].double() - mean
        sums += centred.mT @ centred
    return to_host(mean), to_host(sums)


def along_axes(rows: Tensor, axes: Array, mean: Array) -> tuple[Tensor, Array]:
    """Coordinates of the rows along axes through the mean, and the sign that each axis was given.

    The row farthest along an axis is on its positive side.
    """
    rows = rows.to(torch.float32)
    coordinates = rows @ to_device(axes, rows.device) - to_device(mean @ axes, rows.device)
    low, high = coordinates.aminmax(dim=0)
    signs = torch.where(high >= -low, 1.0, -1.0).to(coordinates.dtype)
    coordinates *= signs
    return coordinates, to_host(signs).astype(np.float64)


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
        exact_below: int = EXACT_BELOW,
    ) -> None:
        self.seed = seed
        self.order, found = knn_in_lists(rows, max_neighbors, exact_below=exact_below, random_state=seed)
        self.recall = found.recall
        self.kernel: Kernel = kernel(
            found, n_bandwidth=n_neighbors, decay=decay, thresh=thresh, anisotropy=anisotropy
        )

    def _in_row_order(self, values: Tensor) -> Tensor:
        if self.order is None:
            return values
        out = torch.empty_like(values)
        out[self.order] = values
        return out

    def components(self) -> Array:
        """Component number of every row, the heaviest component first."""
        numbers = torch.unique(components(self.kernel.matrix), return_inverse=True)[1]
        rows = (to_host(self._in_row_order(values)) for values in (numbers, self.kernel.degrees))
        return heaviest_first(*rows)

    def harmonics(self, k: int, tol: float, **options: Any) -> tuple[Array, Array]:
        """Leading eigenvalues and eigenvectors but the trivial one, signs settled."""
        operator = normalise(self.kernel.matrix, self.kernel.degrees)
        trivial = self.kernel.degrees.sqrt()
        values, psi = eigenpairs(
            operator,
            k,
            deflate=(trivial / trivial.norm())[:, None],
            tol=tol,
            random_state=self.seed,
            **options,
        )
        psi = canonical_signs(self._in_row_order(psi))
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
