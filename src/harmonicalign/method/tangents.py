r"""Rows projected onto the tangent planes that their neighbours span, so that graphs see less of their noise.

Around a row the manifold is nearly a plane, which its neighbours determine: with C their coordinates
less their mean and μ the mean of the eigenvalues of ``G = C Cᵀ``, directions in which the
neighbourhood extends by more than the average are kept and others are removed, by the smooth filter

.. math:: f(G) = G^4 \, (G^4 + μ^4 I)^{-1},

whose dimension follows from the data: two on a surface, some ten among images.

Where datasets meet, they often differ in a direction of their own, which would look like the widest of
all. C is then taken relative to the datasets' means within the neighbourhood: a direction in which
datasets differ, and their rows do not, is none of the manifold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines import cpu
from harmonicalign.method.config import DEFAULT, MethodConfig

__all__ = ["neighbourhood", "project", "project_together"]


_STEP = 256
"""Rows projected at once: few enough that their matrices stay in the cache."""


def neighbourhood(n: int, config: MethodConfig = DEFAULT) -> int:
    """How many of n rows span a tangent plane, the row itself among them.

    The more rows there are, the closer they lie, and the more of them can take part before the manifold
    bends; the upper bound is one of cost.
    """
    least, most = config.tangent_bounds
    return min(n, int(np.clip(least * (n / 1000) ** (1 / 3), least, most)))


def project_together(
    parts: Sequence[Array], *, within: bool, config: MethodConfig = DEFAULT
) -> tuple[list[Array], Array]:
    """Rows of several datasets projected onto the tangent planes of all, and where they were, in one matrix.

    Parameters
    ----------
    parts
        Rows of every dataset.
    within
        Whether planes leave out directions in which only datasets differ.
    config
        Size of the neighbourhoods.
    """
    places, sizes = np.vstack(list(parts)), [len(part) for part in parts]
    batch = np.repeat(np.arange(len(sizes)), sizes) if within else None
    return np.split(project(places, places, batch, config), np.cumsum(sizes)[:-1]), places


def project(rows: Array, places: Array, batch: Array | None = None, config: MethodConfig = DEFAULT) -> Array:
    """Rows projected onto the tangent planes of their neighbours.

    Parameters
    ----------
    rows
        Rows to project, (m, d).
    places
        Rows that span it, (n, d); `rows` themselves, or others among which `rows` are placed.
    batch
        Number of the dataset that every place is of, where planes are to leave out differences between
        datasets.
    config
        Size of the neighbourhoods.
    """
    k = neighbourhood(len(places), config)
    indices = cpu.nearest(places, k, rows, exact=False)[1]
    # Single precision, in which neighbours are sought too; its digits are spent on differences.
    middle = places.mean(axis=0)
    places, centred = (places - middle).astype(np.float32), (rows - middle).astype(np.float32)
    member = None if batch is None else np.eye(int(batch.max()) + 1, dtype=places.dtype)[batch]
    identity, out = np.eye(k), np.empty_like(rows)

    def work(some: slice) -> None:
        near = places[indices[some]]
        mean, centres = _means(near, None if member is None else member[indices[some]])
        near -= centres
        # Fourth powers need double precision.
        gram = (near @ near.transpose(0, 2, 1)).astype(np.float64)
        seen = (near @ (centred[some, None] - mean).transpose(0, 2, 1)).astype(np.float64)
        average = np.trace(gram, axis1=1, axis2=2)[:, None, None] / k
        average[average == 0] = 1  # all neighbours coincide, and nothing is seen of the row
        gram /= average
        square = gram @ gram
        weights = np.linalg.solve(square @ square + identity, square @ (gram @ (seen / average)))
        out[some] = middle + (mean + weights.transpose(0, 2, 1).astype(np.float32) @ near)[:, 0]

    cpu.in_threads(work, [slice(i, min(i + _STEP, len(rows))) for i in range(0, len(rows), _STEP)])
    return out


def _means(near: Array, member: Array | None) -> tuple[Array, Array]:
    """Mean of every neighbourhood, (m, 1, d), and the centres its rows are taken relative to.

    The centre is that mean, or where datasets matter, the mean of the row's own dataset there. The more
    datasets a neighbourhood is of, the less would be left of it, up to nothing where all its rows are of
    different ones. So the datasets' means count by the share of its dimensions that would be left.

    Parameters
    ----------
    near
        Neighbourhoods, (m, k, d).
    member
        1 where a row is of a dataset and else 0, (m, k, number of datasets); None if datasets do not matter.
    """
    if member is None:
        mean = near.mean(axis=1, keepdims=True)
        return mean, mean
    k, n = near.shape[1], member.sum(axis=1)[:, :, None]
    sums = member.transpose(0, 2, 1) @ near
    mean = sums.sum(axis=1, keepdims=True) / k
    left = (k - np.count_nonzero(n, axis=1, keepdims=True)) / max(k - 1, 1)
    return mean, member @ (mean + left.astype(near.dtype) * (sums / np.maximum(n, 1) - mean))
