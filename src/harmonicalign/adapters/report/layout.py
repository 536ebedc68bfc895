r"""A flat picture of many columns: rows that are neighbours stay neighbours (t-SNE).

Every row attracts its nearest rows with equal strength (``P``, symmetric, summing to one), all rows
repel each other, and the gradient of the Kullback-Leibler divergence is followed:

.. math:: \frac{∂}{∂y_i} = 4 \sum_j p_{ij} \frac{y_i − y_j}{1 + ‖y_i − y_j‖²}
                         − \frac4Z \sum_j \frac{y_i − y_j}{(1 + ‖y_i − y_j‖²)²}

The second sum is minus half the gradient of the potential ``φ(y) = Σ_j 1 / (1 + ‖y − y_j‖²)``, and Z
is the sum of φ over the rows. The potential is a convolution: the rows are spread over a grid with
cubic splines, convolved there by the fast Fourier transform, and read off with the same splines. So a
step costs time in proportion to the number of rows, with numpy and scipy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.fft
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.verdict.subject import allot
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.threads import owned
from harmonicalign.paper.reduction import leading_axes

__all__ = ["neighbour_layout", "principal_plane"]


_NEIGHBOURS = 15
_EXAGGERATION = 12.0
_EARLY, _LATE, _TOUCH = 100, 200, 20
"""Steps: with attraction exaggerated, without, and after the remaining rows were added."""

_FIRST_ROWS = 4000
"""Above this many rows a sample is laid out first and the others join it."""

_SPACING = 0.45
"""Distance of grid points, in units of the repulsion's own width."""


def principal_plane(rows: Array) -> Array:
    """The first two principal components of the rows, (n, 2); a single column gets zeros beside it."""
    centred = rows - rows.mean(axis=0)
    plane = centred @ leading_axes(centred, 2)
    plane = np.hstack([plane, np.zeros((len(plane), 2 - plane.shape[1]))])
    # Signs are arbitrary; settle them so that equal data gives an equal picture.
    largest = plane[np.abs(plane).argmax(axis=0), [0, 1]]
    return np.asarray(plane * np.where(largest < 0, -1.0, 1.0))


