r"""Rows projected onto the tangent planes of their neighbours, to reduce noise and what datasets differ in.

Around a row the manifold is nearly a plane, which its neighbours determine. With C their coordinates minus
their mean and μ the mean eigenvalue of ``G = C Cᵀ``, directions in which the neighbourhood extends by more
than the average are kept and others are removed by the smooth filter

.. math:: f(G) = G^4 \, (G^4 + μ^4 I)^{-1},

whose dimension follows from the data: two on a surface, about ten for images.

Datasets that meet often still differ in one direction, which can be the widest of a neighbourhood. The rows
of C are then centred per dataset within the neighbourhood: a direction in which datasets differ, but the rows
of each do not, is not part of the manifold. Only what differs beyond chance is subtracted
(`harmonicalign.engines.rows.tangent_projection`): few rows of two random halves also have different means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import tangent_projection
from harmonicalign.engines.threads import in_threads
from harmonicalign.method.config import DEFAULT, MethodConfig

__all__ = ["project", "project_together"]


_STEP = 48
"""Rows projected at once: so few that the memory of their matrices is used again and not asked for anew by
every one of them, which takes as long as the arithmetic (8 to 256 were tried; from 128 on it doubles)."""


def project_together(
    parts: Sequence[Array], *, within: bool, config: MethodConfig = DEFAULT
) -> tuple[list[Array], Array]:
    """Rows of several datasets projected onto the tangent planes of all, and the original rows in one matrix.

    Parameters
    ----------
    parts
        Rows of every dataset.
    within
        Whether to remove directions in which only datasets differ.
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
        Rows that span the planes, (n, d): `rows` themselves, or rows among which `rows` are placed.
    batch
        Dataset index of every row of `places`, if directions in which only datasets differ are to be removed.
    config
        Size of the neighbourhoods.
    """
    k = min(len(places), config.tangent_neighbours)
    indices = nearest_rows(places, k, rows, exact=False).indices
    # Single precision, in which neighbours are found too; subtracting the mean saves its digits.
    middle = places.mean(axis=0)
    places, centred = (places - middle).astype(np.float32), (rows - middle).astype(np.float32)
    out = np.empty_like(rows)

    def work(some: slice) -> None:
        near = indices[some]
        own = None if batch is None else batch[near]
        out[some] = middle + tangent_projection(places[near], centred[some], own)

    in_threads(work, [slice(i, min(i + _STEP, len(rows))) for i in range(0, len(rows), _STEP)])
    return out
