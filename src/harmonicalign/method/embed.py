"""The default's joint map and embedding: a graph over projected rows, its harmonics, how new rows join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from harmonicalign._typing import Array
from harmonicalign.engines import cpu
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import unit_rows
from harmonicalign.method.tangents import neighbourhood, project, project_together
from harmonicalign.paper.graph import kernel_graph
from harmonicalign.paper.joint import Joint, joint_geometry

__all__ = ["JointMap", "embed", "joint_map", "joint_neighbours", "partly_projected"]


@dataclass(frozen=True)
class JointMap(Joint):
    """A joint geometry whose graph is built on rows projected onto the tangent planes of their neighbours.

    Attributes
    ----------
    graph, harmonics, batch
        As in `harmonicalign.Joint`.
    places
        Where the rows were before they were projected; None if the graph is built on the rows as they are.
    config
        Numbers and rules that new rows are placed by.
    """

    places: Array | None = None
    config: MethodConfig = DEFAULT

    @property
    def coordinates(self) -> Array:
        """Aligned coordinates of all rows, dataset after dataset, before any were projected."""
        return self.rows if self.places is None else self.places

    def project(self, z: Array, *, together: bool = False) -> Array:
        """New rows projected onto the tangent planes of the rows here, from their aligned coordinates.

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
        return project(z, places, batch, self.config)

    def extend(self, rows: Array, *, together: bool = False) -> Array:
        """Values of the harmonics φ at new rows that `project` returned (Nyström).

        Fitted rows and their neighbours are drawn to each other. A new row moves nothing, and so comes less
        near to its neighbours; squared probabilities make up for it. Rows of a whole dataset draw each other
        near: they are neighbours too, and φ is averaged over them and the fitted rows.

        Parameters
        ----------
        rows
            The new rows, projected.
        together
            The rows are a dataset and neighbours of each other, as the rows here are.
        """
        if together:
            return self._among_each_other(rows, self.harmonics.extend(self.graph.extend(rows)))
        return self.harmonics.extend(self.graph.extend(rows, power=self.config.joining_power))

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
        for _ in range(self.config.joining_steps):
            phi = self.harmonics.over_eigenvalues(transitions @ np.vstack([fitted, phi]))
        return phi


def joint_map(
    z: Sequence[Any], anisotropy: float, seed: int, device: Any = "cpu", config: MethodConfig = DEFAULT
) -> JointMap:
    """Graph and harmonics over all rows, projected onto tangent planes while they are few.

    Parameters
    ----------
    z
        Joint coordinates of every dataset's rows; tensors where they are on a device.
    anisotropy
        Density correction of the kernel.
    seed
        Seed of the eigensolver.
    device
        "cpu", or a device of torch.
    config
        Numbers and rules of the method.
    """
    n = sum(map(len, z))
    rows, places = z, None
    if n <= config.tangent_rows:
        if device == "cpu":
            # The matrices are small: threads serve better side by side than within one product.
            with threadpool_limits(1, user_api="blas"):
                rows, places = project_together(z, within=True, config=config)
        else:
            from harmonicalign.engines import torch_joint

            rows, places = torch_joint.on_planes(z, neighbourhood(n, config), seed)
    least, most = config.joint_harmonics_bounds
    most = most if n <= config.many_rows else config.many_harmonics
    joint = joint_geometry(
        rows,
        n_harmonics=min(n - 1, max(least, min(n // config.rows_per_joint_harmonic, most))),
        n_neighbors=joint_neighbours(n, config),
        decay=config.joint_decay,
        anisotropy=anisotropy,
        random_state=seed,
        device=device,
    )
    return JointMap(joint.graph, joint.harmonics, joint.batch, places, config.for_placing())


def joint_neighbours(n: int, config: MethodConfig = DEFAULT) -> int:
    """Neighbours for a joint graph of n rows: local, but never so few that it falls apart."""
    return int(np.clip(round(n**0.5 / config.joint_neighbour_root), *config.joint_neighbour_bounds))


def partly_projected(z: Array, projected: Array, config: MethodConfig) -> Array:
    """Joint coordinates on the way to their tangent planes, at the length they have in the embedding.

    What the projection removes is noise to a graph. To the row it is in part its own: datasets mix better
    without it, but rows of which each has one partner are found less well.
    """
    share = config.projected_share
    if share == 0.5:
        return np.asarray(config.coordinates_length / 2 * (z + projected))
    return np.asarray(config.coordinates_length * ((1 - share) * z + share * projected))


def embed(joint: JointMap, t: float, phi: Array, z: Array, projected: Array) -> Array:
    """The embedding: joint diffusion map at time t beside joint coordinates.

    Parameters
    ----------
    joint
        The joint map.
    t
        Diffusion time.
    phi
        Values of its harmonics at the rows.
    z, projected
        Joint coordinates of the rows, and their projections onto tangent planes.
    """
    damping = (joint.harmonics.frequencies**t).astype(phi.dtype, copy=False)
    out = np.empty((len(z), phi.shape[1] + z.shape[1]), dtype=np.result_type(phi, z))

    def fill(rows: slice) -> None:
        out[rows, : phi.shape[1]] = unit_rows(phi[rows] * damping)
        out[rows, phi.shape[1] :] = partly_projected(z[rows], projected[rows], joint.config)

    cpu.in_threads(fill, cpu.row_slices(len(z), 256 * out.shape[1]))
    return out