def neighbour_layout(rows: Array, sizes: Sequence[int] | None = None, random_state: int = 0) -> Array:
    """Rows in the plane, neighbours by neighbours, (n, 2). Deterministic.

    Parameters
    ----------
    rows
        Coordinates, (n, d).
    sizes
        Rows of each dataset, if several are stacked: small ones are then well represented in the sample
        that is laid out first. Otherwise their rows would be placed beside rows of other datasets.
    random_state
        Seed of the sample.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    n = len(rows)
    if n < 5:
        return principal_plane(rows)
    with owned():
        if n <= _FIRST_ROWS:
            return _lay_out(rows, _ties(rows))
        rng = np.random.RandomState(random_state)
        sizes = [n] if sizes is None else sizes
        starts = np.cumsum([0, *sizes])
        taken = zip(starts, sizes, allot(sizes, _FIRST_ROWS), strict=False)
        first = np.sort(np.concatenate([start + rng.permutation(size)[:m] for start, size, m in taken]))
        rest = np.setdiff1d(np.arange(n), first)
        ties = _ties(rows[first])
        laid = _lay_out(rows[first], ties)
        # The others are tied to their nearest rows of the sample and start beside the next; then all move.
        nearest = nearest_rows(rows[first], _NEIGHBOURS, rows[rest], exact=False).indices
        start = np.empty((n, 2))
        start[first] = laid
        start[rest] = laid[nearest[:, 0]] + rng.normal(0, 0.5, (len(rest), 2))
        joined = _Ties(
            one=np.concatenate([first[ties.one], np.repeat(rest, _NEIGHBOURS)]),
            other=np.concatenate([first[ties.other], first[nearest.ravel()]]),
            strength=np.concatenate([ties.strength * len(first), np.full(nearest.size, 0.5 / _NEIGHBOURS)]),
        ).scaled()
        return _descend(start, joined, _TOUCH, rate=n / _EXAGGERATION, momentum=0.8)


@dataclass(frozen=True)
class _Ties:
    """Which rows attract each other: every pair once, and how strongly."""

    one: Array
    other: Array
    strength: Array

    def scaled(self, to: float = 0.5) -> _Ties:
        """The same with strengths that sum to `to`; each counts for both of its rows."""
        return replace(self, strength=self.strength * (to / self.strength.sum()))

    def pull(self, y: Array) -> Array:
        """Attraction ``Σ_j p_ij (y_i − y_j) / (1 + ‖y_i − y_j‖²)`` of every row."""
        apart = [column.take(self.one) - column.take(self.other) for column in np.ascontiguousarray(y.T)]
        force = self.strength / (1 + apart[0] ** 2 + apart[1] ** 2)
        columns = [
            np.bincount(self.one, force * d, len(y)) - np.bincount(self.other, force * d, len(y))
            for d in apart
        ]
        return np.stack(columns, axis=1)


def _ties(rows: Array) -> _Ties:
    """Every row tied to its nearest neighbours, all alike; two rows that choose each other doubly."""
    n = len(rows)
    k = min(_NEIGHBOURS, n - 1)
    found = nearest_rows(rows, k, exact=False).indices
    chosen = sp.csr_matrix((np.ones(n * k), found.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    pairs = sp.triu(chosen + chosen.T).tocoo()
    # Wide integers: numpy would convert narrow ones anew in every step.
    return _Ties(pairs.row.astype(np.int64), pairs.col.astype(np.int64), pairs.data).scaled()


def _lay_out(rows: Array, ties: _Ties) -> Array:
    """Rows from their principal plane to their final places."""
    n = len(rows)
    plane = principal_plane(rows.astype(np.float64))
    # Coinciding rows would never separate, because they have the same gradient.
    jitter = np.random.RandomState(0).normal(0, 0.01, (n, 2))
    start = plane / max(float(plane.std(axis=0).max()), 1e-300) + jitter
    y = _descend(1e-2 * start, ties.scaled(_EXAGGERATION / 2), _EARLY, rate=n / _EXAGGERATION, momentum=0.5)
    return _descend(y, ties, _LATE, rate=n / 4, momentum=0.8)


def _descend(y: Array, ties: _Ties, n_steps: int, *, rate: float, momentum: float) -> Array:
    """Follow the gradient, with momentum and a step length of its own for every coordinate."""
    speed, gain = np.zeros_like(y), np.ones_like(y)
    repulsion = _Repulsion()
    for _ in range(n_steps):
        push, total = repulsion(y)
        gradient = 4 * (ties.pull(y) - push / total)
        # A coordinate that keeps its direction gets longer steps, one that reverses gets shorter ones.
        gain = np.maximum(np.where(gradient * speed > 0, 0.8 * gain, gain + 0.2), 0.01)
        speed = momentum * speed - rate * gain * gradient
        y = y + speed
        y -= y.mean(axis=0)
    return y


class _Repulsion:
    """Repulsion of all rows on each other, through a grid; remembers the kernel for the grid's size."""

    def __init__(self) -> None:
        self._size = 0
        self._kernel: Array = np.empty(0)

    def __call__(self, y: Array) -> tuple[Array, float]:
        """``Σ_j (y_i − y_j) / (1 + ‖y_i − y_j‖²)²`` for every row, and Z."""
        places = (y - y.min(axis=0)) / _SPACING + 1
        size = _round_up(int(places.max()) + 4)
        if size != self._size:
            self._size, self._kernel = size, _transformed_kernel(size)
        corner = np.floor(places).astype(np.int64)
        weights, slopes = _splines(places - corner)
        flat = (corner[:, 0, None] - 1 + np.arange(4))[:, :, None] * size
        flat = flat + (corner[:, 1, None] - 1 + np.arange(4))[:, None, :]
        mass = weights[:, 0, :, None] * weights[:, 1, None, :]
        density = np.bincount(flat.ravel(), weights=mass.ravel(), minlength=size * size).reshape(size, size)
        wide = 2 * size
        # Single precision is sufficient for a plot and twice as fast.
        spectrum = scipy.fft.rfft2(density.astype(np.float32), (wide, wide)) * self._kernel
        potential = scipy.fft.irfft2(spectrum, (wide, wide))[:size, :size]
        patch = np.ascontiguousarray(potential).ravel()[flat]
        along = np.einsum("nab,nb->na", patch, weights[:, 1])
        across = np.einsum("nab,na->nb", patch, weights[:, 0])
        value = np.einsum("na,na->n", along, weights[:, 0])
        slope = np.stack(
            [np.einsum("na,na->n", along, slopes[:, 0]), np.einsum("nb,nb->n", across, slopes[:, 1])], axis=1
        )
        # Every row meets itself at distance zero, which contributes 1 and no force.
        return slope / (-2 * _SPACING), max(float(value.sum()) - len(y), 1e-12)


def _round_up(size: int) -> int:
    """A size whose double transforms quickly, in steps, so that the kernel is rarely recomputed."""
    step = max(16, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step


def _transformed_kernel(size: int) -> Array:
    """Fourier transform of 1 / (1 + r²) over a doubled grid, with the splines' own smoothing divided out."""
    wide = 2 * size
    squared = (np.minimum(np.arange(wide), wide - np.arange(wide)) * _SPACING) ** 2
    kernel = scipy.fft.rfft2(1 / (1 + squared[:, None] + squared[None, :]))
    smoothing = (2 + np.cos(2 * np.pi * np.arange(wide) / wide)) / 3
    sharpened = kernel / (smoothing[:, None] * smoothing[None, : wide // 2 + 1]) ** 2
    return np.asarray(sharpened, dtype=np.complex64)


def _splines(u: Array) -> tuple[Array, Array]:
    """Weights of the four grid points around a place, and their slopes; cubic B-splines, (n, 2, 4)."""
    v = 1 - u
    weights = np.stack([v**3, 3 * u**3 - 6 * u**2 + 4, 3 * v**3 - 6 * v**2 + 4, u**3], axis=2) / 6
    slopes = np.stack([-(v**2) / 2, 1.5 * u**2 - 2 * u, 2 * v - 1.5 * v**2, u**2 / 2], axis=2)
    return weights, slopes
