"""The default's joint map: a graph over rows projected onto tangent planes, and how new rows join it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harmonicalign._typing import Array
from harmonicalign.method.planes import on_planes
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.paper.joint import Joint

__all__ = ["JointMap"]

_JOINING_STEPS = 2
"""Steps by which rows of an added dataset average over each other; more bring nothing."""


@dataclass(frozen=True)
class JointMap(Joint):
    """A joint geometry whose graph is built on rows projected onto the tangent planes of their neighbours.

    Attributes
    ----------
    graph, harmonics, batch
        As in `harmonicalign.Joint`.
    places
        Where the rows were before they were projected; None if the graph is built on the rows as they are.
    """

    places: Array | None = None

    @property
    def coordinates(self) -> Array:
        """Aligned coordinates of all rows, dataset after dataset, before any were projected."""
        return self.rows if self.places is None else self.places

    def lay(self, z: Array, *, together: bool = False) -> Array:
        """New rows laid onto the manifold among the rows here, from their aligned coordinates.

        Parameters
        ----------
        z
            Aligned coordinates of the new rows.
        together
            The rows are a dataset: they span planes with the rows here. Else each stands for itself.
        """
        if self.places is None:
            return z
        places, batch = self.places, self.batch
        if together:
            places = np.vstack([places, z])
            batch = np.concatenate([batch, np.full(len(z), batch.max() + 1)])
        return on_planes(z, places, batch)

    def extend(self, rows: Array, *, together: bool = False) -> Array:
        """Values of the harmonics φ at new rows that `lay` returned (Nyström).

        Fitted rows and their neighbours are drawn to each other. A new row moves nothing, and so comes less
        near to its neighbours; squared probabilities make up for it. Rows of a whole dataset draw each other
        near: they are neighbours too, and φ is averaged over them and the fitted rows.

        Parameters
        ----------
        rows
            The new rows, where they were laid.
        together
            The rows are a dataset and neighbours of each other, as the rows here are.
        """
        if together:
            return self._among_each_other(rows, self.harmonics.extend(self.graph.extend(rows)))
        return self.harmonics.extend(self.graph.extend(rows, power=2))

    def _among_each_other(self, rows: Array, phi: Array) -> Array:
        """Steps towards the φ of new rows that is harmonic on the graph of fitted and new rows together.

        The fitted rows' φ stays; that of the new rows, `phi` at first, follows from ``P φ = λ φ``.
        """
        own = self.graph
        assert own.n_neighbors is not None
        grown = kernel_graph(
            np.vstack([self.rows, rows]),
            n_neighbors=own.n_neighbors,
            max_neighbors=own.max_neighbors,
            decay=own.decay,
            thresh=own.thresh,
            anisotropy=own.anisotropy,
        )
        transitions, fitted = grown.transitions[own.n_rows :], self.harmonics.phi
        for _ in range(_JOINING_STEPS):
            phi = self.harmonics.over_eigenvalues(transitions @ np.vstack([fitted, phi]))
        return phi
