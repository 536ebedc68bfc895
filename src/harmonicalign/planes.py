r"""Rows laid onto the manifold that their neighbours span, so that graphs see less of their noise.

Around a row the manifold is nearly a plane, and the neighbours tell which: with C their coordinates
less their mean and μ the mean of the eigenvalues of ``G = C Cᵀ``, directions in which the
neighbourhood extends by more than the average are kept and others are left out, by the smooth filter

.. math:: f(G) = G^4 \, (G^4 + μ^4 I)^{-1},

whose dimension follows from the data: two on a surface, some ten among images.

Where datasets meet, they often differ in a direction of their own, which would look like the widest of
all. C is then taken relative to the datasets' means within the neighbourhood: a direction in which
datasets differ, and their rows do not, is none of the manifold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harmonicalign.backends import cpu

__all__ = ["NEIGHBOURHOOD", "PLANE_ROWS", "laid_together", "on_planes"]

Array = np.ndarray[Any, Any]

NEIGHBOURHOOD = 31
"""Rows that span a plane, the row itself among them."""

PLANE_ROWS = 100_000
"""With more rows than this, rows stay where they are: neighbours are near, and the search is dear."""

_STEP = 256
"""Rows laid at once: few enough that their matrices stay in the cache."""


def laid_together(parts: Sequence[Array], *, within: bool) -> tuple[list[Array], Array]:
    """Rows of several datasets laid onto the planes of all of them, and where they were, in one matrix.

    Parameters
    ----------
    parts
        Rows of every dataset.
    within
        Whether planes leave out directions in which only datasets differ.
    """
    places, sizes = np.vstack(list(parts)), [len(part) for part in parts]
    batch = np.repeat(np.arange(len(sizes)), sizes) if within else None
    return np.split(on_planes(places, places, batch), np.cumsum(sizes)[:-1]), places


def on_planes(rows: Array, places: Array, batch: Array | None = None) -> Array:
    """Rows projected on the planes of their neighbours.

    Parameters
    ----------
    rows
        Rows to lay onto the manifold, (m, d).
    places
        Rows that span it, (n, d); `rows` themselves, or rows that more are to be laid among.
    batch
        Number of the dataset that every place is of, where planes are to leave out differences between
        datasets.
    """
    indices = cpu.nearest(places, min(NEIGHBOURHOOD, len(places)), rows, exact=False)[1]
    out = np.empty_like(rows)

    def lay(some: slice) -> None:
        near = places[indices[some]]
        mean = near.mean(axis=1, keepdims=True)
        near = near - mean
        own = rows[some, None] - mean
        # Fourth powers need double precision.
        gram = (near @ near.transpose(0, 2, 1)).astype(np.float64)
        seen = (near @ own.transpose(0, 2, 1)).astype(np.float64)
        if batch is not None:
            centre = _centring(batch[indices[some]])
            gram, seen = centre @ gram @ centre, centre @ seen
        average = np.trace(gram, axis1=1, axis2=2)[:, None, None] / gram.shape[1]
        average[average == 0] = 1  # all neighbours coincide, and nothing is seen of the row
        gram /= average
        square = gram @ gram
        weights = np.linalg.solve(square @ square + np.eye(gram.shape[1]), square @ (gram @ (seen / average)))
        if batch is not None:
            weights = centre @ weights
        out[some] = (mean + weights.transpose(0, 2, 1).astype(rows.dtype) @ near)[:, 0]

    cpu.in_threads(lay, [slice(i, min(i + _STEP, len(rows))) for i in range(0, len(rows), _STEP)])
    return out


def _centring(batch: Array) -> Array:
    """For every neighbourhood, the symmetric matrix that subtracts from rows the mean of their dataset's.

    The more datasets a neighbourhood is of, the less is left of it, up to nothing where all its rows are
    of different ones. So means are subtracted in part, by the share of its dimensions that would be left.
    """
    same = batch[:, :, None] == batch[:, None, :]
    n, k = same.sum(axis=2, keepdims=True), batch.shape[1]
    left = (k - np.sum(1 / n, axis=1, keepdims=True)) / max(k - 1, 1)
    return np.asarray(np.eye(k) - same * (left / n))
