r"""Rotations to one space: unified map, common frame, joint graph (Sec. 4.2, Appendix A.2).

.. math::
    Φ_t = \begin{bmatrix} Φ_X & Φ_X T \\ Φ_Y T^T & Φ_Y \end{bmatrix}
          \begin{bmatrix} Λ_X & 0 \\ 0 & Λ_Y \end{bmatrix}^t
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from harmonicalign._exceptions import DisconnectedGraphWarning
from harmonicalign._repr import short_repr
from harmonicalign._typing import Array
from harmonicalign.inputs.validate import check_integer, check_number
from harmonicalign.paper.align import Alignment, MultiAlignment
from harmonicalign.paper.graph import Graph, kernel_graph
from harmonicalign.paper.harmonics import Harmonics, harmonics

__all__ = ["Joint", "common_frame", "joint_geometry", "synchronize", "unified_blocks", "unified_map"]


_DEVICE_TOL = 1e-5
"""Residual of eigenpairs on a device, as on the CPU for as many rows."""


@dataclass(frozen=True)
class Joint:
    """One geometry over the rows of all datasets.

    Attributes
    ----------
    graph
        Kernel graph over the aligned coordinates of all rows, dataset after dataset.
    harmonics
        Its harmonics; ``harmonics.diffusion_map(t)`` is the joint diffusion map.
    batch
        Number of the dataset that every row comes from.
    """

    __repr__ = short_repr

    graph: Graph
    harmonics: Harmonics
    batch: Array

    @property
    def rows(self) -> Array:
        """Rows that the graph is built on, dataset after dataset."""
        assert self.graph.rows is not None
        return self.graph.rows

    def split(self, values: Array) -> list[Array]:
        """Split values of all rows into one array per dataset."""
        # Datasets follow each other, so these are views.
        return np.split(values, np.flatnonzero(np.diff(self.batch)) + 1)


def unified_blocks(phi: Array, rotations: Sequence[Array], frequencies: Sequence[Array], t: float) -> Array:
    """One dataset's rows of the unified map: blocks ``Φ_i T_{i→j} Λ_j^t`` side by side."""
    blocks = [(phi @ rotation) * f**t for rotation, f in zip(rotations, frequencies, strict=True)]
    return np.hstack(blocks)


def unified_map(alignment: Alignment | MultiAlignment, t: float = 1.0) -> list[Array]:
    """The unified diffusion map of two or n datasets (Eqn. 4, Alg. MultiAlignment).

    Parameters
    ----------
    alignment
        From `align` or `multi_align`.
    t
        Diffusion time, any real number ≥ 0.

    Returns
    -------
    maps
        One array per dataset, (n_i, Σ_j k_j).
    """
    t = check_number("t", t, minimum=0)
    if isinstance(alignment, Alignment):
        alignment = MultiAlignment(harmonics=alignment.harmonics, pairs={(0, 1): alignment})
    n = len(alignment.harmonics)
    frequencies = [h.frequencies for h in alignment.harmonics]
    return [
        unified_blocks(h.phi, [alignment.rotation(i, j) for j in range(n)], frequencies, t)
        for i, h in enumerate(alignment.harmonics)
    ]


