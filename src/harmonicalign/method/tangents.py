r"""Rows projected onto the tangent planes of their neighbours, to reduce noise.

Around a row the manifold is nearly a plane, which its neighbours determine. With C their coordinates minus
their mean and μ the mean eigenvalue of ``G = C Cᵀ``, directions in which the neighbourhood extends by more
than the average are kept and others are removed by the smooth filter

.. math:: f(G) = G^4 \, (G^4 + μ^4 I)^{-1},

whose dimension follows from the data: two on a surface, about ten for images.

Where clusters are pure noise a neighbourhood extends in more directions than all rows together do. It is no
piece of a manifold then, and to keep the half of the directions that is larger by chance would draw strings
into clean clusters. Rows of the embedding therefore move only part of the way, by the number of dimensions of
all rows over that of the neighbourhood (`harmonicalign.engines.rows.tangent_projection`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import tangent_projection
from harmonicalign.engines.threads import in_threads
from harmonicalign.method.config import DEFAULT, MethodConfig

__all__ = ["project"]


_STEP = 48
"""Rows projected at once: so few that the memory of their matrices is used again and not asked for anew by
every one of them, which takes as long as the arithmetic (8 to 256 were tried; from 128 on it doubles)."""


def project(rows: Any, places: Any, config: MethodConfig = DEFAULT, dimensions: float | None = None) -> Any:
    """Rows projected onto the tangent planes of their neighbours; tensors on their device.

    Parameters
    ----------
    rows
        Rows to project, (m, d).
    places
        Rows that span the planes, (n, d): `rows` themselves, or rows among which `rows` are placed.
    config
        Size of the neighbourhoods.
    dimensions
        Number of dimensions of all rows; None to move every row all the way.
    """
    k = min(len(places), config.tangent_neighbours)
    if not isinstance(rows, np.ndarray):
        from harmonicalign.engines.torch_joint import onto_planes

        return onto_planes(rows, places, k, dimensions)
    indices = nearest_rows(places, k, rows, exact=False).indices
    # Single precision, in which neighbours are found too; subtracting the mean saves its digits.
    middle = places.mean(axis=0)
    places, centred = (places - middle).astype(np.float32), (rows - middle).astype(np.float32)
    out = np.empty_like(rows)

    def work(some: slice) -> None:
        out[some] = middle + tangent_projection(places[indices[some]], centred[some], dimensions)

    in_threads(work, [slice(i, min(i + _STEP, len(rows))) for i in range(0, len(rows), _STEP)])
    return out
