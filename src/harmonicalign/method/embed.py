r"""The embedding: one compact space for the rows of all datasets.

Joint coordinates are projected onto tangent planes (`harmonicalign.method.tangents`), so that noise is left
out. Then every row moves part of the way to the weighted mean of its nearest rows Z of all datasets, one step
of diffusion,

.. math:: y_i = (1 - a) z_i + a \, \frac{z_i + \sum_j w_{ij} z_j}{1 + \sum_j w_{ij}},
          \qquad w_{ij} = \exp(-d_{ij}^2 / d_{ik}^2),

and the result is turned to its principal axes, of which the leading ones are kept. New rows are placed by the
same formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from harmonicalign._typing import Array
from harmonicalign.engines.faiss_neighbours import nearest_rows
from harmonicalign.engines.rows import participation, smooth
from harmonicalign.engines.threads import in_threads, row_slices
from harmonicalign.method.config import DEFAULT, MethodConfig
from harmonicalign.method.maps import LinearMap
from harmonicalign.method.tangents import project
from harmonicalign.paper.joint import Joint, joint_geometry

__all__ = ["Embedding", "embed", "principal_axes", "smoothed"]


@dataclass(frozen=True)
class Embedding:
    """Embedded rows of all datasets, and what places new rows among them.

    Attributes
    ----------
    coordinates
        The embedding, dataset after dataset, in single precision.
    rows
        Joint coordinates projected onto tangent planes, or those of a sample of many rows: the rows among
        which neighbours are sought.
    places
        Joint coordinates before the projection; None if rows are not projected.
    dimensions
        Number of dimensions in which these extend, if rows are projected.
    axes
        From smoothed joint coordinates to the embedding.
    sizes
        Rows of every dataset.
    config
        Configuration for placing new rows.
    """

    coordinates: Array
    rows: Array
    places: Array | None
    dimensions: float | None
    axes: LinearMap
    sizes: tuple[int, ...]
    config: MethodConfig = DEFAULT

    def split(self) -> list[Array]:
        """Embedding of every dataset."""
        return np.split(self.coordinates, np.cumsum(self.sizes)[:-1])

    def place(self, z: Any, *, together: bool = False) -> Array:
        """Embedding of new rows.

        Parameters
        ----------
        z
            Their joint coordinates: an array, or a tensor, whose embedding is found on its device.
        together
            If true, the rows are a dataset, and also neighbours of each other; otherwise each is placed by
            itself.
        """
        if isinstance(z, np.ndarray):
            z = z.astype(self.rows.dtype, copy=False)
        if self.places is not None:
            known = _beside(z, self.places, together)
            z = project(z, known, self.config, self.dimensions)
        fitted = _beside(z, self.rows, together)
        own = np.arange(len(fitted) - len(z), len(fitted)) if together else None
        moved = smoothed(z, fitted, own, self.config)
        if isinstance(moved, np.ndarray):
            return np.asarray(self.axes.apply(moved), dtype=np.float32)
        from harmonicalign.engines.torch_joint import to_host

        return to_host(self.axes.apply(moved, moved.device))

    def joint_geometry(self, parts: Sequence[Array], seed: int, device: Any = "cpu") -> Joint:
        """Graph and harmonics over embedded rows, dataset by dataset."""
        n = sum(map(len, parts))
        return joint_geometry(
            parts,
            n_harmonics=min(n - 1, self.config.n_harmonics),
            n_neighbors=min(n - 1, self.config.joint_neighbours),
            random_state=seed,
            device=device,
        )


def embed(
    z: Sequence[Any], n_components: int, seed: int = 0, device: Any = "cpu", config: MethodConfig = DEFAULT
) -> Embedding:
    """The embedding of rows given by their joint coordinates.

    Parameters
    ----------
    z
        Joint coordinates of the rows of every dataset; tensors if they are on a device.
    n_components
        Maximum number of columns.
    seed
        Seed of the neighbour search on a device.
    device
        "cpu", or a torch device.
    config
        Configuration of the method.
    """
    sizes = tuple(map(len, z))
    n = sum(sizes)
    flat = n > config.tangent_rows
    # Of many rows a sample is enough to say where the neighbours of a row lie on average.
    sample = np.arange(n)
    if n > config.known_rows:
        sample = np.sort(np.random.RandomState(seed).permutation(n)[: config.known_rows])
    own = np.full(n, -1)
    own[sample] = np.arange(len(sample))
    if device != "cpu":
        return _embed_on_device(z, n_components, seed, sample, own, config)
    places, dimensions = None, None
    rows = np.vstack([part.astype(np.float32, copy=False) for part in z])
    if not flat:
        places, dimensions = rows, participation(_covariance(rows)[1])
        rows = project(rows, places, config, dimensions)
    known = rows[sample] if len(sample) < n else rows
    smooth_rows = smoothed(rows, known, own, config)
    axes = principal_axes(smooth_rows, n_components)
    coordinates = np.asarray(axes.apply(smooth_rows), dtype=np.float32)
    return Embedding(coordinates, known, places, dimensions, axes, sizes, config.for_placing())


def _embed_on_device(
    z: Sequence[Any], n_components: int, seed: int, sample: Array, own: Array, config: MethodConfig
) -> Embedding:
    """The same of tensors, which stay where they are until the embedding is copied to the host."""
    from harmonicalign.engines import torch_joint

    places, dimensions = None, None
    sizes, rows = tuple(map(len, z)), torch_joint.stacked(z)
    if len(rows) <= config.tangent_rows:
        places, dimensions = torch_joint.to_host(rows), participation(torch_joint.moments(rows)[1])
        rows = torch_joint.on_planes(rows, min(len(rows), config.tangent_neighbours), dimensions, seed)
    moved, sampled = torch_joint.smoothed(
        rows, sample, own, config.smoothing_neighbours, config.smoothing, seed
    )
    mean, covariance = torch_joint.moments(moved)
    leading = _leading(covariance, n_components)
    along, signs = torch_joint.along_axes(moved, leading, mean)
    axes = LinearMap(leading * signs, -mean @ (leading * signs))
    coordinates, known = torch_joint.to_host(along), torch_joint.to_host(sampled)
    return Embedding(coordinates, known, places, dimensions, axes, sizes, config.for_placing())


def _beside(z: Any, rows: Array, together: bool) -> Any:
    """Rows where z is, on the host or its device; together with it, if so."""
    if isinstance(z, np.ndarray):
        return np.vstack([rows, z]) if together else rows
    from harmonicalign.engines.torch_joint import stacked, to_device

    there = to_device(rows, z.device)
    return stacked([there, z]) if together else there


def smoothed(rows: Any, known: Any, own: Array | None, config: MethodConfig) -> Any:
    """Rows moved part of the way to the weighted mean of the nearest known rows; tensors on their device.

    Parameters
    ----------
    rows
        Rows to move, (m, d).
    known
        Rows among which neighbours are found, (n, d).
    own
        For each row its number among the known ones, or −1; None if none is known.
    config
        Number of neighbours, and how far rows move.
    """
    k = min(config.smoothing_neighbours, len(known) - (own is not None))
    if k < 1:
        return rows
    if not isinstance(rows, np.ndarray):
        from harmonicalign.engines.torch_joint import smoothed_among

        return smoothed_among(rows, known, own, k, config.smoothing)
    if own is not None and rows is known:
        near = nearest_rows(known, k, exact=False)
    elif own is None:
        near = nearest_rows(known, k, rows, exact=False)
    else:
        near = _without_itself(nearest_rows(known, k + 1, rows, exact=False), own)
    out = np.empty_like(rows)

    def work(some: slice) -> None:
        out[some] = smooth(rows[some], known, near[some], config.smoothing)

    in_threads(work, row_slices(len(rows), 320 * rows.shape[1]))
    return out


def _without_itself(near: Any, own: Array) -> Any:
    """Neighbours of known rows without the rows themselves (without the last, where equal rows hide them)."""
    other = near.indices != own[:, None]
    other[other.all(axis=1), -1] = False
    shape = len(own), near.k - 1
    return type(near)(near.indices[other].reshape(shape), near.distances[other].reshape(shape), near.recall)


def principal_axes(rows: Array, n_components: int) -> LinearMap:
    """Map to the leading principal axes of the rows, in order, without directions in which nothing varies."""
    mean, covariance = _covariance(rows)
    axes = _leading(covariance, n_components)
    # The row farthest along an axis is on its positive side, whatever the signs of the axes before it.
    coordinates = rows @ axes.astype(rows.dtype) - (mean @ axes).astype(rows.dtype)
    farthest = coordinates[np.argmax(np.abs(coordinates), axis=0), np.arange(axes.shape[1])]
    axes = axes * np.where(farthest < 0, -1.0, 1.0)
    return LinearMap(axes, -mean @ axes)


def _covariance(rows: Array) -> tuple[Array, Array]:
    """Mean of the rows, and the sum of the squares of what they differ from it."""
    mean = rows.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((rows.shape[1],) * 2)
    for some in row_slices(len(rows), 8 * rows.shape[1]):
        centred = rows[some] - mean
        covariance += centred.T @ centred
    return mean, covariance


def _leading(covariance: Array, n_components: int) -> Array:
    """Leading principal axes, in order, without directions in which nothing varies."""
    variances, vectors = scipy.linalg.eigh(covariance)
    # Ten digits below the largest there is nothing but rounding; at least one column is kept.
    varies = int(np.count_nonzero(variances > 1e-10 * max(variances[-1], 0)))
    return np.asarray(vectors[:, ::-1][:, : max(1, min(n_components, varies))])