def synchronize(alignment: MultiAlignment) -> list[Array]:
    """One rotation ``R_i`` per dataset into a common frame, with ``R_i R_jᵀ ≈ T_{i→j}`` for all pairs.

    Pairwise rotations need not agree around a cycle of datasets. The frames that agree with them
    best in the least-squares sense are the leading eigenvectors of the block matrix of pairwise
    rotations, each block made orthogonal again (spectral orthogonal synchronisation). If the
    pairwise rotations are consistent, the answer is exact. The frame is dataset 0's own where the
    numbers of harmonics are equal.

    Returns
    -------
    frames
        ``R_i``, (k_i, k) with k the smallest number of harmonics and orthonormal columns.
    """
    sizes = [h.k for h in alignment.harmonics]
    k = min(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n, total = len(sizes), int(starts[-1])
    blocks = np.zeros((total, total))
    for i in range(n):
        blocks[starts[i] : starts[i + 1], starts[i] : starts[i + 1]] = np.eye(sizes[i])
    for (i, j), pair in alignment.pairs.items():
        blocks[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = pair.rotation
        blocks[starts[j] : starts[j + 1], starts[i] : starts[i + 1]] = pair.rotation.T
    if total <= 1500 or k > total // 4:
        vectors = scipy.linalg.eigh(blocks, subset_by_index=[total - k, total - 1])[1][:, ::-1]
    else:
        start = np.random.RandomState(0).uniform(-1, 1, total)
        vectors = eigsh(blocks, k, which="LA", v0=start)[1]
    frames = [_polar(vectors[starts[i] : starts[i + 1]]) for i in range(n)]
    if sizes[0] == k:
        frames = [frame @ frames[0].T for frame in frames]
    return frames


def _polar(matrix: Array) -> Array:
    u, _, vt = scipy.linalg.svd(matrix, full_matrices=False)
    return np.asarray(u @ vt)


def common_frame(
    alignment: MultiAlignment, t: float = 1.0, frames: Sequence[Array] | None = None
) -> list[Array]:
    """All datasets in one frame of width k: ``Φ_i Λ_i^t R_i``.

    Unlike the unified map its width does not grow with the number of datasets. Each dataset's own
    diffusion map is rotated and nothing else, so distances within a dataset are its diffusion
    distances.
    """
    frames = synchronize(alignment) if frames is None else frames
    return [h.diffusion_map(t) @ r for h, r in zip(alignment.harmonics, frames, strict=True)]


def joint_geometry(
    coordinates: Sequence[Array],
    *,
    n_harmonics: int = 50,
    n_neighbors: int = 15,
    decay: float = 2.0,
    thresh: float = 1e-4,
    anisotropy: float = 1.0,
    random_state: Any = 0,
    device: str = "cpu",
) -> Joint:
    """A kernel graph over the aligned rows of all datasets, and its diffusion map.

    A graph with few neighbours can be disconnected between datasets even if they overlap. So the
    number of neighbours is doubled until every dataset is connected with another one, and the graph has
    no more components than the geometry of the datasets explains. After at most four doublings a
    warning names the datasets that remain separate.

    Parameters
    ----------
    coordinates
        Aligned rows of each dataset, all with the same columns.
    n_harmonics
        Harmonics of the joint graph.
    n_neighbors
        Neighbours to start with.
    decay, thresh, anisotropy
        See `kernel_graph`.
    random_state
        Seed of the eigensolver.
    device
        "cpu", or a device of torch on which `coordinates` are tensors.
    """
    n_harmonics = check_integer("n_harmonics", n_harmonics, minimum=1)
    batch = np.repeat(np.arange(len(coordinates)), [len(c) for c in coordinates])
    n = len(batch)
    build = _OnHost(coordinates) if device == "cpu" else _OnDevice(coordinates, random_state)
    limit = max(1, min(16 * n_neighbors, n - 1))
    n_neighbors = min(n_neighbors, limit)
    while True:
        components = build.graph(
            n_neighbors=n_neighbors,
            decay=decay,
            thresh=thresh,
            anisotropy=anisotropy,
            # Distant pairs matter little and cause most of the cost.
            max_neighbors=min(n - 1, max(3 * n_neighbors, 30)),
        )
        apart = _datasets_apart(components, batch)
        if not apart or n_neighbors >= limit:
            break
        n_neighbors = min(2 * n_neighbors, limit)
    if apart:
        warnings.warn(
            f"dataset(s) {', '.join(map(str, apart))} share no component of the joint graph with any other "
            f"dataset, even with {n_neighbors} neighbours: the alignment did not bring them together",
            DisconnectedGraphWarning,
            stacklevel=2,
        )
    found = build.harmonics(min(n_harmonics, n - 1), random_state)
    return Joint(graph=found.graph, harmonics=found, batch=batch)


class _OnHost:
    """The joint graph and its harmonics by numpy and scipy."""

    def __init__(self, coordinates: Sequence[Array]) -> None:
        self.rows = np.vstack(list(coordinates))

    def graph(self, **options: Any) -> Array:
        """Build the graph; return its components."""
        self.built = kernel_graph(self.rows, **options)
        return self.built.components

    def harmonics(self, k: int, seed: Any) -> Harmonics:
        """Harmonics of the graph that was built last."""
        with warnings.catch_warnings():
            # Components that contain clusters of one dataset are expected; do not warn.
            warnings.simplefilter("ignore", DisconnectedGraphWarning)
            return harmonics(self.built, k, random_state=seed)


class _OnDevice:
    """The same by torch; data stay on the device until the end."""

    def __init__(self, coordinates: Sequence[Any], seed: int) -> None:
        from harmonicalign.engines import torch_joint

        self.engine, self.seed = torch_joint, seed
        self.rows = torch_joint.stacked(coordinates)

    def graph(self, **options: Any) -> Array:
        """Build the graph; return its components."""
        self.options = options
        self.built = self.engine.JointGraph(self.rows, seed=self.seed, **options)
        self.components = self.built.components()
        return self.components

    def harmonics(self, k: int, seed: Any) -> Harmonics:
        """Harmonics of the graph that was built last."""
        values, psi = self.built.harmonics(k, _DEVICE_TOL)
        graph = Graph(
            **self.built.to_host(),
            components=self.components,
            rows=self.engine.to_host(self.rows),
            recall=self.built.recall,
            **self.options,
        )
        return Harmonics(psi=psi, eigenvalues=values, degrees=graph.degrees, graph=graph)


def _datasets_apart(components: Array, batch: Array) -> list[int]:
    """Datasets none of whose rows is in a component with rows of another dataset."""
    n_sets = int(batch.max()) + 1
    if n_sets == 1:
        return []
    table = np.zeros((n_sets, int(components.max()) + 1), dtype=bool)
    table[batch, components] = True
    mixed = table.sum(axis=0) > 1
    return [int(i) for i in np.flatnonzero(~table[:, mixed].any(axis=1))]
