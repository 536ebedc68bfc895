"""The joint map and embedding: a graph on projected rows, its harmonics, and the extension to new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from harmonicalign._typing import Array
from harmonicalign.engines.rows import unit_rows
from harmonicalign.engines.threads import in_threads, row_slices
from harmonicalign.method.config import DEFAULT, MethodConfig
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
        Coordinates of the rows before the projection; None if the graph is built on the rows as they are.
    config
        Configuration for placing new rows.
    """

    places: Array | None = None
    config: MethodConfig = DEFAULT

    @property
    def coordinates(self) -> Array:
        """Joint coordinates of all rows, dataset after dataset, before the projection."""
        return self.rows if self.places is None else self.places

    def project(self, z: Array, *, together: bool = False) -> Array:
        """New rows, given by their joint coordinates, projected onto the tangent planes of the fitted rows.

        Parameters
        ----------
        z
            Joint coordinates of the new rows.
        together
            If true, the rows are a dataset and also span tangent planes; otherwise each is projected by
            itself.
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

        Fitted rows and their neighbours attract each other. A new row does not move others and so stays
        farther from its neighbours; squared probabilities compensate for this. Rows of a whole dataset are
        neighbours of each other as well, and φ is averaged over them and the fitted rows.

        Parameters
        ----------
        rows
            The new rows, projected.
        together
            If true, the rows are a dataset and also neighbours of each other.
        """
        if together:
            return self._among_each_other(rows, self.harmonics.extend(self.graph.extend(rows)))
        return self.harmonics.extend(self.graph.extend(rows, power=self.config.joining_power))

    def _among_each_other(self, rows: Array, phi: Array) -> Array:
        """Iterations towards φ of the new rows on the graph of fitted and new rows together.

        φ of the fitted rows is kept; that of the new rows, `phi` at first, follows from ``P φ = λ φ``.
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
    """Graph and harmonics of all rows, projected onto tangent planes up to a limit on the number of rows.

    Parameters
    ----------
    z
        Joint coordinates of the rows of every dataset; tensors if they are on a device.
    anisotropy
        Density correction of the kernel.
    seed
        Seed of the eigensolver.
    device
        "cpu", or a torch device.
    config
        Configuration of the method.
    """
    n = sum(map(len, z))
    rows, places = z, None
    if n <= config.tangent_rows:
        if device == "cpu":
            # The matrices are small: parallel tasks are faster than threads within one product.
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
    """Neighbours for a joint graph of n rows: local, but enough to keep the graph connected."""
    return int(np.clip(round(n**0.5 / config.joint_neighbour_root), *config.joint_neighbour_bounds))


def partly_projected(z: Array, projected: Array, config: MethodConfig) -> Array:
    """Joint coordinates moved towards their tangent planes, scaled as in the embedding.

    What the projection removes is noise to a graph, but partly specific to the row: without it datasets mix
    better, but true partners of single rows are found less often.
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

    in_threads(fill, row_slices(len(z), 256 * out.shape[1]))
    return out
