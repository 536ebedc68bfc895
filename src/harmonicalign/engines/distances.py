"""Euclidean distances in double precision, and rows in single precision that keep most of their digits."""

from __future__ import annotations

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.protocols import Neighbours
from harmonicalign.engines.threads import BLOCK_BYTES, in_threads, row_slices

__all__ = ["all_distances", "in_single", "measured_again", "row_distances"]

_HUGE = 1e150
"""Numbers beyond this are scaled before they are added up."""


def _unit_scale(*arrays: Array) -> float:
    """Largest magnitude in `arrays`, or 1: dividing by it keeps squares within range."""
    largest = max((max(float(a.max()), -float(a.min())) for a in arrays if a.size), default=0.0)
    return largest if largest > 0 else 1.0


def all_distances(x: Array, y: Array | None = None, *, block_bytes: int = BLOCK_BYTES) -> Array:
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
    for rows in row_slices(len(xs), 9 * len(ys), block_bytes=block_bytes):
        block = squared[rows]
        close_i, close_j = np.nonzero(block <= 1e-9 * (x_norms[rows, None] + y_norms[None, :]))
        difference = xs[close_i + rows.start] - ys[close_j]
        block[close_i, close_j] = np.einsum("ij,ij->i", difference, difference)
    np.sqrt(squared, out=squared)
    if same:
        np.fill_diagonal(squared, 0.0)
    squared *= scale
    return np.asarray(squared)


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


def measured_again(indices: Array, queries: Array, x: Array, recall: float) -> Neighbours:
    """Neighbours that were found in single precision, by their distances in double precision."""
    distances = row_distances(queries, x, indices)
    order = np.argsort(distances, axis=1, kind="stable")
    return Neighbours(
        np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1), recall
    )


def in_single(x: Array, queries: Array | None = None) -> tuple[Array, Array, float]:
    """Rows in single precision, scaled and centred so that its digits are spent on differences.

    Returns
    -------
    base, sought
        Rows of `x` and `queries`, of the same object if there are no queries.
    scale
        What distances between them are to be multiplied by.
    """
    scale = _unit_scale(x) if queries is None or queries is x else _unit_scale(x, queries)
    x = _with_room(x, scale)
    centre = x.mean(axis=0, dtype=np.float64) / scale if scale < _HUGE else (x / scale).mean(axis=0)
    base = _shifted(x, scale, centre)
    return base, base if queries is None else _shifted(queries, scale, centre), scale


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
